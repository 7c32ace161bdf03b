/* SPDX-License-Identifier: Apache-2.0
 *
 * Expandable segments: a range of addresses that is mapped page by page (2 MiB in the small pool,
 * large_segment_size in the large one), so that memory freed at its end can grow instead of being
 * fragmented. Source: try_allocate_expandable_block, find_expandable_block, map_block, unmap_block
 * of c10/cuda/CUDACachingAllocator.cpp.
 */
#pragma once

#include "hbm/allocator.h"
#include "hbm/block_pool.h"

/* A free mapped block of at least SIZE bytes, in no index, got by mapping as few pages as will do
 * at the lowest place of the stream where they fit; NULL if the device has too few pages (what was
 * mapped so far stays cached). O(unmapped ranges of the stream). */
SimBlock *sim_expandable_malloc(SimAllocator *allocator, SimBlockPool *pool, uint32_t stream,
                                uint64_t size);

/* Gives back the whole pages inside BLOCK, a cached block of an expandable segment; the edges stay
 * cached. A segment without a mapped page left is dropped. */
void sim_expandable_release(SimAllocator *allocator, SimBlock *block);
