/* SPDX-License-Identifier: Apache-2.0
 *
 * Checks a plan row by row, so that a reader of files can tell the line at fault. Follows on each
 * rank which buffers live and which event a name means.
 */
#pragma once

#include "plan/plan.h"

typedef struct SimPlanCheck SimPlanCheck;

/* PLAN is borrowed, and may grow between calls. */
SimPlanCheck *sim_plan_check_new(const SimPlan *plan);
void sim_plan_check_free(SimPlanCheck *check);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(SimPlanCheck, sim_plan_check_free)

/* Checks row INDEX; rows are given in order. Errors SCHEMA, RANGE, without a place. O(1), and
 * O(views of the buffer) for a free. */
bool sim_plan_check_row(SimPlanCheck *check, size_t index, GError **error);
/* The same for a row that names a buffer that does not live: all else must be right. */
bool sim_plan_check_unsound_row(SimPlanCheck *check, size_t index, GError **error);

/* The buffer that NAME means to the ranks of a row that comes next. Error SCHEMA: it never lived,
 * is freed, or lives on some of these ranks only. */
bool sim_plan_check_find_buffer(const SimPlanCheck *check, SimName name, uint32_t rank_set,
                                uint32_t *buffer, GError **error);
