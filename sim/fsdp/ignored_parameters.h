/* SPDX-License-Identifier: Apache-2.0
 *
 * Parameters that FSDP leaves alone (ignored_params of fully_shard): every rank holds, computes
 * with and updates the whole of each, in the stored type; nothing is communicated for them.
 */
#pragma once

#include "job/job.h"
#include "model/model.h"
#include "plan/plan.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct SimIgnoredParameters SimIgnoredParameters;

/* JOB, MODEL and PLAN are borrowed. */
SimIgnoredParameters *sim_ignored_parameters_new(const SimJob *job, const SimModel *model,
                                                 SimPlan *plan);
void sim_ignored_parameters_free(SimIgnoredParameters *ignored);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(SimIgnoredParameters, sim_ignored_parameters_free)

/* Their memory, in the model's order. */
void sim_ignored_parameters_start(SimIgnoredParameters *ignored);

/* The buffer of a parameter, of its gradient; SIM_PLAN_NONE: not ignored, no gradient. */
uint32_t sim_ignored_parameters_value(const SimIgnoredParameters *ignored, uint32_t parameter);
uint32_t sim_ignored_parameters_gradient(const SimIgnoredParameters *ignored, uint32_t parameter);

/* AccumulateGrad: BUFFER becomes the gradient or is added to it. */
void sim_ignored_parameters_add_gradient(SimIgnoredParameters *ignored, uint32_t parameter,
                                         uint32_t buffer);

/* Drops the gradient, if there is one. */
void sim_ignored_parameters_clear(SimIgnoredParameters *ignored, uint32_t parameter);
