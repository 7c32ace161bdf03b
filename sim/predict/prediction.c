/* SPDX-License-Identifier: Apache-2.0 */
#include "predict/prediction.h"

#include <string.h>

#include "base/error.h"
#include "predict/expandable_hint.h"
#include "predict/memory_settings.h"
#include "predict/unequal_settings.h"

struct SimPrediction {
    const SimPlan *plan;
    SimAllocatorConfig allocator;
    uint64_t hbm_bytes;
    SimSimulation *simulation;
    SimSummary *summary;
};

SimPrediction *sim_prediction_new(const SimPlan *plan, SimCluster *cluster,
                                  const SimSettings *settings, const SimPredictionOptions *options,
                                  GError **error)
{
    g_autoptr(SimPrediction) prediction = g_new0(SimPrediction, 1);
    prediction->plan = plan;
    cluster->library = (SimCommLibrary)settings->collectives;
    if (!sim_cluster_choose_gpus(cluster, sim_plan_ranks(plan), error) ||
        !sim_memory_settings_read(plan, cluster, settings, &prediction->allocator,
                                  &prediction->hbm_bytes, error)) {
        return NULL;
    }
    SimSimulationOptions simulation = {
        .allocator = &prediction->allocator,
        .hbm_bytes = prediction->hbm_bytes,
        .fold = settings->fold == SIM_FOLD_AUTO,
        .keep_memory_events = options->keep_memory_events,
        .progress = options->progress,
        .user_data = options->user_data,
    };
    if (!sim_unequal_settings_read(settings, cluster, &simulation, error)) {
        return NULL;
    }
    prediction->simulation = sim_simulation_new(plan, cluster, &simulation, error);
    g_clear_pointer(&simulation.slow_ranks, g_array_unref);
    if (prediction->simulation == NULL) {
        return NULL;
    }
    const SimResult *result = sim_simulation_run(prediction->simulation);
    prediction->summary =
        sim_summary_new(plan, cluster, prediction->simulation, result, prediction->hbm_bytes);
    SimMemorySummary *memory = &prediction->summary->memory;
    if (memory->history->is_oom) {
        memory->expandable_hint = sim_expandable_hint_compute(
            plan, memory->rank, &prediction->allocator, prediction->hbm_bytes);
    }
    return g_steal_pointer(&prediction);
}

void sim_prediction_free(SimPrediction *prediction)
{
    if (prediction == NULL) {
        return;
    }
    sim_summary_free(prediction->summary);
    sim_simulation_free(prediction->simulation);
    g_free(prediction);
}

const SimSummary *sim_prediction_summary(const SimPrediction *prediction)
{
    return prediction->summary;
}

uint64_t sim_prediction_hbm_bytes(const SimPrediction *prediction)
{
    return prediction->hbm_bytes;
}

bool sim_prediction_is_good(const SimPrediction *prediction)
{
    return prediction->summary->memory.fits && prediction->summary->result->blocked->len == 0;
}

/* --- ranks to look at --------------------------------------------------------------------------
 */

/* "N" or "N-M" of 0..RANKS-1. */
static bool parse_range(const char *text, uint32_t ranks, int64_t *first, int64_t *last,
                        GError **error)
{
    g_auto(GStrv) ends = g_strsplit(text, "-", 2);
    const char *end = ends[0] != NULL && ends[1] != NULL ? ends[1] : ends[0];
    if (ends[0] == NULL || !sim_units_parse_int64(ends[0], 0, ranks - 1, first, error) ||
        !sim_units_parse_int64(end, *first, ranks - 1, last, error)) {
        g_prefix_error(error, "--ranks: '%s': ", text);
        return false;
    }
    return true;
}

static bool parse_ranks(const char *text, uint32_t ranks, bool *is_chosen, GError **error)
{
    g_auto(GStrv) items = g_strsplit(text, ",", -1);
    for (char **item = items; *item != NULL; item++) {
        int64_t first = 0, last = 0;
        if (!parse_range(*item, ranks, &first, &last, error)) {
            return false;
        }
        for (int64_t rank = first; rank <= last; rank++) {
            is_chosen[rank] = true;
        }
    }
    return true;
}

SimRecorder *sim_prediction_record(const SimPrediction *prediction, const char *ranks,
                                   GError **error)
{
    uint32_t count = sim_plan_ranks(prediction->plan);
    g_autofree bool *is_chosen = g_new0(bool, count);
    if (ranks == NULL) {
        for (uint32_t i = 0; i < sim_simulation_classes(prediction->simulation); i++) {
            is_chosen[sim_simulation_class_rank(prediction->simulation, i)] = true;
        }
    } else if (strcmp(ranks, "all") == 0) {
        memset(is_chosen, true, count * sizeof *is_chosen);
    } else if (!parse_ranks(ranks, count, is_chosen, error)) {
        return NULL;
    }
    SimRecorder *recorder = sim_recorder_new(prediction->plan);
    for (uint32_t rank = 0; rank < count; rank++) {
        if (is_chosen[rank]) {
            sim_recorder_sort(sim_simulation_record(prediction->simulation, rank, recorder));
        }
    }
    return recorder;
}
