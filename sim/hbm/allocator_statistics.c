/* SPDX-License-Identifier: Apache-2.0 */
#include "hbm/allocator_statistics.h"

static void reset_peak(SimStatistic *statistic)
{
    statistic->peak = statistic->current;
}

void sim_allocator_statistics_reset_peaks(SimAllocatorStatistics *statistics)
{
    for (unsigned kind = 0; kind < SIM_POOL_KINDS; kind++) {
        SimPoolStatistics *pool = &statistics->pools[kind];
        reset_peak(&pool->allocation);
        reset_peak(&pool->allocated_bytes);
        reset_peak(&pool->active);
        reset_peak(&pool->active_bytes);
        reset_peak(&pool->requested_bytes);
        reset_peak(&pool->segment);
        reset_peak(&pool->reserved_bytes);
        reset_peak(&pool->inactive_split);
        reset_peak(&pool->inactive_split_bytes);
    }
    reset_peak(&statistics->oversize_allocations);
    reset_peak(&statistics->oversize_segments);
}
