/* SPDX-License-Identifier: Apache-2.0
 *
 * A plan played on a cluster and summed up: what `fsdpsim predict` does once it has the plan.
 */
#pragma once

#include "hardware/cluster.h"
#include "job/settings.h"
#include "predict/summary.h"
#include "trace/recorder.h"

#include <glib.h>
#include <stdbool.h>

typedef struct SimPredictionOptions {
    bool keep_memory_events;            /* for the memory rows of sim_prediction_record */
    SimSimulationProgressFunc progress; /* may be NULL */
    void *user_data;
} SimPredictionOptions;

typedef struct SimPrediction SimPrediction;

/* Plays PLAN (sound) on CLUSTER, whose GPUs in use become the plan's ranks. Of SETTINGS it reads
 * allocator, hbm and fold. Borrows PLAN and CLUSTER. Errors PARSE, RANGE (allocator, hbm), RANGE
 * (the cluster is too small), MISMATCH. */
SimPrediction *sim_prediction_new(const SimPlan *plan, SimCluster *cluster,
                                  const SimSettings *settings, const SimPredictionOptions *options,
                                  GError **error);
void sim_prediction_free(SimPrediction *prediction);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(SimPrediction, sim_prediction_free)

const SimSummary *sim_prediction_summary(const SimPrediction *prediction);

/* What the allocator may reserve; UINT64_MAX = no end. */
uint64_t sim_prediction_hbm_bytes(const SimPrediction *prediction);

/* Spans and allocator events of RANKS: "all", "0-7,64", or NULL for the first rank of each class of
 * equal ranks. Errors PARSE, RANGE. Owned by the caller. */
SimRecorder *sim_prediction_record(const SimPrediction *prediction, const char *ranks,
                                   GError **error);

/* True if the answer is yes: it fits and it ends. */
bool sim_prediction_is_good(const SimPrediction *prediction);
