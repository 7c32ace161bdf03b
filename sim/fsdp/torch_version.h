/* SPDX-License-Identifier: Apache-2.0
 *
 * Rules of FSDP2 that changed between versions of PyTorch. All files are of
 * torch/distributed/fsdp/_fully_shard.
 *
 * | rule | since | before | source |
 * |---|---|---|---|
 * | an unset reduce_dtype follows the stored type | 2.15 | the type of the gradients, so
 * param_dtype | _fsdp_api.py, MixedPrecisionPolicy | | at the end of backward one wait a stream,
 * for the last unit's gradients | 2.15 | one for every unit | _fsdp_param_group.py,
 * finalize_backward | | a unit recomputed within backward keeps its parameters and its place in the
 * order | 2.15 | it reshards and is recorded again | _fsdp_param_group.py, post_forward; pull
 * request 175406 | | the previous reduce-scatter's input is recycled in every post-backward | 2.15
 * | only right before a reduction | _fsdp_param_group.py, post_backward | | several reduce-scatter
 * inputs, a communicator for reduce-scatters | 2.13 | one, none | release notes of 2.13; pull
 * requests 186000, 186335 |
 */
#pragma once

#include "job/job.h"

#include <glib.h>
#include <stdbool.h>

typedef struct SimTorchVersion {
    const char *name;
    bool reduces_in_stored_type;
    bool waits_for_last_unit;
    bool keeps_recomputed_units;
    bool recycles_in_every_backward;
    bool has_reduce_scatter_options;
} SimTorchVersion;

/* The rules of JOB's version; static. */
const SimTorchVersion *sim_torch_version_get(const SimJob *job);

/* Error UNSUPPORTED: JOB wants what its version does not have. */
bool sim_torch_version_check(const SimJob *job, GError **error);
