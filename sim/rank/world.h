/* SPDX-License-Identifier: Apache-2.0
 *
 * The insides of a simulation, for the files of this folder that read it after the run.
 */
#pragma once

#include "engine/clock.h"
#include "engine/event_queue.h"
#include "fabric/collective_cache.h"
#include "fabric/flows.h"
#include "fabric/links.h"
#include "rank/rank.h"
#include "rank/simulation.h"

struct SimSimulation {
    const SimPlan *plan;
    const SimCluster *cluster;
    SimSimulationOptions options;
    SimPartition *partition;
    SimRankProgram **programs;  /* [partition->programs] */
    SimMemoryRun **memory_runs; /* [partition->programs]; NULL where each rank has its own */
    SimRankWorld world;
    SimRunTable *runs;
    SimPace pace;
    uint64_t *slowness; /* [ranks] of kernels, in 2^-32; NULL: all alike */
    SimCommunicators *communicators;
    SimRank *ranks;        /* [entities] */
    SimGroupShape *shapes; /* [communicators] */
    SimCollectiveCache *costs;
    SimLinks *links;
    SimFlows *flows;
    SimEventQueue *queue;
    SimClock clock;
    uint64_t done, total; /* collectives */
    SimResult result;
};
