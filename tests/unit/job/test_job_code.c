/* SPDX-License-Identifier: Apache-2.0
 *
 * What a job says of the model's code: checkpointed blocks, a loss in chunks, frozen modules.
 */
#include <check.h>
#include <string.h>

#include "base/error.h"
#include "job/job.h"
#include "job/job_freeze.h"
#include "model/module_tree.h"

/* Five blocks of one parameter each, a norm. */
static SimModel *new_model(void)
{
    SimModel *model = sim_module_tree_new("mine", "Mine");
    SimProgram *forward = sim_program_new(1);
    uint32_t layers = sim_module_tree_add(model, 0, "layers");
    for (int i = 0; i < 5; i++) {
        g_autofree char *name = g_strdup_printf("%d", i);
        uint32_t block = sim_module_tree_add(model, layers, name);
        sim_module_tree_set_forward(model, block, forward);
        sim_module_tree_add_weight(model, block, "wq", 8, 8, forward);
        g_array_append_val(model->blocks, block);
    }
    model->norm = sim_module_tree_add_weight(model, 0, "norm", 8, 0, forward);
    return model;
}

static SimJob *build(const SimModel *model, const char *name, const char *value, GError **error)
{
    g_autoptr(SimSettings) settings = sim_settings_new();
    ck_assert(sim_settings_set(settings, "seq", "1000", "--x", NULL));
    ck_assert(sim_settings_set(settings, "wrap", "block+root", "--x", NULL));
    ck_assert(sim_settings_set(settings, name, value, "--x", NULL));
    ck_assert(sim_settings_settle(settings, 8, 4096, true, NULL));
    return sim_job_build(settings, model, error);
}

static const struct {
    const char *value, *blocks; /* those that are checkpointed */
    bool is_selective;
} checkpoints[] = {
    {"none", "", false},         {"full", "01234", false}, {"selective", "01234", true},
    {"every:1", "01234", false}, {"every:2", "13", false}, {"every:5", "4", false},
    {"every:6", "", false},
};

START_TEST(every_kth_block_is_checkpointed)
{
    g_autoptr(SimModel) model = new_model();
    g_autoptr(SimJob) job = build(model, "checkpoint", checkpoints[_i].value, NULL);
    ck_assert_uint_eq(job->checkpoints->len, strlen(checkpoints[_i].blocks));
    for (guint i = 0; i < job->checkpoints->len; i++) {
        const SimJobCheckpoint *checkpoint = &g_array_index(job->checkpoints, SimJobCheckpoint, i);
        uint32_t block = (uint32_t)(checkpoints[_i].blocks[i] - '0');
        ck_assert_uint_eq(checkpoint->module, g_array_index(model->blocks, uint32_t, block));
        ck_assert(checkpoint->is_selective == checkpoints[_i].is_selective);
        ck_assert(!checkpoint->is_outside && !checkpoint->stops_early);
    }
}
END_TEST

START_TEST(chunks_divide_the_tokens)
{
    g_autoptr(SimModel) model = new_model();
    g_autoptr(SimJob) job = build(model, "loss", "chunked:8", NULL);
    ck_assert_uint_eq(job->loss_chunks, 8);
    g_autoptr(GError) error = NULL;
    ck_assert(build(model, "loss", "chunked:7", &error) == NULL);
    ck_assert(g_error_matches(error, SIM_ERROR, SIM_ERROR_RANGE));
    ck_assert_msg(strstr(error->message, "--loss chunked:7: expected a divisor of the 1000") !=
                      NULL,
                  "%s", error->message);
}
END_TEST

START_TEST(adafactor_is_refused_on_dtensors)
{
    g_autoptr(SimModel) model = new_model();
    g_autoptr(GError) error = NULL;
    ck_assert(build(model, "optimizer", "adafactor", &error) == NULL);
    ck_assert(g_error_matches(error, SIM_ERROR, SIM_ERROR_UNSUPPORTED));
}
END_TEST

static const struct {
    const char *patterns, *frozen; /* a bit a parameter: blocks, norm */
} frozen[] = {
    {NULL, "000000"},
    {"layers.1", "010000"},
    {"layers.*", "111110"},
    {"layers", "111110"},
    {"norm", "000001"},
    {"layers.4.wq.weight", "000010"},
    {"layers.0,norm", "100001"},
};

START_TEST(a_pattern_freezes_all_below_it)
{
    g_autoptr(SimModel) model = new_model();
    ck_assert(sim_job_freeze(model, frozen[_i].patterns, NULL));
    for (guint i = 0; i < model->parameters->len; i++)
        ck_assert_msg(sim_model_parameter(model, i)->is_frozen == (frozen[_i].frozen[i] == '1'),
                      "%s: %s", frozen[_i].patterns, sim_model_parameter(model, i)->path);
}
END_TEST

START_TEST(a_pattern_that_names_nothing_is_told)
{
    g_autoptr(SimModel) model = new_model();
    g_autoptr(GError) error = NULL;
    ck_assert(!sim_job_freeze(model, "layers.0,norn", &error));
    ck_assert(g_error_matches(error, SIM_ERROR, SIM_ERROR_SCHEMA));
    ck_assert_msg(strstr(error->message, "did you mean 'norm'?") != NULL, "%s", error->message);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("job_code");
    TCase *tests = tcase_create("job_code");
    tcase_add_loop_test(tests, every_kth_block_is_checkpointed, 0, G_N_ELEMENTS(checkpoints));
    tcase_add_test(tests, chunks_divide_the_tokens);
    tcase_add_test(tests, adafactor_is_refused_on_dtensors);
    tcase_add_loop_test(tests, a_pattern_freezes_all_below_it, 0, G_N_ELEMENTS(frozen));
    tcase_add_test(tests, a_pattern_that_names_nothing_is_told);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed > 0;
}
