/* SPDX-License-Identifier: Apache-2.0
 *
 * The members of the allocator, for the files of this folder that are parts of it.
 */
#pragma once

#include "hbm/allocator.h"
#include "hbm/block_pool.h"
#include "hbm/block_private.h"
#include "hbm/block_store.h"
#include "hbm/pending_events.h"
#include "hbm/segment_private.h"

struct SimAllocator {
    SimAllocatorConfig config;
    SimAllocatorDevice device;
    uint64_t device_bytes;
    uint64_t allowed_bytes;    /* by the memory fraction; UINT64_MAX: no fraction set */
    uint64_t gc_start_bytes;   /* reserved above it starts garbage collection; UINT64_MAX: off */
    uint64_t expandable_range; /* address space of a new expandable segment */
    uint64_t next_address;     /* of the next segment, if the device gives none */
    SimBlockPool small;
    SimBlockPool large;
    SimBlockStore store;
    SimPendingEvents pending;
    SimSegment *first_segment; /* in order of creation */
    SimSegment *last_segment;
    SimAllocatorStatistics statistics;
    SimAllocatorObserverFunc observer;
    void *observer_data;
    SimAllocatorOom oom;
    SimBlock null_block; /* stands for 0 bytes */
};

static inline uint64_t sim_allocator_reserved(const SimAllocator *allocator)
{
    return allocator->statistics.pools[SIM_POOL_ALL].reserved_bytes.current;
}

/* What the device still has. 0 where a restored history holds more than the device. */
static inline uint64_t sim_allocator_device_free(const SimAllocator *allocator)
{
    const uint64_t reserved = sim_allocator_reserved(allocator);

    return reserved < allocator->device_bytes ? allocator->device_bytes - reserved : 0;
}

static inline void sim_allocator_observe(const SimAllocator *allocator, SimAllocatorAction action,
                                         uint64_t address, uint64_t bytes, const SimBlock *block,
                                         const SimSegment *segment)
{
    if (allocator->observer != NULL) {
        const SimAllocatorEvent event = {action, segment->stream, address, bytes, block, segment};
        allocator->observer(&event, allocator->observer_data);
    }
}
