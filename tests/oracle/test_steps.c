/* SPDX-License-Identifier: Apache-2.0
 *
 * 56 whole jobs against PyTorch's own numbers (steps/README.md): what is allocated and reserved in
 * each phase of each step, allocator retries, and the step in which memory runs out.
 */
#include <check.h>
#include <inttypes.h>
#include <string.h>

#include "base/csv.h"
#include "predict/plan_source.h"
#include "predict/prediction.h"

#define JOBS 56
#define NO_LIMIT "4000000000000"

typedef struct Recording {
    SimCsv *csv;
    size_t first, end; /* the job's rows */
} Recording;

static const char *cell(const Recording *recording, size_t row, const char *column)
{
    int number = sim_csv_column(recording->csv, column);
    ck_assert_int_ge(number, 0);
    return sim_csv_cell(recording->csv, row, number);
}

static uint64_t number(const Recording *recording, size_t row, const char *column)
{
    return g_ascii_strtoull(cell(recording, row, column), NULL, 10);
}

static bool is_same_job(const Recording *recording, size_t a, size_t b)
{
    return strcmp(cell(recording, a, "model"), cell(recording, b, "model")) == 0 &&
           strcmp(cell(recording, a, "setting"), cell(recording, b, "setting")) == 0;
}

/* The INDEXth job, or one without rows if there are not so many. */
static Recording open_job(int index)
{
    GError *error = NULL;
    Recording recording = {0};
    recording.csv = sim_csv_load(SIM_SOURCE_DIR "/tests/oracle/steps/steps.csv.gz", NULL, &error);
    ck_assert_msg(recording.csv != NULL, "%s", error != NULL ? error->message : "?");
    size_t rows = sim_csv_rows(recording.csv);
    for (int job = 0; job <= index; job++) {
        recording.first = recording.end;
        while (recording.end < rows && is_same_job(&recording, recording.first, recording.end))
            recording.end++;
    }
    return recording;
}

static void set(SimSettings *settings, const char *name, const char *value)
{
    GError *error = NULL;
    bool is_good = sim_settings_set(settings, name, value, name, &error);
    ck_assert_msg(is_good, "%s", error != NULL ? error->message : "?");
}

/* The recording's word for a setting and ours; a word that is not here is the same in both. */
static const char *translate(const char *word)
{
    static const char *const words[][2] = {{"titan", "torchtitan"},
                                           {"hf", "transformers"},
                                           {"selective_noearlystop", "selective"},
                                           {"upcast", "composite"},
                                           {"default", "last-block-kept"},
                                           {"always", "true"},
                                           {"never", "false"},
                                           {NO_LIMIT, "unlimited"}};
    for (size_t i = 0; i < G_N_ELEMENTS(words); i++)
        if (strcmp(words[i][0], word) == 0)
            return words[i][1];
    return word;
}

static SimSettings *read_settings(const Recording *recording)
{
    static const char *const columns[][2] = {
        {"gpus", "gpus"},
        {"seq", "seq"},
        {"batch", "batch"},
        {"accumulate", "accumulate"},
        {"implementation", "code"},
        {"norm", "norm"},
        {"checkpoint", "checkpoint"},
        {"wrap", "wrap"},
        {"reshard", "reshard-after-forward"},
        {"param_dtype", "param-dtype"},
        {"reduce_dtype", "reduce-dtype"},
        {"optimizer", "optimizer"},
        {"allocator", "allocator"},
        {"device_bytes", "hbm"},
    };
    SimSettings *settings = sim_settings_new();
    size_t row = recording->first;
    for (size_t i = 0; i < G_N_ELEMENTS(columns); i++)
        set(settings, columns[i][1], translate(cell(recording, row, columns[i][0])));
    const char *checkpoint = cell(recording, row, "checkpoint");
    set(settings, "early-stop", strstr(checkpoint, "noearlystop") != NULL ? "off" : "on");
    set(settings, "clip", strcmp(cell(recording, row, "clip"), "1") == 0 ? "on" : "off");
    set(settings, "gradient-sync", "last");
    if (strcmp(cell(recording, row, "shard_size"), cell(recording, row, "gpus")) != 0) {
        set(settings, "strategy", "hybrid_shard");
        set(settings, "shard-size", cell(recording, row, "shard_size"));
    }
    if (g_str_has_prefix(cell(recording, row, "model"), "gpt2"))
        set(settings, "dropout", "0.1");
    return settings;
}

/* "backward.1": of microbatch 1. NULL: no such phase was begun. */
static const SimMemoryPhase *find_phase(const Recording *recording, size_t row,
                                        const SimMemorySummary *memory)
{
    g_auto(GStrv) words = g_strsplit(cell(recording, row, "phase"), ".", 2);
    int64_t step = (int64_t)number(recording, row, "step") - 1;
    int64_t microbatch = words[1] == NULL ? 0 : g_ascii_strtoll(words[1], NULL, 10);
    for (guint i = 0; i < memory->history->phases->len; i++) {
        const SimPhaseRange *range = &g_array_index(memory->program->phases, SimPhaseRange, i);
        if (range->step == step && MAX(range->microbatch, 0) == microbatch &&
            strcmp(sim_plan_phase_name((SimPhase)range->phase), words[0]) == 0)
            return &g_array_index(memory->history->phases, SimMemoryPhase, i);
    }
    return NULL;
}

static void compare(const Recording *recording, size_t row, const char *column, uint64_t found)
{
    uint64_t expected = number(recording, row, column);
    ck_assert_msg(found == expected, "%s %s, step %s %s: %s is %" PRIu64 ", expected %" PRIu64,
                  cell(recording, row, "model"), cell(recording, row, "setting"),
                  cell(recording, row, "step"), cell(recording, row, "phase"), column, found,
                  expected);
}

static void compare_job(const Recording *recording, const SimMemorySummary *memory)
{
    uint64_t retries = 0;
    for (size_t row = recording->first; row < recording->end; row++) {
        const char *name = cell(recording, row, "phase");
        if (strcmp(name, "oom") == 0) {
            ck_assert(memory->history->is_oom);
            compare(recording, row, "step", (uint64_t)memory->oom_at.step + 1);
            return;
        }
        const SimMemoryPhase *phase = find_phase(recording, row, memory);
        ck_assert_msg(phase != NULL, "%s: no phase %s in step %s", cell(recording, row, "setting"),
                      name, cell(recording, row, "step"));
        retries += phase->alloc_retries;
        compare(recording, row, "allocated_bytes", phase->allocated_bytes);
        if (strcmp(name, "init") == 0)
            continue; /* the recordings' other numbers of it are of another moment */
        compare(recording, row, "reserved_bytes", phase->reserved_bytes);
        compare(recording, row, "peak_allocated_bytes", phase->peaks.allocated_bytes);
        compare(recording, row, "peak_active_bytes", phase->peaks.active_bytes);
        compare(recording, row, "peak_reserved_bytes", phase->peaks.reserved_bytes);
        compare(recording, row, "retries", retries);
    }
    ck_assert(!memory->history->is_oom);
}

START_TEST(each_phase_takes_what_pytorch_took)
{
    GError *error = NULL;
    Recording recording = open_job(_i);
    ck_assert_uint_lt(recording.first, recording.end);
    g_autoptr(SimSettings) settings = read_settings(&recording);
    g_autoptr(SimCluster) cluster = sim_cluster_load(SIM_SOURCE_DIR "/models", "h100", &error);
    g_autofree char *model = g_strdup_printf("%s/models/nets/%s.json", SIM_SOURCE_DIR,
                                             cell(&recording, recording.first, "model"));
    g_autoptr(SimPlan) plan =
        cluster != NULL ? sim_plan_source_build(settings, cluster, model, &error) : NULL;
    ck_assert_msg(plan != NULL, "%s", error != NULL ? error->message : "?");
    SimPredictionOptions options = {0};
    g_autoptr(SimPrediction) prediction =
        sim_prediction_new(plan, cluster, settings, &options, &error);
    ck_assert_msg(prediction != NULL, "%s", error != NULL ? error->message : "?");
    compare_job(&recording, &sim_prediction_summary(prediction)->memory);
    sim_csv_free(recording.csv);
}
END_TEST

START_TEST(there_are_no_more_jobs)
{
    Recording recording = open_job(JOBS);
    ck_assert_uint_eq(recording.first, recording.end);
    sim_csv_free(recording.csv);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("steps");
    TCase *tcase = tcase_create("steps");
    tcase_add_loop_test(tcase, each_phase_takes_what_pytorch_took, 0, JOBS);
    tcase_add_test(tcase, there_are_no_more_jobs);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed > 0;
}
