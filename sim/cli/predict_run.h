/* SPDX-License-Identifier: Apache-2.0
 *
 * One run of `fsdpsim predict`: settings, cluster, plan, prediction. Some pictures compare several,
 * which differ in a setting or two.
 */
#pragma once

#include "cli/predict_options.h"
#include "hardware/cluster.h"
#include "plan/plan.h"
#include "predict/prediction.h"

typedef struct SimPredictRun {
    SimSettings *settings;
    SimCluster *cluster;
    SimPlan *plan;
    SimPrediction *prediction;
} SimPredictRun;

/* What the options say, but for CHANGES: names and values of settings by turns, ended by NULL; or
 * NULL. Finds the model and builds its plan, or loads the plan. Errors of all of these; RUN must be
 * freed in any case. */
bool sim_predict_run_prepare(SimPredictRun *run, const SimPredictOptions *options,
                             const char *const *changes, GError **error);

/* Plays it. Errors as sim_prediction_new. */
bool sim_predict_run_play(SimPredictRun *run, const SimPredictionOptions *options, GError **error);

void sim_predict_run_done(SimPredictRun *run);
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC(SimPredictRun, sim_predict_run_done)
