/* SPDX-License-Identifier: Apache-2.0
 *
 * What lies where in device memory after the actions of a recorded allocator: segments, and the
 * blocks that are not free in them. Replays SimMemoryEvents; knows no rules of the allocator.
 *
 * Of an expandable segment each run of mapped pages counts as a segment, as in PyTorch's snapshot
 * (c10/cuda/CUDACachingAllocator.cpp, snapshot()).
 */
#pragma once

#include "trace/memory_event.h"

#include <glib.h>
#include <stdbool.h>
#include <stdint.h>

typedef struct SimLayoutSegment {
    uint64_t address, bytes;
    uint32_t stream;
    bool is_expandable;
    bool is_small; /* the pool of blocks up to 1 MiB: its segments grow by 2 MiB, others by more */
} SimLayoutSegment;

typedef struct SimLayoutBlock {
    uint64_t address;
    uint64_t bytes;           /* what the allocator counts */
    uint64_t requested_bytes; /* what was asked for */
    uint32_t buffer;          /* of the plan */
    uint32_t instruction;     /* that allocated it */
    bool is_allocated;        /* false: freed, but another stream may still use it */
} SimLayoutBlock;

typedef struct SimDeviceLayout {
    GArray *segments;         /* of SimLayoutSegment, by address */
    GTree *blocks;            /* address -> SimLayoutBlock, owned */
    uint64_t allocated_bytes; /* after the last event */
} SimDeviceLayout;

void sim_device_layout_init(SimDeviceLayout *layout);
void sim_device_layout_done(SimDeviceLayout *layout);

/* O(log blocks), or O(segments) for the actions on segments. */
void sim_device_layout_apply(SimDeviceLayout *layout, const SimMemoryEvent *event);

/* The first block at ADDRESS or above, or NULL. O(log blocks). */
const SimLayoutBlock *sim_device_layout_find(const SimDeviceLayout *layout, uint64_t address);
