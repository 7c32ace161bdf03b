/* SPDX-License-Identifier: Apache-2.0
 *
 * What NCCL 2.30.7 expects a collective to take, by algorithm and protocol: the table from which it
 * takes the least. In float and double exactly where it does, as arguments near a tie decide.
 *
 *     time = latency + bytes / (1000 GB/s)            src/graph/tuning.cc, ncclTopoGetAlgoTime
 *
 * with what ncclTopoTuneModel makes of its constants and of the channels (fabric/nccl_graph.h).
 * These are expectations that choose well; the times of the simulation come from measured constants
 * where there are some (fabric/collective.h).
 *
 * Limitations: default environment, no tuner plugin, no CollNet, no registered buffers (so no
 * symmetric-memory kernels or copy engines), no fp8 reductions, one collective a launch.
 */
#pragma once

#include "fabric/nccl_graph.h"
#include "hardware/cluster.h"

#include <stdint.h>

typedef struct SimNcclCost {
    float latency;   /* microseconds */
    float bandwidth; /* GB/s of the whole buffer; 0 = does not exist */
} SimNcclCost;

/* For BYTES, the full buffer; GRAPHS of CLUSTER and SHAPE. O(1). */
SimNcclCost sim_nccl_cost_compute(const SimCluster *cluster, const SimGroupShape *shape,
                                  const SimNcclGraphs *graphs, SimCommOperation operation,
                                  SimCommAlgorithm algorithm, SimCommProtocol protocol,
                                  uint64_t bytes);

/* Microseconds that NCCL expects for BYTES, below zero if it does not exist. */
float sim_nccl_cost_time(SimNcclCost cost, uint64_t bytes);
