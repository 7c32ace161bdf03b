/* SPDX-License-Identifier: Apache-2.0
 *
 * optimizer.step(), on the compute stream. States are born in the first step that sees a gradient
 * of the parameter (_init_group, tensor by tensor in parameter order), for the true rows of the
 * rank; then come the passes of the method (optimizer_method.h), and what a step holds besides its
 * operands dies when it is done.
 */
#pragma once

#include "fsdp/optimizer_tensor.h"
#include "job/settings.h"
#include "plan/plan.h"

#include <glib.h>
#include <stdint.h>

typedef struct SimOptimizer SimOptimizer;

/* PARAMETERS: how many there are to keep states for. PLAN is borrowed. */
SimOptimizer *sim_optimizer_new(SimPlan *plan, SimJobOptimizer kind, uint32_t parameters,
                                uint32_t shard_size);
void sim_optimizer_free(SimOptimizer *optimizer);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(SimOptimizer, sim_optimizer_free)

/* TENSORS: of SimOptimizerTensor, those with a gradient, in parameter order. For the ranks of the
 * plan's context. */
void sim_optimizer_step(SimOptimizer *optimizer, const GArray *tensors);
