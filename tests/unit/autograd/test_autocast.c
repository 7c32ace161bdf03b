/* SPDX-License-Identifier: Apache-2.0
 *
 * bf16 autocast over f32 parameters: the allocations and frees of a step are PyTorch's.
 */
#include "stream.h"

typedef struct Case {
    const char *net, *setting;
    SimModelCode code;
    uint64_t sequence;
} Case;

static const Case cases[] = {
    {"llama-3.1-8b", "titan-flash-s4096-none-autocast", SIM_MODEL_CODE_TORCHTITAN, 4096},
    {"llama-3.1-8b", "titan-flash-s4096-full-autocast", SIM_MODEL_CODE_TORCHTITAN, 4096},
    {"llama-3.1-8b", "hf-flash-s4096-none-autocast", SIM_MODEL_CODE_TRANSFORMERS, 4096},
    {"gpt2-medium", "hf-flash-s1024-none-dropout-autocast", SIM_MODEL_CODE_TRANSFORMERS, 1024},
    {"gpt2-medium", "hf-flash-s1024-none-nodropout-autocast", SIM_MODEL_CODE_TRANSFORMERS, 1024},
    {"gpt2-xl", "hf-flash-s1024-none-dropout-autocast", SIM_MODEL_CODE_TRANSFORMERS, 1024},
    {"gpt2-xl", "hf-flash-s1024-none-nodropout-autocast", SIM_MODEL_CODE_TRANSFORMERS, 1024},
};

static SimModel *build_case(const Case *c)
{
    SimModelOptions options = {.code = c->code,
                               .is_norm_composite = c->code == SIM_MODEL_CODE_TRANSFORMERS,
                               .dropout = strstr(c->setting, "-dropout") != NULL ? -1 : 0,
                               .sequence = c->sequence};
    g_autoptr(SimModelConfig) config = load_net(c->net);
    config->layers = 2;
    return build_net(config, &options);
}

/* The copies of weights that nobody saved go in the order of PyTorch's hash table. */
START_TEST(allocations_and_frees_under_autocast_are_pytorchs)
{
    const Case *c = &cases[_i];
    g_autoptr(SimCsv) ops = load_data("autocast_ops.csv.gz");
    SimModel *model = build_case(c);
    g_autofree SimAutogradCheckpoint *checkpoints =
        g_new0(SimAutogradCheckpoint, model->modules->len);
    for (guint i = 0; i < model->blocks->len && strstr(c->setting, "full") != NULL; i++)
        checkpoints[g_array_index(model->blocks, uint32_t, i)] =
            (SimAutogradCheckpoint){.is_used = true, .stops_early = true};
    Step step = {.checkpoints = checkpoints, .is_autocast = true};
    start_step(&step, model, c->sequence);
    sim_autograd_forward(step.autograd, 0, true);
    finish_step(&step);
    compare_stream_loosely(&step, ops, c->net, c->setting);
    GError *error = NULL;
    ck_assert_msg(sim_plan_check(step.plan, &error), "%s", error != NULL ? error->message : "?");
    done_step(&step);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("autocast");
    TCase *tcase = tcase_create("autocast");
    tcase_add_loop_test(tcase, allocations_and_frees_under_autocast_are_pytorchs, 0,
                        G_N_ELEMENTS(cases));
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed > 0;
}
