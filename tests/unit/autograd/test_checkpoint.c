/* SPDX-License-Identifier: Apache-2.0
 *
 * Activation checkpointing: the allocations and frees of a step, recompute included, are PyTorch's.
 */
#include "stream.h"

typedef struct Case {
    const char *net, *setting;
    SimModelCode code;
    bool is_norm_composite;
    double dropout;
    uint64_t sequence;
    uint32_t moved; /* as in compare_stream; or ANY_ORDER */
} Case;

#define TITAN SIM_MODEL_CODE_TORCHTITAN
#define HF SIM_MODEL_CODE_TRANSFORMERS

/* Frees that follow each other may change places: of what only the router's graph would have kept,
 * and of what a stopped replay leaves behind in six layers with two kinds of arguments. */
#define ANY_ORDER UINT32_MAX

/* Moved: with the composite norm the last block's output, as in test_stream.c; in transformers'
 * Llama and Qwen position_ids, which dies with the last block's other arguments: our order of those
 * frees, which follow each other, is Mistral's. */
static const Case cases[] = {
    {"llama-3.1-8b", "titan-flash-s8192-full", TITAN, false, 0, 8192, 0},
    {"llama-3.1-8b", "titan-flash-s8192-full_noearlystop", TITAN, false, 0, 8192, 0},
    {"llama-3.1-8b", "titan-flash-s8192-selective", TITAN, false, 0, 8192, 0},
    {"llama-3.1-8b", "titan-flash-s8192-selective_noearlystop", TITAN, false, 0, 8192, 0},
    {"llama-3.1-8b", "titan-flash-s4096-selective-upcastnorm", TITAN, true, 0, 4096, 89},
    {"llama-3.2-1b", "titan-flash-s8192-full", TITAN, false, 0, 8192, 0},
    {"llama-3.2-1b", "titan-flash-s8192-selective_noearlystop", TITAN, false, 0, 8192, 0},
    {"llama-2-7b", "titan-flash-s8192-full", TITAN, false, 0, 8192, 0},
    {"llama-2-7b", "titan-flash-s8192-full_noearlystop", TITAN, false, 0, 8192, 0},
    {"llama-2-7b", "titan-flash-s8192-selective", TITAN, false, 0, 8192, 0},
    {"llama-2-7b", "titan-flash-s8192-selective_noearlystop", TITAN, false, 0, 8192, 0},
    {"llama-3.1-8b", "hf-flash-s4096-full", HF, true, 0, 4096, 3},
    {"llama-3.1-8b", "hf-flash-s4096-selective", HF, true, 0, 4096, 3},
    {"llama-3.2-1b", "hf-flash-s4096-full", HF, true, 0, 4096, 3},
    {"llama-3.2-1b", "hf-flash-s4096-selective", HF, true, 0, 4096, 3},
    {"llama-2-7b", "hf-flash-s4096-full", HF, true, 0, 4096, 3},
    {"qwen2.5-7b", "hf-flash-s4096-full", HF, true, 0, 4096, 3},
    {"qwen2.5-7b", "hf-flash-s4096-selective", HF, true, 0, 4096, 3},
    {"mistral-7b-v0.3", "hf-flash-s4096-full", HF, true, 0, 4096, 0},
    {"mixtral-8x7b", "hf-flash-s4096-full", HF, true, 0, 4096, ANY_ORDER},
    {"mixtral-8x7b", "hf-flash-s4096-selective", HF, true, 0, 4096, ANY_ORDER},
    {"qwen3-30b-a3b", "hf-flash-s4096-full", HF, true, 0, 4096, ANY_ORDER},
    {"qwen3-30b-a3b", "hf-flash-s4096-selective", HF, true, 0, 4096, ANY_ORDER},
    {"gemma-3-1b", "hf-defaultnocudnn-s4096-full", HF, true, 0, 4096, ANY_ORDER},
    {"gemma-3-1b", "hf-defaultnocudnn-s4096-selective", HF, true, 0, 4096, ANY_ORDER},
    {"phi-3-mini", "hf-flash-s4096-full-nowindow", HF, true, 0, 4096, 0},
    {"phi-3-mini", "hf-flash-s4096-selective-nowindow", HF, true, 0, 4096, 0},
    {"gpt2-medium", "hf-flash-s1024-full-dropout", HF, false, -1, 1024, 0},
    {"gpt2-medium", "hf-flash-s1024-full-nodropout", HF, false, 0, 1024, 0},
    {"gpt2-medium", "hf-flash-s1024-selective-dropout", HF, false, -1, 1024, 0},
    {"gpt2-medium", "hf-flash-s1024-selective-nodropout", HF, false, 0, 1024, 0},
    {"gpt2-xl", "hf-flash-s1024-full-dropout", HF, false, -1, 1024, 0},
    {"gpt2-xl", "hf-flash-s1024-selective-nodropout", HF, false, 0, 1024, 0},
};

static SimAutogradCheckpoint *checkpoint_blocks(const SimModel *model, bool is_selective,
                                                bool stops_early)
{
    SimAutogradCheckpoint *checkpoints = g_new0(SimAutogradCheckpoint, model->modules->len);
    for (guint i = 0; i < model->blocks->len; i++)
        checkpoints[g_array_index(model->blocks, uint32_t, i)] = (SimAutogradCheckpoint){
            .is_used = true, .is_selective = is_selective, .stops_early = stops_early};
    return checkpoints;
}

static SimModel *build_case(const Case *c)
{
    SimModelOptions options = {.code = c->code,
                               .is_norm_composite = c->is_norm_composite,
                               .dropout = c->dropout,
                               .sequence = c->sequence};
    g_autoptr(SimModelConfig) config = load_net(c->net);
    config->layers = strcmp(c->net, "gemma-3-1b") == 0 ? 6 : 2; /* five that slide, one that not */
    if (g_str_has_suffix(c->setting, "nowindow"))
        config->sliding_window = 0;
    SimModel *model = build_net(config, &options);
    round_buffers(model);
    return model;
}

START_TEST(allocations_and_frees_with_recompute_are_pytorchs)
{
    const Case *c = &cases[_i];
    g_autoptr(SimCsv) ops = load_data("checkpoint_ops.csv.gz");
    SimModel *model = build_case(c);
    g_autofree SimAutogradCheckpoint *checkpoints = checkpoint_blocks(
        model, strstr(c->setting, "selective") != NULL, strstr(c->setting, "noearlystop") == NULL);
    Step step = {.checkpoints = checkpoints};
    start_step(&step, model, c->sequence);
    sim_autograd_forward(step.autograd, 0, true);
    finish_step(&step);
    if (c->moved == ANY_ORDER)
        compare_stream_loosely(&step, ops, c->net, c->setting);
    else
        compare_stream(&step, ops, c->net, c->setting, c->moved);
    GError *error = NULL;
    ck_assert_msg(sim_plan_check(step.plan, &error), "%s", error != NULL ? error->message : "?");
    done_step(&step);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("checkpoint");
    TCase *tcase = tcase_create("checkpoint");
    tcase_add_loop_test(tcase, allocations_and_frees_with_recompute_are_pytorchs, 0,
                        G_N_ELEMENTS(cases));
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed > 0;
}
