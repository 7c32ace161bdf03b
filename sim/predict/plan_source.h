/* SPDX-License-Identifier: Apache-2.0
 *
 * Where a prediction's plan comes from: built for a model and settings, or read from a file. Either
 * way the plan then says all that the rest needs, in its meta rows: `cluster`, `config` (the
 * settings as JSON) and `model` (name, parameters, trained_parameters, units, padding_fraction,
 * flops_per_token, tokens_per_rank, as JSON).
 */
#pragma once

#include "hardware/cluster.h"
#include "job/settings.h"
#include "plan/plan.h"

#include <glib.h>

/* Builds the plan of training MODEL (a file) with SETTINGS, whose open values are settled on the
 * way, on CLUSTER, of which the settings' GPUs are then in use. Errors: those of the model, the job
 * and the builder. */
SimPlan *sim_plan_source_build(SimSettings *settings, SimCluster *cluster, const char *model,
                               GError **error);

/* The settings that still apply to a finished plan: where it runs and with which memory. Takes
 * those of PLAN's config that no option gave over into SETTINGS. Error PARSE, SCHEMA (its config).
 */
bool sim_plan_source_adopt(const SimPlan *plan, SimSettings *settings, GError **error);

/* The other way round: what SETTINGS say of them goes into PLAN's config, which is then that of the
 * run. A plan without config stays so. */
void sim_plan_source_amend(SimPlan *plan, const SimSettings *settings);

/* True for the names of those settings, and of the ones that change no result. */
bool sim_plan_source_allows(const char *setting);
