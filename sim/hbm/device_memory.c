/* SPDX-License-Identifier: Apache-2.0 */
#include "hbm/device_memory.h"

#include "hbm/allocator_private.h"

static uint64_t reserve_address(SimAllocator *allocator, uint64_t bytes, uint32_t stream)
{
    const SimAllocatorDevice *device = &allocator->device;

    if (device->reserve_address != NULL) {
        return device->reserve_address(bytes, stream, device->user_data);
    }
    const uint64_t address = allocator->next_address;
    const uint64_t rounded = (bytes + SIM_ALLOCATOR_ROUND_LARGE - 1) / SIM_ALLOCATOR_ROUND_LARGE *
                             SIM_ALLOCATOR_ROUND_LARGE;
    g_assert(rounded < UINT64_MAX - address);
    allocator->next_address += rounded;
    return address;
}

SimSegment *sim_device_memory_add_segment(SimAllocator *allocator, SimBlockPool *pool,
                                          uint32_t stream, uint64_t bytes, bool is_expandable)
{
    SimSegment *segment = g_new0(SimSegment, 1);

    segment->address = reserve_address(allocator, bytes, stream);
    segment->size = bytes;
    segment->mapped = is_expandable ? 0 : bytes;
    segment->stream = stream;
    segment->is_expandable = is_expandable;
    segment->pool = pool;
    segment->stream_pool = sim_block_pool_get(pool, stream);
    segment->first = sim_block_store_take(&allocator->store, segment, segment->address, bytes);
    segment->first->mapped = !is_expandable;

    segment->prev = allocator->last_segment;
    if (segment->prev != NULL) {
        segment->prev->next = segment;
    } else {
        allocator->first_segment = segment;
    }
    allocator->last_segment = segment;
    return segment;
}

static void remove_segment(SimAllocator *allocator, SimSegment *segment)
{
    g_assert(segment->first->next == NULL);
    if (segment->prev != NULL) {
        segment->prev->next = segment->next;
    } else {
        allocator->first_segment = segment->next;
    }
    if (segment->next != NULL) {
        segment->next->prev = segment->prev;
    } else {
        allocator->last_segment = segment->prev;
    }
    sim_block_store_return(&allocator->store, segment->first);
    g_free(segment);
}

static void count_segment(SimPoolStatistics *statistics, uint64_t bytes)
{
    sim_allocator_statistics_increase(&statistics->segment, 1);
    sim_allocator_statistics_increase(&statistics->reserved_bytes, bytes);
}

static void uncount_segment(SimPoolStatistics *statistics, uint64_t bytes)
{
    sim_allocator_statistics_decrease(&statistics->segment, 1);
    sim_allocator_statistics_decrease(&statistics->reserved_bytes, bytes);
}

SimBlock *sim_device_memory_malloc(SimAllocator *allocator, SimBlockPool *pool, uint32_t stream,
                                   uint64_t bytes)
{
    SimAllocatorStatistics *statistics = &allocator->statistics;

    if (bytes > sim_allocator_device_free(allocator)) {
        return NULL;
    }
    SimSegment *segment = sim_device_memory_add_segment(allocator, pool, stream, bytes, false);
    count_segment(&statistics->pools[SIM_POOL_ALL], bytes);
    count_segment(&statistics->pools[pool->kind], bytes);
    if (bytes >= allocator->config.max_split_size_bytes) {
        sim_allocator_statistics_increase(&statistics->oversize_segments, 1);
    }
    statistics->num_device_alloc++;
    sim_allocator_observe(allocator, SIM_ALLOCATOR_SEGMENT_ALLOC, segment->address, bytes, NULL,
                          segment);
    return segment->first;
}

void sim_device_memory_free(SimAllocator *allocator, SimBlock *block)
{
    SimAllocatorStatistics *statistics = &allocator->statistics;
    SimSegment *segment = block->segment;

    g_assert(!sim_block_is_split(block) && !segment->is_expandable);
    uncount_segment(&statistics->pools[SIM_POOL_ALL], block->size);
    uncount_segment(&statistics->pools[segment->pool->kind], block->size);
    if (block->size >= allocator->config.max_split_size_bytes) {
        sim_allocator_statistics_decrease(&statistics->oversize_segments, 1);
    }
    statistics->num_device_free++;
    sim_block_index_remove(&segment->stream_pool->free, block);
    sim_allocator_observe(allocator, SIM_ALLOCATOR_SEGMENT_FREE, segment->address, segment->size,
                          NULL, segment);
    remove_segment(allocator, segment);
}

void sim_device_memory_map(SimAllocator *allocator, SimSegment *segment, uint64_t address,
                           uint64_t bytes)
{
    SimPoolStatistics *pools = allocator->statistics.pools;

    segment->mapped += bytes;
    sim_allocator_statistics_increase(&pools[SIM_POOL_ALL].reserved_bytes, bytes);
    sim_allocator_statistics_increase(&pools[segment->pool->kind].reserved_bytes, bytes);
    allocator->statistics.num_device_alloc++;
    sim_allocator_observe(allocator, SIM_ALLOCATOR_SEGMENT_MAP, address, bytes, NULL, segment);
}

void sim_device_memory_unmap(SimAllocator *allocator, SimSegment *segment, uint64_t address,
                             uint64_t bytes)
{
    SimPoolStatistics *pools = allocator->statistics.pools;

    segment->mapped -= bytes;
    sim_allocator_statistics_decrease(&pools[SIM_POOL_ALL].reserved_bytes, bytes);
    sim_allocator_statistics_decrease(&pools[segment->pool->kind].reserved_bytes, bytes);
    allocator->statistics.num_device_free++;
    sim_allocator_observe(allocator, SIM_ALLOCATOR_SEGMENT_UNMAP, address, bytes, NULL, segment);
}

void sim_device_memory_drop_range(SimAllocator *allocator, SimBlock *block)
{
    g_assert(!sim_block_is_split(block) && !block->mapped);
    remove_segment(allocator, block->segment);
}
