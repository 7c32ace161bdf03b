/* SPDX-License-Identifier: Apache-2.0
 *
 * DistributedDataParallel (torch/nn/parallel/distributed.py): every rank has all parameters, all
 * gradients and all optimizer states (ZeRO's stage 0), and gradients are averaged bucket by bucket
 * while backward runs (ddp_reducer.h). Computes in the stored type. Buffers of the model are not
 * broadcast.
 */
#pragma once

#include "autograd/autograd.h"
#include "job/job.h"
#include "model/model.h"
#include "plan/plan.h"

#include <stdbool.h>

typedef struct SimDdp SimDdp;

/* JOB, MODEL and PLAN are borrowed and must outlive the result. */
SimDdp *sim_ddp_new(const SimJob *job, const SimModel *model, SimPlan *plan);
void sim_ddp_free(SimDdp *ddp);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(SimDdp, sim_ddp_free)

/* For sim_autograd_new; user_data is DDP. */
SimAutogradHooks sim_ddp_hooks(SimDdp *ddp);

/* Parameters, what fills them, and the buckets. */
void sim_ddp_start(SimDdp *ddp);

/* no_sync(): backwards until it ends reduce nothing. */
void sim_ddp_set_synchronization(SimDdp *ddp, bool synchronizes);

void sim_ddp_finish_backward(SimDdp *ddp);

/* clip_grad_norm_, optimizer.step, zero_grad (KEEPS: set_to_none=False). */
void sim_ddp_clip(SimDdp *ddp);
void sim_ddp_step(SimDdp *ddp);
void sim_ddp_zero_grad(SimDdp *ddp, bool keeps);

/* After the last step. Error UNSUPPORTED: a parameter got no gradient, and neither
 * find_unused_parameters nor static_graph is set. */
bool sim_ddp_check(const SimDdp *ddp, GError **error);
