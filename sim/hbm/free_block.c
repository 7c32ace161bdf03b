/* SPDX-License-Identifier: Apache-2.0 */
#include "hbm/free_block.h"

#include "hbm/allocator_private.h"

SimBlock *sim_free_block_merge(SimAllocator *allocator, SimBlock *block, SimBlock *neighbour)
{
    if (neighbour == NULL || !sim_block_is_idle(neighbour) || neighbour->mapped != block->mapped) {
        return block;
    }
    SimStreamPool *part = neighbour->segment->stream_pool;
    sim_block_index_remove(neighbour->mapped ? &part->free : &part->unmapped, neighbour);

    SimBlock *low = block->prev == neighbour ? neighbour : block;
    SimBlock *high = low->next;
    low->size += high->size;
    low->next = high->next;
    if (low->next != NULL) {
        low->next->prev = low;
    }
    sim_block_store_return(&allocator->store, high);
    return low;
}

SimBlock *sim_free_block_cut(SimAllocator *allocator, SimBlock *block, uint64_t size)
{
    SimBlock *rest = sim_block_store_take(&allocator->store, block->segment, block->address + size,
                                          block->size - size);

    rest->mapped = block->mapped;
    rest->prev = block;
    rest->next = block->next;
    if (rest->next != NULL) {
        rest->next->prev = rest;
    }
    block->next = rest;
    block->size = size;
    return rest;
}

/* The change of (blocks, bytes) of inactive_split when ABSORBED blocks became part of BLOCK. */
static void count_inactive_split(SimPoolStatistics *statistics, const SimBlock *block,
                                 unsigned absorbed, uint64_t absorbed_bytes)
{
    const unsigned added = sim_block_is_split(block) ? 1 : 0;
    const uint64_t added_bytes = added == 1 ? block->size : 0;

    if (added >= absorbed) {
        sim_allocator_statistics_increase(&statistics->inactive_split, added - absorbed);
    } else {
        sim_allocator_statistics_decrease(&statistics->inactive_split, absorbed - added);
    }
    if (added_bytes >= absorbed_bytes) {
        sim_allocator_statistics_increase(&statistics->inactive_split_bytes,
                                          added_bytes - absorbed_bytes);
    } else {
        sim_allocator_statistics_decrease(&statistics->inactive_split_bytes,
                                          absorbed_bytes - added_bytes);
    }
}

static void count_inactive(SimPoolStatistics *statistics, uint64_t size, uint64_t requested)
{
    sim_allocator_statistics_decrease(&statistics->active, 1);
    sim_allocator_statistics_decrease(&statistics->active_bytes, size);
    sim_allocator_statistics_decrease(&statistics->requested_bytes, requested);
}

void sim_free_block(SimAllocator *allocator, SimBlock *block)
{
    SimBlockPool *pool = block->segment->pool;
    SimPoolStatistics *pools = allocator->statistics.pools;
    const uint64_t size = block->size;
    const uint64_t requested = block->requested;

    g_assert(sim_block_is_idle(block) && block->stream_uses == NULL);
    sim_allocator_observe(allocator, SIM_ALLOCATOR_FREE_COMPLETED, block->address, requested, block,
                          block->segment);

    unsigned absorbed = 0;
    SimBlock *merged = sim_free_block_merge(allocator, block, block->prev);
    absorbed += merged != block;
    const uint64_t before = merged->size;
    merged = sim_free_block_merge(allocator, merged, merged->next);
    absorbed += merged->size != before;
    merged->requested = 0;
    sim_block_pool_insert(pool, merged);

    if (!merged->segment->is_expandable) {
        count_inactive_split(&pools[SIM_POOL_ALL], merged, absorbed, merged->size - size);
        count_inactive_split(&pools[pool->kind], merged, absorbed, merged->size - size);
    }
    count_inactive(&pools[SIM_POOL_ALL], size, requested);
    count_inactive(&pools[pool->kind], size, requested);
}
