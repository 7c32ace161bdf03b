/* SPDX-License-Identifier: Apache-2.0 */
#include "hbm/allocator.h"

#include "hbm/allocator_private.h"
#include "hbm/device_memory.h"
#include "hbm/free_block.h"

static void count_segment(SimPoolStatistics *statistics, uint64_t bytes, bool is_expandable)
{
    sim_allocator_statistics_increase(&statistics->segment, is_expandable ? 0 : 1);
    sim_allocator_statistics_increase(&statistics->reserved_bytes, bytes);
}

static void count_block(SimPoolStatistics *statistics, const SimBlock *block)
{
    if (block->allocated) {
        sim_allocator_statistics_increase(&statistics->allocation, 1);
        sim_allocator_statistics_increase(&statistics->allocated_bytes, block->size);
        sim_allocator_statistics_increase(&statistics->active, 1);
        sim_allocator_statistics_increase(&statistics->active_bytes, block->size);
        sim_allocator_statistics_increase(&statistics->requested_bytes, block->requested);
    } else if (block->mapped && sim_block_is_split(block) && !block->segment->is_expandable) {
        sim_allocator_statistics_increase(&statistics->inactive_split, 1);
        sim_allocator_statistics_increase(&statistics->inactive_split_bytes, block->size);
    }
}

/* Indexes and counts the finished blocks of the segment. */
static void enter_blocks(SimAllocator *allocator, SimSegment *segment)
{
    SimPoolStatistics *pools = allocator->statistics.pools;
    const uint64_t oversize = allocator->config.max_split_size_bytes;

    for (SimBlock *block = segment->first; block != NULL; block = block->next) {
        if (!block->mapped) {
            sim_block_index_insert(&segment->stream_pool->unmapped, block);
        } else if (!block->allocated) {
            sim_block_pool_insert(segment->pool, block);
        } else if (block->size >= oversize) {
            sim_allocator_statistics_increase(&allocator->statistics.oversize_allocations, 1);
        }
        count_block(&pools[SIM_POOL_ALL], block);
        count_block(&pools[segment->pool->kind], block);
    }
}

/* Cuts BLOCK so that a block begins OFFSET bytes into the segment; returns that block. */
static SimBlock *cut_at(SimAllocator *allocator, SimBlock *block, uint64_t offset)
{
    const uint64_t begin = block->address - block->segment->address;

    g_assert(offset >= begin && offset < begin + block->size);
    return offset == begin ? block : sim_free_block_cut(allocator, block, offset - begin);
}

const SimSegment *sim_allocator_restore_segment(SimAllocator *allocator, uint64_t size_bytes,
                                                uint32_t stream, bool is_small, bool is_expandable,
                                                const SimAllocatorPiece *pieces, size_t n_pieces,
                                                SimBlock **blocks)
{
    SimBlockPool *pool = is_small ? &allocator->small : &allocator->large;
    const uint64_t range = is_expandable ? allocator->expandable_range : size_bytes;

    g_assert(size_bytes > 0 && size_bytes <= range);
    SimSegment *segment =
        sim_device_memory_add_segment(allocator, pool, stream, range, is_expandable);
    SimBlock *block = segment->first;
    block->mapped = true;
    segment->mapped = size_bytes;
    if (size_bytes < range) {
        sim_free_block_cut(allocator, block, size_bytes)->mapped = false;
    }
    for (size_t i = 0; i < n_pieces; i++) {
        const uint64_t end = pieces[i].offset_bytes + pieces[i].size_bytes;
        block = cut_at(allocator, block, pieces[i].offset_bytes);
        block->allocated = true;
        block->requested = pieces[i].size_bytes;
        blocks[i] = block;
        if (block->address - segment->address + block->size > end) {
            block = sim_free_block_cut(allocator, block, pieces[i].size_bytes);
        } else {
            block = block->next;
        }
    }
    count_segment(&allocator->statistics.pools[SIM_POOL_ALL], size_bytes, is_expandable);
    count_segment(&allocator->statistics.pools[pool->kind], size_bytes, is_expandable);
    if (!is_expandable && size_bytes >= allocator->config.max_split_size_bytes) {
        sim_allocator_statistics_increase(&allocator->statistics.oversize_segments, 1);
    }
    enter_blocks(allocator, segment);
    return segment;
}
