/* SPDX-License-Identifier: Apache-2.0
 *
 * Gathering a unit's parameters and dropping them again (torch/distributed/fsdp/_fully_shard/
 * _fsdp_param_group.py: unshard, wait_for_unshard, reshard; _fsdp_collectives.py:
 * foreach_all_gather, foreach_all_gather_copy_out; _fsdp_param.py: to_sharded_post_forward).
 *
 * Copy-in stream: cast of the shards into T, allocation of A, copy into this rank's slot of A (the
 * all-gather's input is a part of A). All-gather stream, behind the copy-in stream: the collective,
 * in place. Compute stream, behind the collective: every parameter's own storage U, and one copy A
 * -> U.
 */
#pragma once

#include "fsdp/fsdp2_context.h"

/* Issues the all-gather of STATE's unit; nothing if one is pending or the unit is unsharded. */
void sim_fsdp2_unshard_start(SimFsdp2Context *context, SimFsdp2State *state);

/* Copies the pending all-gather out; nothing if there is none. In forward A is parked in the
 * context until the next unit's wait, elsewhere it is dropped behind the copy. */
void sim_fsdp2_unshard_finish(SimFsdp2Context *context, SimFsdp2State *state);

/* The same for UNIT as if it were of training state TRAINING: prefetches. */
void sim_fsdp2_unshard_prefetch(SimFsdp2Context *context, uint32_t unit, SimTrainingState training);

/* Back to shards, as reshard_after_forward says where the unit is in its forward. */
void sim_fsdp2_unshard_reshard(SimFsdp2Context *context, SimFsdp2State *state);

/* Waits for a pending all-gather that nobody used and drops it (finalize_backward). */
void sim_fsdp2_unshard_drop_pending(SimFsdp2Context *context, SimFsdp2State *state);
