/* SPDX-License-Identifier: Apache-2.0
 *
 * A plan played in virtual time on a cluster: every rank's host, streams and allocator, and the
 * collectives between them. It takes a plan and knows nothing of how plans are made.
 *
 * Order of business: ranks are partitioned (partition.h); each distinct set of rows is compiled
 * (rank_program.h) after its memory has been played (memory_run.h); then ranks advance until they
 * wait for collectives, and the one thing driven by an event queue is the collectives: one start,
 * and what the flows between (fabric/flows.h) need. That keeps events at a few a collective,
 * however many kernels there are.
 *
 * Causality: a start not yet known depends on a collective that has not ended, so it cannot come
 * before the earliest event in the queue.
 *
 * Folded and unfolded runs give the same result (partition.h).
 *
 * Kernels slow down while a collective holds part of the GPU (rank_streams.h).
 */
#pragma once

#include "hardware/cluster.h"
#include "plan/plan.h"
#include "rank/memory_run.h"
#include "rank/result.h"
#include "trace/recorder.h"

#include <glib.h>
#include <stdbool.h>
#include <stdint.h>

/* Called now and then with how many of the collectives have ended. */
typedef void (*SimSimulationProgressFunc)(uint64_t done, uint64_t total, void *user_data);

/* A rank whose kernels and copies take FACTOR times as long. */
typedef struct SimSlowRank {
    uint32_t rank;
    double factor;
} SimSlowRank;

typedef struct SimSimulationOptions {
    const SimAllocatorConfig *allocator; /* NULL = PyTorch's defaults */
    uint64_t hbm_bytes;                  /* what the allocator may reserve; UINT64_MAX = no end */
    bool fold;
    double jitter;           /* of kernels, per cent (pace.h); 0 = none */
    uint64_t seed;           /* of the jitter */
    GArray *slow_ranks;      /* of SimSlowRank, read by sim_simulation_new; NULL = none */
    bool keep_memory_events; /* for sim_simulation_record */
    SimSimulationProgressFunc progress; /* may be NULL */
    void *user_data;
} SimSimulationOptions;

typedef struct SimSimulation SimSimulation;

/* Borrows PLAN (sound: sim_plan_check) and CLUSTER. Errors MISMATCH: the plan's ranks are not the
 * cluster's gpus; a collective of a group in which its rank is not. RANGE: a slow rank that is none
 * of the plan's. */
SimSimulation *sim_simulation_new(const SimPlan *plan, const SimCluster *cluster,
                                  const SimSimulationOptions *options, GError **error);
void sim_simulation_free(SimSimulation *simulation);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(SimSimulation, sim_simulation_free)

/* Plays to the end, to the first rank out of memory, or until nothing moves. Once. Borrowed. */
const SimResult *sim_simulation_run(SimSimulation *simulation);

/* How many classes of ranks there are that nothing distinguishes, and the first rank of each. The
 * same folded and unfolded. */
uint32_t sim_simulation_classes(const SimSimulation *simulation);
uint32_t sim_simulation_class_of_rank(const SimSimulation *simulation, uint32_t rank);
uint32_t sim_simulation_class_rank(const SimSimulation *simulation, uint32_t class_);

/* The lowest rank of RANK's own communicator of GROUP among those that the simulated rank ENTITY
 * stands for; SIM_PLAN_NONE if there is none. */
uint32_t sim_simulation_late_rank(const SimSimulation *simulation, uint32_t rank, uint32_t group,
                                  uint32_t entity);

/* After the run: RANK's spans (in host order) and allocator events as a new track of RECORDER.
 * What was compiled away is computed again from the times of collectives and events. O(rows). */
SimTrack *sim_simulation_record(const SimSimulation *simulation, uint32_t rank,
                                SimRecorder *recorder);
