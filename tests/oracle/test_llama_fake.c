/* SPDX-License-Identifier: Apache-2.0
 *
 * Llama-3.1-8B under fully_shard as PyTorch's own FSDP2 memory tracker sees it on fake tensors
 * (pytorch/llama8b_fake.csv.gz, see its README): parameters, gradients, all-gather and
 * reduce-scatter buffers and optimizer states, to the byte, between the phases of two steps and at
 * the hooks of ten units. Its activations come from CPU kernels and other model code: not compared.
 */
#include "base/csv.h"
#include "hardware/cluster.h"
#include "job/settings.h"
#include "predict/plan_source.h"
#include "rank/rank_program.h"

#include <check.h>
#include <string.h>

#define FILE_NAME SIM_SOURCE_DIR "/tests/oracle/pytorch/llama8b_fake.csv.gz"
#define MODELS SIM_SOURCE_DIR "/models"
#define MOST_TEXT 1500

static const struct {
    const char *name, *ranks, *checkpoint, *reshard;
} CASES[] = {
    {"w8-no-ac", "8", "none", "default"},
    {"w8-full-ac", "8", "full", "default"},
    {"w8-full-ac-zero2", "8", "full", "false"},
    {"w128-full-ac", "128", "full", "default"},
};

/* Live bytes of rank 0. */
typedef struct Live {
    uint64_t bytes[SIM_CATEGORY_COUNT];
} Live;

/* Between hooks of a unit, in one step. */
typedef enum Moment {
    AFTER_PRE_FORWARD,
    BEFORE_POST_FORWARD,
    AFTER_PRE_BACKWARD,
    AFTER_POST_BACKWARD,
    MOMENT_COUNT
} Moment;

static const char *const MOMENTS[] = {"After Pre-Forward", "Before Post-Forward",
                                      "After Pre-Backward", "After Post-Backward"};

typedef struct Run {
    const SimPlan *plan;
    const SimStrings *strings;
    Live live;
    Live by_phase[2][SIM_PHASE_COUNT]; /* at the end of each */
    GHashTable *units;                 /* unit's id -> Live[MOMENT_COUNT], of step 1 */
    GHashTable *seen;                  /* unit's id -> which moments have been, by bit */
} Run;

static const char *get_text(const SimCsv *csv, size_t row, const char *column)
{
    return sim_csv_cell(csv, row, sim_csv_column(csv, column));
}

static SimPlan *build(int number)
{
    const char *const words[][2] = {{"gpus", CASES[number].ranks},
                                    {"seq", "8192"},
                                    {"steps", "2"},
                                    {"checkpoint", CASES[number].checkpoint},
                                    {"reshard-after-forward", CASES[number].reshard},
                                    {"clip", "off"},
                                    {"hbm", "unlimited"}};
    g_autoptr(GError) error = NULL;
    g_autoptr(SimSettings) settings = sim_settings_new();
    for (size_t i = 0; i < G_N_ELEMENTS(words); i++)
        ck_assert(sim_settings_set(settings, words[i][0], words[i][1], words[i][0], &error));
    g_autoptr(SimCluster) cluster = sim_cluster_load(MODELS, "h100", &error);
    SimPlan *plan =
        sim_plan_source_build(settings, cluster, MODELS "/nets/llama-3.1-8b.json", &error);
    ck_assert_msg(plan != NULL, "%s", error == NULL ? "" : error->message);
    return plan;
}

static void note(Run *run, const SimInstruction *row, Moment moment)
{
    gpointer key = GUINT_TO_POINTER(row->unit);
    Live *lives = g_hash_table_lookup(run->units, key);
    if (lives == NULL) {
        lives = g_new0(Live, MOMENT_COUNT);
        g_hash_table_insert(run->units, key, lives);
    }
    lives[moment] = run->live;
    guint seen = GPOINTER_TO_UINT(g_hash_table_lookup(run->seen, key));
    g_hash_table_insert(run->seen, key, GUINT_TO_POINTER(seen | 1U << moment));
}

static bool is_seen(const Run *run, const SimInstruction *row, Moment moment)
{
    guint seen = GPOINTER_TO_UINT(g_hash_table_lookup(run->seen, GUINT_TO_POINTER(row->unit)));
    return (seen >> moment & 1) != 0;
}

static bool is_operators(const Run *run, const SimInstruction *row)
{
    if (row->op != SIM_PLAN_ALLOC)
        return false;
    SimCategory category = sim_plan_buffer(run->plan, row->buffer)->category;
    return category == SIM_CATEGORY_ACTIVATION || category == SIM_CATEGORY_UNSHARDED_GRADIENT;
}

/* Before ROW: an operator's first allocation in a unit comes after its hook, its last one before
 * the next. */
static void note_before(Run *run, const SimInstruction *row)
{
    if (!is_operators(run, row))
        return;
    if (row->phase == SIM_PHASE_FORWARD) {
        if (!is_seen(run, row, AFTER_PRE_FORWARD))
            note(run, row, AFTER_PRE_FORWARD);
        note(run, row, BEFORE_POST_FORWARD);
    } else if ((row->phase == SIM_PHASE_BACKWARD || row->phase == SIM_PHASE_RECOMPUTE) &&
               !is_seen(run, row, AFTER_PRE_BACKWARD)) {
        note(run, row, AFTER_PRE_BACKWARD);
    }
}

static void play_row(Run *run, const SimInstruction *row)
{
    if (row->step == 1)
        note_before(run, row);
    if (row->op == SIM_PLAN_ALLOC || row->op == SIM_PLAN_FREE) {
        const SimBuffer *buffer = sim_plan_buffer(run->plan, row->buffer);
        uint64_t *bytes = &run->live.bytes[buffer->category];
        *bytes = row->op == SIM_PLAN_ALLOC ? *bytes + buffer->bytes : *bytes - buffer->bytes;
    }
    if (row->step == 1 && row->op == SIM_PLAN_COLLECTIVE && row->phase == SIM_PHASE_BACKWARD &&
        row->collective == SIM_COLLECTIVE_REDUCE_SCATTER)
        note(run, row, AFTER_POST_BACKWARD);
    if (row->step >= 0)
        run->by_phase[row->step][row->phase] = run->live;
}

/* The tracker's words; what it calls a sharded gradient is a reduce-scatter's output first. */
static bool find_bytes(const Live *live, const char *category, uint64_t *bytes)
{
    const uint64_t *of = live->bytes;
    if (strcmp(category, "sharded_param") == 0)
        *bytes = of[SIM_CATEGORY_PARAMETER_SHARD];
    else if (strcmp(category, "unsharded_param") == 0)
        *bytes = of[SIM_CATEGORY_UNSHARDED_PARAMETER];
    else if (strcmp(category, "sharded_grad") == 0)
        *bytes = of[SIM_CATEGORY_SHARDED_GRADIENT] + of[SIM_CATEGORY_REDUCE_SCATTER_OUTPUT];
    else if (strcmp(category, "all_gather") == 0)
        *bytes = of[SIM_CATEGORY_ALL_GATHER_OUTPUT];
    else if (strcmp(category, "reduce_scatter") == 0)
        *bytes = of[SIM_CATEGORY_REDUCE_SCATTER_INPUT];
    else if (strcmp(category, "optstate") == 0)
        *bytes = of[SIM_CATEGORY_OPTIMIZER_STATE];
    else
        return false;
    return true;
}

static const Live *find_phase(const Run *run, size_t step, const char *where)
{
    static const struct {
        const char *where;
        SimPhase phase;
    } PHASES[] = {
        {"after forward and loss", SIM_PHASE_FORWARD},
        {"after backward", SIM_PHASE_BACKWARD},
        {"after optimizer", SIM_PHASE_OPTIMIZER},
        {"after zero_grad", SIM_PHASE_ZERO_GRAD},
    };
    for (size_t i = 0; i < G_N_ELEMENTS(PHASES); i++)
        if (strcmp(PHASES[i].where, where) == 0)
            return &run->by_phase[step][PHASES[i].phase];
    return NULL;
}

static const Live *find_moment(const Run *run, const char *unit, const char *where)
{
    const char *name = strcmp(unit, "head") == 0 ? "norm+output" : unit;
    for (size_t i = 0; i < MOMENT_COUNT; i++) {
        if (strcmp(MOMENTS[i], where) != 0)
            continue;
        SimStringId id = sim_strings_find(run->strings, name);
        const Live *lives = g_hash_table_lookup(run->units, GUINT_TO_POINTER(id));
        return lives == NULL ? NULL : &lives[i];
    }
    return NULL;
}

static size_t compare(const Run *run, const SimCsv *csv, const char *name, GString *differences)
{
    size_t compared = 0;
    for (size_t row = 0; row < sim_csv_rows(csv); row++) {
        if (strcmp(get_text(csv, row, "case"), name) != 0)
            continue;
        const char *kind = get_text(csv, row, "kind"), *where = get_text(csv, row, "where");
        const char *category = get_text(csv, row, "category");
        size_t step = (size_t)g_ascii_strtoull(get_text(csv, row, "step"), NULL, 10);
        uint64_t expected = g_ascii_strtoull(get_text(csv, row, "bytes"), NULL, 10), found = 0;
        const Live *live = strcmp(kind, "current") == 0
                               ? find_phase(run, step, where)
                               : find_moment(run, get_text(csv, row, "unit"), where);
        if (live == NULL || !find_bytes(live, category, &found))
            continue;
        compared++;
        if (found != expected && differences->len < MOST_TEXT)
            g_string_append_printf(
                differences,
                "\n  %zu %s %s: %s is %" G_GUINT64_FORMAT ", expected %" G_GUINT64_FORMAT, step,
                get_text(csv, row, "unit"), where, category, found, expected);
    }
    return compared;
}

START_TEST(fsdps_bytes_are_the_trackers)
{
    g_autoptr(GError) error = NULL;
    g_autoptr(SimCsv) csv = sim_csv_load(FILE_NAME, NULL, &error);
    ck_assert_ptr_nonnull(csv);
    g_autoptr(SimPlan) plan = build(_i);
    g_autoptr(SimRankProgram) program = sim_rank_program_new(plan, 0);
    Run run = {.plan = plan,
               .strings = sim_plan_strings(plan),
               .units = g_hash_table_new_full(NULL, NULL, NULL, g_free),
               .seen = g_hash_table_new(NULL, NULL)};
    for (uint32_t i = 0; i < program->length; i++)
        play_row(&run, sim_plan_instruction(plan, sim_rank_program_row(program, i)));
    g_autoptr(GString) differences = g_string_new(NULL);
    size_t compared = compare(&run, csv, CASES[_i].name, differences);
    g_hash_table_unref(run.units);
    g_hash_table_unref(run.seen);
    ck_assert_msg(differences->len == 0, "%s:%s", CASES[_i].name, differences->str);
    /* 10 units at 4 hooks, and the phases, each with 3 to 6 parts */
    ck_assert_uint_gt(compared, 150);
}
END_TEST

static Suite *make_suite(void)
{
    Suite *suite = suite_create("llama_fake");
    TCase *tests = tcase_create("cases");
    tcase_set_timeout(tests, 60);
    tcase_add_loop_test(tests, fsdps_bytes_are_the_trackers, 0, (int)G_N_ELEMENTS(CASES));
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
