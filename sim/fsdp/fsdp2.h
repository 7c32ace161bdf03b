/* SPDX-License-Identifier: Apache-2.0
 *
 * FSDP2 (`fully_shard`) as hooks around autograd's stream: what PyTorch's
 * torch/distributed/fsdp/_fully_shard puts before and after each wrapped module's forward and
 * backward, and into the engine's final callback. The parts: unit_list.h (wrapping),
 * fsdp2_unshard.h, fsdp2_forward.h, fsdp2_backward.h, fsdp2_reduce.h.
 *
 * The calls here are those of a training script; forward and backward come through the hooks.
 */
#pragma once

#include "autograd/autograd.h"
#include "job/job.h"
#include "model/model.h"
#include "plan/plan.h"

#include <glib.h>
#include <stdbool.h>

typedef struct SimFsdp2 SimFsdp2;

/* JOB, MODEL and PLAN are borrowed and must outlive the result. Errors: of sim_unit_list_new, and
 * sizes of meshes. */
SimFsdp2 *sim_fsdp2_new(const SimJob *job, const SimModel *model, SimPlan *plan, GError **error);
void sim_fsdp2_free(SimFsdp2 *fsdp);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(SimFsdp2, sim_fsdp2_free)

/* The GPU's: the size of launch tables follows from it. Not called: they are left out. */
void sim_fsdp2_set_multiprocessors(SimFsdp2 *fsdp, uint32_t multiprocessors);

/* For sim_autograd_new; user_data is FSDP. */
SimAutogradHooks sim_fsdp2_hooks(SimFsdp2 *fsdp);

/* The type in which operators see each of the model's parameters. Owned by the caller. */
SimDtype *sim_fsdp2_parameter_dtypes(const SimFsdp2 *fsdp);

/* Shards of all parameters, unit by unit in the order of root.modules() (as to_empty does after
 * wrapping on the meta device), and what fills them. */
void sim_fsdp2_start(SimFsdp2 *fsdp);

/* The set_* calls: UNIT, or SIM_MODEL_NONE for all units. */
void sim_fsdp2_set_flag(SimFsdp2 *fsdp, uint32_t unit, SimJobFlag flag, bool value);

/* FSDPModule.reshard() and .unshard(async_op=True). */
void sim_fsdp2_reshard(SimFsdp2 *fsdp, uint32_t unit);
void sim_fsdp2_unshard(SimFsdp2 *fsdp, uint32_t unit);

/* The root's final callback, after backward() has walked the graph. */
void sim_fsdp2_finish_backward(SimFsdp2 *fsdp);

/* clip_grad_norm_ and optimizer.step over all parameters with a gradient. */
void sim_fsdp2_clip(SimFsdp2 *fsdp);
void sim_fsdp2_step(SimFsdp2 *fsdp);

/* zero_grad: set_to_none drops gradients in parameter order; else (KEEPS) they are filled with
 * zeros and the next backward adds to them. */
void sim_fsdp2_zero_grad(SimFsdp2 *fsdp, bool keeps);
