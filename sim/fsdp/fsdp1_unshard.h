/* SPDX-License-Identifier: Apache-2.0
 *
 * Gathering a unit's flat parameter and giving it back (torch/distributed/fsdp/_runtime_utils.py:
 * _unshard, _reshard, _prefetch_handle; _flat_param.py: pre_unshard, unshard, post_unshard,
 * reshard, post_reshard, init_flat_param_attributes).
 *
 * Pre-unshard stream: the shard is cast into M. The host then waits for the oldest of two frees
 * (rate limiter). Unshard stream, behind the pre-unshard stream: U is allocated, M is gathered into
 * it and given back; the parameters become parts of U, nothing is copied. Buffers that another
 * stream still uses when they are freed are recorded on it, so the allocator keeps them until that
 * stream is done. NO_SHARD gathers nothing: the parameters are parts of M, or of P itself.
 */
#pragma once

#include "fsdp/fsdp1_context.h"

#include <stdbool.h>

/* _lazy_init: every unit's buffers are allocated once and given back, on the compute stream. */
void sim_fsdp1_unshard_try(SimFsdp1Context *context);

/* _unshard; nothing waits for it yet. */
void sim_fsdp1_unshard_start(SimFsdp1Context *context, SimFsdp1State *state);

/* The compute stream waits for all that has been unsharded so far. */
void sim_fsdp1_unshard_wait(SimFsdp1Context *context);

/* Unshards the unit that comes before STATE's in backward, if BACKWARD_PRE or BACKWARD_POST says
 * that this is the time, or after it in forward, and if it is wanted. */
void sim_fsdp1_unshard_prefetch(SimFsdp1Context *context, const SimFsdp1State *state);

/* _reshard: the parameters are the shards again; FREES: and U is given back. STREAM is the current
 * one, where the last kernels that use U run. */
void sim_fsdp1_unshard_reshard(SimFsdp1Context *context, SimFsdp1State *state, bool frees,
                               uint32_t stream);
