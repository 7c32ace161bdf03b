/* SPDX-License-Identifier: Apache-2.0 */
#include "hbm/expandable.h"

#include "hbm/allocator_private.h"
#include "hbm/device_memory.h"
#include "hbm/free_block.h"

static uint64_t page_size(const SimAllocator *allocator, const SimBlockPool *pool)
{
    return pool->kind == SIM_POOL_SMALL ? SIM_ALLOCATOR_SMALL_SEGMENT
                                        : allocator->config.large_segment_size_bytes;
}

static uint64_t round_up(uint64_t bytes, uint64_t page)
{
    return (bytes + page - 1) / page * page;
}

/* True if idle blocks, mapped or not, cover SIZE bytes from BLOCK on. */
static bool has_room(const SimBlock *block, uint64_t size)
{
    uint64_t bytes = 0;

    while (bytes < size && block != NULL && sim_block_is_idle(block)) {
        bytes += block->size;
        block = block->next;
    }
    return bytes >= size;
}

/* The first idle block from which unmapped or free-then-unmapped room of SIZE bytes follows, in a
 * new segment if need be. NULL if no range is that long. */
static SimBlock *find_room(SimAllocator *allocator, SimBlockPool *pool, uint32_t stream,
                           uint64_t size)
{
    SimStreamPool *part = sim_block_pool_get(pool, stream);

    for (SimBlockIndexCursor cursor = sim_block_index_first(&part->unmapped);
         sim_block_index_get(cursor) != NULL; cursor = sim_block_index_next(cursor)) {
        SimBlock *block = sim_block_index_get(cursor);
        if (block->prev != NULL && sim_block_is_idle(block->prev)) {
            block = block->prev;
        }
        if (has_room(block, size)) {
            return block;
        }
    }
    const uint64_t range = round_up(allocator->expandable_range, page_size(allocator, pool));
    if (size > range) {
        return NULL;
    }
    SimSegment *segment = sim_device_memory_add_segment(allocator, pool, stream, range, true);
    sim_block_index_insert(&part->unmapped, segment->first);
    return segment->first;
}

/* Maps at least SIZE bytes at the start of BLOCK and merges them with free neighbours. Returns the
 * block they are in, which is in the free index, or NULL if the device has too little. */
static SimBlock *map_block(SimAllocator *allocator, SimBlock *block, uint64_t size)
{
    SimSegment *segment = block->segment;
    SimStreamPool *part = segment->stream_pool;
    const uint64_t address = block->address;
    const uint64_t bytes = round_up(size, page_size(allocator, segment->pool));

    g_assert(bytes <= block->size);
    if (bytes > sim_allocator_device_free(allocator)) {
        return NULL;
    }
    sim_block_index_remove(&part->unmapped, block);
    if (bytes < block->size) {
        sim_block_index_insert(&part->unmapped, sim_free_block_cut(allocator, block, bytes));
    }
    block->mapped = true;
    block = sim_free_block_merge(allocator, block, block->prev);
    block = sim_free_block_merge(allocator, block, block->next);
    sim_block_pool_insert(segment->pool, block);
    sim_device_memory_map(allocator, segment, address, bytes);
    return block;
}

SimBlock *sim_expandable_malloc(SimAllocator *allocator, SimBlockPool *pool, uint32_t stream,
                                uint64_t size)
{
    SimBlock *block = find_room(allocator, pool, stream, size);

    if (block != NULL && !block->mapped) {
        block = map_block(allocator, block, MIN(block->size, size));
    }
    while (block != NULL && block->size < size) {
        block = map_block(allocator, block->next, MIN(block->next->size, size - block->size));
    }
    if (block != NULL) {
        sim_block_index_remove(&block->segment->stream_pool->free, block);
    }
    return block;
}

void sim_expandable_release(SimAllocator *allocator, SimBlock *block)
{
    SimSegment *segment = block->segment;
    SimStreamPool *part = segment->stream_pool;
    const uint64_t page = page_size(allocator, segment->pool);
    const uint64_t begin = round_up(block->address - segment->address, page);
    const uint64_t end = (block->address - segment->address + block->size) / page * page;

    if (begin >= end) {
        return;
    }
    const uint64_t address = segment->address + begin;
    const uint64_t bytes = end - begin;
    sim_block_index_remove(&part->free, block);
    if (address > block->address) {
        SimBlock *inner = sim_free_block_cut(allocator, block, address - block->address);
        sim_block_pool_insert(segment->pool, block);
        block = inner;
    }
    if (bytes < block->size) {
        sim_block_pool_insert(segment->pool, sim_free_block_cut(allocator, block, bytes));
    }
    block->mapped = false;
    block = sim_free_block_merge(allocator, block, block->prev);
    block = sim_free_block_merge(allocator, block, block->next);
    sim_device_memory_unmap(allocator, segment, address, bytes);
    if (sim_block_is_split(block)) {
        sim_block_index_insert(&part->unmapped, block);
    } else {
        sim_device_memory_drop_range(allocator, block);
    }
}
