/* SPDX-License-Identifier: Apache-2.0
 *
 * Ranks that own different numbers of true rows. Shards are padded to one size, but optimizer
 * states and norms are of true rows, so ranks fall into classes: intervals of places in the shard
 * group within which every parameter has all, some or none of its rows. With replicas each class
 * has the same places in all shard groups.
 */
#pragma once

#include "fsdp/shard.h"
#include "plan/plan.h"

#include <glib.h>
#include <stdint.h>

typedef struct SimRankClass {
    uint32_t first;    /* place in the shard group from which on it holds */
    uint32_t end;      /* one past its last place */
    uint32_t rank_set; /* in the plan; 0 = all ranks */
} SimRankClass;

/* The class of the places FIRST..END - 1 of every shard group of SIZE ranks. */
SimRankClass sim_rank_classes_make(SimPlan *plan, uint32_t size, uint32_t first, uint32_t end);

/* All classes that SHARDS (of SimShard) distinguish, in order of places. Owned by the caller. */
GArray *sim_rank_classes_compute(SimPlan *plan, uint32_t size, const GArray *shards);
