/* SPDX-License-Identifier: Apache-2.0
 *
 * --api, --strategy and what goes with them: the shard group, the arguments of FSDP1 and DDP, lists
 * of prefetches, flags of microbatches; and what is refused.
 */
#include <check.h>
#include <string.h>

#include "job/job.h"
#include "model/module_tree.h"

/* Two blocks as torchtitan names them. */
static SimModel *new_model(void)
{
    SimModel *model = sim_module_tree_new("mine", "Mine");
    SimProgram *forward = sim_program_new(1);
    model->embedding = sim_module_tree_add_weight(model, 0, "tok_embeddings", 100, 8, forward);
    uint32_t layers = sim_module_tree_add(model, 0, "layers");
    for (int i = 0; i < 2; i++) {
        g_autofree char *name = g_strdup_printf("%d", i);
        uint32_t block = sim_module_tree_add(model, layers, name);
        sim_module_tree_set_forward(model, block, forward);
        sim_module_tree_add_weight(model, block, "wq", 8, 8, forward);
        g_array_append_val(model->blocks, block);
    }
    model->norm = sim_module_tree_add_weight(model, 0, "norm", 8, 0, forward);
    model->head = sim_module_tree_add_weight(model, 0, "output", 100, 8, forward);
    return model;
}

/* TEXT: "api=ddp store-dtype=bf16", of 8 GPUs. */
static SimJob *build(const SimModel *model, const char *text, GError **error)
{
    g_autoptr(SimSettings) settings = sim_settings_new();
    g_auto(GStrv) words = g_strsplit(text, " ", -1);
    for (size_t i = 0; words[i] != NULL && words[i][0] != '\0'; i++) {
        char *value = strchr(words[i], '=');
        *value++ = '\0';
        ck_assert(sim_settings_set(settings, words[i], value, words[i], NULL));
    }
    ck_assert(sim_settings_settle(settings, 8, 4096, true, NULL));
    return sim_job_build(settings, model, error);
}

static const struct {
    const char *settings;
    SimApi api;
    uint32_t shard_size;
    bool has_replicate_mesh;
    uint32_t units;
    SimReshardKind first_reshard;
} MESHES[] = {
    {"", SIM_API_FSDP2, 8, false, 5, SIM_RESHARD_TRUE},
    {"strategy=shard_grad_op", SIM_API_FSDP2, 8, false, 5, SIM_RESHARD_FALSE},
    {"strategy=hybrid_shard shard-size=4", SIM_API_FSDP2, 4, true, 5, SIM_RESHARD_TRUE},
    {"strategy=hybrid_shard_zero2 shard-size=2", SIM_API_FSDP2, 2, true, 5, SIM_RESHARD_FALSE},
    {"strategy=no_shard", SIM_API_FSDP2, 1, true, 5, SIM_RESHARD_FALSE},
    {"strategy=shard_grad_op reshard-after-forward=true", SIM_API_FSDP2, 8, false, 5,
     SIM_RESHARD_TRUE},
    /* no unit of several modules: blocks and the root */
    {"api=fsdp1", SIM_API_FSDP1, 8, false, 3, SIM_RESHARD_TRUE},
    {"api=fsdp1 strategy=hybrid_shard shard-size=4", SIM_API_FSDP1, 4, true, 3, SIM_RESHARD_TRUE},
    {"api=fsdp1 strategy=no_shard", SIM_API_FSDP1, 1, false, 3, SIM_RESHARD_FALSE},
    {"api=ddp store-dtype=bf16", SIM_API_DDP, 1, false, 0, SIM_RESHARD_UNSET},
};

START_TEST(a_strategy_says_what_is_sharded_over_whom)
{
    g_autoptr(SimModel) model = new_model();
    g_autoptr(GError) error = NULL;
    g_autoptr(SimJob) job = build(model, MESHES[_i].settings, &error);
    ck_assert_msg(job != NULL, "%s", error == NULL ? "" : error->message);
    ck_assert_int_eq(job->api, MESHES[_i].api);
    ck_assert_uint_eq(job->shard_size, MESHES[_i].shard_size);
    ck_assert_int_eq(job->has_replicate_mesh, MESHES[_i].has_replicate_mesh);
    ck_assert_uint_eq(job->units->len, MESHES[_i].units);
    if (job->units->len > 0)
        ck_assert_int_eq(g_array_index(job->units, SimJobUnit, 0).reshard_after_forward.kind,
                         MESHES[_i].first_reshard);
}
END_TEST

START_TEST(arguments_of_fsdp1_and_ddp_follow_the_options)
{
    g_autoptr(SimModel) model = new_model();
    g_autoptr(SimJob) plain = build(model, "api=fsdp1", NULL);
    ck_assert_int_eq(plain->fsdp1.backward_prefetch, SIM_BACKWARD_PREFETCH_PRE);
    ck_assert(plain->fsdp1.limits_all_gathers && !plain->fsdp1.has_forward_prefetch);
    g_autoptr(SimJob) changed = build(model,
                                      "api=fsdp1 strategy=shard_grad_op backward-prefetch=post "
                                      "forward-prefetch=1 limit-all-gathers=off",
                                      NULL);
    ck_assert_int_eq(changed->fsdp1.strategy, SIM_STRATEGY_SHARD_GRAD_OP);
    ck_assert_int_eq(changed->fsdp1.backward_prefetch, SIM_BACKWARD_PREFETCH_POST);
    ck_assert(!changed->fsdp1.limits_all_gathers && changed->fsdp1.has_forward_prefetch);
    g_autoptr(SimJob) ddp = build(model, "api=ddp param-dtype=f32 bucket=100MiB", NULL);
    ck_assert_uint_eq(ddp->ddp.bucket_cap_bytes, UINT64_C(100) << 20);
}
END_TEST

static void check_targets(const GArray *targets, const char *expected)
{
    g_autoptr(GString) text = g_string_new(NULL);
    for (uint32_t i = 0; targets != NULL && i < targets->len; i++)
        g_string_append_printf(text, i == 0 ? "%u" : " %u", g_array_index(targets, uint32_t, i));
    ck_assert_str_eq(targets == NULL ? "none" : text->str, expected);
}

/* Units: embedding 0, blocks 1 and 2, norm with head 3, root 4. */
START_TEST(prefetch_lists_name_neighbours)
{
    static const char *const FORWARD[] = {"1 2", "2 3", "3", "none", "none"};
    static const char *const BACKWARD[] = {"none", "0", "1", "2", "none"};
    g_autoptr(SimModel) model = new_model();
    g_autoptr(SimJob) job = build(model, "forward-prefetch=2 backward-prefetch=1", NULL);
    for (uint32_t i = 0; i < job->units->len; i++) {
        check_targets(g_array_index(job->units, SimJobUnit, i).forward_prefetch, FORWARD[i]);
        check_targets(g_array_index(job->units, SimJobUnit, i).backward_prefetch, BACKWARD[i]);
    }
}
END_TEST

/* Off before the first of three microbatches, on before the last. */
START_TEST(only_the_last_microbatch_is_reduced)
{
    g_autoptr(SimModel) model = new_model();
    g_autoptr(SimJob) job = build(model, "accumulate=3 gradient-sync=last", NULL);
    g_autoptr(GString) text = g_string_new(NULL);
    for (uint32_t i = 0; i < job->actions->len; i++) {
        const SimJobAction *action = &g_array_index(job->actions, SimJobAction, i);
        if (action->kind == SIM_ACTION_SET)
            g_string_append(text, action->value ? "on " : "off ");
        else if (action->kind == SIM_ACTION_FORWARD)
            g_string_append_printf(text, "%u ", action->microbatch);
    }
    ck_assert_str_eq(text->str, "off 0 1 on 2 ");
}
END_TEST

static const struct {
    const char *settings, *message;
} REFUSED[] = {
    {"shard-size=4",
     "--shard-size: expected --strategy hybrid_shard or hybrid_shard_zero2 with it"},
    {"strategy=hybrid_shard shard-size=3",
     "--shard-size: expected a number that divides the 8 GPUs, found 3"},
    {"strategy=hybrid_shard shard-size=16",
     "--shard-size: expected a number that divides the 8 GPUs, found 16"},
    {"backward-prefetch=post",
     "--backward-prefetch: expected auto or a number of units, found post"},
    {"api=fsdp1 backward-prefetch=2",
     "--backward-prefetch: expected pre, post or none with --api fsdp1, found 2"},
    {"api=ddp param-dtype=bf16",
     "--param-dtype bf16: --api ddp computes in the stored type; expected --param-dtype "
     "f32, or --store-dtype bf16"},
    {"api=ddp store-dtype=bf16 strategy=hybrid_shard",
     "--strategy: --api ddp shards nothing; expected no_shard, or --api fsdp2"},
};

START_TEST(what_does_not_go_together_is_refused)
{
    g_autoptr(SimModel) model = new_model();
    g_autoptr(GError) error = NULL;
    ck_assert_ptr_null(build(model, REFUSED[_i].settings, &error));
    ck_assert_str_eq(error->message, REFUSED[_i].message);
}
END_TEST

static Suite *make_suite(void)
{
    Suite *suite = suite_create("strategy");
    TCase *tests = tcase_create("settings");
    tcase_add_loop_test(tests, a_strategy_says_what_is_sharded_over_whom, 0,
                        (int)G_N_ELEMENTS(MESHES));
    tcase_add_test(tests, arguments_of_fsdp1_and_ddp_follow_the_options);
    tcase_add_test(tests, prefetch_lists_name_neighbours);
    tcase_add_test(tests, only_the_last_microbatch_is_reduced);
    tcase_add_loop_test(tests, what_does_not_go_together_is_refused, 0, (int)G_N_ELEMENTS(REFUSED));
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
