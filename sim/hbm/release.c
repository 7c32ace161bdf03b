/* SPDX-License-Identifier: Apache-2.0 */
#include "hbm/release.h"

#include "hbm/allocator_private.h"
#include "hbm/device_memory.h"
#include "hbm/expandable.h"
#include "hbm/pending_events.h"

/* The next lower block of the index, or NULL. */
static SimBlock *find_lower(const SimBlockIndex *index, const SimBlock *block)
{
    return sim_block_index_get(
        sim_block_index_previous(sim_block_index_lower_bound(index, block->size, block->address)));
}

/* Frees oversize blocks from the largest downward until their sum reaches SIZE. */
static bool release_largest(SimAllocator *allocator, const SimBlockIndex *index, uint64_t size)
{
    SimBlock *block = sim_block_index_get(sim_block_index_last(index));
    uint64_t released = 0;

    while (released < size && block != NULL &&
           block->size >= allocator->config.max_split_size_bytes) {
        SimBlock *lower = find_lower(index, block);
        if (!block->segment->is_expandable) {
            released += block->size;
            sim_device_memory_free(allocator, block);
        }
        block = lower;
    }
    return released >= size;
}

bool sim_release_available(SimAllocator *allocator, SimBlockPool *pool, uint32_t stream,
                           uint64_t size)
{
    const SimBlockIndex *index = &sim_block_pool_get(pool, stream)->free;

    if (allocator->config.max_split_size_bytes == UINT64_MAX) {
        return false;
    }
    const uint64_t wanted = MAX(size, allocator->config.max_split_size_bytes);
    SimBlock *block = sim_block_index_get(sim_block_index_lower_bound(index, wanted, 0));
    if (block == NULL || block->segment->is_expandable) {
        return release_largest(allocator, index, wanted);
    }
    sim_device_memory_free(allocator, block);
    return true;
}

static void release_pool(SimAllocator *allocator, SimBlockPool *pool)
{
    g_autoptr(GPtrArray) blocks = sim_block_pool_list(pool);

    for (unsigned i = 0; i < blocks->len; i++) {
        SimBlock *block = g_ptr_array_index(blocks, i);
        if (!block->segment->is_expandable && !sim_block_is_split(block)) {
            sim_device_memory_free(allocator, block);
            g_ptr_array_index(blocks, i) = NULL;
        }
    }
    /* Unmapping one block leaves the others of the list alone: free neighbours are merged already.
     */
    for (unsigned i = 0; i < blocks->len; i++) {
        SimBlock *block = g_ptr_array_index(blocks, i);
        if (block != NULL && block->segment->is_expandable) {
            sim_expandable_release(allocator, block);
        }
    }
}

void sim_release_cached(SimAllocator *allocator)
{
    sim_pending_events_synchronize(allocator);
    release_pool(allocator, &allocator->large);
    release_pool(allocator, &allocator->small);
}

static bool is_collectable(const SimBlock *block)
{
    return !block->segment->is_expandable && !sim_block_is_split(block);
}

/* Cached whole segments of the large pool in pool order, with the sum of their ages. */
static GPtrArray *list_collectable(const SimAllocator *allocator, uint64_t *total_age)
{
    g_autoptr(GPtrArray) blocks = sim_block_pool_list(&allocator->large);
    GPtrArray *collectable = g_ptr_array_new();

    *total_age = 0;
    for (unsigned i = 0; i < blocks->len; i++) {
        SimBlock *block = g_ptr_array_index(blocks, i);
        if (is_collectable(block)) {
            *total_age += allocator->large.n_searches - block->age_base;
            g_ptr_array_add(collectable, block);
        }
    }
    return collectable;
}

/* One pass over the blocks that exist at its start; returns the bytes freed. */
static uint64_t release_older_half(SimAllocator *allocator)
{
    uint64_t total_age;
    uint64_t released = 0;
    g_autoptr(GPtrArray) blocks = list_collectable(allocator, &total_age);

    for (unsigned i = 0; i < blocks->len; i++) {
        SimBlock *block = g_ptr_array_index(blocks, i);
        /* age >= total_age / blocks, without the division */
        if ((allocator->large.n_searches - block->age_base) * blocks->len >= total_age) {
            released += block->size;
            sim_device_memory_free(allocator, block);
        }
    }
    return released;
}

void sim_release_old(SimAllocator *allocator)
{
    const uint64_t reserved = sim_allocator_reserved(allocator);

    if (reserved <= allocator->gc_start_bytes) {
        return;
    }
    const uint64_t target = reserved - allocator->gc_start_bytes;
    uint64_t released = 0;
    uint64_t pass = 1;
    while (released < target && pass > 0) {
        pass = release_older_half(allocator);
        released += pass;
    }
}
