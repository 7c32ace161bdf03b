/* SPDX-License-Identifier: Apache-2.0
 *
 * Breaks a good plan in every way of a kind, one at a time. A row that goes becomes a mark, so that
 * all others keep their numbers.
 */
#pragma once

#include "plan/plan.h"

#include <stddef.h>

typedef enum PlanMutation {
    PLAN_MUTATION_DROP_WAIT,
    PLAN_MUTATION_DROP_RECORD,
    PLAN_MUTATION_DROP_HOST_WAIT,
    PLAN_MUTATION_DROP_RECORD_STREAM,
    PLAN_MUTATION_DROP_FREE, /* skips a reshard, keeps a gather */
    PLAN_MUTATION_FREE_EARLIER,
    PLAN_MUTATION_FREE_LATER,
    PLAN_MUTATION_SECOND_UPDATE, /* the optimizer writes a shard again */
    PLAN_MUTATION_OF_RANK,       /* how many of the above */
    /* On one rank of several: */
    PLAN_MUTATION_SWAP_COLLECTIVES = PLAN_MUTATION_OF_RANK,
    PLAN_MUTATION_DROP_COLLECTIVE,
    PLAN_MUTATION_CHANGE_SIZE,
    PLAN_MUTATION_CHANGE_DTYPE,
    PLAN_MUTATION_COUNT
} PlanMutation;

const char *plan_mutation_name(PlanMutation mutation);

/* ROW is the one that was changed in MUTANT, which is freed after the call. */
typedef void (*PlanMutationFunc)(SimPlan *mutant, PlanMutation mutation, size_t row,
                                 void *user_data);

/* All mutants of PLAN by MUTATION; frees are moved by 1 to 40 rows, and only those of STEP. */
void plan_mutation_each(const SimPlan *plan, PlanMutation mutation, int32_t step,
                        PlanMutationFunc func, void *user_data);
