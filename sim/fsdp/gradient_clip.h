/* SPDX-License-Identifier: Apache-2.0
 *
 * clip_grad_norm_ over shards (torch/nn/utils/clip_grad.py; aten/src/ATen/native/cuda/
 * ForeachReduceOp.cu), on the compute stream. One kernel over all gradients leaves a partial sum
 * for each chunk of 65,536 elements, a second one norm a tensor (4 bytes each, in a buffer of its
 * own); small kernels make one number of them. Norms of shards are squared, summed over the shard
 * group by one all-reduce of one number a tensor, and rooted. The gradients are scaled in place.
 */
#pragma once

#include "fsdp/optimizer_tensor.h"
#include "plan/plan.h"

#include <glib.h>
#include <stdint.h>

typedef struct SimGradientClip SimGradientClip;

/* SHARD_GROUP: the communicator of the shards, of SHARD_SIZE ranks. PLAN is borrowed. */
SimGradientClip *sim_gradient_clip_new(SimPlan *plan, uint32_t shard_group, uint32_t shard_size);
void sim_gradient_clip_free(SimGradientClip *clip);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(SimGradientClip, sim_gradient_clip_free)

/* TENSORS: of SimOptimizerTensor, those with a gradient, in parameter order. */
void sim_gradient_clip_run(SimGradientClip *clip, const GArray *tensors);
