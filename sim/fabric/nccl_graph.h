/* SPDX-License-Identifier: Apache-2.0
 *
 * The channels that NCCL 2.30.7 sets up for a communicator: how many, and what it takes each to
 * carry. Its choice of algorithm (fabric/nccl_cost.h) rests on nothing else of the machine.
 *
 * NCCL searches paths through the node for one speed after the other of a fixed list, highest
 * first, and keeps the largest channels x speed (src/graph/search.cc, ncclTopoCompute). In a node
 * where a switch joins all GPUs and each has its NIC, which paths exist is a matter of capacity
 * alone, so the result has a closed form:
 *
 *   ring      inside a node: each channel takes its speed from every GPU's links. Across nodes: it
 *             takes its speed from one NIC, and from g - 1 of g GPUs. Few fast channels are split
 *             in two.
 *   tree      as many channels as rings. Between nodes NCCL first tries the tree that spreads a
 *             NIC over two GPUs, which needs both next to it; where each has its own it keeps, on
 *             Hopper and later, the plain one.
 *   NVLS      one channel a GPU that pulls from the switch, which costs that GPU double.
 *
 * Speeds are in GB/s and float, as there. Limitations: no machines without a switch, one NIC (or a
 * whole number of them) a GPU, no CollNet (SHARP needs a plugin).
 */
#pragma once

#include "fabric/group_shape.h"
#include "hardware/cluster.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct SimNcclGraph {
    uint32_t channels; /* 0 = there is none */
    float intra;       /* GB/s a channel, inside the node */
    float inter;       /* and between nodes */
} SimNcclGraph;

typedef struct SimNcclGraphs {
    SimNcclGraph ring;
    SimNcclGraph tree;
    SimNcclGraph nvls;
    bool has_plain_trees;   /* all of a node's traffic through the first GPU */
    uint32_t channels;      /* thread blocks at most, rings and trees */
    uint32_t nvls_channels; /* the same of NVLS and NVLSTree */
} SimNcclGraphs;

/* SHAPE of at least two ranks; the cluster's constants must have a tuner. O(1). */
SimNcclGraphs sim_nccl_graph_compute(const SimCluster *cluster, const SimGroupShape *shape);
