/* SPDX-License-Identifier: Apache-2.0
 *
 * Fused AdamW (torch/optim/adam.py, _init_group; aten FusedAdamKernel), on the compute stream.
 * Inside the first step, tensor by tensor in parameter order: a 4-byte `step`, then exp_avg and
 * exp_avg_sq in the stored type for the true rows of the rank; nothing for a parameter without a
 * gradient. No temporaries. Each step: the numbers of steps are counted up, then all tensors are
 * updated at once.
 */
#pragma once

#include "fsdp/optimizer_tensor.h"
#include "plan/plan.h"

#include <glib.h>
#include <stdint.h>

typedef struct SimAdamw SimAdamw;

/* PARAMETERS: how many the model has. PLAN is borrowed. */
SimAdamw *sim_adamw_new(SimPlan *plan, uint32_t parameters, uint32_t shard_size);
void sim_adamw_free(SimAdamw *adamw);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(SimAdamw, sim_adamw_free)

/* TENSORS: of SimOptimizerTensor, those with a gradient, in parameter order. For the ranks of the
 * plan's context. */
void sim_adamw_step(SimAdamw *adamw, const GArray *tensors);
