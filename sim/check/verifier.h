/* SPDX-License-Identifier: Apache-2.0
 *
 * The whole check: plans in, a verdict out. Each plan is judged as it is added (rank_check.h, one
 * rank of each class); what only all ranks together can show (matching.h, hang.h) is judged at
 * the end, from what was kept of each. A plan may be freed after its add.
 *
 * Reads plans and knows no builder: FSDP's rules act on categories and phases, so a plan without
 * them is held to the rules of any plan.
 */
#pragma once

#include "check/verdict.h"
#include "plan/plan.h"

#include <glib.h>
#include <stdbool.h>
#include <stdint.h>

typedef struct SimVerifier SimVerifier;

SimVerifier *sim_verifier_new(void);
void sim_verifier_free(SimVerifier *verifier);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(SimVerifier, sim_verifier_free)

/* The bounds to hold plans added from now on to, instead of what their `meta config` says. NULL: by
 * the config again. */
void sim_verifier_set_limits(SimVerifier *verifier, const SimBoundsLimits *limits);

/* PLAN is what ranks FIRST to LAST play; NAME is what messages call it. Errors MISMATCH: another
 * number of ranks or other rank lists of a group than the plans before, a rank that has a plan
 * already; RANGE: a rank that the plan has not; UNSUPPORTED: see rank_check.h. */
bool sim_verifier_add(SimVerifier *verifier, const SimPlan *plan, const char *name, uint32_t first,
                      uint32_t last, GError **error);

/* Judges the ranks together. Error MISMATCH: a rank has no plan. Owned by the caller; the verifier
 * is spent. */
SimVerdict *sim_verifier_finish(SimVerifier *verifier, GError **error);

/* The plan of all ranks, in one call. */
SimVerdict *sim_verifier_check_plan(const SimPlan *plan, const char *name, GError **error);
