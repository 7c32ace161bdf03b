/* SPDX-License-Identifier: Apache-2.0
 *
 * A plan as CSV, both ways: one row one instruction, self-contained (meta and group rows on top).
 * Written and read back, a plan plays identically: load(save(p)) equals p in every field.
 */
#pragma once

#include "base/output_file.h"
#include "plan/plan.h"

/* Errors IO; PARSE and SCHEMA with file and line: unknown column (nearest named), unknown op, an op
 * with a missing field, a free of an unknown buffer, an unknown group. Owned by the caller. */
SimPlan *sim_plan_csv_load(const char *file, GError **error);

/* For a checker: rows that use a buffer that does not live are kept as they stand. They mean the
 * last buffer of that name so far, or else the first that a later row makes. sim_plan_check fails
 * for such a plan. */
SimPlan *sim_plan_csv_load_unsound(const char *file, GError **error);

/* Rows of PLAN in order; empty = not applicable. */
void sim_plan_csv_save(const SimPlan *plan, SimOutputFile *file);
