/* SPDX-License-Identifier: Apache-2.0 */
#include "hbm/allocator.h"

#include <string.h>

#include "hbm/allocator_private.h"

/* Sums over all blocks, to compare with statistics and indexes. */
typedef struct Sums {
    uint64_t allocation, allocated_bytes;
    uint64_t active, active_bytes, requested_bytes;
    uint64_t segment, reserved_bytes;
    uint64_t inactive_split, inactive_split_bytes;
    uint64_t pending_events;
} Sums;

static void check_statistic(const SimStatistic *statistic, uint64_t expected)
{
    g_assert(statistic->current == expected);
    g_assert(statistic->peak >= statistic->current);
    g_assert(statistic->allocated - statistic->freed == statistic->current);
}

static void check_sums(const SimPoolStatistics *statistics, const Sums *sums)
{
    check_statistic(&statistics->allocation, sums->allocation);
    check_statistic(&statistics->allocated_bytes, sums->allocated_bytes);
    check_statistic(&statistics->active, sums->active);
    check_statistic(&statistics->active_bytes, sums->active_bytes);
    check_statistic(&statistics->requested_bytes, sums->requested_bytes);
    check_statistic(&statistics->segment, sums->segment);
    check_statistic(&statistics->reserved_bytes, sums->reserved_bytes);
    check_statistic(&statistics->inactive_split, sums->inactive_split);
    check_statistic(&statistics->inactive_split_bytes, sums->inactive_split_bytes);
}

static void add_block(Sums *sums, const SimBlock *block)
{
    if (block->allocated) {
        sums->allocation++;
        sums->allocated_bytes += block->size;
    }
    if (!sim_block_is_idle(block)) {
        sums->active++;
        sums->active_bytes += block->size;
    } else if (!block->segment->is_expandable && sim_block_is_split(block)) {
        sums->inactive_split++;
        sums->inactive_split_bytes += block->size;
    }
    sums->requested_bytes += block->requested;
    sums->pending_events += block->n_pending_events;
}

/* A block's own state, and what its neighbour at the higher address may be. */
static void check_block(const SimAllocator *allocator, const SimBlock *block)
{
    const SimStreamPool *part = block->segment->stream_pool;
    const SimBlock *next = block->next;
    const bool is_idle = sim_block_is_idle(block);

    g_assert(block->size > 0 && block->size % SIM_ALLOCATOR_MIN_BLOCK == 0);
    g_assert(block->mapped || (is_idle && block->segment->is_expandable));
    g_assert(is_idle == (block->requested == 0) && block->requested <= block->size);
    g_assert(block->stream_uses == NULL || block->allocated);
    g_assert(!(block->allocated && block->n_pending_events > 0));
    g_assert(block->n_pending_events == sim_pending_events_count(&allocator->pending, block));
    if (is_idle) {
        const SimBlockIndex *index = block->mapped ? &part->free : &part->unmapped;
        const SimBlockIndexCursor place =
            sim_block_index_lower_bound(index, block->mapped ? block->size : 0, block->address);
        g_assert(sim_block_index_get(place) == block);
    }
    if (next != NULL) {
        g_assert(next->prev == block);
        g_assert(!is_idle || !sim_block_is_idle(next) || block->mapped != next->mapped);
    }
}

/* Blocks tile the segment; the mapped ones make up what it has from the device. */
static void check_segment(const SimAllocator *allocator, const SimSegment *segment, Sums *sums)
{
    uint64_t address = segment->address;
    uint64_t mapped = 0;

    g_assert(segment->first->prev == NULL);
    for (const SimBlock *block = segment->first; block != NULL; block = block->next) {
        g_assert(block->segment == segment && block->address == address);
        check_block(allocator, block);
        add_block(sums, block);
        address += block->size;
        mapped += block->mapped ? block->size : 0;
    }
    g_assert(address == segment->address + segment->size);
    g_assert(mapped == segment->mapped);
    g_assert(segment->is_expandable || mapped == segment->size);
    sums->segment += segment->is_expandable ? 0 : 1;
    sums->reserved_bytes += mapped;
}

static size_t check_indexes(const SimBlockPool *pool)
{
    size_t n = 0;

    for (unsigned i = 0; i < pool->streams->len; i++) {
        const SimStreamPool *part = g_ptr_array_index(pool->streams, i);
        if (part != NULL) {
            sim_block_index_check(&part->free);
            sim_block_index_check(&part->unmapped);
            n += part->free.count + part->unmapped.count;
        }
    }
    return n;
}

/* Each idle block was found in its index; equal counts say that the indexes hold nothing else. */
static size_t count_idle(const SimAllocator *allocator)
{
    size_t n = 0;

    for (const SimSegment *segment = allocator->first_segment; segment != NULL;
         segment = segment->next) {
        for (const SimBlock *block = segment->first; block != NULL; block = block->next) {
            n += sim_block_is_idle(block);
        }
    }
    return n;
}

void sim_allocator_check(const SimAllocator *allocator)
{
    const SimAllocatorStatistics *statistics = &allocator->statistics;
    Sums sums[SIM_POOL_KINDS];

    memset(sums, 0, sizeof sums);
    for (const SimSegment *segment = allocator->first_segment; segment != NULL;
         segment = segment->next) {
        g_assert(segment->next == NULL ? segment == allocator->last_segment
                                       : segment->next->prev == segment);
        check_segment(allocator, segment, &sums[SIM_POOL_ALL]);
        check_segment(allocator, segment, &sums[segment->pool->kind]);
    }
    for (unsigned kind = 0; kind < SIM_POOL_KINDS; kind++) {
        check_sums(&statistics->pools[kind], &sums[kind]);
    }
    g_assert(sums[SIM_POOL_ALL].pending_events == allocator->pending.count);
    g_assert(check_indexes(&allocator->small) + check_indexes(&allocator->large) ==
             count_idle(allocator));
    g_assert(sums[SIM_POOL_ALL].reserved_bytes <= allocator->device_bytes ||
             statistics->num_device_alloc == 0);
    g_assert(allocator->null_block.size == 0 && !allocator->null_block.allocated);
}
