/* SPDX-License-Identifier: Apache-2.0
 *
 * The cached blocks of one kind (small or large). PyTorch keeps them in one set ordered by (stream,
 * size, address); no search ever crosses a stream, so here each stream has its own index, and a
 * walk over the streams in ascending order gives PyTorch's order.
 */
#pragma once

#include "hbm/allocator_statistics.h"
#include "hbm/block_index.h"

#include <glib.h>

/* What one stream has in a pool. */
typedef struct SimStreamPool {
    SimBlockIndex free;     /* by size: cached blocks */
    SimBlockIndex unmapped; /* by address: bare ranges of expandable segments */
} SimStreamPool;

typedef struct SimBlockPool {
    GPtrArray *streams;  /* SimStreamPool by stream; NULL where unused */
    SimPoolKind kind;    /* SMALL or LARGE */
    uint64_t n_searches; /* counted while garbage collection is on: the clock of ages */
} SimBlockPool;

void sim_block_pool_init(SimBlockPool *pool, SimPoolKind kind);
void sim_block_pool_done(SimBlockPool *pool);

/* The stream's part, made if new; stays at its place. O(1) amortised. */
SimStreamPool *sim_block_pool_get(SimBlockPool *pool, uint32_t stream);

/* Puts a block that became free into its index; its age starts now. O(log n). */
void sim_block_pool_insert(SimBlockPool *pool, SimBlock *block);

/* All cached blocks, in order of (stream, size, address). Owned by the caller. */
GPtrArray *sim_block_pool_list(const SimBlockPool *pool);

/* The size of the largest cached block, 0 if there is none. O(streams * log n). */
uint64_t sim_block_pool_largest(const SimBlockPool *pool);
