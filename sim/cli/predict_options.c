/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/predict_options.h"

#include <string.h>

#include "base/error.h"
#include "predict/plan_source.h"

static const struct {
    const char *name, *argument, *help;
} outputs[SIM_OUTPUT_COUNT] = {
    [SIM_OUTPUT_JSON] = {"json", "FILE", "write the summary as JSON"},
    [SIM_OUTPUT_TIMELINE] = {"timeline", "FILE.csv", "write every kernel, collective and copy"},
    [SIM_OUTPUT_MEMORY] = {"memory", "FILE.csv", "write every action of the allocator"},
    [SIM_OUTPUT_PLAN] = {"plan", "FILE.csv", "write the plan that was played"},
    [SIM_OUTPUT_TRACE] = {"trace", "FILE.json[.gz]", "write a trace for ui.perfetto.dev"},
    [SIM_OUTPUT_SNAPSHOT] = {"snapshot", "FILE.pickle",
                             "write a snapshot for pytorch.org/memory_viz"},
    [SIM_OUTPUT_CHAKRA] = {"chakra", "FOLDER", "write execution traces for ASTRA-sim, one a rank"},
    [SIM_OUTPUT_REPORT] = {"report", "FILE.html", "write one page with pictures and tables"},
    [SIM_OUTPUT_SVG] = {"svg", "FILE.svg", "draw the picture that --figure names"},
    [SIM_OUTPUT_NOTEBOOK] = {"notebook", "FOLDER",
                             "write a Jupyter notebook with the run's numbers beside it"},
};

static const char *const figures[SIM_FIGURE_COUNT + 1] = {
    [SIM_FIGURE_TIMELINE] = "timeline", [SIM_FIGURE_MEMORY] = "memory",
    [SIM_FIGURE_WORKFLOW] = "workflow", [SIM_FIGURE_DDP_FSDP] = "ddp-fsdp",
    [SIM_FIGURE_RANKS] = "ranks",
};

static const char description[] =
    "MODEL is a Hugging Face config.json, a folder that holds one, the name of a model that ships\n"
    "(fsdpsim list), or a module tree (models/write_modules.py writes one from any nn.Module).\n"
    "FILE may be -, standard output. Exit code: 0 fits, 1 does not fit or hangs, 2 wrong usage, 3\n"
    "bad input.\n\n"
    "What is gathered and reduced in a step with n units of P parameters in all:\n"
    "  fsdp2 (default)                       ZeRO-3  n gathers forward, n-1 backward, n "
    "reduce-scatters\n"
    "  fsdp2 --reshard-after-forward true    ZeRO-3  n, n, n\n"
    "  fsdp2 --reshard-after-forward false   ZeRO-2  n, 0, n; as --strategy shard_grad_op\n"
    "  fsdp2 --strategy hybrid_shard         ZeRO-3  in groups, then n all-reduces of shards\n"
    "  fsdp1 --strategy full_shard           ZeRO-3  n, n-1 (the root is kept), n\n"
    "  fsdp1 --strategy shard_grad_op        ZeRO-2  n, 0, n\n"
    "  any --strategy no_shard, --api ddp    ZeRO-0  all-reduces of P gradients\n"
    "Bytes a parameter on N ranks (bf16 compute, f32 shards, Adam): 16/N; shard_grad_op between\n"
    "forward and backward 2 + 16/N; ddp in f32 16.\n\n"
    "Example: fsdpsim predict llama-3.1-8b --gpus 8 --seq 8192 --memory memory.csv\n"
    "To look at a run: fsdpsim predict llama-3.1-8b --gpus 8 --report report.html\n";

/* The options of one group of settings; arg_data point into OPTIONS. */
static GArray *make_entries(const char *group, SimPredictOptions *options)
{
    GArray *entries = g_array_new(TRUE, TRUE, sizeof(GOptionEntry));
    for (size_t i = 0; i < sim_settings_count(); i++) {
        const SimSettingInfo *info = sim_settings_info(i);
        if (strcmp(info->group, group) == 0) {
            GOptionEntry entry = {
                .long_name = info->name,
                .arg = G_OPTION_ARG_FILENAME,
                .arg_data = &options->settings[i],
                .description = info->help,
                .arg_description = info->argument,
            };
            if (info->may_repeat) {
                entry.arg = G_OPTION_ARG_FILENAME_ARRAY;
                entry.arg_data = &options->repeated[i];
            }
            g_array_append_val(entries, entry);
        }
    }
    return entries;
}

/* One group of help for each group of settings, in the table's order. */
static void add_setting_groups(GOptionContext *context, SimPredictOptions *options)
{
    const char *before = NULL;
    for (size_t i = 0; i < sim_settings_count(); i++) {
        const char *group = sim_settings_info(i)->group;
        if (g_strcmp0(group, before) == 0) {
            continue;
        }
        g_autoptr(GArray) entries = make_entries(group, options);
        g_autofree char *title = g_strdup_printf("%s:", group);
        title[0] = g_ascii_toupper(title[0]);
        GOptionGroup *entry_group = g_option_group_new(group, title, title, NULL, NULL);
        g_option_group_add_entries(entry_group, (const GOptionEntry *)(void *)entries->data);
        g_option_context_add_group(context, entry_group);
        before = group;
    }
}

static void add_output_group(GOptionContext *context, SimPredictOptions *options)
{
    GOptionEntry entries[SIM_OUTPUT_COUNT + 2] = {{.long_name = NULL}};
    for (size_t i = 0; i < SIM_OUTPUT_COUNT; i++) {
        entries[i] = (GOptionEntry){.long_name = outputs[i].name,
                                    .arg = G_OPTION_ARG_FILENAME,
                                    .arg_data = &options->outputs[i],
                                    .description = outputs[i].help,
                                    .arg_description = outputs[i].argument};
    }
    entries[SIM_OUTPUT_COUNT] =
        (GOptionEntry){.long_name = "figure",
                       .arg = G_OPTION_ARG_STRING,
                       .arg_data = &options->figure_name,
                       .description = "timeline (default), memory, workflow, ddp-fsdp or ranks",
                       .arg_description = "NAME"};
    GOptionGroup *group = g_option_group_new("outputs", "Outputs:", "Outputs", NULL, NULL);
    g_option_group_add_entries(group, entries);
    g_option_context_add_group(context, group);
}

static void add_main_entries(GOptionContext *context, SimPredictOptions *options, gboolean *help)
{
    GOptionEntry entries[] = {
        {.long_name = "help",
         .short_name = 'h',
         .arg = G_OPTION_ARG_NONE,
         .arg_data = help,
         .description = "this help"},
        {.long_name = "config",
         .arg = G_OPTION_ARG_FILENAME,
         .arg_data = &options->config,
         .description = "read settings from a JSON file; options win over it",
         .arg_description = "FILE"},
        {.long_name = "from-plan",
         .arg = G_OPTION_ARG_FILENAME,
         .arg_data = &options->from_plan,
         .description = "play this plan instead of building one for MODEL",
         .arg_description = "FILE.csv"},
        {.long_name = NULL},
    };
    g_option_context_add_main_entries(context, entries, NULL);
}

/* "unknown option '--foo'; did you mean '--bar'?" */
static char *explain_unknown(const char *option)
{
    g_autoptr(GPtrArray) names = g_ptr_array_new();
    char *known[] = {"help", "config", "from-plan", "figure"};
    for (size_t i = 0; i < G_N_ELEMENTS(known); i++) {
        g_ptr_array_add(names, known[i]);
    }
    for (size_t i = 0; i < SIM_OUTPUT_COUNT; i++) {
        g_ptr_array_add(names, (void *)(uintptr_t)outputs[i].name);
    }
    for (size_t i = 0; i < sim_settings_count(); i++) {
        g_ptr_array_add(names, (void *)(uintptr_t)sim_settings_info(i)->name);
    }
    g_ptr_array_add(names, NULL);
    const char *bare = option + strspn(option, "-");
    return g_strdup_printf("unknown option '%s'; did you mean '--%s'?", option,
                           sim_error_nearest(bare, (const char *const *)names->pdata));
}

static char *explain(const GError *error)
{
    static const char unknown[] = "Unknown option ";
    if (g_error_matches(error, G_OPTION_ERROR, G_OPTION_ERROR_UNKNOWN_OPTION) &&
        g_str_has_prefix(error->message, unknown)) {
        return explain_unknown(error->message + strlen(unknown));
    }
    return g_strdup(error->message);
}

bool sim_predict_options_is_folder(SimPredictOutput output)
{
    return output == SIM_OUTPUT_CHAKRA || output == SIM_OUTPUT_NOTEBOOK;
}

/* Sets the figure from its name. Returns the message, or NULL if all is well. */
static char *check_figure(SimPredictOptions *options)
{
    const char *name = options->figure_name;
    if (name == NULL) {
        return NULL;
    }
    for (int i = 0; i < SIM_FIGURE_COUNT; i++) {
        if (strcmp(figures[i], name) == 0) {
            options->figure = (SimFigure)i;
            bool compares = i == SIM_FIGURE_DDP_FSDP || i == SIM_FIGURE_RANKS;
            if (compares && options->from_plan != NULL) {
                return g_strdup_printf("--figure %s compares several runs: it needs a MODEL, "
                                       "not --from-plan",
                                       name);
            }
            return options->outputs[SIM_OUTPUT_SVG] != NULL
                       ? NULL
                       : g_strdup("--figure names what --svg FILE.svg draws; --svg is missing");
        }
    }
    return g_strdup_printf("--figure: unknown figure '%s'; did you mean '%s'?", name,
                           sim_error_nearest(name, figures));
}

/* What no single option can tell. Returns the message, or NULL if all is well. */
static char *check_combination(const SimPredictOptions *options, int n_rest)
{
    size_t on_stdout = 0;
    if (options->from_plan == NULL && options->model == NULL) {
        return g_strdup("expected a MODEL, or --from-plan");
    }
    if (n_rest > (options->from_plan == NULL ? 1 : 0)) {
        return g_strdup(options->from_plan == NULL ? "expected one MODEL"
                                                   : "expected no MODEL beside --from-plan");
    }
    if (options->from_plan != NULL && options->config != NULL) {
        return g_strdup("--config cannot be combined with --from-plan: a plan has its settings");
    }
    for (size_t i = 0; i < SIM_OUTPUT_COUNT; i++) {
        bool is_stdout = g_strcmp0(options->outputs[i], "-") == 0;
        if (is_stdout && sim_predict_options_is_folder((SimPredictOutput)i)) {
            return g_strdup_printf("--%s writes several files: it needs a folder", outputs[i].name);
        }
        on_stdout += is_stdout;
    }
    if (on_stdout > 1) {
        return g_strdup("only one output can go to standard output");
    }
    for (size_t i = 0; i < sim_settings_count() && options->from_plan != NULL; i++) {
        const char *name = sim_settings_info(i)->name;
        bool is_given = options->settings[i] != NULL || options->repeated[i] != NULL;
        if (is_given && !sim_plan_source_allows(name)) {
            return g_strdup_printf("--%s cannot be combined with --from-plan: a plan is finished "
                                   "but for what it runs on (--cluster, --allocator, --hbm, "
                                   "--collectives, --jitter, --slow-rank, --slow-link, --seed)",
                                   name);
        }
    }
    return NULL;
}

bool sim_predict_options_parse(SimPredictOptions *options, int argc, char **argv, char **message)
{
    gboolean help = FALSE;
    g_autoptr(GError) error = NULL;
    *options = (SimPredictOptions){.settings = g_new0(char *, sim_settings_count()),
                                   .repeated = g_new0(char **, sim_settings_count())};
    g_autoptr(GOptionContext) context = g_option_context_new("MODEL");
    g_option_context_set_help_enabled(context, FALSE);
    g_option_context_set_summary(context, "Predicts memory, time and communication of a job.");
    g_option_context_set_description(context, description);
    add_main_entries(context, options, &help);
    add_setting_groups(context, options);
    add_output_group(context, options);
    if (!g_option_context_parse(context, &argc, &argv, &error)) {
        *message = explain(error);
        return false;
    }
    if (help) {
        options->wants_help = true;
        options->help = g_option_context_get_help(context, FALSE, NULL);
        return true;
    }
    int rest = argc - 1;
    const char **model = rest > 0 ? (const char **)(void *)(argv + 1) : NULL;
    if (rest > 0 && strcmp(argv[1], "--") == 0) {
        model++;
        rest--;
    }
    options->model = rest > 0 ? g_strdup(*model) : NULL;
    *message = check_combination(options, rest);
    if (*message == NULL) {
        *message = check_figure(options);
    }
    return *message == NULL;
}

void sim_predict_options_done(SimPredictOptions *options)
{
    for (size_t i = 0; i < sim_settings_count(); i++) {
        g_free(options->settings[i]);
        g_strfreev(options->repeated[i]);
    }
    for (size_t i = 0; i < SIM_OUTPUT_COUNT; i++) {
        g_free(options->outputs[i]);
    }
    g_free(options->settings);
    g_free(options->repeated);
    g_free(options->config);
    g_free(options->from_plan);
    g_free(options->model);
    g_free(options->help);
    g_free(options->figure_name);
}

bool sim_predict_options_apply(const SimPredictOptions *options, SimSettings *settings,
                               GError **error)
{
    for (size_t i = 0; i < sim_settings_count(); i++) {
        const char *name = sim_settings_info(i)->name;
        g_autofree char *where = g_strdup_printf("--%s", name);
        if (options->settings[i] != NULL &&
            !sim_settings_set(settings, name, options->settings[i], where, error)) {
            return false;
        }
        char **uses = options->repeated[i];
        for (; uses != NULL && *uses != NULL; uses++) {
            if (!sim_settings_set(settings, name, *uses, where, error)) {
                return false;
            }
        }
    }
    return true;
}

bool sim_predict_options_use_stdout(const SimPredictOptions *options)
{
    for (size_t i = 0; i < SIM_OUTPUT_COUNT; i++) {
        if (g_strcmp0(options->outputs[i], "-") == 0) {
            return true;
        }
    }
    return false;
}
