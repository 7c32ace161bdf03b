/* SPDX-License-Identifier: Apache-2.0
 *
 * What the caching allocator counted while a rank played its rows. Bytes as PyTorch's
 * memory_stats() counts them: a block whole, with the tail that was not split off.
 */
#pragma once

#include "hbm/allocator.h"
#include "plan/plan.h"

#include <glib.h>
#include <stdbool.h>
#include <stdint.h>

typedef struct SimMemoryPeaks {
    uint64_t allocated_bytes;
    uint64_t active_bytes;
    uint64_t reserved_bytes;
} SimMemoryPeaks;

/* One range of phases of the program: peaks since its beginning, what is left at its end. */
typedef struct SimMemoryPhase {
    SimMemoryPeaks peaks;
    uint64_t allocated_bytes, reserved_bytes;
    uint64_t alloc_retries;
} SimMemoryPhase;

typedef struct SimMemoryHistory {
    GArray *events;       /* of SimMemoryEvent, in order; empty if they were not asked for */
    GArray *phases;       /* of SimMemoryPhase, as many of the program's as were begun */
    SimMemoryPeaks peaks; /* of the whole run */
    uint64_t by_category[SIM_CATEGORY_COUNT]; /* of the allocated peak; their sum is the peak */
    uint32_t peak_instruction;                /* the alloc that made it; NONE without any */
    uint64_t alloc_retries;
    GArray *syncs; /* of uint32_t: positions of allocations that gave memory back first */
    bool is_oom;
    SimAllocatorOom oom;
    uint32_t oom_position, oom_instruction;
    uint64_t host_bytes; /* peak of pinned host memory */
} SimMemoryHistory;
