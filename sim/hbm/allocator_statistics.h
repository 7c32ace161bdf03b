/* SPDX-License-Identifier: Apache-2.0
 *
 * What torch.cuda.memory_stats() counts. Source: c10/core/CachingDeviceAllocator.h (Stat,
 * DeviceStats) and its updates in c10/cuda/CUDACachingAllocator.cpp.
 */
#pragma once

#include <stdint.h>

typedef struct SimStatistic {
    uint64_t current;
    uint64_t peak;      /* the largest current since the last reset of peaks */
    uint64_t allocated; /* sum of all increases */
    uint64_t freed;     /* sum of all decreases */
} SimStatistic;

typedef enum SimPoolKind {
    SIM_POOL_ALL,
    SIM_POOL_SMALL,
    SIM_POOL_LARGE,
    SIM_POOL_KINDS,
} SimPoolKind;

/* Counts and bytes. A block counts whole, with the tail that was not split off. */
typedef struct SimPoolStatistics {
    SimStatistic allocation;      /* between malloc and free, counted */
    SimStatistic allocated_bytes; /* the same in bytes: memory_allocated, max_memory_allocated */
    SimStatistic active;          /* until really free, events included */
    SimStatistic active_bytes;    /* what torchtitan logs as max_active */
    SimStatistic requested_bytes; /* user's sizes, as long as the block is active */
    SimStatistic segment;         /* cudaMalloc'd; expandable segments do not count */
    SimStatistic reserved_bytes;  /* cudaMalloc'd and mapped: memory_reserved */
    SimStatistic inactive_split;  /* free blocks that cannot be given back, not expandable ones */
    SimStatistic inactive_split_bytes; /* the same in bytes */
} SimPoolStatistics;

typedef struct SimAllocatorStatistics {
    SimPoolStatistics pools[SIM_POOL_KINDS];
    SimStatistic oversize_allocations; /* blocks >= max_split_size */
    SimStatistic oversize_segments;
    uint64_t num_alloc_retries;    /* every cached block was given back before this one */
    uint64_t num_ooms;             /* mallocs that returned NULL */
    uint64_t num_sync_all_streams; /* waits for all pending events */
    uint64_t num_device_alloc;     /* cudaMalloc and maps */
    uint64_t num_device_free;      /* cudaFree and unmaps */
} SimAllocatorStatistics;

static inline void sim_allocator_statistics_increase(SimStatistic *statistic, uint64_t amount)
{
    statistic->current += amount;
    statistic->allocated += amount;
    if (statistic->current > statistic->peak) {
        statistic->peak = statistic->current;
    }
}

static inline void sim_allocator_statistics_decrease(SimStatistic *statistic, uint64_t amount)
{
    statistic->current -= amount;
    statistic->freed += amount;
}

/* Sets every peak to its current value. */
void sim_allocator_statistics_reset_peaks(SimAllocatorStatistics *statistics);
