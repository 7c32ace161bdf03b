/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <unistd.h>

#include "cli/command.h"
#include "cli/predict_files.h"
#include "cli/predict_options.h"
#include "cli/predict_run.h"
#include "report/summary_text.h"

/* Everything that lives as long as the command. */
typedef struct Work {
    SimPredictOptions options;
    SimPredictRun run;
    SimPredictFiles files;
    int64_t started_us;
    bool has_progress;
} Work;

static void free_work(Work *work)
{
    sim_predict_files_done(&work->files);
    sim_predict_run_done(&work->run);
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

static bool predict(Work *work, GError **error)
{
    if (!sim_predict_run_prepare(&work->run, &work->options, NULL, error) ||
        !sim_predict_files_open(&work->files, &work->options, error)) {
        return false;
    }
    SimPredictionOptions options = {
        .keep_memory_events = sim_predict_files_need_events(&work->options),
        .progress = isatty(STDERR_FILENO) ? show_progress : NULL,
        .user_data = work,
    };
    bool is_played = sim_predict_run_play(&work->run, &options, error);
    clear_progress(work);
    return is_played && sim_predict_files_write(&work->files, &work->options, &work->run, error);
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
            sim_summary_text_print(sim_prediction_summary(work->run.prediction), work->run.cluster);
        SimExit printed = sim_command_print(text);
        if (printed != SIM_EXIT_DONE) {
            return printed;
        }
    }
    return sim_prediction_is_good(work->run.prediction) ? SIM_EXIT_DONE : SIM_EXIT_NO;
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
