/* SPDX-License-Identifier: Apache-2.0
 *
 * Whole jobs of FSDP1 and DDP against what PyTorch's allocator said of them
 * (jobs_fsdp1/README.md): every phase of every step, at both ends of what a device can be. On one
 * that is infinitely fast a block under record_stream comes back at once, on one that is infinitely
 * slow when the host has waited for it (slow_device.h).
 */
#include "base/csv.h"
#include "hardware/cluster.h"
#include "job/settings.h"
#include "predict/plan_source.h"
#include "rank/memory_run.h"
#include "support/slow_device.h"

#include <check.h>

#define FOLDER SIM_SOURCE_DIR "/tests/oracle/jobs_fsdp1/"
#define MOST_TEXT 2000 /* Check's messages are short */
#define MODELS SIM_SOURCE_DIR "/models"

static const char *const JOBS[] = {
    "v46", "v47", "v48", "v49", "v50", "v51", "v52", "v53", "v54", "v55", "v56",
    "v57", "v58", "v59", "v61", "v62", "v72", "v73", "v74", "v75", "v76", "v77",
};

static uint64_t get_number(const SimCsv *csv, size_t row, const char *column)
{
    return g_ascii_strtoull(sim_csv_cell(csv, row, sim_csv_column(csv, column)), NULL, 10);
}

static const char *get_text(const SimCsv *csv, size_t row, const char *column)
{
    return sim_csv_cell(csv, row, sim_csv_column(csv, column));
}

static SimPlan *build(const SimCsv *csv, size_t row, SimSettings *settings)
{
    g_auto(GStrv) words = g_strsplit(get_text(csv, row, "arguments"), " ", -1);
    g_autoptr(GError) error = NULL;
    for (size_t i = 0; words[i] != NULL && words[i + 1] != NULL; i += 2)
        ck_assert_msg(sim_settings_set(settings, words[i] + 2, words[i + 1], words[i], &error),
                      "%s", error == NULL ? "" : error->message);
    g_autofree char *job = g_strconcat(FOLDER, get_text(csv, row, "job_file"), NULL);
    if (get_text(csv, row, "job_file")[0] != '\0')
        ck_assert(sim_settings_set(settings, "job", job, "--job", &error));
    g_autofree char *model =
        g_strdup_printf("%s/nets/%s.json", MODELS, get_text(csv, row, "model"));
    g_autoptr(SimCluster) cluster = sim_cluster_load(MODELS, "h100", &error);
    ck_assert_ptr_nonnull(cluster);
    SimPlan *plan = sim_plan_source_build(settings, cluster, model, &error);
    ck_assert_msg(plan != NULL, "%s", error == NULL ? "" : error->message);
    return plan;
}

/* Plays rank 0's rows. */
static void play(const SimRankProgram *program, SimMemoryRun *run, SlowDevice *device,
                 const SimPlan *plan)
{
    for (uint32_t position = 0; position < program->length; position++) {
        slow_device_issue(device,
                          sim_plan_instruction(plan, sim_rank_program_row(program, position)));
        ck_assert(sim_memory_run_step(run, position));
    }
    sim_memory_run_finish(run);
}

/* The phase that a recorded row is about: its step counts from 1, 0 is initialisation; "backward.1"
 * is that of microbatch 1. NULL: nothing was issued in it. */
static const SimMemoryPhase *find_phase(const SimCsv *csv, size_t row,
                                        const SimRankProgram *program,
                                        const SimMemoryHistory *history)
{
    g_auto(GStrv) words = g_strsplit(get_text(csv, row, "phase"), ".", 2);
    int32_t step = (int32_t)get_number(csv, row, "step") - 1;
    int32_t microbatch = words[1] == NULL ? -1 : (int32_t)g_ascii_strtoll(words[1], NULL, 10);
    for (uint32_t i = 0; i < program->phases->len; i++) {
        const SimPhaseRange *phase = &g_array_index(program->phases, SimPhaseRange, i);
        if (phase->step == step &&
            strcmp(sim_plan_phase_name((SimPhase)phase->phase), words[0]) == 0 &&
            (microbatch < 0 || phase->microbatch == microbatch))
            return &g_array_index(history->phases, SimMemoryPhase, i);
    }
    return NULL;
}

static void compare(const SimCsv *csv, size_t row, const char *column, uint64_t found,
                    GString *differences)
{
    uint64_t expected = get_number(csv, row, column);
    if (found != expected && differences->len < MOST_TEXT)
        g_string_append_printf(
            differences, "\n  step %s %s: %s is %" G_GUINT64_FORMAT ", expected %" G_GUINT64_FORMAT,
            get_text(csv, row, "step"), get_text(csv, row, "phase"), column, found, expected);
}

static void compare_job(const SimCsv *csv, const char *job, const SimRankProgram *program,
                        const SimMemoryHistory *history)
{
    g_autoptr(GString) differences = g_string_new(NULL);
    uint64_t retries = 0;
    for (size_t row = 0; row < sim_csv_rows(csv); row++) {
        if (strcmp(get_text(csv, row, "job"), job) != 0)
            continue;
        const SimMemoryPhase *phase = find_phase(csv, row, program, history);
        if (phase == NULL)
            continue;
        retries += phase->alloc_retries;
        compare(csv, row, "allocated_bytes", phase->allocated_bytes, differences);
        compare(csv, row, "reserved_bytes", phase->reserved_bytes, differences);
        compare(csv, row, "peak_allocated_bytes", phase->peaks.allocated_bytes, differences);
        compare(csv, row, "peak_active_bytes", phase->peaks.active_bytes, differences);
        compare(csv, row, "peak_reserved_bytes", phase->peaks.reserved_bytes, differences);
        compare(csv, row, "retries", retries, differences);
    }
    ck_assert_msg(differences->len == 0, "%s:%s", job, differences->str);
}

static uint64_t read_device_bytes(const SimSettings *settings)
{
    uint64_t bytes = UINT64_MAX;
    if (strcmp(settings->hbm, "unlimited") != 0)
        ck_assert(sim_units_parse_bytes(settings->hbm, &bytes, NULL));
    return bytes;
}

START_TEST(memory_is_what_pytorch_said)
{
    const char *job = JOBS[_i];
    g_autoptr(GError) error = NULL;
    g_autoptr(SimCsv) csv = sim_csv_load(FOLDER "jobs.csv.gz", NULL, &error);
    ck_assert_msg(csv != NULL, "%s", error == NULL ? "" : error->message);
    size_t first = 0;
    while (strcmp(get_text(csv, first, "job"), job) != 0)
        first++;
    g_autoptr(SimSettings) settings = sim_settings_new();
    g_autoptr(SimPlan) plan = build(csv, first, settings);
    ck_assert_msg(sim_plan_check(plan, &error), "%s", error == NULL ? "" : error->message);
    bool is_slow = strcmp(get_text(csv, first, "events"), "pending") == 0;
    SlowDevice *device = slow_device_new(plan);
    SimAllocatorDevice description = slow_device_describe(device);
    g_autoptr(SimRankProgram) program = sim_rank_program_new(plan, 0);
    SimMemoryOptions options = {.device_bytes = read_device_bytes(settings)};
    g_autoptr(SimMemoryRun) run =
        sim_memory_run_new(plan, program, &options, is_slow ? &description : NULL);
    play(program, run, device, plan);
    compare_job(csv, job, program, sim_memory_run_history(run));
    slow_device_free(device);
}
END_TEST

static Suite *make_suite(void)
{
    Suite *suite = suite_create("jobs_fsdp1");
    TCase *tests = tcase_create("jobs");
    tcase_set_timeout(tests, 60);
    tcase_add_loop_test(tests, memory_is_what_pytorch_said, 0, (int)G_N_ELEMENTS(JOBS));
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
