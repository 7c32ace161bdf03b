/* SPDX-License-Identifier: Apache-2.0
 *
 * Where the members of a communicator sit: all that the cost of a collective depends on.
 */
#pragma once

#include "hardware/cluster.h"

#include <stdint.h>

typedef struct SimGroupShape {
    uint32_t ranks;
    uint32_t nodes;             /* nodes that hold at least one */
    uint32_t max_ranks_in_node; /* of the fullest one */
    uint32_t min_ranks_in_node; /* of the emptiest that holds one */
    uint32_t nics;              /* next to its GPUs in a node, the fewest */
} SimGroupShape;

/* The NICs of its node that are next to RANK's GPU, FIRST to END - 1: at least one, which GPUs
 * share where there are fewer NICs than GPUs. */
void sim_group_shape_nics(const SimCluster *cluster, uint32_t rank, uint32_t *first, uint32_t *end);

/* Members in any order; each below cluster->gpus. O(count log count). */
SimGroupShape sim_group_shape_compute(const SimCluster *cluster, const uint32_t *ranks,
                                      uint32_t count);
