/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <unistd.h>

#include "base/error.h"
#include "base/models_folder.h"
#include "cli/command.h"
#include "cli/predict_options.h"
#include "plan/plan_csv.h"
#include "predict/model_file.h"
#include "predict/plan_source.h"
#include "predict/prediction.h"
#include "predict/summary_json.h"
#include "report/summary_text.h"
#include "trace/memory_csv.h"
#include "trace/timeline_csv.h"

/* Everything that lives as long as the command. */
typedef struct Work {
    SimPredictOptions options;
    SimSettings *settings;
    SimCluster *cluster;
    SimPlan *plan;
    SimPrediction *prediction;
    SimOutputFile *files[SIM_OUTPUT_COUNT];
    int64_t started_us;
    bool has_progress;
} Work;

static void free_work(Work *work)
{
    for (size_t i = 0; i < SIM_OUTPUT_COUNT; i++) {
        sim_output_file_free(work->files[i]);
    }
    sim_prediction_free(work->prediction);
    sim_plan_free(work->plan);
    sim_cluster_free(work->cluster);
    sim_settings_free(work->settings);
    sim_predict_options_done(&work->options);
}

/* --- progress ----------------------------------------------------------------------------------
 */

/* For whoever waits more than a second at a terminal. */
static void show_progress(uint64_t done, uint64_t total, void *user_data)
{
    Work *work = user_data;
    if (g_get_monotonic_time() - work->started_us > G_USEC_PER_SEC) {
        fprintf(stderr, "\r%3.0f %% of %" G_GUINT64_FORMAT " collectives",
                100.0 * (double)done / (double)total, total);
        work->has_progress = true;
    }
}

static void clear_progress(Work *work)
{
    if (work->has_progress) {
        fputs("\r\033[K", stderr);
        work->has_progress = false;
    }
}

/* --- the plan ----------------------------------------------------------------------------------
 */

/* Options win over the file, so they come first; of a plan's own settings they take the place. */
static bool read_settings(Work *work, GError **error)
{
    const SimPredictOptions *options = &work->options;
    work->settings = sim_settings_new();
    if (options->from_plan != NULL) {
        work->plan = sim_plan_csv_load(options->from_plan, error);
        if (work->plan == NULL || !sim_plan_source_adopt(work->plan, work->settings, error)) {
            return false;
        }
    }
    if (!sim_predict_options_apply(options, work->settings, error)) {
        return false;
    }
    return options->config == NULL || sim_settings_load(work->settings, options->config, error);
}

static bool make_plan(Work *work, const char *models, GError **error)
{
    work->cluster = sim_cluster_load(models, work->settings->cluster, error);
    if (work->cluster == NULL) {
        return false;
    }
    if (work->plan != NULL) {
        sim_plan_source_amend(work->plan, work->settings);
        return true;
    }
    g_autofree char *model = sim_model_file_find(models, work->options.model, error);
    if (model == NULL) {
        return false;
    }
    work->plan = sim_plan_source_build(work->settings, work->cluster, model, error);
    return work->plan != NULL;
}

/* --- outputs -----------------------------------------------------------------------------------
 */

/* Before the work, so that a folder that cannot be written is found at once. */
static bool open_files(Work *work, GError **error)
{
    for (size_t i = 0; i < SIM_OUTPUT_COUNT; i++) {
        if (work->options.outputs[i] != NULL) {
            work->files[i] = sim_output_file_new(work->options.outputs[i], error);
            if (work->files[i] == NULL) {
                return false;
            }
        }
    }
    return true;
}

static bool write_files(Work *work, GError **error)
{
    if (work->files[SIM_OUTPUT_JSON] != NULL) {
        sim_summary_json_save(sim_prediction_summary(work->prediction),
                              work->files[SIM_OUTPUT_JSON]);
    }
    if (work->files[SIM_OUTPUT_TIMELINE] != NULL || work->files[SIM_OUTPUT_MEMORY] != NULL) {
        g_autoptr(SimRecorder) recorder =
            sim_prediction_record(work->prediction, work->settings->ranks, error);
        if (recorder == NULL) {
            return false;
        }
        if (work->files[SIM_OUTPUT_TIMELINE] != NULL) {
            sim_timeline_csv_save(recorder, work->files[SIM_OUTPUT_TIMELINE]);
        }
        if (work->files[SIM_OUTPUT_MEMORY] != NULL) {
            sim_memory_csv_save(recorder, work->files[SIM_OUTPUT_MEMORY]);
        }
    }
    if (work->files[SIM_OUTPUT_PLAN] != NULL) {
        sim_plan_csv_save(work->plan, work->files[SIM_OUTPUT_PLAN]);
    }
    return sim_output_file_commit_all(work->files, SIM_OUTPUT_COUNT, error);
}

static bool predict(Work *work, GError **error)
{
    g_autofree char *models = sim_models_folder_find();
    if (models == NULL) {
        g_set_error(error, SIM_ERROR, SIM_ERROR_IO, "models: expected a folder, found none");
        return false;
    }
    if (!read_settings(work, error) || !make_plan(work, models, error) ||
        !open_files(work, error)) {
        return false;
    }
    SimPredictionOptions options = {
        .keep_memory_events = work->files[SIM_OUTPUT_MEMORY] != NULL,
        .progress = isatty(STDERR_FILENO) ? show_progress : NULL,
        .user_data = work,
    };
    work->prediction =
        sim_prediction_new(work->plan, work->cluster, work->settings, &options, error);
    clear_progress(work);
    return work->prediction != NULL && write_files(work, error);
}

static SimExit run(Work *work)
{
    GError *error = NULL;
    work->started_us = g_get_monotonic_time();
    if (!predict(work, &error)) {
        return sim_command_fail(error);
    }
    if (!sim_predict_options_use_stdout(&work->options)) {
        g_autofree char *text =
            sim_summary_text_print(sim_prediction_summary(work->prediction), work->cluster);
        SimExit printed = sim_command_print(text);
        if (printed != SIM_EXIT_DONE) {
            return printed;
        }
    }
    return sim_prediction_is_good(work->prediction) ? SIM_EXIT_DONE : SIM_EXIT_NO;
}

SimExit sim_command_predict(int argc, char **argv)
{
    Work work = {0};
    SimExit code;
    g_autofree char *message = NULL;
    g_set_prgname("fsdpsim predict");
    if (!sim_predict_options_parse(&work.options, argc, argv, &message)) {
        code = sim_command_misuse("predict", "%s", message);
    } else if (work.options.wants_help) {
        code = sim_command_print(work.options.help);
    } else {
        code = run(&work);
    }
    free_work(&work);
    return code;
}
