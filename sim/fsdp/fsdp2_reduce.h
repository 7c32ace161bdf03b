/* SPDX-License-Identifier: Apache-2.0
 *
 * Reducing one unit's gradients (torch/distributed/fsdp/_fully_shard/_fsdp_collectives.py:
 * foreach_reduce, _get_gradient_divide_factors).
 *
 * Compute stream: allocation of I, zero padded and widened by one chunk_cat; the whole gradients
 * are dropped. Reduce-scatter stream, behind it: allocation of O, the collective. With replicas,
 * all-reduce stream, behind that: the all-reduce in place. The last of these streams casts to the
 * stored type (a buffer of its own if the types differ) and writes or adds into `.grad`.
 */
#pragma once

#include "fsdp/fsdp2_context.h"

/* Reduces all whole gradients STATE's unit has; there is at least one. */
void sim_fsdp2_reduce_start(SimFsdp2Context *context, SimFsdp2State *state);

/* The compute stream waits for the oldest reduce-scatters and their inputs are dropped until at
 * most KEPT are left. */
void sim_fsdp2_reduce_recycle(SimFsdp2Context *context, uint32_t kept);
