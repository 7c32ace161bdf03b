/* SPDX-License-Identifier: Apache-2.0
 *
 * How many bytes of weights a rank holds as its host goes through a step: shard, and full weights
 * with the buffers of their all-gathers. From the plan alone.
 */
#pragma once

#include "plan/plan.h"

#include <glib.h>
#include <stdint.h>

typedef struct SimWeightsHeld {
    uint64_t shard_bytes;
    uint64_t full_bytes;
} SimWeightsHeld;

/* At most COUNT stretches of step STEP's rows, the most that is held in each. Owned by the caller.
 * O(rows). */
GArray *sim_weights_held_compute(const SimPlan *plan, uint32_t rank, int32_t step, guint count);
