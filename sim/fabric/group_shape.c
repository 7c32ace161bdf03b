/* SPDX-License-Identifier: Apache-2.0 */
#include "fabric/group_shape.h"

#include <stdlib.h>

void sim_group_shape_nics(const SimCluster *cluster, uint32_t rank, uint32_t *first, uint32_t *end)
{
    uint64_t local = rank % cluster->gpus_per_node;
    uint64_t nics = cluster->nics_per_node;
    *first = (uint32_t)(local * nics / cluster->gpus_per_node);
    uint32_t next = (uint32_t)((local + 1) * nics / cluster->gpus_per_node);
    *end = MAX(*first + 1, next);
}

static int compare_ranks(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

/* How many NICs are next to the COUNT GPUs, all in one node and ascending. */
static uint32_t count_nics(const SimCluster *cluster, const uint32_t *ranks, uint32_t count)
{
    uint32_t nics = 0, next = 0;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t first, end;
        sim_group_shape_nics(cluster, ranks[i], &first, &end);
        first = MAX(first, next);
        nics += end > first ? end - first : 0;
        next = end;
    }
    return nics;
}

SimGroupShape sim_group_shape_compute(const SimCluster *cluster, const uint32_t *ranks,
                                      uint32_t count)
{
    g_assert(count >= 1);
    g_autofree uint32_t *sorted = g_memdup2(ranks, count * sizeof(*sorted));
    qsort(sorted, count, sizeof(*sorted), compare_ranks);
    g_assert(sorted[count - 1] < cluster->gpus);
    SimGroupShape shape = {.ranks = count, .min_ranks_in_node = count, .nics = UINT32_MAX};
    uint32_t size = cluster->gpus_per_node;
    for (uint32_t begin = 0, end; begin < count; begin = end) {
        for (end = begin; end < count && sorted[end] / size == sorted[begin] / size; end++)
            ;
        shape.nodes++;
        shape.max_ranks_in_node = MAX(shape.max_ranks_in_node, end - begin);
        shape.min_ranks_in_node = MIN(shape.min_ranks_in_node, end - begin);
        shape.nics = MIN(shape.nics, count_nics(cluster, sorted + begin, end - begin));
    }
    return shape;
}
