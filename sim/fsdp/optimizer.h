/* SPDX-License-Identifier: Apache-2.0
 *
 * What the optimizer and gradient clipping take and do, on the compute stream, over local shards.
 *
 * Fused AdamW (torch/optim/adam.py, _init_group): inside the first step, tensor by tensor in
 * parameter order, a 4-byte `step`, then exp_avg and exp_avg_sq in the stored type, for the true
 * rows of the rank only; nothing for a parameter without a gradient. No temporaries.
 *
 * Clipping (torch/nn/utils/clip_grad.py; aten/src/ATen/native/cuda/ForeachReduceOp.cu): one kernel
 * over all gradients leaves a partial sum a chunk of 65,536 elements and one norm a tensor, then
 * small kernels make one number of them; norms of shards are squared, summed over the shard group
 * by one all-reduce of one number a tensor, and rooted. The gradients are scaled in place.
 */
#pragma once

#include "fsdp/shard.h"
#include "plan/plan.h"

#include <glib.h>
#include <stdint.h>

/* A parameter with a gradient. */
typedef struct SimOptimizerTensor {
    uint32_t parameter; /* in the model: what its states are kept under */
    SimShard shard;
    SimDtype dtype;           /* stored */
    uint32_t value;           /* the buffer of its shard */
    uint32_t gradient;        /* the buffer its gradient is a part of */
    uint64_t gradient_offset; /* bytes */
    SimStringId unit, tail;   /* names of the states: "S:unit#0:tail.exp_avg" */
} SimOptimizerTensor;

typedef struct SimOptimizer SimOptimizer;

/* PARAMETERS: how many the model has. SHARD_GROUP: the communicator, of SHARD_SIZE ranks. */
SimOptimizer *sim_optimizer_new(SimPlan *plan, uint32_t parameters, uint32_t shard_group,
                                uint32_t shard_size);
void sim_optimizer_free(SimOptimizer *optimizer);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(SimOptimizer, sim_optimizer_free)

/* TENSORS is of SimOptimizerTensor, in parameter order. */
void sim_optimizer_step(SimOptimizer *optimizer, const GArray *tensors);
void sim_optimizer_clip(SimOptimizer *optimizer, const GArray *tensors);
