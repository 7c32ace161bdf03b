/* SPDX-License-Identifier: Apache-2.0
 *
 * The peak of one run among several that differ in the number of ranks.
 */
#pragma once

#include "predict/summary.h"
#include "report/memory_series.h"

#include <glib.h>
#include <stdbool.h>
#include <stdint.h>

typedef struct SimRankPoint {
    uint32_t ranks;
    uint64_t bytes[SIM_SERIES_COUNT]; /* of the allocated peak */
    uint64_t allocated_bytes, reserved_bytes;
    uint64_t room_bytes; /* what the allocator may reserve on the GPU */
    bool fits;
    SimTime step; /* of the last step; 0 without */
} SimRankPoint;

/* Of the rank with the highest peak. */
SimRankPoint sim_rank_point_compute(const SimSummary *summary);
