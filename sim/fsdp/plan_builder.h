/* SPDX-License-Identifier: Apache-2.0
 *
 * From a job and a model to the plan of the whole run: initialisation, then the job's steps, each
 * the job's actions in order. Around autograd's stream stand the hooks of the job's API
 * (schedule.h).
 */
#pragma once

#include "autograd/autograd.h"
#include "job/job.h"
#include "model/model.h"
#include "plan/plan.h"

#include <glib.h>

/* OPTIONS without parameter_dtypes and checkpoints, which follow from the job. Errors: what PyTorch
 * refuses of the job (schedule.h). The plan's meta rows are left to the caller. Owned by the
 * caller. */
SimPlan *sim_plan_builder_build(const SimJob *job, const SimModel *model,
                                const SimAutogradOptions *options, GError **error);
