/* SPDX-License-Identifier: Apache-2.0
 *
 * Pictures of `fsdpsim predict`, and the further runs that some of them compare with.
 */
#pragma once

#include "cli/predict_options.h"
#include "cli/predict_run.h"
#include "trace/recorder.h"

#include <glib.h>

/* The figure that OPTIONS ask for. RECORDER: tracks of the ranks that sim_figure_runs_ranks names.
 * The SVG, owned by the caller. Errors: those of the other runs. */
char *sim_figure_runs_draw(const SimPredictOptions *options, const SimPredictRun *run,
                           const SimRecorder *recorder, GError **error);

/* The ranks that pictures show: that with the highest peak and that with the longest step, as
 * --ranks takes them. Owned by the caller. */
char *sim_figure_runs_ranks(const SimPredictRun *run);

/* RANK's track. */
const SimTrack *sim_figure_runs_track(const SimRecorder *recorder, uint32_t rank);

/* Peaks of the job on 2, 4, 8, ... ranks, up to sixteen times the run's; numbers that the job or
 * the cluster does not allow are left out, and of a loaded plan there is one point. Of
 * SimRankPoint, owned by the caller. */
GArray *sim_figure_runs_sweep(const SimPredictOptions *options, const SimPredictRun *run);
