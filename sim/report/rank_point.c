/* SPDX-License-Identifier: Apache-2.0 */
#include "report/rank_point.h"

SimRankPoint sim_rank_point_compute(const SimSummary *summary)
{
    const SimMemorySummary *memory = &summary->memory;
    uint64_t overhead = memory->context_bytes + memory->communicator_bytes;
    SimRankPoint point = {
        .ranks = sim_plan_ranks(summary->plan),
        .allocated_bytes = memory->peaks.allocated_bytes,
        .reserved_bytes = memory->peaks.reserved_bytes,
        .room_bytes = memory->capacity_bytes - MIN(memory->capacity_bytes, overhead),
        .fits = memory->fits,
        .step = summary->has_time ? summary->time.split.step : 0,
    };
    for (int category = 0; category < SIM_CATEGORY_COUNT; category++) {
        point.bytes[sim_memory_series_of((SimCategory)category)] +=
            memory->history->by_category[category];
    }
    return point;
}
