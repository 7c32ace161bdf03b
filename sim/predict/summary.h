/* SPDX-License-Identifier: Apache-2.0
 *
 * The answer of a prediction: everything the summary JSON (fsdpsim.summary/1, traces/README.md) and
 * the text summary say. All of it comes from the run and from the plan's meta rows; what a
 * hand-written plan leaves out is absent here.
 */
#pragma once

#include "base/json.h"
#include "hardware/cluster.h"
#include "predict/expandable_hint.h"
#include "predict/time_split.h"
#include "predict/waiting.h"
#include "rank/simulation.h"

#include <glib.h>
#include <stdbool.h>
#include <stdint.h>

/* Where in the training something happened; borrowed text. */
typedef struct SimMoment {
    int32_t step; /* -1 = none */
    const char *phase;
    const char *unit;
} SimMoment;

/* Of the rank with the highest peak of reserved, then of allocated memory. */
typedef struct SimMemorySummary {
    uint32_t rank;
    uint64_t min_reserved_bytes, median_reserved_bytes, max_reserved_bytes; /* peaks, all ranks */
    SimMemoryPeaks peaks;
    uint64_t context_bytes, communicator_bytes, device_peak_bytes;
    uint64_t capacity_bytes;
    bool fits;
    SimMoment peak;                    /* when allocated memory peaked */
    SimMoment oom_at;                  /* if it ran out */
    SimExpandableHint expandable_hint; /* would expandable segments have helped? */
    const SimMemoryHistory *history;
    const SimRankProgram *program; /* its phases, beside the history's */
} SimMemorySummary;

/* Of the last step, on the rank whose last step is longest. */
typedef struct SimTimeSummary {
    uint32_t rank;
    int32_t step; /* -1: the plan has no steps, all of it is one */
    SimTime begin, end;
    SimTime forward, backward, optimizer;
    SimTimeSplit split;
} SimTimeSummary;

typedef struct SimThroughput {
    double tokens_per_second_per_gpu, tokens_per_second;
    double model_flops_utilization;
    double gpu_hours_per_billion_tokens;
} SimThroughput;

typedef struct SimSummary {
    const SimPlan *plan; /* borrowed, as all below unless owned */
    const SimResult *result;
    cJSON *config; /* owned; NULL if the plan does not say */
    cJSON *model;  /* owned; NULL if the plan does not say */
    SimMemorySummary memory;
    bool has_time; /* false after an OOM or a deadlock */
    SimTimeSummary time;
    bool has_throughput; /* time, and the plan says how many tokens and FLOPs */
    SimThroughput throughput;
    SimWaiting *waiting;             /* owned; NULL without a time */
    GArray *communication;           /* of SimCommunicationLine; owned */
    char *memory_basis, *time_basis; /* owned */
    GPtrArray *warnings;             /* of char *; owned */
} SimSummary;

/* What a summary rests on besides the run. HBM_BYTES: the allocator's limit (UINT64_MAX = none). */
SimSummary *sim_summary_new(const SimPlan *plan, const SimCluster *cluster,
                            const SimSimulation *simulation, const SimResult *result,
                            uint64_t hbm_bytes);
void sim_summary_free(SimSummary *summary);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(SimSummary, sim_summary_free)

/* How many communicators of more than one rank the plan uses: each takes device memory. */
uint32_t sim_summary_communicators(const SimPlan *plan);
