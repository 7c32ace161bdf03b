/* SPDX-License-Identifier: Apache-2.0
 *
 * The allocate-and-free stream of a training step is PyTorch's: every allocation of that size in
 * that place, every free of that very buffer in that place.
 */
#include "stream.h"

typedef struct Case {
    const char *net, *setting;
    SimModelCode code;
    bool is_norm_composite;
    double dropout;
    uint64_t sequence;
    uint32_t moved; /* buffer + 1 whose free is compared as to whether, not when (see cases) */
} Case;

/* The recorded composite-norm net keeps the last block's output in a variable during the head
 * (`output(norm(h))`); torchtitan, and the recordings of whole jobs, bind h anew (`h = norm(h)`).
 */
static const Case cases[] = {
    {"llama-3.1-8b", "titan-flash-s8192-none", SIM_MODEL_CODE_TORCHTITAN, false, 0, 8192, 0},
    {"llama-3.1-8b", "titan-flash-s4096-none", SIM_MODEL_CODE_TORCHTITAN, false, 0, 4096, 0},
    {"llama-3.1-8b", "titan-flash-s4096-none-upcastnorm", SIM_MODEL_CODE_TORCHTITAN, true, 0, 4096,
     89},
    {"llama-3.2-1b", "titan-flash-s8192-none", SIM_MODEL_CODE_TORCHTITAN, false, 0, 8192, 0},
    {"llama-2-7b", "titan-flash-s8192-none", SIM_MODEL_CODE_TORCHTITAN, false, 0, 8192, 0},
    {"llama-3.1-8b", "hf-flash-s4096-none", SIM_MODEL_CODE_TRANSFORMERS, true, 0, 4096, 0},
    {"llama-3.2-1b", "hf-flash-s4096-none", SIM_MODEL_CODE_TRANSFORMERS, true, 0, 4096, 0},
    {"llama-2-7b", "hf-flash-s4096-none", SIM_MODEL_CODE_TRANSFORMERS, true, 0, 4096, 0},
    {"qwen2.5-7b", "hf-flash-s4096-none", SIM_MODEL_CODE_TRANSFORMERS, true, 0, 4096, 0},
    {"mistral-7b-v0.3", "hf-flash-s4096-none", SIM_MODEL_CODE_TRANSFORMERS, true, 0, 4096, 0},
    {"gpt2-medium", "hf-flash-s1024-none-dropout", SIM_MODEL_CODE_TRANSFORMERS, false, -1, 1024, 0},
    {"gpt2-medium", "hf-flash-s1024-none-nodropout", SIM_MODEL_CODE_TRANSFORMERS, false, 0, 1024,
     0},
    {"gpt2-xl", "hf-flash-s1024-none-dropout", SIM_MODEL_CODE_TRANSFORMERS, false, -1, 1024, 0},
    {"gpt2-xl", "hf-flash-s1024-none-nodropout", SIM_MODEL_CODE_TRANSFORMERS, false, 0, 1024, 0},
    {"gpt2-xl", "hf-flash-s1024-none-nodropout-gelukernel", SIM_MODEL_CODE_TRANSFORMERS, false, 0,
     1024, 0},
};

START_TEST(allocations_and_frees_are_pytorchs)
{
    const Case *c = &cases[_i];
    g_autoptr(SimCsv) ops = load_data("ops.csv.gz");
    SimModelOptions options = {
        .code = c->code, .is_norm_composite = c->is_norm_composite, .dropout = c->dropout};
    Step step = {0};
    bool is_gelu_kernel = g_str_has_suffix(c->setting, "gelukernel");
    run_step(&step, build_recorded_net(c->net, &options, is_gelu_kernel), c->sequence);
    compare_stream(&step, ops, c->net, c->setting, c->moved);
    GError *error = NULL;
    ck_assert_msg(sim_plan_check(step.plan, &error), "%s", error != NULL ? error->message : "?");
    done_step(&step);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("stream");
    TCase *tcase = tcase_create("stream");
    tcase_add_loop_test(tcase, allocations_and_frees_are_pytorchs, 0, G_N_ELEMENTS(cases));
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed > 0;
}
