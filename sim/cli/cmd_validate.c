/* SPDX-License-Identifier: Apache-2.0
 *
 * fsdpsim validate: builds the job's plan and that of the same job on one rank, has the reference
 * executor run both with MPI, and holds the runs against each other and against the simulator. With
 * --from-plan it runs that plan paced, by its own durations, and compares times.
 */
#include <gio/gio.h>
#include <glib/gstdio.h>
#include <math.h>
#include <string.h>

#include "base/csv.h"
#include "base/error.h"
#include "base/json.h"
#include "base/models_folder.h"
#include "base/output_file.h"
#include "cli/command.h"
#include "cli/predict_options.h"
#include "cli/validation.h"
#include "plan/plan_csv.h"
#include "predict/model_file.h"
#include "predict/plan_source.h"
#include "predict/prediction.h"

#define EXECUTOR "fsdpsim-exec"
#define PACED_RUNS 10

typedef struct Work {
    SimPredictOptions options;
    char *folder; /* of what the runs leave; removed at the end */
    SimSettings *settings;
    SimCluster *cluster;
    SimPlan *plan;
    SimPrediction *prediction;
    SimValidation *validation;
} Work;

/* The runs' folder holds files only. */
static void remove_folder(const char *folder)
{
    g_autoptr(GDir) dir = g_dir_open(folder, 0, NULL);
    for (const char *name; dir != NULL && (name = g_dir_read_name(dir)) != NULL;) {
        g_autofree char *file = g_build_filename(folder, name, NULL);
        (void)g_unlink(file);
    }
    (void)g_rmdir(folder);
}

static void free_work(Work *work)
{
    if (work->folder != NULL)
        remove_folder(work->folder);
    g_free(work->folder);
    sim_validation_free(work->validation);
    sim_prediction_free(work->prediction);
    sim_plan_free(work->plan);
    sim_cluster_free(work->cluster);
    sim_settings_free(work->settings);
    sim_predict_options_done(&work->options);
}

/* --- plans -------------------------------------------------------------------------------------
 */

/* Small enough for a CPU, where no option says otherwise. */
static bool set_default(const SimPredictOptions *options, SimSettings *settings, const char *name,
                        const char *value, GError **error)
{
    g_autoptr(SimSettings) given = sim_settings_new();
    if (!sim_predict_options_apply(options, given, error))
        return false;
    uint64_t before = given->given;
    return !sim_settings_set(given, name, value, name, error) ? false
           : given->given == before                           ? true
                                    : sim_settings_set(settings, name, value, name, error);
}

/* IS_ALONE: the same samples on one rank, by FSDP2. */
static SimSettings *make_settings(const SimPredictOptions *options, bool is_alone, GError **error)
{
    g_autoptr(SimSettings) settings = sim_settings_new();
    if (!sim_predict_options_apply(options, settings, error) ||
        !set_default(options, settings, "gpus", "2", error) ||
        !set_default(options, settings, "seq", "64", error) ||
        !set_default(options, settings, "steps", "5", error))
        return NULL;
    if (!is_alone)
        return g_steal_pointer(&settings);
    g_autofree char *batch = g_strdup_printf("%" G_GINT64_FORMAT, settings->batch * settings->gpus);
    const char *const changes[][2] = {{"gpus", "1"},
                                      {"batch", batch},
                                      {"api", "fsdp2"},
                                      {"strategy", "full_shard"},
                                      {"reshard-after-forward", "default"},
                                      {"gradient-sync", "every"},
                                      {"wrap", "block"}};
    for (size_t i = 0; i < G_N_ELEMENTS(changes); i++)
        if (!sim_settings_set(settings, changes[i][0], changes[i][1], changes[i][0], error))
            return NULL;
    settings->shard_size = 0;
    return g_steal_pointer(&settings);
}

static SimPlan *build(const Work *work, SimSettings *settings, SimCluster **cluster, GError **error)
{
    g_autofree char *models = sim_models_folder_find();
    if (models == NULL) {
        g_set_error(error, SIM_ERROR, SIM_ERROR_IO, "models: expected a folder, found none");
        return NULL;
    }
    *cluster = sim_cluster_load(models, settings->cluster, error);
    g_autofree char *model =
        *cluster != NULL ? sim_model_file_find(models, work->options.model, error) : NULL;
    return model != NULL ? sim_plan_source_build(settings, *cluster, model, error) : NULL;
}

static char *path_of(const Work *work, const char *name)
{
    return g_build_filename(work->folder, name, NULL);
}

static bool save_plan(const Work *work, const SimPlan *plan, const char *name, GError **error)
{
    g_autofree char *path = path_of(work, name);
    g_autoptr(SimOutputFile) file = sim_output_file_new(path, error);
    if (file == NULL)
        return false;
    sim_plan_csv_save(plan, file);
    return sim_output_file_commit(file, error);
}

static bool make_plans(Work *work, GError **error)
{
    g_autoptr(SimSettings) alone = make_settings(&work->options, true, error);
    g_autoptr(SimCluster) cluster = NULL;
    g_autoptr(SimPlan) plan = alone != NULL ? build(work, alone, &cluster, error) : NULL;
    if (plan == NULL || !save_plan(work, plan, "alone.csv", error))
        return false;
    work->settings = make_settings(&work->options, false, error);
    work->plan = work->settings != NULL ? build(work, work->settings, &work->cluster, error) : NULL;
    return work->plan != NULL && save_plan(work, work->plan, "plan.csv", error);
}

/* --- real runs ---------------------------------------------------------------------------------
 */

/* Beside this program, or on the path. */
static char *find_executor(GError **error)
{
    g_autofree char *self = g_file_read_link("/proc/self/exe", NULL);
    g_autofree char *folder = self != NULL ? g_path_get_dirname(self) : g_strdup(".");
    g_autofree char *beside = g_build_filename(folder, EXECUTOR, NULL);
    if (g_file_test(beside, G_FILE_TEST_IS_EXECUTABLE))
        return g_steal_pointer(&beside);
    char *found = g_find_program_in_path(EXECUTOR);
    if (found == NULL)
        g_set_error(error, SIM_ERROR, SIM_ERROR_IO,
                    "%s: expected beside %s, found none; it is built where the packages "
                    "libopenmpi-dev and libopenblas-dev are installed",
                    EXECUTOR, folder);
    return found;
}

static GSubprocess *start(const Work *work, const char *const *arguments, GError **error)
{
    g_autoptr(GSubprocessLauncher) launcher = g_subprocess_launcher_new(
        G_SUBPROCESS_FLAGS_STDOUT_SILENCE | G_SUBPROCESS_FLAGS_STDERR_PIPE);
    g_autofree char *log = path_of(work, "mpi");
    g_subprocess_launcher_setenv(launcher, "FSDPSIM_MPI_LOG", log, TRUE);
    g_subprocess_launcher_setenv(launcher, "OMPI_ALLOW_RUN_AS_ROOT", "1", TRUE);
    g_subprocess_launcher_setenv(launcher, "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1", TRUE);
    g_subprocess_launcher_setenv(launcher, "OPENBLAS_NUM_THREADS", "1", TRUE);
    GError *problem = NULL;
    GSubprocess *process = g_subprocess_launcher_spawnv(launcher, arguments, &problem);
    if (process == NULL) {
        g_set_error(error, SIM_ERROR, SIM_ERROR_IO,
                    "mpirun: %s; it comes with the package openmpi-bin", problem->message);
        g_error_free(problem);
    }
    return process;
}

/* Runs PLAN on RANKS processes with MORE arguments (NULL-terminated). What it finds wrong is in its
 * JSON; a run that left none is an error, told in its own words. */
static bool run_executor(const Work *work, int64_t ranks, const char *plan, const char *const *more,
                         GError **error)
{
    g_autofree char *executor = find_executor(error);
    if (executor == NULL)
        return false;
    g_autofree char *count = g_strdup_printf("%" G_GINT64_FORMAT, ranks);
    g_autofree char *plan_path = path_of(work, plan);
    g_autofree char *json = path_of(work, "run.json");
    (void)g_unlink(json);
    g_autoptr(GPtrArray) arguments = g_ptr_array_new();
    const char *const first[] = {"mpirun", "-np",     count,    "--oversubscribe",
                                 executor, plan_path, "--json", json};
    for (size_t i = 0; i < G_N_ELEMENTS(first); i++)
        g_ptr_array_add(arguments, (char *)first[i]);
    for (size_t i = 0; more[i] != NULL; i++)
        g_ptr_array_add(arguments, (char *)more[i]);
    g_ptr_array_add(arguments, NULL);
    g_autoptr(GSubprocess) process = start(work, (const char *const *)arguments->pdata, error);
    g_autofree char *messages = NULL;
    if (process == NULL ||
        !g_subprocess_communicate_utf8(process, NULL, NULL, NULL, &messages, error))
        return false;
    if (g_file_test(json, G_FILE_TEST_EXISTS))
        return true;
    g_auto(GStrv) lines = g_strsplit(messages != NULL ? messages : "", "\n", 2);
    g_set_error(error, SIM_ERROR, SIM_ERROR_IO, "the real run failed: %s",
                lines[0] != NULL ? lines[0] : "without a word");
    return false;
}

static bool run_both(const Work *work, GError **error)
{
    g_autofree char *values = path_of(work, "alone.values");
    g_autofree char *memory = path_of(work, "memory.csv");
    g_autofree char *lives = path_of(work, "lives.csv");
    const char *const alone[] = {"--save", values, NULL};
    const char *const all[] = {"--against", values, "--memory", memory, "--lives", lives, NULL};
    if (!run_executor(work, 1, "alone.csv", alone, error))
        return false;
    g_autofree char *log = path_of(work, "mpi.0");
    (void)g_unlink(log);
    return run_executor(work, (int64_t)sim_plan_ranks(work->plan), "plan.csv", all, error);
}

/* --- comparison --------------------------------------------------------------------------------
 */

static int compare_doubles(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

/* The slowest rank of each step but the first; the middle one of those. */
static double median_step(const Work *work)
{
    g_autofree char *file = path_of(work, "run.json");
    g_autoptr(cJSON) run = sim_json_load(file, NULL);
    const cJSON *steps = cJSON_GetObjectItem(run, "step_seconds"), *step, *rank;
    g_autoptr(GArray) seconds = g_array_new(FALSE, FALSE, sizeof(double));
    cJSON_ArrayForEach(step, steps)
    {
        double slowest = 0;
        cJSON_ArrayForEach(rank, step) slowest = fmax(slowest, rank->valuedouble);
        if (step != steps->child)
            g_array_append_val(seconds, slowest);
    }
    g_array_sort(seconds, compare_doubles);
    return seconds->len > 0 ? g_array_index(seconds, double, seconds->len / 2) : 0;
}

static bool compare(Work *work, GError **error)
{
    const SimPredictionOptions options = {.keep_memory_events = true};
    work->prediction =
        sim_prediction_new(work->plan, work->cluster, work->settings, &options, error);
    g_autoptr(SimRecorder) recorder =
        work->prediction != NULL ? sim_prediction_record(work->prediction, "0", error) : NULL;
    if (recorder == NULL)
        return false;
    work->validation = sim_validation_new();
    bool is_exact = work->settings->autocast == SIM_SWITCH_OFF &&
                    work->settings->param_dtype == SIM_DTYPE_F32 &&
                    work->settings->reduce_dtype == SIM_DTYPE_F32 &&
                    work->settings->store_dtype == SIM_DTYPE_F32;
    if (!sim_validation_check_numbers(work->validation, work->folder, is_exact, error) ||
        !sim_validation_check_memory(work->validation, work->plan, recorder, work->folder, error) ||
        !sim_validation_check_collectives(work->validation, work->plan, work->folder, error))
        return false;
    sim_validation_note_time(work->validation, "a step of the real run, median", median_step(work),
                             0);
    return true;
}

static bool write_json(const Work *work, GError **error)
{
    if (work->options.outputs[SIM_OUTPUT_JSON] == NULL)
        return true;
    g_autoptr(SimOutputFile) file =
        sim_output_file_new(work->options.outputs[SIM_OUTPUT_JSON], error);
    if (file == NULL)
        return false;
    g_autoptr(cJSON) json = sim_validation_to_json(work->validation);
    char *text = cJSON_Print(json);
    sim_output_file_puts(file, text);
    sim_output_file_puts(file, "\n");
    cJSON_free(text);
    return sim_output_file_commit(file, error);
}

/* --- paced -------------------------------------------------------------------------------------
 */

/* The phases whose times are compared, of step 0. */
static const SimPhase PHASES[] = {SIM_PHASE_FORWARD, SIM_PHASE_BACKWARD};

/* From the first work of PHASE in step 0 to the last of it, as a real run's timeline says. */
static double measure_phase(const SimCsv *timeline, const char *phase)
{
    int64_t first = INT64_MAX, last = 0;
    int columns[] = {sim_csv_column(timeline, "phase"), sim_csv_column(timeline, "step"),
                     sim_csv_column(timeline, "start_ns"), sim_csv_column(timeline, "end_ns")};
    for (size_t row = 0; row < sim_csv_rows(timeline); row++) {
        if (strcmp(sim_csv_cell(timeline, row, columns[0]), phase) != 0 ||
            strcmp(sim_csv_cell(timeline, row, columns[1]), "0") != 0)
            continue;
        first = MIN(first, g_ascii_strtoll(sim_csv_cell(timeline, row, columns[2]), NULL, 10));
        last = MAX(last, g_ascii_strtoll(sim_csv_cell(timeline, row, columns[3]), NULL, 10));
    }
    return last > first ? (double)(last - first) * 1e-9 : 0;
}

static double expect_phase(const SimPlan *plan, const SimTrack *track, SimPhase phase)
{
    SimTime first = INT64_MAX, last = 0;
    for (guint i = 0; i < track->spans->len; i++) {
        const SimSpan *span = &g_array_index(track->spans, SimSpan, i);
        const SimInstruction *row = sim_plan_instruction(plan, span->instruction);
        if (row->phase != phase || row->step > 0)
            continue;
        first = MIN(first, span->arrival);
        last = MAX(last, span->end);
    }
    return last > first ? sim_units_seconds(last - first) : 0;
}

/* The best of RUNS real runs: a busy machine only adds. */
static bool run_paced(const Work *work, double best[], GError **error)
{
    g_autofree char *timeline = path_of(work, "timeline.csv");
    const char *const more[] = {"--paced", "--timeline", timeline, NULL};
    for (int run = 0; run < PACED_RUNS; run++) {
        if (!run_executor(work, (int64_t)sim_plan_ranks(work->plan), "plan.csv", more, error))
            return false;
        g_autoptr(SimCsv) csv = sim_csv_load(timeline, NULL, error);
        if (csv == NULL)
            return false;
        for (size_t i = 0; i < G_N_ELEMENTS(PHASES); i++) {
            double seconds = measure_phase(csv, sim_plan_phase_name(PHASES[i]));
            best[i] = run == 0 ? seconds : MIN(best[i], seconds);
        }
    }
    return true;
}

/* A plan with durations: nothing is computed, work takes as long as it says, in real time. */
static bool validate_plan(Work *work, GError **error)
{
    work->settings = sim_settings_new();
    work->plan = sim_plan_csv_load(work->options.from_plan, error);
    if (work->plan == NULL || !sim_plan_source_adopt(work->plan, work->settings, error) ||
        !sim_predict_options_apply(&work->options, work->settings, error) ||
        !save_plan(work, work->plan, "plan.csv", error))
        return false;
    g_autofree char *models = sim_models_folder_find();
    work->cluster =
        models != NULL ? sim_cluster_load(models, work->settings->cluster, error) : NULL;
    const SimPredictionOptions options = {.keep_memory_events = false};
    work->prediction = work->cluster != NULL ? sim_prediction_new(work->plan, work->cluster,
                                                                  work->settings, &options, error)
                                             : NULL;
    g_autoptr(SimRecorder) recorder =
        work->prediction != NULL ? sim_prediction_record(work->prediction, "0", error) : NULL;
    double best[G_N_ELEMENTS(PHASES)];
    if (recorder == NULL || !run_paced(work, best, error))
        return false;
    work->validation = sim_validation_new();
    for (size_t i = 0; i < G_N_ELEMENTS(PHASES); i++) {
        g_autofree char *what =
            g_strdup_printf("%s, paced, best of %d", sim_plan_phase_name(PHASES[i]), PACED_RUNS);
        sim_validation_note_time(
            work->validation, what, best[i],
            expect_phase(work->plan, sim_recorder_track(recorder, 0), PHASES[i]));
    }
    return write_json(work, error);
}

static bool validate(Work *work, GError **error)
{
    work->folder = g_dir_make_tmp("fsdpsim-XXXXXX", error);
    if (work->folder != NULL && work->options.from_plan != NULL)
        return validate_plan(work, error);
    return work->folder != NULL && make_plans(work, error) && run_both(work, error) &&
           compare(work, error) && write_json(work, error);
}

static SimExit run(Work *work)
{
    GError *error = NULL;
    if (!validate(work, &error))
        return sim_command_fail(error);
    if (!sim_predict_options_use_stdout(&work->options)) {
        g_autofree char *text = sim_validation_print(work->validation);
        SimExit printed = sim_command_print(text);
        if (printed != SIM_EXIT_DONE)
            return printed;
    }
    return sim_validation_agrees(work->validation) ? SIM_EXIT_DONE : SIM_EXIT_NO;
}

/* Without a MODEL it is the tiny one. Parsing takes what it knows out of the vector: each try gets
 * one of its own. */
static bool parse(Work *work, int argc, char **argv, char **message)
{
    g_autofree char **as_given = g_new0(char *, argc + 1);
    g_autofree char **with_model = g_new0(char *, argc + 2);
    memcpy(as_given, argv, (size_t)argc * sizeof *argv);
    memcpy(with_model, argv, (size_t)argc * sizeof *argv);
    with_model[argc] = (char *)"tiny";
    if (sim_predict_options_parse(&work->options, argc, as_given, message))
        return true;
    if (work->options.model != NULL)
        return false;
    sim_predict_options_done(&work->options);
    work->options = (SimPredictOptions){0};
    g_autofree char *second = NULL;
    return sim_predict_options_parse(&work->options, argc + 1, with_model, &second);
}

SimExit sim_command_validate(int argc, char **argv)
{
    Work work = {0};
    SimExit code;
    g_autofree char *message = NULL;
    g_set_prgname("fsdpsim validate");
    if (!parse(&work, argc, argv, &message))
        code = sim_command_misuse("validate", "%s", message);
    else if (work.options.wants_help)
        code = sim_command_print(work.options.help);
    else
        code = run(&work);
    free_work(&work);
    return code;
}
