/* SPDX-License-Identifier: Apache-2.0
 *
 * Cached memory goes back to the device: before a retry, on empty_cache, and by garbage collection.
 * Source: release_available_cached_blocks, release_cached_blocks, garbage_collect_cached_blocks of
 * c10/cuda/CUDACachingAllocator.cpp.
 */
#pragma once

#include "hbm/allocator.h"
#include "hbm/block_pool.h"

/* For a finite max_split_size: frees the smallest cached block that is large enough for SIZE (and
 * oversize), else the largest oversize ones downward until their sum is. False if it is not; what
 * was freed stays so. */
bool sim_release_available(SimAllocator *allocator, SimBlockPool *pool, uint32_t stream,
                           uint64_t size);

/* Synchronises pending events, then frees every cached block that is a whole segment and every
 * whole page of expandable segments, large pool first. */
void sim_release_cached(SimAllocator *allocator);

/* Frees whole-segment blocks of the large pool whose age is at least the mean age, in passes, until
 * reserved memory is down to the threshold or nothing is left to free. No effect below it. */
void sim_release_old(SimAllocator *allocator);
