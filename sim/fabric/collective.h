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
 * NCCL's choice of algorithm is its own (fabric/selector.h); the time then comes from the constants
 * measured for that pair (hardware/comm.h), or where none are, from what NCCL itself expects. A set
 * of constants without a tuner has no such choice: the cheapest by its constants is taken. MPI's
 * and Gloo's algorithms: fabric/host_algorithm.h.
 *
 * Every algorithm is one volume over the group's route: rings carry (N-1)/N of the buffer over each
 * link and all-reduces twice that; trees between n nodes 2 (n-1)/n; NVLS the whole buffer once.
 * Limitation: a tree's volume is spread evenly over a node's NICs and ports as a ring's is.
 */
#pragma once

#include "base/units.h"
#include "fabric/group_shape.h"
#include "fabric/volume.h"
#include "hardware/cluster.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct SimCollectiveRequest {
    SimCommOperation operation;
    uint64_t
        bytes; /* the full buffer: all-gather output, reduce-scatter input, the whole otherwise */
    bool in_place; /* the own shard is where it belongs already (FSDP2's all-gather) */
    SimGroupShape shape;
} SimCollectiveRequest;

typedef struct SimCollectiveCost {
    SimCommAlgorithm algorithm;
    SimCommProtocol protocol;
    uint32_t channels;   /* thread blocks: SMs held on every member */
    SimTime latency;     /* before the volume moves, or all of it if there is none */
    SimVolume volume;    /* over each link, to be multiplied with the route's weights */
    uint64_t rate;       /* bytes a second it reaches alone */
    uint64_t wire_bytes; /* sent by each rank, rounded up */
} SimCollectiveCost;

/* A group of one rank costs a copy, or nothing in place. O(rows of the constants). */
SimCollectiveCost sim_collective_compute(const SimCluster *cluster,
                                         const SimCollectiveRequest *request);

/* How long it takes with its links to itself: latency + volume / rate, rounded up. */
SimTime sim_collective_alone(const SimCollectiveCost *cost);
