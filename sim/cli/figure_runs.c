/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/figure_runs.h"

#include "report/figure_ddp_fsdp.h"
#include "report/figure_memory.h"
#include "report/figure_ranks.h"
#include "report/figure_timeline.h"
#include "report/figure_workflow.h"
#include "report/rank_point.h"

#define MOST_TIMES 16

char *sim_figure_runs_ranks(const SimPredictRun *run)
{
    const SimSummary *summary = sim_prediction_summary(run->prediction);
    uint32_t memory = summary->memory.rank;
    uint32_t time = summary->has_time ? summary->time.rank : memory;
    return memory == time ? g_strdup_printf("%u", memory) : g_strdup_printf("%u,%u", memory, time);
}

const SimTrack *sim_figure_runs_track(const SimRecorder *recorder, uint32_t rank)
{
    for (size_t i = 0; i < sim_recorder_count(recorder); i++) {
        if (sim_recorder_track(recorder, i)->rank == rank) {
            return sim_recorder_track(recorder, i);
        }
    }
    g_assert_not_reached();
}

/* A whole run that differs by CHANGES. */
static bool play(SimPredictRun *run, const SimPredictOptions *options, const char *const *changes,
                 GError **error)
{
    SimPredictionOptions prediction = {.keep_memory_events = false};
    return sim_predict_run_prepare(run, options, changes, error) &&
           sim_predict_run_play(run, &prediction, error);
}

static bool is_wanted(uint32_t ranks, uint32_t own)
{
    bool is_power = (ranks & (ranks - 1)) == 0;
    return ranks == own || (is_power && ranks >= 2);
}

GArray *sim_figure_runs_sweep(const SimPredictOptions *options, const SimPredictRun *run)
{
    GArray *points = g_array_new(FALSE, FALSE, sizeof(SimRankPoint));
    uint32_t own = sim_plan_ranks(run->plan);
    for (uint32_t ranks = 1; ranks <= MIN(own * MOST_TIMES, SIM_PLAN_MAX_RANKS); ranks++) {
        if (!is_wanted(ranks, own)) {
            continue;
        }
        char number[16];
        const char *changes[] = {"gpus", number, NULL};
        g_snprintf(number, sizeof number, "%u", ranks);
        g_auto(SimPredictRun) other = {0};
        if (ranks == own) {
            SimRankPoint point = sim_rank_point_compute(sim_prediction_summary(run->prediction));
            g_array_append_val(points, point);
        } else if (options->from_plan == NULL && play(&other, options, changes, NULL)) {
            SimRankPoint point = sim_rank_point_compute(sim_prediction_summary(other.prediction));
            g_array_append_val(points, point);
        }
    }
    return points;
}

/* The job once more under the other of DDP and FSDP2. DDP stores f32; autocast makes it compute in
 * bf16 as FSDP does. */
static char *draw_ddp_fsdp(const SimPredictOptions *options, const SimPredictRun *run,
                           GError **error)
{
    static const char *const ddp[] = {"api", "ddp",      "param-dtype", "f32", "store-dtype",
                                      "f32", "autocast", "on",          NULL};
    static const char *const fsdp[] = {"api", "fsdp2", NULL};
    const SimSummary *summary = sim_prediction_summary(run->prediction);
    bool is_ddp = run->settings->api == SIM_API_DDP;
    g_auto(SimPredictRun) other = {0};
    if (!play(&other, options, is_ddp ? fsdp : ddp, error)) {
        return NULL;
    }
    const SimSummary *more = sim_prediction_summary(other.prediction);
    return is_ddp ? sim_figure_ddp_fsdp_draw(summary, more)
                  : sim_figure_ddp_fsdp_draw(more, summary);
}

char *sim_figure_runs_draw(const SimPredictOptions *options, const SimPredictRun *run,
                           const SimRecorder *recorder, GError **error)
{
    const SimSummary *summary = sim_prediction_summary(run->prediction);
    uint32_t memory = summary->memory.rank;
    uint32_t time = summary->has_time ? summary->time.rank : memory;
    switch (options->figure) {
    case SIM_FIGURE_TIMELINE:
        return sim_figure_timeline_draw(summary, sim_figure_runs_track(recorder, time));
    case SIM_FIGURE_MEMORY:
        return sim_figure_memory_draw(summary, sim_figure_runs_track(recorder, memory));
    case SIM_FIGURE_WORKFLOW:
        return sim_figure_workflow_draw(run->plan);
    case SIM_FIGURE_DDP_FSDP:
        return draw_ddp_fsdp(options, run, error);
    case SIM_FIGURE_RANKS: {
        g_autoptr(GArray) points = sim_figure_runs_sweep(options, run);
        return sim_figure_ranks_draw(points);
    }
    case SIM_FIGURE_COUNT:
        break;
    }
    g_assert_not_reached();
}
