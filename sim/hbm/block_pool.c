/* SPDX-License-Identifier: Apache-2.0 */
#include "hbm/block_pool.h"

#include "hbm/block_private.h"
#include "hbm/segment_private.h"

static void free_stream_pool(void *data)
{
    SimStreamPool *part = data;

    if (part != NULL) {
        sim_block_index_done(&part->free);
        sim_block_index_done(&part->unmapped);
        g_free(part);
    }
}

void sim_block_pool_init(SimBlockPool *pool, SimPoolKind kind)
{
    pool->streams = g_ptr_array_new_with_free_func(free_stream_pool);
    pool->kind = kind;
    pool->n_searches = 0;
}

void sim_block_pool_done(SimBlockPool *pool)
{
    g_ptr_array_unref(pool->streams);
}

SimStreamPool *sim_block_pool_get(SimBlockPool *pool, uint32_t stream)
{
    if (G_UNLIKELY(stream >= pool->streams->len)) {
        g_assert(stream < G_MAXINT);
        g_ptr_array_set_size(pool->streams, (int)stream + 1);
    }
    SimStreamPool *part = g_ptr_array_index(pool->streams, stream);
    if (G_UNLIKELY(part == NULL)) {
        part = g_new(SimStreamPool, 1);
        sim_block_index_init(&part->free, SIM_BLOCK_INDEX_BY_SIZE);
        sim_block_index_init(&part->unmapped, SIM_BLOCK_INDEX_BY_ADDRESS);
        g_ptr_array_index(pool->streams, stream) = part;
    }
    return part;
}

void sim_block_pool_insert(SimBlockPool *pool, SimBlock *block)
{
    block->age_base = pool->n_searches;
    sim_block_index_insert(&block->segment->stream_pool->free, block);
}

GPtrArray *sim_block_pool_list(const SimBlockPool *pool)
{
    GPtrArray *blocks = g_ptr_array_new();

    for (unsigned i = 0; i < pool->streams->len; i++) {
        const SimStreamPool *part = g_ptr_array_index(pool->streams, i);
        if (part == NULL) {
            continue;
        }
        for (SimBlockIndexCursor cursor = sim_block_index_first(&part->free);
             sim_block_index_get(cursor) != NULL; cursor = sim_block_index_next(cursor)) {
            g_ptr_array_add(blocks, sim_block_index_get(cursor));
        }
    }
    return blocks;
}

uint64_t sim_block_pool_largest(const SimBlockPool *pool)
{
    uint64_t largest = 0;

    for (unsigned i = 0; i < pool->streams->len; i++) {
        const SimStreamPool *part = g_ptr_array_index(pool->streams, i);
        const SimBlock *block =
            part == NULL ? NULL : sim_block_index_get(sim_block_index_last(&part->free));
        if (block != NULL) {
            largest = MAX(largest, block->size);
        }
    }
    return largest;
}
