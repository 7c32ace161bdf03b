/* SPDX-License-Identifier: Apache-2.0
 *
 * AdamW over parameters in host memory (torch/optim/adam.py; CPUOffloadPolicy): its states are born
 * there in the first step, nothing is launched on the device. Its time is not modelled.
 */
#pragma once

#include "fsdp/optimizer_tensor.h"
#include "plan/plan.h"

#include <glib.h>
#include <stdint.h>

typedef struct SimHostOptimizer SimHostOptimizer;

/* PARAMETERS: how many the model has. PLAN is borrowed. */
SimHostOptimizer *sim_host_optimizer_new(SimPlan *plan, uint32_t parameters);
void sim_host_optimizer_free(SimHostOptimizer *optimizer);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(SimHostOptimizer, sim_host_optimizer_free)

/* Moves the tensors whose values are in host memory from TENSORS, of SimOptimizerTensor, to a new
 * array of the caller's. */
GArray *sim_host_optimizer_take(const SimHostOptimizer *optimizer, GArray *tensors);

/* Nothing if TENSORS is empty. */
void sim_host_optimizer_step(SimHostOptimizer *optimizer, const GArray *tensors);
void sim_host_optimizer_clip(SimHostOptimizer *optimizer, const GArray *tensors);
