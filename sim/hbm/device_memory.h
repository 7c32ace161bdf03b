/* SPDX-License-Identifier: Apache-2.0
 *
 * Segments come from the device and go back to it: cudaMalloc, cudaFree, and the address ranges and
 * pages of expandable segments. Source: alloc_block, release_block, ExpandableSegment of
 * c10/cuda/CUDACachingAllocator.cpp.
 */
#pragma once

#include "hbm/allocator.h"
#include "hbm/block_pool.h"

/* A segment of BYTES as one idle block that is in no index. MAPPED is what of it is backed by
 * memory: all, or 0 for the range of an expandable segment. Counts nothing, observes nothing. */
SimSegment *sim_device_memory_add_segment(SimAllocator *allocator, SimBlockPool *pool,
                                          uint32_t stream, uint64_t bytes, bool is_expandable);

/* cudaMalloc: the segment's one block, in no index; NULL if the device has no BYTES left. */
SimBlock *sim_device_memory_malloc(SimAllocator *allocator, SimBlockPool *pool, uint32_t stream,
                                   uint64_t bytes);

/* cudaFree of the segment of BLOCK, a cached block that is not split. */
void sim_device_memory_free(SimAllocator *allocator, SimBlock *block);

/* Takes or gives back BYTES of pages for SEGMENT and counts them. */
void sim_device_memory_map(SimAllocator *allocator, SimSegment *segment, uint64_t address,
                           uint64_t bytes);
void sim_device_memory_unmap(SimAllocator *allocator, SimSegment *segment, uint64_t address,
                             uint64_t bytes);

/* Drops an expandable segment that is one unmapped block, in no index. */
void sim_device_memory_drop_range(SimAllocator *allocator, SimBlock *block);
