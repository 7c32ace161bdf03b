/* SPDX-License-Identifier: Apache-2.0
 *
 * Whole FSDP2 jobs, phase by phase, against PyTorch's own allocator (jobs/README.md): the plan that
 * the options or the job file make, its allocations and frees played into the caching allocator in
 * the host's order. Allocated bytes, at the end and at the highest of every phase, within 0.2 %;
 * reserved within 0.5 %; retries, and where memory runs out, equal.
 */
#include "base/csv.h"
#include "base/units.h"
#include "fsdp/plan_builder.h"
#include "hbm/allocator.h"
#include "job/job_file.h"
#include "job/job_freeze.h"
#include "job/setting_texts.h"
#include "model/hf_model.h"

#include <check.h>

#define FOLDER SIM_SOURCE_DIR "/tests/oracle/jobs/"
#define MODELS SIM_SOURCE_DIR "/models/nets/"

/* Not here but in cli/test_recorded_jobs.py: v16 (--attention math), v21 to v23 (architectures of
 * their own), v26 to v29 (a composite norm under checkpoints, chunked losses). */
static const char *const JOBS[] = {
    "v01", "v02", "v03", "v04", "v05", "v06", "v07", "v08", "v09", "v10", "v11", "v12",
    "v13", "v14", "v15", "v17", "v18", "v19", "v20", "v24", "v25", "v30", "v31", "v32",
    "v33", "v34", "v35", "v36", "v37", "v38", "v39", "v40", "v41", "v42", "v43", "v44",
    "v45", "v63", "v64", "v65", "v66", "v67", "v68", "v69", "v70", "v71", "v78", "v79",
};

typedef struct Columns {
    int job, model, arguments, job_file, step, phase, retries, oom;
    int allocated, peak_allocated, reserved, peak_reserved;
} Columns;

/* A job being compared with its rows of the table. */
typedef struct Comparison {
    const SimCsv *csv;
    Columns columns;
    size_t row, end; /* the next row, one past the last */
    SimAllocator *allocator;
} Comparison;

static Columns find_columns(const SimCsv *csv)
{
    return (Columns){
        .job = sim_csv_column(csv, "job"),
        .model = sim_csv_column(csv, "model"),
        .arguments = sim_csv_column(csv, "arguments"),
        .job_file = sim_csv_column(csv, "job_file"),
        .step = sim_csv_column(csv, "step"),
        .phase = sim_csv_column(csv, "phase"),
        .retries = sim_csv_column(csv, "retries"),
        .oom = sim_csv_column(csv, "oom"),
        .allocated = sim_csv_column(csv, "allocated_bytes"),
        .peak_allocated = sim_csv_column(csv, "peak_allocated_bytes"),
        .reserved = sim_csv_column(csv, "reserved_bytes"),
        .peak_reserved = sim_csv_column(csv, "peak_reserved_bytes"),
    };
}

static const char *get_cell(const Comparison *comparison, int column)
{
    return sim_csv_cell(comparison->csv, comparison->row, column);
}

/* --- the plan ----------------------------------------------------------------------------------
 */

static SimSettings *read_settings(const char *arguments)
{
    g_autoptr(GError) error = NULL;
    SimSettings *settings = sim_settings_new();
    g_auto(GStrv) words = g_strsplit(arguments, " ", -1);
    for (size_t i = 0; words[i] != NULL && words[i + 1] != NULL; i += 2)
        ck_assert_msg(sim_settings_set(settings, words[i] + 2, words[i + 1], words[i], &error),
                      "%s", error == NULL ? "" : error->message);
    return settings;
}

static SimModel *load_model(const char *name, SimSettings *settings)
{
    g_autoptr(GError) error = NULL;
    g_autofree char *file = g_strdup_printf("%s%s.json", MODELS, name);
    g_autoptr(SimModelConfig) config = sim_hf_config_load(file, &error);
    ck_assert_msg(config != NULL, "%s", error == NULL ? "" : error->message);
    ck_assert(sim_settings_settle(
        settings, settings->gpus > 0 ? (uint64_t)settings->gpus : 8, config->max_positions,
        sim_hf_model_has_code(config, SIM_MODEL_CODE_TORCHTITAN), &error));
    SimModelOptions options = {
        .code = settings->code == SIM_CODE_TORCHTITAN ? SIM_MODEL_CODE_TORCHTITAN
                                                      : SIM_MODEL_CODE_TRANSFORMERS,
        .is_norm_composite = settings->norm == SIM_NORM_COMPOSITE,
    };
    sim_setting_texts_parse_dropout(settings->dropout, &options.dropout);
    SimModel *model = sim_hf_model_build(config, &options, &error);
    ck_assert_msg(model != NULL, "%s", error == NULL ? "" : error->message);
    ck_assert(sim_job_freeze(model, settings->frozen, &error));
    return model;
}

static SimPlan *build(const Comparison *comparison, SimSettings *settings)
{
    g_autoptr(GError) error = NULL;
    g_autoptr(SimModel) model =
        load_model(get_cell(comparison, comparison->columns.model), settings);
    const char *job_file = get_cell(comparison, comparison->columns.job_file);
    g_autofree char *path = g_strconcat(FOLDER, job_file, NULL);
    g_autoptr(SimJob) job = *job_file == '\0' ? sim_job_build(settings, model, &error)
                                              : sim_job_file_load(path, settings, model, &error);
    ck_assert_msg(job != NULL, "%s", error == NULL ? "" : error->message);
    SimDtype compute = job->precision.param_dtype;
    SimAutogradOptions options = {
        .sequence = job->sequence,
        .batch = job->batch,
        .compute_dtype = compute == SIM_DTYPE_NONE ? job->store_dtype : compute,
        .sm_count = 132,
        .compute_capability = 90,
    };
    options.residual_dtype = options.compute_dtype;
    SimPlan *plan = sim_plan_builder_build(job, model, &options, &error);
    ck_assert_msg(plan != NULL, "%s", error == NULL ? "" : error->message);
    ck_assert_msg(sim_plan_check(plan, &error), "%s", error == NULL ? "" : error->message);
    return plan;
}

/* --- the allocator -----------------------------------------------------------------------------
 */

static SimAllocator *make_allocator(const SimSettings *settings)
{
    SimAllocatorConfig config;
    uint64_t bytes = UINT64_MAX;
    sim_allocator_config_init(&config);
    ck_assert(sim_allocator_config_parse(&config, settings->allocator, NULL));
    if (settings->hbm != NULL && g_strcmp0(settings->hbm, "unlimited") != 0)
        ck_assert(sim_units_parse_bytes(settings->hbm, &bytes, NULL));
    return sim_allocator_new(&config, bytes, NULL);
}

static void check_near(const Comparison *comparison, const char *what, uint64_t found, int column,
                       double tolerance)
{
    double expected = g_ascii_strtod(get_cell(comparison, column), NULL);
    ck_assert_msg(ABS((double)found - expected) <= tolerance * expected,
                  "%s step %s %s: %s: expected %.0f, found %" G_GUINT64_FORMAT " (%+.3f %%)",
                  get_cell(comparison, comparison->columns.job),
                  get_cell(comparison, comparison->columns.step),
                  get_cell(comparison, comparison->columns.phase), what, expected, found,
                  100 * ((double)found / expected - 1));
}

/* What PyTorch calls the phase of ROW in step N, 1-based: "forward.1" where there are several. */
static bool is_row(const Comparison *comparison, const SimInstruction *row, SimPhase phase)
{
    g_autofree char *step = g_strdup_printf("%d", row->step + 1);
    g_auto(GStrv) parts = g_strsplit(get_cell(comparison, comparison->columns.phase), ".", 2);
    const char *name = phase == SIM_PHASE_EVALUATION ? "evaluate" : sim_plan_phase_name(phase);
    int32_t microbatch =
        parts[1] == NULL ? MAX(row->microbatch, 0) : (int32_t)g_ascii_strtoll(parts[1], NULL, 10);
    return g_strcmp0(step, get_cell(comparison, comparison->columns.step)) == 0 &&
           g_strcmp0(name, parts[0]) == 0 && MAX(row->microbatch, 0) == microbatch;
}

/* At the end of a phase of which ROW is one. The initial one has no peaks; the cache is emptied. */
static void finish_phase(Comparison *comparison, const SimInstruction *row, SimPhase phase)
{
    const SimAllocatorStatistics *statistics = sim_allocator_statistics(comparison->allocator);
    const SimPoolStatistics *all = &statistics->pools[SIM_POOL_ALL];
    const Columns *columns = &comparison->columns;
    if (g_strcmp0(get_cell(comparison, columns->phase), "zero_grad") == 0 &&
        !is_row(comparison, row, phase))
        comparison->row++; /* of the first step: there is nothing to clear, so no row of the plan */
    ck_assert_uint_lt(comparison->row, comparison->end);
    ck_assert(is_row(comparison, row, phase));
    if (phase == SIM_PHASE_INIT)
        sim_allocator_empty_cache(comparison->allocator);
    check_near(comparison, "allocated", all->allocated_bytes.current, columns->allocated, 0.002);
    check_near(comparison, "reserved", all->reserved_bytes.current, columns->reserved, 0.005);
    if (phase != SIM_PHASE_INIT) {
        check_near(comparison, "peak allocated", all->allocated_bytes.peak, columns->peak_allocated,
                   0.002);
        check_near(comparison, "peak reserved", all->reserved_bytes.peak, columns->peak_reserved,
                   0.005);
        ck_assert_uint_eq(statistics->num_alloc_retries,
                          g_ascii_strtoull(get_cell(comparison, columns->retries), NULL, 10));
    }
    comparison->row++;
}

static SimPhase get_phase(const SimInstruction *row)
{
    return row->phase == SIM_PHASE_RECOMPUTE ? SIM_PHASE_BACKWARD : (SimPhase)row->phase;
}

/* True if it ran out of memory, in the phase of the row at *STOPPED. */
static bool play(Comparison *comparison, const SimPlan *plan, size_t *stopped)
{
    g_autofree SimBlock **blocks = g_new0(SimBlock *, sim_plan_buffer_count(plan) + 1);
    const SimInstruction *last = NULL;
    for (size_t i = 0; i < sim_plan_length(plan); i++) {
        const SimInstruction *row = sim_plan_instruction(plan, i);
        bool is_new =
            last != NULL && (get_phase(row) != get_phase(last) || row->step != last->step ||
                             row->microbatch != last->microbatch);
        if (is_new) {
            finish_phase(comparison, last, get_phase(last));
            sim_allocator_reset_peaks(comparison->allocator);
        }
        last = row;
        *stopped = i;
        if (!sim_plan_rank_set_has(plan, row->rank_set, 0))
            continue;
        if (row->op == SIM_PLAN_ALLOC) {
            const SimBuffer *buffer = sim_plan_buffer(plan, row->buffer);
            blocks[row->buffer] =
                sim_allocator_malloc(comparison->allocator, buffer->bytes, buffer->stream);
            if (blocks[row->buffer] == NULL)
                return true;
        } else if (row->op == SIM_PLAN_FREE && blocks[row->buffer] != NULL) {
            sim_allocator_free(comparison->allocator, blocks[row->buffer]);
        }
    }
    finish_phase(comparison, last, get_phase(last));
    return false;
}

static Comparison begin(const SimCsv *csv, const char *job)
{
    Comparison comparison = {.csv = csv, .columns = find_columns(csv)};
    while (g_strcmp0(get_cell(&comparison, comparison.columns.job), job) != 0) {
        comparison.row++;
        ck_assert_uint_lt(comparison.row, sim_csv_rows(csv));
    }
    comparison.end = comparison.row;
    while (comparison.end < sim_csv_rows(csv) &&
           g_strcmp0(sim_csv_cell(csv, comparison.end, comparison.columns.job), job) == 0)
        comparison.end++;
    return comparison;
}

START_TEST(memory_is_what_pytorchs_allocator_says)
{
    g_autoptr(GError) error = NULL;
    g_autoptr(SimCsv) csv = sim_csv_load(FOLDER "fsdp2.csv.gz", NULL, &error);
    ck_assert_msg(csv != NULL, "%s", error == NULL ? "" : error->message);
    Comparison comparison = begin(csv, JOBS[_i]);
    g_autoptr(SimSettings) settings =
        read_settings(get_cell(&comparison, comparison.columns.arguments));
    g_autofree char *oom = g_strdup(get_cell(&comparison, comparison.columns.oom));
    g_autoptr(SimPlan) plan = build(&comparison, settings);
    g_autoptr(SimAllocator) allocator = make_allocator(settings);
    comparison.allocator = allocator;
    size_t stopped = 0;
    bool is_oom = play(&comparison, plan, &stopped);
    const SimInstruction *row = sim_plan_instruction(plan, stopped);
    g_autofree char *where =
        is_oom ? g_strdup_printf("step %d %s", row->step + 1, sim_plan_phase_name(get_phase(row)))
               : g_strdup("");
    ck_assert_str_eq(where, oom);
    ck_assert_uint_eq(comparison.row, is_oom ? comparison.end - 1 : comparison.end);
}
END_TEST

static Suite *make_suite(void)
{
    Suite *suite = suite_create("fsdp2_jobs");
    TCase *tests = tcase_create("jobs");
    tcase_set_timeout(tests, 60);
    tcase_add_loop_test(tests, memory_is_what_pytorchs_allocator_says, 0, G_N_ELEMENTS(JOBS));
    suite_add_tcase(suite, tests);
    return suite;
}

int main(void)
{
    SRunner *runner = srunner_create(make_suite());
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? 0 : 1;
}
