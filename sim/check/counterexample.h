/* SPDX-License-Identifier: Apache-2.0
 *
 * How a schedule goes wrong, shown: the shortest interleaving in which the later of two accesses
 * runs while the earlier is still at it, or the place where each rank of a circle stands.
 *
 * For a pair: all rows before the earlier one are over; it takes its time; of the rows in between
 * those run, one after the other, that must precede the later one; then that runs, and meets it.
 * One microsecond a row. The timeline is that of `predict`, so whatever reads those replays it.
 */
#pragma once

#include "base/output_file.h"
#include "check/findings.h"
#include "plan/plan.h"

#include <glib.h>

typedef struct SimCounterexample SimCounterexample;

/* PLAN is the one that FINDING's first place is in, and is borrowed. NULL if there is nothing to
 * play: the finding is about counts or sizes. O(rows up to the later one). */
SimCounterexample *sim_counterexample_new(const SimPlan *plan, const SimFinding *finding);
void sim_counterexample_free(SimCounterexample *counterexample);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(SimCounterexample, sim_counterexample_free)

/* As a timeline CSV. */
void sim_counterexample_save(const SimCounterexample *counterexample, SimOutputFile *file);
/* In at most 10 lines. Owned by the caller. */
char *sim_counterexample_print(const SimCounterexample *counterexample);
