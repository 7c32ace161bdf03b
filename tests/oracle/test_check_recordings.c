/* SPDX-License-Identifier: Apache-2.0
 *
 * The checker against what PyTorch did: every recording of fully_shard and
 * FullyShardedDataParallel, as a plan, breaks no rule. So checker and builders do not only share
 * one reading.
 *
 * Two settings are exceptions, and are reported as just what they are: parameters that stay
 * unsharded across the optimizer step are stale in the next forward (rule 2), and kept storage is
 * held (21).
 */
#include <check.h>
#include <string.h>

#include "check/verifier.h"
#include "support/recording_plan.h"

#define FOLDER SIM_SOURCE_DIR "/tests/oracle/pytorch/"

/* --- what each setting may hold beyond FSDP2's defaults -----------------------------------------
 */

/* Units 5 (4 blocks and the root); stale: all of them from the second step on. */
typedef struct Exception {
    const char *name;
    uint64_t stale, held;
} Exception;

static const Exception exceptions[] = {
    /* set_reshard_after_backward(False): all 5 units survive the optimizer, and are used again. */
    {"accum2-keep-unsharded-across-optim-w2", 5, 5},
    /* set_keep_unsharded_storage(True): the storage stays, and is gathered into anew: not stale. */
    {"keep-unsharded-storage-w2", 0, 5},
};

static const Exception *find_exception(const char *name)
{
    for (size_t i = 0; i < G_N_ELEMENTS(exceptions); i++)
        if (strcmp(exceptions[i].name, name) == 0)
            return &exceptions[i];
    return NULL;
}

static gint compare_names(gconstpointer a, gconstpointer b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static GPtrArray *list_recordings(const char *folder)
{
    g_autofree char *path = g_build_filename(FOLDER, folder, NULL);
    g_autoptr(GDir) dir = g_dir_open(path, 0, NULL);
    ck_assert_ptr_nonnull(dir);
    GPtrArray *files = g_ptr_array_new_with_free_func(g_free);
    for (const char *name = g_dir_read_name(dir); name != NULL; name = g_dir_read_name(dir))
        if (g_str_has_suffix(name, ".csv.gz"))
            g_ptr_array_add(files, g_build_filename(path, name, NULL));
    g_ptr_array_sort(files, compare_names);
    return files;
}

static SimVerdict *check_recording(const char *file, SimPlan **plan)
{
    g_autoptr(GError) error = NULL;
    *plan = recording_plan_load(file, &error);
    ck_assert_msg(*plan != NULL, "%s", error != NULL ? error->message : file);
    ck_assert_msg(sim_plan_check(*plan, &error), "%s: %s", file,
                  error != NULL ? error->message : "");
    SimVerdict *verdict = sim_verifier_check_plan(*plan, file, &error);
    ck_assert_msg(verdict != NULL, "%s", error != NULL ? error->message : file);
    return verdict;
}

static void check_folder(const char *folder, guint expected)
{
    g_autoptr(GPtrArray) files = list_recordings(folder);
    ck_assert_uint_eq(files->len, expected);
    for (guint i = 0; i < files->len; i++) {
        const char *file = g_ptr_array_index(files, i);
        g_autofree char *base = g_path_get_basename(file);
        g_autofree char *name = g_strndup(base, strlen(base) - strlen(".csv.gz"));
        g_autoptr(SimPlan) plan = NULL;
        g_autoptr(SimVerdict) verdict = check_recording(file, &plan);
        const Exception *exception = find_exception(name);
        uint64_t stale = exception != NULL ? exception->stale : 0;
        uint64_t held = exception != NULL ? exception->held : 0;
        g_autofree char *text = sim_verdict_print(verdict, 5);
        const SimFindings *findings = verdict->findings;
        ck_assert_msg(sim_findings_violations(findings) == stale + held, "%s: %s", name, text);
        ck_assert_uint_eq(sim_findings_of_rule(findings, SIM_RULE_NO_STALE_UNSHARDED), stale);
        ck_assert_uint_eq(sim_findings_of_rule(findings, SIM_RULE_ALL_FREED), held);
        /* It did look: each step gathers, reduces and waits. */
        ck_assert_uint_gt(verdict->proof.accesses, 50);
        ck_assert_uint_gt(verdict->proof.waits, 20);
    }
}

START_TEST(every_recording_of_fully_shard_is_safe)
{
    check_folder("fsdp2", 87);
}
END_TEST

START_TEST(every_recording_of_fsdp1_is_safe)
{
    check_folder("fsdp1", 19);
}
END_TEST

/* Three steps of 5 units, W = 2: 5 gathers forward and 4 backward (the root is kept) and 5
 * reduce-scatters a step; each reduce-scatter's result is applied once a step. */
START_TEST(what_was_looked_at_is_counted)
{
    g_autoptr(SimPlan) plan = NULL;
    g_autoptr(SimVerdict) verdict = check_recording(FOLDER "fsdp2/base-w2.csv.gz", &plan);
    ck_assert_uint_eq(verdict->proof.collectives, 3 * (5 + 4 + 5));
    ck_assert_uint_eq(verdict->proof.gradients, 3 * 5);
    ck_assert_uint_eq(verdict->proof.ranks, 2);
    ck_assert_uint_eq(verdict->proof.classes, 1);
}
END_TEST

typedef struct Remark {
    const char *recording;
    SimRuleId rule;
    bool is_made;
} Remark;

/* What costs time or memory by the setting's own choice is remarked and breaks nothing. */
static const Remark remarks[] = {
    /* The cast gradient has all of the reduced buffer, which is kept to the end: one a unit. */
    {"fsdp2/hsdp-bf16-reduce-2x2", SIM_RULE_ALL_REDUCE_BOUND, true},
    {"fsdp2/hsdp-2x2", SIM_RULE_ALL_REDUCE_BOUND, false},
    {"fsdp2/accum2-nosync-w2", SIM_RULE_UNSYNCED_CHARGED, true},
    {"fsdp2/accum2-w2", SIM_RULE_UNSYNCED_CHARGED, false},
    /* The prefetch of a frozen block in backward is for nothing. */
    {"fsdp2/frozen-embedding-block0-w2", SIM_RULE_NO_REDUNDANT_GATHER, true},
    {"fsdp2/base-w2", SIM_RULE_NO_REDUNDANT_GATHER, false},
    /* A replicate group of one rank. */
    {"fsdp2/hsdp-1x2-w2", SIM_RULE_NO_NEEDLESS_REDUCE, true},
    {"fsdp2/hsdp-2x2", SIM_RULE_NO_NEEDLESS_REDUCE, false},
    {"fsdp2/prefetch-fwd2-w2", SIM_RULE_GATHER_BOUND, true},
    {"fsdp2/base-w2", SIM_RULE_GATHER_BOUND, false},
    /* Without backward prefetch the next gather queues behind the reduction. */
    {"fsdp1/fsdp1-backward-none-w2", SIM_RULE_GATHER_BEFORE_REDUCE, true},
    {"fsdp1/fsdp1-full-shard-w2", SIM_RULE_GATHER_BEFORE_REDUCE, false},
};

START_TEST(what_a_setting_costs_is_remarked)
{
    const Remark *remark = &remarks[_i];
    g_autofree char *file = g_strdup_printf(FOLDER "%s.csv.gz", remark->recording);
    g_autoptr(SimPlan) plan = NULL;
    g_autoptr(SimVerdict) verdict = check_recording(file, &plan);
    ck_assert_msg((sim_findings_of_rule(verdict->findings, remark->rule) > 0) == remark->is_made,
                  "%s, %s", remark->recording, sim_rules_get(remark->rule)->id);
    ck_assert(sim_verdict_is_safe(verdict));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("check_recordings");
    TCase *recordings = tcase_create("recordings");
    tcase_add_test(recordings, every_recording_of_fully_shard_is_safe);
    tcase_add_test(recordings, every_recording_of_fsdp1_is_safe);
    tcase_add_test(recordings, what_was_looked_at_is_counted);
    tcase_add_loop_test(recordings, what_a_setting_costs_is_remarked, 0,
                        (int)G_N_ELEMENTS(remarks));
    suite_add_tcase(suite, recordings);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? 0 : 1;
}
