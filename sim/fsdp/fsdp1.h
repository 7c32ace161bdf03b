/* SPDX-License-Identifier: Apache-2.0
 *
 * FSDP1 (FullyShardedDataParallel) as hooks around autograd's stream: what PyTorch's
 * torch/distributed/fsdp does before and after each wrapped module's forward and backward, and in
 * the engine's final callback. The parts: flat_parameter.h, fsdp1_unshard.h, fsdp1_forward.h,
 * fsdp1_backward.h, fsdp1_reduce.h, fsdp1_slices.h.
 *
 * Unlike FSDP2 it knows no events a unit: streams wait for streams, memory that crosses streams is
 * recorded on them, and the host is blocked where too much would be under way.
 */
#pragma once

#include "autograd/autograd.h"
#include "job/job.h"
#include "model/model.h"
#include "plan/plan.h"

#include <glib.h>
#include <stdbool.h>
#include <stdint.h>

typedef struct SimFsdp1 SimFsdp1;

/* JOB, MODEL and PLAN are borrowed and must outlive the result. Errors: of sim_unit_list_new and
 * sim_fsdp1_context_new. */
SimFsdp1 *sim_fsdp1_new(const SimJob *job, const SimModel *model, SimPlan *plan, GError **error);
void sim_fsdp1_free(SimFsdp1 *fsdp);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(SimFsdp1, sim_fsdp1_free)

/* Of the GPU: the memory that clipping takes depends on it. */
void sim_fsdp1_set_multiprocessors(SimFsdp1 *fsdp, uint32_t multiprocessors);

/* For sim_autograd_new; user_data is FSDP. */
SimAutogradHooks sim_fsdp1_hooks(SimFsdp1 *fsdp);

/* The shards of all units, in the order of root.modules(), and what fills them. */
void sim_fsdp1_start(SimFsdp1 *fsdp);

/* no_sync(): gradients of backwards until it ends stay whole. */
void sim_fsdp1_set_synchronization(SimFsdp1 *fsdp, bool synchronizes);

/* The rest of backward() after autograd has walked the graph. */
void sim_fsdp1_finish_backward(SimFsdp1 *fsdp);

/* FSDP.clip_grad_norm_, optimizer.step. */
void sim_fsdp1_clip(SimFsdp1 *fsdp);
void sim_fsdp1_step(SimFsdp1 *fsdp);

/* zero_grad: set_to_none; with use_orig_params memory comes back only in the next forward. KEEPS:
 * filled with zeros. */
void sim_fsdp1_zero_grad(SimFsdp1 *fsdp, bool keeps);
