/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include <glib.h>

#include "base/csv.h"
#include "base/error.h"
#include "base/models_folder.h"
#include "check/counterexample.h"
#include "check/verifier.h"
#include "cli/command.h"
#include "cli/predict_options.h"
#include "hardware/cluster.h"
#include "plan/plan_csv.h"
#include "predict/model_file.h"
#include "predict/plan_source.h"

/* How many findings of each kind a person gets. */
#define PRINTED 20

static const char description[] =
    "PLAN.csv is a plan as `predict --plan` writes it: one for all ranks, or one for each rank, "
    "in\n"
    "order of rank. With a MODEL, the plan of that job is checked; the settings are those of\n"
    "`fsdpsim predict`. FILE may be -, standard output. Exit code: 0 safe, 1 not safe, 2 wrong\n"
    "usage, 3 bad input.\n\n"
    "Examples: fsdpsim check plan.csv\n"
    "          fsdpsim check rank0.csv rank1.csv --schedule how.csv\n"
    "          fsdpsim check llama-3.1-8b --gpus 8 --sarif check.sarif\n";

typedef struct Work {
    gboolean wants_help;
    char *json, *sarif, *schedule; /* files */
    GPtrArray *files;              /* of plans, borrowed from the arguments */
    SimPredictOptions options;     /* of a model */
    bool has_options;
    SimPlan *plan; /* the only plan, or the one that the counter-example is in */
    SimVerdict *verdict;
} Work;

static void clear_work(Work *work)
{
    g_free(work->json);
    g_free(work->sarif);
    g_free(work->schedule);
    g_ptr_array_unref(work->files);
    if (work->has_options)
        sim_predict_options_done(&work->options);
    sim_plan_free(work->plan);
    sim_verdict_free(work->verdict);
}

/* --- arguments ----------------------------------------------------------------------------------
 */

static GOptionContext *make_context(Work *work)
{
    GOptionEntry entries[] = {
        {.long_name = "help",
         .short_name = 'h',
         .arg = G_OPTION_ARG_NONE,
         .arg_data = &work->wants_help,
         .description = "this help"},
        {.long_name = "json",
         .arg = G_OPTION_ARG_FILENAME,
         .arg_data = &work->json,
         .description = "write findings and what was proved as JSON",
         .arg_description = "FILE"},
        {.long_name = "sarif",
         .arg = G_OPTION_ARG_FILENAME,
         .arg_data = &work->sarif,
         .description = "write findings for code scanning (SARIF 2.1.0)",
         .arg_description = "FILE"},
        {.long_name = "schedule",
         .arg = G_OPTION_ARG_FILENAME,
         .arg_data = &work->schedule,
         .description = "write the counter-example as a timeline",
         .arg_description = "FILE.csv"},
        {.long_name = NULL},
    };
    GOptionContext *context = g_option_context_new("PLAN.csv... | MODEL [SETTINGS]");
    g_option_context_set_help_enabled(context, FALSE);
    g_option_context_set_ignore_unknown_options(context, TRUE);
    g_option_context_set_summary(context, "Proves a schedule safe, or shows how it goes wrong.");
    g_option_context_set_description(context, description);
    g_option_context_add_main_entries(context, entries, NULL);
    return context;
}

static bool is_plan_file(const char *argument)
{
    return g_str_has_suffix(argument, ".csv") || g_str_has_suffix(argument, ".csv.gz");
}

/* Takes the plans; what is left is a model and its settings. Returns the message of a misuse, owned
 * by the caller, or NULL. */
static char *read_rest(Work *work, int argc, char **argv)
{
    bool has_settings = false;
    for (int i = 1; i < argc; i++) {
        if (is_plan_file(argv[i]) && argv[i][0] != '-')
            g_ptr_array_add(work->files, argv[i]);
        else
            has_settings = true;
    }
    if (work->files->len > 0) {
        for (int i = 1; i < argc && has_settings; i++)
            if (!is_plan_file(argv[i]) || argv[i][0] == '-')
                return g_strdup_printf(argv[i][0] == '-' ? "unknown option '%s': a plan is finished"
                                                         : "expected a plan.csv, found '%s'",
                                       argv[i]);
        return NULL;
    }
    if (!has_settings)
        return g_strdup("expected a PLAN.csv or a MODEL");
    char *message = NULL;
    work->has_options = true;
    if (!sim_predict_options_parse(&work->options, argc, argv, &message))
        return message;
    for (size_t i = 0; i < SIM_OUTPUT_COUNT; i++)
        if (work->options.outputs[i] != NULL)
            return g_strdup("expected --json, --sarif or --schedule as output");
    return work->options.from_plan != NULL ? g_strdup("expected PLAN.csv without --from-plan")
                                           : NULL;
}

/* --- checking -----------------------------------------------------------------------------------
 */

static SimPlan *build_plan(Work *work, GError **error)
{
    g_autofree char *models = sim_models_folder_find();
    if (models == NULL) {
        g_set_error(error, SIM_ERROR, SIM_ERROR_IO, "models: expected a folder, found none");
        return NULL;
    }
    const SimPredictOptions *options = &work->options;
    g_autoptr(SimSettings) settings = sim_settings_new();
    if (!sim_predict_options_apply(options, settings, error))
        return NULL;
    if (options->config != NULL && !sim_settings_load(settings, options->config, error))
        return NULL;
    g_autoptr(SimCluster) cluster = sim_cluster_load(models, settings->cluster, error);
    if (cluster == NULL)
        return NULL;
    g_autofree char *model = sim_model_file_find(models, options->model, error);
    return model != NULL ? sim_plan_source_build(settings, cluster, model, error) : NULL;
}

/* One plan for all ranks, or the I-th for rank I. */
static bool add_files(Work *work, SimVerifier *verifier, GError **error)
{
    guint n = work->files->len;
    for (guint i = 0; i < n; i++) {
        const char *file = g_ptr_array_index(work->files, i);
        g_autoptr(SimPlan) plan = sim_plan_csv_load_unsound(file, error);
        if (plan == NULL)
            return false;
        if (sim_plan_length(plan) == 0) {
            g_set_error(error, SIM_ERROR, SIM_ERROR_SCHEMA, "%s: expected rows, found none", file);
            return false;
        }
        uint32_t last = n == 1 ? sim_plan_ranks(plan) - 1 : i;
        uint32_t first = n == 1 ? 0 : i;
        if (!sim_verifier_add(verifier, plan, file, first, last, error))
            return false;
    }
    return true;
}

static bool check(Work *work, GError **error)
{
    g_autoptr(SimVerifier) verifier = sim_verifier_new();
    if (work->files->len > 0) {
        if (!add_files(work, verifier, error))
            return false;
    } else {
        work->plan = build_plan(work, error);
        if (work->plan == NULL || !sim_verifier_add(verifier, work->plan, work->options.model, 0,
                                                    sim_plan_ranks(work->plan) - 1, error))
            return false;
    }
    work->verdict = sim_verifier_finish(verifier, error);
    return work->verdict != NULL;
}

/* --- outputs ------------------------------------------------------------------------------------
 */

/* The first violation that can be played, and its plan, read again if it was given back. */
static SimCounterexample *find_counterexample(Work *work, GError **error)
{
    const SimFindings *findings = work->verdict->findings;
    for (size_t i = 0; i < sim_findings_count(findings); i++) {
        const SimFinding *finding = sim_findings_get(findings, i);
        if (finding->n_places == 0 || sim_rules_get(finding->rule)->severity == SIM_SEVERITY_SLOW)
            continue;
        if (finding->rule != SIM_RULE_DEADLOCK && finding->rule != SIM_RULE_SAME_SEQUENCE &&
            finding->first_stream == NULL)
            continue;
        if (work->plan == NULL)
            work->plan = sim_plan_csv_load_unsound(
                g_ptr_array_index(work->files, finding->places[0].source), error);
        return work->plan != NULL ? sim_counterexample_new(work->plan, finding) : NULL;
    }
    return NULL;
}

static bool write_text(const char *path, const char *text, GError **error)
{
    g_autoptr(SimOutputFile) file = sim_output_file_new(path, error);
    if (file == NULL)
        return false;
    sim_output_file_puts(file, text);
    return sim_output_file_commit(file, error);
}

static bool write_json(const char *path, cJSON *json, GError **error)
{
    char *text = cJSON_Print(json);
    g_autofree char *lines = g_strdup_printf("%s\n", text);
    cJSON_free(text);
    return write_text(path, lines, error);
}

/* The file's line of each instruction: meta and group rows are none. */
static GPtrArray *find_lines(const Work *work, GError **error)
{
    g_autoptr(GPtrArray) lines = g_ptr_array_new_with_free_func((GDestroyNotify)g_array_unref);
    for (guint i = 0; i < work->files->len; i++) {
        g_autoptr(SimCsv) csv = sim_csv_load(g_ptr_array_index(work->files, i), NULL, error);
        if (csv == NULL)
            return NULL;
        GArray *of_file = g_array_new(FALSE, FALSE, sizeof(uint32_t));
        g_ptr_array_add(lines, of_file);
        int op = sim_csv_column(csv, "op");
        for (size_t row = 0; row < sim_csv_rows(csv); row++) {
            const char *word = sim_csv_cell(csv, row, op);
            uint32_t line = sim_csv_line(csv, row);
            if (strcmp(word, "meta") != 0 && strcmp(word, "group") != 0)
                g_array_append_val(of_file, line);
        }
    }
    return g_steal_pointer(&lines);
}

static bool write_sarif(Work *work, GError **error)
{
    g_autoptr(GPtrArray) lines = find_lines(work, error);
    if (lines == NULL)
        return false;
    g_autoptr(cJSON) sarif = sim_verdict_to_sarif(work->verdict, lines);
    return write_json(work->sarif, sarif, error);
}

static bool write_files(Work *work, const SimCounterexample *counterexample, GError **error)
{
    if (work->json != NULL) {
        g_autoptr(cJSON) json = sim_verdict_to_json(work->verdict);
        if (!write_json(work->json, json, error))
            return false;
    }
    if (work->sarif != NULL && !write_sarif(work, error))
        return false;
    if (work->schedule == NULL || counterexample == NULL)
        return true;
    g_autoptr(SimOutputFile) file = sim_output_file_new(work->schedule, error);
    if (file == NULL)
        return false;
    sim_counterexample_save(counterexample, file);
    return sim_output_file_commit(file, error);
}

static SimExit report(Work *work)
{
    GError *error = NULL;
    g_autoptr(SimCounterexample) counterexample = find_counterexample(work, &error);
    if (error != NULL || !write_files(work, counterexample, &error))
        return sim_command_fail(error);
    bool uses_stdout = g_strcmp0(work->json, "-") == 0 || g_strcmp0(work->sarif, "-") == 0 ||
                       g_strcmp0(work->schedule, "-") == 0;
    g_autofree char *text = sim_verdict_print(work->verdict, PRINTED);
    g_autofree char *story =
        counterexample != NULL ? sim_counterexample_print(counterexample) : g_strdup("");
    g_autofree char *all = g_strconcat(text, story, NULL);
    SimExit exit = uses_stdout ? SIM_EXIT_DONE : sim_command_print(all);
    if (exit != SIM_EXIT_DONE)
        return exit;
    return sim_verdict_is_safe(work->verdict) ? SIM_EXIT_DONE : SIM_EXIT_NO;
}

static SimExit run(Work *work, int argc, char **argv)
{
    GError *error = NULL;
    g_autoptr(GOptionContext) context = make_context(work);
    if (!g_option_context_parse(context, &argc, &argv, &error)) {
        SimExit exit = sim_command_misuse("check", "%s", error->message);
        g_error_free(error);
        return exit;
    }
    if (work->wants_help) {
        g_autofree char *help = g_option_context_get_help(context, FALSE, NULL);
        return sim_command_print(help);
    }
    g_autofree char *message = read_rest(work, argc, argv);
    if (message != NULL)
        return sim_command_misuse("check", "%s", message);
    return check(work, &error) ? report(work) : sim_command_fail(error);
}

SimExit sim_command_check(int argc, char **argv)
{
    Work work = {.files = g_ptr_array_new()};
    SimExit exit = run(&work, argc, argv);
    clear_work(&work);
    return exit;
}
