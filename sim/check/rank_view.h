/* SPDX-License-Identifier: Apache-2.0
 *
 * A plan as one rank plays it: which rows are its own, on which lane each runs, which bytes of
 * which real buffer a touch means, and how a person would call a row.
 */
#pragma once

#include "check/clocks.h"
#include "check/findings.h"
#include "plan/plan.h"

#include <glib.h>
#include <stdbool.h>
#include <stdint.h>

typedef struct SimRankView SimRankView;

/* Bytes of a buffer that is no view. */
typedef struct SimByteRange {
    uint32_t buffer;
    uint64_t begin, end;
    bool is_outside; /* the row asks for bytes beyond the buffer; END is cut to fit */
} SimByteRange;

/* RANK is whom the plan's rank sets and groups speak of; SOURCE which of the plans given this is.
 * PLAN is borrowed. O(rank sets + groups). */
SimRankView *sim_rank_view_new(const SimPlan *plan, uint32_t source, uint32_t rank);
void sim_rank_view_free(SimRankView *view);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(SimRankView, sim_rank_view_free)

const SimPlan *sim_rank_view_plan(const SimRankView *view);
uint32_t sim_rank_view_rank(const SimRankView *view);
uint32_t sim_rank_view_source(const SimRankView *view);
/* The host and every stream. */
uint32_t sim_rank_view_lanes(const SimRankView *view);
/* "host" or the stream's name. */
const char *sim_rank_view_lane_name(const SimRankView *view, uint32_t lane);

bool sim_rank_view_has(const SimRankView *view, const SimInstruction *row);
/* Where the row's work runs: SIM_CLOCKS_NO_LANE for a row that launches nothing. Kernels of a
 * stream named "host" and host rows that touch buffers run on the host. */
uint32_t sim_rank_view_lane(const SimRankView *view, const SimInstruction *row);
/* The lane of the row's stream, whatever it does. */
uint32_t sim_rank_view_lane_of_stream(const SimRankView *view, uint32_t stream);

/* How many ranks the row's group (or group GROUP) has for this rank; 1 if it is in none. */
uint32_t sim_rank_view_members(const SimRankView *view, uint32_t group);

SimByteRange sim_rank_view_resolve(const SimRankView *view, const SimInstruction *row,
                                   SimTouch touch);

/* Owned by the caller: "A:layers.3#7". */
char *sim_rank_view_buffer_name(const SimRankView *view, uint32_t buffer);
/* "all_gather layers.3 on all_gather"; "free". */
char *sim_rank_view_describe(const SimRankView *view, uint32_t row);
SimFindingPlace sim_rank_view_place(const SimRankView *view, uint32_t row, const char *role);
/* Unit, phase and step of ROW. */
void sim_rank_view_situate(const SimRankView *view, uint32_t row, SimFinding *finding);
