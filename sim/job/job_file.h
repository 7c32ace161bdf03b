/* SPDX-License-Identifier: Apache-2.0
 *
 * `--job FILE`: a training script's calls to FSDP, as data, in PyTorch's own words
 * (schema fsdpsim.job/1). What the options cannot say is said there: calls on single modules, set_*
 * between microbatches, several forwards before a backward, evaluation.
 *
 *   {"schema": "fsdpsim.job/1", "api": "fsdp2", "mesh": {"replicate": 2, "shard": 4},
 *    "mp_policy": {"param_dtype": "bf16", "reduce_dtype": "f32"},
 *    "fully_shard": [{"modules": "layers.*", "reshard_after_forward": 2}, {"modules": ""}],
 *    "set": [{"modules": "layers.0", "modules_to_forward_prefetch": ["layers.1"]}],
 *    "frozen": ["layers.1"], "checkpoint": [{"modules": "layers.*", "around": "fsdp"}],
 *    "optimizer": "adamw", "step": [{"zero_grad": "set_to_none"}, {"forward": 0}, {"backward": 0},
 *    {"optimizer": true}]}
 *
 * A pattern in a fully_shard call is one unit for each match, a list of paths one unit for all. The
 * calls are in the script's order, bottom-up, the root last. Unknown keys are errors that name the
 * nearest; null is PyTorch's default.
 */
#pragma once

#include "job/job.h"
#include "job/settings.h"

#include <glib.h>
#include <stdbool.h>
#include <stdint.h>

/* The ranks of the file's mesh, before a model is known. Errors as below. */
bool sim_job_file_read_ranks(const char *file, uint32_t *ranks, GError **error);

/* SETTINGS, settled, give what a job file does not say: samples, steps, the stored type. MODEL's
 * parameters are frozen as the file says. Errors IO, PARSE, SCHEMA, RANGE, with the path in the
 * file; UNSUPPORTED: what is valid there but not simulated. */
SimJob *sim_job_file_load(const char *file, const SimSettings *settings, SimModel *model,
                          GError **error);
