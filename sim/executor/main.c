/* SPDX-License-Identifier: Apache-2.0
 *
 * fsdpsim-exec: runs a plan for real. One process a rank, started by mpirun.
 */
#include <cblas.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/output_file.h"
#include "executor/report.h"
#include "executor/run.h"
#include "plan/plan_csv.h"

/* As all programs of the project: done; done, and the answer is no; wrong usage; bad input. */
enum { EXIT_NO = 1, EXIT_USAGE = 2, EXIT_INPUT = 3 };

typedef struct Options {
    char *save, *against, *json, *memory, *lives, *timeline;
    char *allocator, *hbm, *delay, *rate, *limit;
    gboolean is_unchecked, is_paced;
    char **plans;
} Options;

static bool parse_delay(const char *text, SimRunOptions *options, GError **error)
{
    g_auto(GStrv) parts = g_strsplit(text, ":", 2);
    int64_t row;
    if (g_strv_length(parts) != 2) {
        g_set_error(error, SIM_ERROR, SIM_ERROR_PARSE,
                    "--delay: expected a row and a duration as in 120:50ms, found '%s'", text);
        return false;
    }
    if (!sim_units_parse_int64(parts[0], 1, UINT32_MAX, &row, error) ||
        !sim_units_parse_duration(parts[1], &options->delay, error))
        return false;
    options->delayed_row = (uint32_t)(row - 1);
    return true;
}

static bool convert_options(const Options *given, SimRunOptions *options, GError **error)
{
    *options = (SimRunOptions){
        .is_checked = !given->is_unchecked,
        .is_paced = given->is_paced,
        .allocator = given->allocator != NULL ? given->allocator : "",
        .device_bytes = UINT64_MAX,
        .delayed_row = SIM_PLAN_NONE,
        .limit = 60 * SIM_SECOND,
    };
    return (given->hbm == NULL ||
            sim_units_parse_bytes(given->hbm, &options->device_bytes, error)) &&
           (given->rate == NULL ||
            sim_units_parse_rate(given->rate, &options->bytes_per_s, error)) &&
           (given->limit == NULL ||
            sim_units_parse_duration(given->limit, &options->limit, error)) &&
           (given->delay == NULL || parse_delay(given->delay, options, error));
}

static bool parse_options(int *argc, char ***argv, Options *o, GError **error)
{
    const GOptionEntry entries[] = {
        {"save", 0, 0, G_OPTION_ARG_FILENAME, &o->save, "keep losses, gradients and parameters",
         "FILE"},
        {"against", 0, 0, G_OPTION_ARG_FILENAME, &o->against, "compare with those of another run",
         "FILE"},
        {"json", 0, 0, G_OPTION_ARG_FILENAME, &o->json, "write what was found", "FILE"},
        {"memory", 0, 0, G_OPTION_ARG_FILENAME, &o->memory, "write rank 0's allocs and frees",
         "FILE.csv"},
        {"lives", 0, 0, G_OPTION_ARG_FILENAME, &o->lives, "write rank 0's buffers as used",
         "FILE.csv"},
        {"timeline", 0, 0, G_OPTION_ARG_FILENAME, &o->timeline, "write what ran when", "FILE.csv"},
        {"allocator", 0, 0, G_OPTION_ARG_STRING, &o->allocator, "PYTORCH_ALLOC_CONF", "CONF"},
        {"hbm", 0, 0, G_OPTION_ARG_STRING, &o->hbm, "what the allocator may reserve", "SIZE"},
        {"unchecked", 0, 0, G_OPTION_ARG_NONE, &o->is_unchecked,
         "keep no ledger of memory (faster)", NULL},
        {"paced", 0, 0, G_OPTION_ARG_NONE, &o->is_paced,
         "compute nothing, take the plan's durations", NULL},
        {"rate", 0, 0, G_OPTION_ARG_STRING, &o->rate, "paced: collectives without a duration",
         "RATE"},
        {"delay", 0, 0, G_OPTION_ARG_STRING, &o->delay, "the work of one row begins late",
         "ROW:TIME"},
        {"limit", 0, 0, G_OPTION_ARG_STRING, &o->limit, "give up without progress for so long",
         "TIME"},
        {G_OPTION_REMAINING, 0, 0, G_OPTION_ARG_FILENAME_ARRAY, &o->plans, NULL, "PLAN.csv"},
        {NULL, 0, 0, G_OPTION_ARG_NONE, NULL, NULL, NULL}};
    GOptionContext *context = g_option_context_new("- runs a plan for real, a process a rank");
    g_option_context_add_main_entries(context, entries, NULL);
    g_option_context_set_description(
        context, "Example: mpirun -np 2 fsdpsim-exec plan.csv --timeline real.csv\n");
    bool is_parsed = g_option_context_parse(context, argc, argv, error);
    g_option_context_free(context);
    return is_parsed;
}

static void clear_options(Options *o)
{
    char *texts[] = {o->save,      o->against, o->json,  o->memory, o->lives, o->timeline,
                     o->allocator, o->hbm,     o->delay, o->rate,   o->limit};
    for (size_t i = 0; i < G_N_ELEMENTS(texts); i++)
        g_free(texts[i]);
    g_strfreev(o->plans);
}

/* --- outputs -----------------------------------------------------------------------------------
 */

typedef enum Output { JSON, MEMORY, LIVES, TIMELINE, OUTPUTS } Output;

static bool open_outputs(const Options *given, int rank, SimOutputFile **files, GError **error)
{
    const char *paths[OUTPUTS] = {given->json, given->memory, given->lives, given->timeline};
    for (int i = 0; rank == 0 && i < OUTPUTS; i++) {
        files[i] = paths[i] != NULL ? sim_output_file_new(paths[i], error) : NULL;
        if (paths[i] != NULL && files[i] == NULL)
            return false;
    }
    return true;
}

/* On rank 0; NULL if there is nothing to compare with. */
static bool compare(const Options *given, const SimValues *whole, SimValuesDifference *difference,
                    GError **error)
{
    if (whole == NULL || given->against == NULL)
        return true;
    g_autoptr(SimValues) expected = sim_values_load(given->against, error);
    return expected != NULL && sim_values_compare(whole, expected, difference, error);
}

static bool leave(SimRun *run, const SimPlan *plan, const Options *given, int rank,
                  SimOutputFile **files, GError **error)
{
    g_autoptr(SimValues) whole = sim_values_gather(sim_run_values(run), MPI_COMM_WORLD);
    SimValuesDifference difference = {0};
    bool is_written = compare(given, whole, &difference, error);
    bool is_compared = is_written && rank == 0 && given->against != NULL;
    sim_report_save_json(run, plan, whole, is_compared ? &difference : NULL, MPI_COMM_WORLD,
                         files[JSON]);
    if (files[MEMORY] != NULL)
        sim_report_save_memory(run, plan, files[MEMORY]);
    if (files[LIVES] != NULL)
        sim_report_save_lives(run, plan, files[LIVES]);
    if (given->timeline != NULL)
        sim_report_save_timeline(run, plan, MPI_COMM_WORLD, files[TIMELINE]);
    if (is_written && rank == 0 && given->save != NULL)
        is_written = sim_values_save(whole, given->save, error);
    if (is_written)
        is_written = sim_output_file_commit_all(files, OUTPUTS, error);
    sim_values_difference_clear(&difference);
    return is_written;
}

/* --- running -----------------------------------------------------------------------------------
 */

static int run_plan(const Options *given, int rank, GError **error)
{
    SimRunOptions options;
    SimOutputFile *files[OUTPUTS] = {NULL};
    if (!convert_options(given, &options, error) || !open_outputs(given, rank, files, error))
        return EXIT_INPUT;
    g_autoptr(SimPlan) plan = sim_plan_csv_load(given->plans[0], error);
    g_autoptr(SimRun) run =
        plan != NULL ? sim_run_new(plan, &options, MPI_COMM_WORLD, error) : NULL;
    if (run == NULL)
        return EXIT_INPUT;
    sim_run_play(run);
    g_autofree char *faults = sim_faults_print(sim_run_faults(run));
    fputs(faults, stderr);
    int count = (int)sim_faults_count(sim_run_faults(run)), all = 0;
    PMPI_Allreduce(&count, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    bool is_left = leave(run, plan, given, rank, files, error);
    for (int i = 0; i < OUTPUTS; i++)
        sim_output_file_free(files[i]);
    return !is_left ? EXIT_INPUT : all > 0 ? EXIT_NO : 0;
}

int main(int argc, char **argv)
{
    /* More ranks than cores are the rule here: a waiting rank leaves its core to others. */
    g_setenv("OMPI_MCA_mpi_yield_when_idle", "1", FALSE);
    Options options = {0};
    g_autoptr(GError) error = NULL;
    if (!parse_options(&argc, &argv, &options, &error) || options.plans == NULL ||
        options.plans[1] != NULL) {
        fprintf(stderr, "fsdpsim-exec: %s\n",
                error != NULL ? error->message : "expected one plan, see --help");
        return EXIT_USAGE;
    }
    openblas_set_num_threads(1);
    int provided, rank;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    int code = EXIT_INPUT;
    if (provided < MPI_THREAD_MULTIPLE)
        g_set_error(&error, SIM_ERROR, SIM_ERROR_UNSUPPORTED, "this MPI cannot be used by threads");
    else
        code = run_plan(&options, rank, &error);
    if (error != NULL && rank == 0)
        fprintf(stderr, "fsdpsim-exec: %s\n", error->message);
    clear_options(&options);
    MPI_Finalize();
    return code;
}
