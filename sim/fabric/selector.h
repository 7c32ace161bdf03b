/* SPDX-License-Identifier: Apache-2.0
 *
 * Which algorithm, which protocol and how many channels NCCL 2.30.7 takes for a collective: the
 * least of its cost table (fabric/nccl_cost.h), then src/enqueue.cc: topoGetAlgoInfo for the
 * channels that have enough work, scheduleCollTasksToPlan for those that get some.
 *
 * Multi-node NVLS needs CollNet, which is not there; see the limitations of fabric/nccl_cost.h.
 */
#pragma once

#include "fabric/nccl_graph.h"
#include "hardware/cluster.h"

#include <stdint.h>

typedef struct SimSelection {
    SimCommAlgorithm algorithm;
    SimCommProtocol protocol;
    uint32_t max_channels; /* with enough work for their threads: nMaxChannels */
    uint32_t channels;     /* thread blocks launched; of LL up to four times as many */
} SimSelection;

/* BYTES is the full buffer. GRAPHS of CLUSTER and SHAPE; the cluster's constants must have a
 * tuner. O(1). */
SimSelection sim_selector_compute(const SimCluster *cluster, const SimGroupShape *shape,
                                  const SimNcclGraphs *graphs, SimCommOperation operation,
                                  uint64_t bytes);
