/* SPDX-License-Identifier: Apache-2.0
 *
 * How a plan is held, for the files of this folder that write plan.h's functions.
 */
#pragma once

#include "plan/name_table.h"
#include "plan/plan.h"

typedef struct SimRankSet {
    SimStringId text; /* canonical: "0-3 7"; 0 = all */
    uint32_t first_range, n_ranges;
} SimRankSet;

typedef struct SimRankList {
    uint32_t first_range, n_ranges;
    uint32_t members;
} SimRankList;

typedef struct SimGroup {
    SimStringId name;
    uint32_t first_list, n_lists;
} SimGroup;

struct SimPlan {
    uint32_t ranks;
    SimStrings *strings;
    GPtrArray *meta;     /* key, value, key, value... */
    GArray *streams;     /* of SimStringId */
    GArray *groups;      /* of SimGroup */
    GArray *lists;       /* of SimRankList: of all groups */
    GArray *ranges;      /* of SimRange: of all lists and rank sets */
    GArray *rank_sets;   /* of SimRankSet */
    GHashTable *set_ids; /* canonical text's id -> rank set; for look-up only */
    SimPlanContext context;

    /* Grown by hand: a row must cost no more than its bytes. */
    SimInstruction *rows;
    SimBuffer *buffers;
    SimTouch *touches;
    size_t n_rows, rows_capacity;
    size_t n_buffers, buffers_capacity;
    size_t n_touches, touches_capacity;

    SimNameTable *events; /* covers: the ranks that have recorded it */
};
