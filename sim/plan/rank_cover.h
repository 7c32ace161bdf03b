/* SPDX-License-Identifier: Apache-2.0
 *
 * On which ranks something holds: a buffer lives, an event has been recorded. Nearly always that is
 * one rank set of the plan, so a cover is that set's id until sets are joined or taken away; only
 * then does it own ranges. All operations: O(ranges of both).
 */
#pragma once

#include "plan/plan.h"

typedef struct SimRankCover {
    uint32_t rank_set; /* SIM_PLAN_NONE: see RANGES */
    GArray *ranges;    /* of SimRange, ascending, with gaps between them; NULL = empty */
} SimRankCover;

#define SIM_RANK_COVER_EMPTY ((SimRankCover){.rank_set = SIM_PLAN_NONE})

void sim_rank_cover_done(SimRankCover *cover);
SimRankCover sim_rank_cover_copy(const SimRankCover *cover);

bool sim_rank_cover_is_empty(const SimRankCover *cover);

/* True if COVER holds every rank of the set / at least one of them. */
bool sim_rank_cover_has(const SimRankCover *cover, const SimPlan *plan, uint32_t rank_set);
bool sim_rank_cover_meets(const SimRankCover *cover, const SimPlan *plan, uint32_t rank_set);

void sim_rank_cover_add(SimRankCover *cover, const SimPlan *plan, uint32_t rank_set);
void sim_rank_cover_remove(SimRankCover *cover, const SimPlan *plan, uint32_t rank_set);

/* Sorts RANGES and joins those that touch or overlap, in place. */
void sim_rank_cover_join(GArray *ranges);
