/* SPDX-License-Identifier: Apache-2.0 */
#include "fsdp/shard.h"

SimShard sim_shard_compute(const SimShape *shape, uint32_t dim, uint32_t ranks)
{
    g_assert(dim < shape->n_dims && ranks > 0);
    SimShard shard = {.rows = shape->dims[dim], .row_elements = 1};
    for (uint32_t i = 0; i < shape->n_dims; i++)
        if (i != dim)
            shard.row_elements *= shape->dims[i];
    shard.shard_rows = (shard.rows + ranks - 1) / ranks;
    shard.elements = shard.rows * shard.row_elements;
    shard.shard_elements = shard.shard_rows * shard.row_elements;
    shard.padded_elements = shard.shard_elements * ranks;
    return shard;
}

SimShard sim_shard_whole(const SimShape *shape)
{
    SimShard shard = sim_shard_compute(shape, 0, 1);
    shard.is_whole = true;
    return shard;
}

uint64_t sim_shard_true_rows(const SimShard *shard, uint32_t rank)
{
    if (shard->is_whole)
        return shard->rows;
    uint64_t first = rank * shard->shard_rows;
    if (first >= shard->rows)
        return 0;
    return MIN(shard->shard_rows, shard->rows - first);
}

void sim_shard_find_breaks(const SimShard *shard, uint32_t ranks, uint32_t *first_partial,
                           uint32_t *first_empty)
{
    if (shard->is_whole || shard->shard_rows == 0) {
        *first_partial = *first_empty = ranks;
        return;
    }
    uint64_t full = shard->rows / shard->shard_rows;
    uint64_t owners = (shard->rows + shard->shard_rows - 1) / shard->shard_rows;
    *first_partial = (uint32_t)MIN(full, ranks);
    *first_empty = (uint32_t)MIN(owners, ranks);
}
