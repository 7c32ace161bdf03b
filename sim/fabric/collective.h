/* SPDX-License-Identifier: Apache-2.0
 *
 * What one collective costs, as one flow: a latency part during which it uses no link, then a
 * volume that moves at no more than `rate` and shares its links with other flows. Never one message
 * a step: a ring of N ranks is one flow that crosses link classes (fabric/links.h).
 *
 * Ring all-gather on four ranks, S = 4 shards: three steps, in each every rank passes one shard of
 * S/4 on to its right neighbour, so each edge carries 3/4 S:
 *
 *     rank 0: a...      rank 0: a..d      rank 0: a.cd      rank 0: abcd
 *     rank 1: .b..  ->  rank 1: ab..  ->  rank 1: ab.d  ->  rank 1: abcd
 *     rank 2: ..c.      rank 2: .bc.      rank 2: abc.      rank 2: abcd
 *     rank 3: ...d      rank 3: ..cd      rank 3: .bcd      rank 3: abcd
 *
 * Limitation: of NCCL's algorithms ring (LL, Simple) and, in one node, NVLS all-reduce; the cheaper
 * by these constants is taken. Sizes that do not divide by N count S/N exactly.
 */
#pragma once

#include "base/units.h"
#include "fabric/volume.h"
#include "hardware/cluster.h"

#include <stdbool.h>
#include <stdint.h>

/* Where the members of a communicator sit. */
typedef struct SimGroupShape {
    uint32_t ranks;
    uint32_t nodes;             /* nodes that hold at least one */
    uint32_t max_ranks_in_node; /* of the fullest one */
    uint32_t min_ranks_in_node; /* of the emptiest that holds one */
    uint32_t nics;              /* next to its GPUs in a node, the fewest */
} SimGroupShape;

typedef struct SimCollectiveRequest {
    SimCommOperation operation;
    uint64_t
        bytes; /* the full buffer: all-gather output, reduce-scatter input, the whole otherwise */
    bool in_place; /* the own shard is where it belongs already (FSDP2's all-gather) */
    SimGroupShape shape;
} SimCollectiveRequest;

typedef struct SimCollectiveCost {
    SimCommProtocol protocol;
    uint32_t channels;   /* thread blocks: SMs held on every member */
    SimTime latency;     /* before the volume moves, or all of it if there is none */
    SimVolume volume;    /* over each link, to be multiplied with the route's weights */
    uint64_t rate;       /* bytes a second it reaches alone */
    uint64_t wire_bytes; /* sent by each rank, rounded up */
} SimCollectiveCost;

/* The NICs of its node that are next to RANK's GPU, FIRST to END - 1: at least one, which GPUs
 * share where there are fewer NICs than GPUs. */
void sim_collective_nics(const SimCluster *cluster, uint32_t rank, uint32_t *first, uint32_t *end);

/* Members in any order; each below cluster->gpus. O(count log count). */
SimGroupShape sim_collective_shape(const SimCluster *cluster, const uint32_t *ranks,
                                   uint32_t count);

/* A group of one rank costs a copy, or nothing in place. O(rows of the constants). */
SimCollectiveCost sim_collective_compute(const SimCluster *cluster,
                                         const SimCollectiveRequest *request);

/* How long it takes with its links to itself: latency + volume / rate, rounded up. */
SimTime sim_collective_alone(const SimCollectiveCost *cost);
