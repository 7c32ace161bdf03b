/* SPDX-License-Identifier: Apache-2.0
 *
 * What a training script can call on a wrapped model and its optimizer, whatever API wrapped it:
 * fully_shard (fsdp2.h), FullyShardedDataParallel (fsdp1.h), DistributedDataParallel (ddp.h). A new
 * schedule is a new set of these calls.
 */
#pragma once

#include "autograd/autograd.h"
#include "job/job.h"
#include "model/model.h"
#include "plan/plan.h"

#include <glib.h>
#include <stdbool.h>
#include <stdint.h>

typedef struct SimSchedule SimSchedule;

/* The one that JOB's API names. JOB, MODEL and PLAN are borrowed and must outlive the result.
 * Errors: what PyTorch refuses of the job. */
SimSchedule *sim_schedule_new(const SimJob *job, const SimModel *model, SimPlan *plan,
                              GError **error);
void sim_schedule_free(SimSchedule *schedule);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(SimSchedule, sim_schedule_free)

/* The GPU's: sizes of FSDP2's launch tables follow from it. */
void sim_schedule_set_multiprocessors(SimSchedule *schedule, uint32_t multiprocessors);

SimAutogradHooks sim_schedule_hooks(SimSchedule *schedule);

/* The type in which each parameter is computed with, by parameter; NULL: the job's. Owned by the
 * caller. */
SimDtype *sim_schedule_parameter_dtypes(const SimSchedule *schedule);

/* Initialisation, and the rest of backward() after autograd. */
void sim_schedule_start(SimSchedule *schedule);
void sim_schedule_finish_backward(SimSchedule *schedule);

void sim_schedule_clip(SimSchedule *schedule);
void sim_schedule_step(SimSchedule *schedule);
void sim_schedule_zero_grad(SimSchedule *schedule, bool keeps);

/* After the last step. Errors: what PyTorch refuses once the script has run. */
bool sim_schedule_check(const SimSchedule *schedule, GError **error);

/* FSDP1 and DDP know SIM_FLAG_GRADIENT_SYNC only, of all units; the calls below FSDP2 only. What an
 * API does not know is ignored. */
void sim_schedule_set_flag(SimSchedule *schedule, uint32_t unit, SimJobFlag flag, bool value);
void sim_schedule_reshard(SimSchedule *schedule, uint32_t unit);
void sim_schedule_unshard(SimSchedule *schedule, uint32_t unit);
