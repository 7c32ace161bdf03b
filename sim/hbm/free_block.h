/* SPDX-License-Identifier: Apache-2.0
 *
 * A block becomes cached memory again. Source: free_block, try_merge_blocks of
 * c10/cuda/CUDACachingAllocator.cpp.
 */
#pragma once

#include "hbm/allocator.h"

/* Ends the activity of BLOCK (not allocated, no pending events), merges it with idle neighbours of
 * the same kind of mapping and indexes it. BLOCK may be gone afterwards. O(log n). */
void sim_free_block(SimAllocator *allocator, SimBlock *block);

/* Merges NEIGHBOUR (next to BLOCK, may be NULL) into one block with it if it is idle and mapped
 * alike. BLOCK is in no index; neither is the block returned, the one at the lower address. */
SimBlock *sim_free_block_merge(SimAllocator *allocator, SimBlock *block, SimBlock *neighbour);

/* Cuts BLOCK to SIZE bytes; returns the remainder, its new next neighbour, idle and mapped as
 * BLOCK. No index is touched. */
SimBlock *sim_free_block_cut(SimAllocator *allocator, SimBlock *block, uint64_t size);
