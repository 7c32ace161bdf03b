/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/predict_files.h"

#include <errno.h>
#include <glib/gstdio.h>

#include "base/error.h"
#include "cli/figure_runs.h"
#include "plan/plan_csv.h"
#include "predict/summary_json.h"
#include "report/html_report.h"
#include "report/notebook.h"
#include "trace/chakra.h"
#include "trace/chrome_trace.h"
#include "trace/memory_csv.h"
#include "trace/memory_snapshot.h"
#include "trace/timeline_csv.h"

static void free_file(void *data)
{
    sim_output_file_free(data);
}

bool sim_predict_files_open(SimPredictFiles *files, const SimPredictOptions *options,
                            GError **error)
{
    *files = (SimPredictFiles){.in_folders = g_ptr_array_new_with_free_func(free_file)};
    for (size_t i = 0; i < SIM_OUTPUT_COUNT; i++) {
        const char *path = options->outputs[i];
        if (path == NULL) {
            continue;
        }
        if (!sim_predict_options_is_folder((SimPredictOutput)i)) {
            files->files[i] = sim_output_file_new(path, error);
            if (files->files[i] == NULL) {
                return false;
            }
        } else if (g_mkdir_with_parents(path, 0777) != 0) {
            g_set_error(error, SIM_ERROR, SIM_ERROR_IO, "%s: cannot be made: %s", path,
                        g_strerror(errno));
            return false;
        }
    }
    return true;
}

void sim_predict_files_done(SimPredictFiles *files)
{
    for (size_t i = 0; i < SIM_OUTPUT_COUNT; i++) {
        sim_output_file_free(files->files[i]);
    }
    g_clear_pointer(&files->in_folders, g_ptr_array_unref);
}

bool sim_predict_files_need_events(const SimPredictOptions *options)
{
    return options->outputs[SIM_OUTPUT_MEMORY] != NULL ||
           options->outputs[SIM_OUTPUT_TRACE] != NULL ||
           options->outputs[SIM_OUTPUT_SNAPSHOT] != NULL ||
           options->outputs[SIM_OUTPUT_REPORT] != NULL ||
           options->outputs[SIM_OUTPUT_NOTEBOOK] != NULL ||
           (options->outputs[SIM_OUTPUT_SVG] != NULL && options->figure == SIM_FIGURE_MEMORY);
}

/* --- recordings --------------------------------------------------------------------------------
 */

/* FOLDER/NAME, to be committed with the rest. Borrowed. */
static SimOutputFile *add_file(SimPredictFiles *files, const char *folder, const char *name,
                               GError **error)
{
    g_autofree char *path = g_build_filename(folder, name, NULL);
    SimOutputFile *file = sim_output_file_new(path, error);
    if (file != NULL) {
        g_ptr_array_add(files->in_folders, file);
    }
    return file;
}

/* A simulator of networks wants all ranks, so that is what it gets unless --ranks says otherwise.
 */
static bool write_chakra(SimPredictFiles *files, const char *folder, const SimPredictRun *run,
                         GError **error)
{
    const char *ranks = run->settings->ranks != NULL ? run->settings->ranks : "all";
    g_autoptr(SimRecorder) recorder = sim_prediction_record(run->prediction, ranks, error);
    SimOutputFile *groups =
        recorder != NULL ? add_file(files, folder, "comm_group.json", error) : NULL;
    if (groups == NULL) {
        return false;
    }
    sim_chakra_save_groups(run->plan, groups);
    for (size_t t = 0; t < sim_recorder_count(recorder); t++) {
        const SimTrack *track = sim_recorder_track(recorder, t);
        g_autofree char *name = g_strdup_printf("fsdpsim.%u.et", track->rank);
        SimOutputFile *file = add_file(files, folder, name, error);
        if (file == NULL) {
            return false;
        }
        sim_chakra_save(run->plan, track, file);
    }
    return true;
}

static bool write_notebook(SimPredictFiles *files, const SimPredictOptions *options,
                           const SimPredictRun *run, GError **error)
{
    static const char *const names[] = {"fsdpsim.ipynb", "summary.json", "timeline.csv.gz",
                                        "memory.csv.gz", "ranks.csv"};
    const char *folder = options->outputs[SIM_OUTPUT_NOTEBOOK];
    const SimSummary *summary = sim_prediction_summary(run->prediction);
    SimOutputFile *parts[G_N_ELEMENTS(names)];
    g_autofree char *ranks = sim_figure_runs_ranks(run);
    g_autoptr(SimRecorder) recorder = sim_prediction_record(run->prediction, ranks, error);
    if (recorder == NULL) {
        return false;
    }
    for (size_t i = 0; i < G_N_ELEMENTS(names); i++) {
        parts[i] = add_file(files, folder, names[i], error);
        if (parts[i] == NULL) {
            return false;
        }
    }
    g_autoptr(GArray) points = sim_figure_runs_sweep(options, run);
    sim_notebook_save(summary, parts[0]);
    sim_summary_json_save(summary, parts[1]);
    sim_timeline_csv_save(recorder, parts[2]);
    sim_memory_csv_save(recorder, parts[3]);
    sim_notebook_save_ranks(points, parts[4]);
    return true;
}

static bool write_recordings(SimPredictFiles *files, const SimPredictRun *run, GError **error)
{
    g_autoptr(SimRecorder) recorder = NULL;
    if (files->files[SIM_OUTPUT_TIMELINE] == NULL && files->files[SIM_OUTPUT_MEMORY] == NULL &&
        files->files[SIM_OUTPUT_TRACE] == NULL && files->files[SIM_OUTPUT_SNAPSHOT] == NULL) {
        return true;
    }
    recorder = sim_prediction_record(run->prediction, run->settings->ranks, error);
    if (recorder == NULL) {
        return false;
    }
    if (files->files[SIM_OUTPUT_TIMELINE] != NULL) {
        sim_timeline_csv_save(recorder, files->files[SIM_OUTPUT_TIMELINE]);
    }
    if (files->files[SIM_OUTPUT_MEMORY] != NULL) {
        sim_memory_csv_save(recorder, files->files[SIM_OUTPUT_MEMORY]);
    }
    if (files->files[SIM_OUTPUT_TRACE] != NULL) {
        sim_chrome_trace_save(recorder, files->files[SIM_OUTPUT_TRACE]);
    }
    if (files->files[SIM_OUTPUT_SNAPSHOT] != NULL) {
        sim_memory_snapshot_save(recorder, sim_prediction_hbm_bytes(run->prediction),
                                 run->settings->allocator, files->files[SIM_OUTPUT_SNAPSHOT]);
    }
    return true;
}

static bool write_pictures(SimPredictFiles *files, const SimPredictOptions *options,
                           const SimPredictRun *run, GError **error)
{
    if (files->files[SIM_OUTPUT_REPORT] == NULL && files->files[SIM_OUTPUT_SVG] == NULL) {
        return true;
    }
    const SimSummary *summary = sim_prediction_summary(run->prediction);
    g_autofree char *ranks = sim_figure_runs_ranks(run);
    g_autoptr(SimRecorder) recorder = sim_prediction_record(run->prediction, ranks, error);
    if (recorder == NULL) {
        return false;
    }
    if (files->files[SIM_OUTPUT_REPORT] != NULL) {
        uint32_t memory = summary->memory.rank;
        uint32_t time = summary->has_time ? summary->time.rank : memory;
        sim_html_report_save(summary, run->cluster, sim_figure_runs_track(recorder, memory),
                             sim_figure_runs_track(recorder, time),
                             files->files[SIM_OUTPUT_REPORT]);
    }
    if (files->files[SIM_OUTPUT_SVG] != NULL) {
        g_autofree char *picture = sim_figure_runs_draw(options, run, recorder, error);
        if (picture == NULL) {
            return false;
        }
        sim_output_file_puts(files->files[SIM_OUTPUT_SVG], picture);
    }
    return true;
}

/* --- all ---------------------------------------------------------------------------------------
 */

static bool commit(SimPredictFiles *files, GError **error)
{
    g_autoptr(GPtrArray) all = g_ptr_array_new();
    for (guint i = 0; i < files->in_folders->len; i++) {
        g_ptr_array_add(all, g_ptr_array_index(files->in_folders, i));
    }
    for (size_t i = 0; i < SIM_OUTPUT_COUNT; i++) {
        g_ptr_array_add(all, files->files[i]);
    }
    return sim_output_file_commit_all((SimOutputFile *const *)all->pdata, all->len, error);
}

bool sim_predict_files_write(SimPredictFiles *files, const SimPredictOptions *options,
                             const SimPredictRun *run, GError **error)
{
    if (files->files[SIM_OUTPUT_JSON] != NULL) {
        sim_summary_json_save(sim_prediction_summary(run->prediction),
                              files->files[SIM_OUTPUT_JSON]);
    }
    if (!write_recordings(files, run, error)) {
        return false;
    }
    if (files->files[SIM_OUTPUT_PLAN] != NULL) {
        sim_plan_csv_save(run->plan, files->files[SIM_OUTPUT_PLAN]);
    }
    if (!write_pictures(files, options, run, error)) {
        return false;
    }
    const char *chakra = options->outputs[SIM_OUTPUT_CHAKRA];
    if (chakra != NULL && !write_chakra(files, chakra, run, error)) {
        return false;
    }
    if (options->outputs[SIM_OUTPUT_NOTEBOOK] != NULL &&
        !write_notebook(files, options, run, error)) {
        return false;
    }
    return commit(files, error);
}
