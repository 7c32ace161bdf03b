/* SPDX-License-Identifier: Apache-2.0
 *
 * FLOPs of a step are what torch.utils.flop_counter counts (multiply-add = 2, attention's full
 * square, flash backward 2.5 x forward): two layers = rest + 2 x block of data/activations'
 * flops.csv.
 */
#include "recording.h"

#define G(x) G_GUINT64_CONSTANT(x)

static const struct {
    const char *net;
    SimModelCode code;
    uint64_t sequence;
    guint64 forward_block, forward_rest, backward_block, backward_rest;
} cases[] = {
    {"llama-3.1-8b", SIM_MODEL_CODE_TORCHTITAN, 8192, G(4672924418048), G(8607114461184),
     G(9895604649984), G(17214228922368)},
    {"llama-3.1-8b", SIM_MODEL_CODE_TRANSFORMERS, 4096, G(2061584302080), G(4303557230592),
     G(4260607557632), G(8607114461184)},
    {"llama-3.2-1b", SIM_MODEL_CODE_TRANSFORMERS, 4096, G(635655159808), G(2151778615296),
     G(1340029796352), G(4303557230592)},
    {"qwen2.5-7b", SIM_MODEL_CODE_TRANSFORMERS, 4096, G(2149631131648), G(4464618504192),
     G(4419521347584), G(8929237008384)},
    {"gpt2-medium", SIM_MODEL_CODE_TRANSFORMERS, 1024, G(30064771072), G(105396568064),
     G(62277025792), G(210793136128)},
    {"gpt2-xl", SIM_MODEL_CODE_TRANSFORMERS, 1024, G(69625446400), G(164682137600), G(142606336000),
     G(329364275200)},
};

START_TEST(flops_are_those_of_flop_counter)
{
    SimModelOptions options = {.code = cases[_i].code, .dropout = -1};
    Step step = {0};
    run_step(&step, build_recorded_net(cases[_i].net, &options, false), cases[_i].sequence);
    guint64 forward = 0, backward = 0;
    for (size_t i = step.first_row; i < sim_plan_length(step.plan); i++) {
        const SimInstruction *row = sim_plan_instruction(step.plan, i);
        *(row->phase == SIM_PHASE_FORWARD ? &forward : &backward) += row->flops;
    }
    ck_assert_uint_eq(forward, cases[_i].forward_rest + 2 * cases[_i].forward_block);
    ck_assert_uint_eq(backward, cases[_i].backward_rest + 2 * cases[_i].backward_block);
    done_step(&step);
}
END_TEST

static const struct {
    const char *job, *net;
    SimModelCode code;
    bool is_norm_composite;
    double dropout;
    uint64_t sequence;
} blocks[] = {
    {"llama8b-titan-none", "llama-3.1-8b", SIM_MODEL_CODE_TORCHTITAN, false, 0, 4096},
    {"llama8b-titan-composite-norm", "llama-3.1-8b", SIM_MODEL_CODE_TORCHTITAN, true, 0, 4096},
    {"llama8b-hf-none", "llama-3.1-8b", SIM_MODEL_CODE_TRANSFORMERS, true, 0, 4096},
    {"gpt2xl-hf-none", "gpt2-xl", SIM_MODEL_CODE_TRANSFORMERS, false, 0, 1024},
    {"gpt2xl-hf-dropout", "gpt2-xl", SIM_MODEL_CODE_TRANSFORMERS, false, 0.1, 1024},
};

static uint32_t unit_of_module(void *user_data, uint32_t module)
{
    Step *step = user_data;
    const char *path = sim_model_module(step->model, module)->path;
    sim_plan_context(step->plan)->unit = sim_strings_intern(sim_plan_strings(step->plan), path);
    return SIM_AUTOGRAD_NO_TOKEN;
}

static bool is_counted(const char *operator_)
{
    return strcmp(operator_, "aten::mm") != 0 && strcmp(operator_, "aten::addmm") != 0 &&
           strstr(operator_, "flash_attention_forward") == NULL;
}

/* Rows of the block PREFIX in PHASE: every one a launch of the recording, in its order, with its
 * bytes. The recording leaves out weights and statistics of norms, part of what column sums
 * write and all that a dropout's backward writes. */
static void compare_block(const Step *step, const SimCsv *csv, const char *job, const char *prefix,
                          SimPhase phase)
{
    size_t at = step->first_row, compared = 0;
    for (size_t row = 0; row < sim_csv_rows(csv); row++) {
        if (strcmp(cell(csv, row, "job"), job) != 0 ||
            strcmp(cell(csv, row, "phase"), sim_plan_phase_name(phase)) != 0)
            continue;
        const SimInstruction *found = NULL;
        for (; at < sim_plan_length(step->plan); at++) {
            found = sim_plan_instruction(step->plan, at);
            if (found->op == SIM_PLAN_KERNEL && found->phase == phase &&
                g_str_has_prefix(sim_plan_string(step->plan, found->unit), prefix))
                break;
        }
        ck_assert_uint_lt(at++, sim_plan_length(step->plan));
        const char *operator_ = cell(csv, row, "operator");
        guint64 bytes = g_ascii_strtoull(cell(csv, row, "read_bytes"), NULL, 10) +
                        g_ascii_strtoull(cell(csv, row, "write_bytes"), NULL, 10);
        const char *name = sim_plan_string(step->plan, found->operator_name);
        compared++;
        if (!is_counted(operator_)) {
            ck_assert_uint_gt(found->flops, 0);
            continue;
        }
        if (bytes == 0 || strcmp(name, "dropout_grad") == 0)
            continue;
        bool is_rough = strstr(name, "_norm") != NULL || strcmp(name, "sum") == 0;
        guint64 slack = is_rough ? bytes / 200 : 0;
        ck_assert_msg(found->hbm_bytes >= bytes && found->hbm_bytes <= bytes + slack,
                      "%s %s, kernel %zu, %s: expected %" G_GUINT64_FORMAT
                      " B; found %s, %" G_GUINT64_FORMAT " B",
                      job, sim_plan_phase_name(phase), compared, operator_, bytes, name,
                      found->hbm_bytes);
    }
    ck_assert_uint_gt(compared, 10);
    for (; at < sim_plan_length(step->plan); at++) {
        const SimInstruction *more = sim_plan_instruction(step->plan, at);
        ck_assert(more->op != SIM_PLAN_KERNEL || more->phase != phase ||
                  !g_str_has_prefix(sim_plan_string(step->plan, more->unit), prefix));
    }
}

START_TEST(block_launches_what_pytorch_launches)
{
    g_autoptr(SimCsv) csv = load_data("block_kernels.csv.gz");
    SimModelOptions options = {.code = blocks[_i].code,
                               .is_norm_composite = blocks[_i].is_norm_composite,
                               .dropout = blocks[_i].dropout};
    Step step = {0};
    start_step(&step, build_recorded_net(blocks[_i].net, &options, false), blocks[_i].sequence);
    step.hooks.pre_forward = unit_of_module;
    sim_autograd_forward(step.autograd, 0, true);
    finish_step(&step);
    uint32_t block = g_array_index(step.model->blocks, uint32_t, 1);
    const char *prefix = sim_model_module(step.model, block)->path;
    compare_block(&step, csv, blocks[_i].job, prefix, SIM_PHASE_FORWARD);
    compare_block(&step, csv, blocks[_i].job, prefix, SIM_PHASE_BACKWARD);
    done_step(&step);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("flops");
    TCase *tcase = tcase_create("flops");
    tcase_add_loop_test(tcase, flops_are_those_of_flop_counter, 0, G_N_ELEMENTS(cases));
    tcase_add_loop_test(tcase, block_launches_what_pytorch_launches, 0, G_N_ELEMENTS(blocks));
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed > 0;
}
