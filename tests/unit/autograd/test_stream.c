/* SPDX-License-Identifier: Apache-2.0
 *
 * The allocate-and-free stream of a training step is PyTorch's: every allocation of that size in
 * that place, every free of that very buffer in that place.
 */
#include "recording.h"

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

/* Compares row by row from STEP's first row; ordinal of a buffer = its number among the step's. */
static void compare(const Step *step, const SimCsv *ops, const Case *c)
{
    size_t at = step->first_row, compared = 0;
    for (size_t row = 0; row < sim_csv_rows(ops); row++) {
        if (strcmp(cell(ops, row, "model"), c->net) != 0 ||
            strcmp(cell(ops, row, "setting"), c->setting) != 0 ||
            strcmp(cell(ops, row, "event"), "begin") == 0)
            continue;
        guint64 buffer = g_ascii_strtoull(cell(ops, row, "buffer"), NULL, 10);
        bool is_alloc = strcmp(cell(ops, row, "event"), "alloc") == 0;
        if (!is_alloc && buffer + 1 == c->moved)
            continue;
        const SimInstruction *found = NULL;
        for (; at < sim_plan_length(step->plan); at++) {
            found = sim_plan_instruction(step->plan, at);
            bool is_moved =
                found->op == SIM_PLAN_FREE && found->buffer - step->first_buffer + 1 == c->moved;
            if ((found->op == SIM_PLAN_ALLOC || found->op == SIM_PLAN_FREE) && !is_moved)
                break;
        }
        ck_assert_msg(at < sim_plan_length(step->plan), "%s %s: the stream ends after %zu events",
                      c->net, c->setting, compared);
        at++;
        guint64 bytes = g_ascii_strtoull(cell(ops, row, "bytes"), NULL, 10);
        const SimBuffer *ours = sim_plan_buffer(step->plan, found->buffer);
        g_autofree char *name = sim_plan_print_name(step->plan, ours->name);
        ck_assert_msg(is_alloc == (found->op == SIM_PLAN_ALLOC) && bytes == ours->bytes &&
                          buffer == found->buffer - step->first_buffer,
                      "%s %s, event %zu (%s %s): expected %s of buffer %" G_GUINT64_FORMAT
                      ", %" G_GUINT64_FORMAT " B (%s); found %s of %u, %" G_GUINT64_FORMAT
                      " B (%s)",
                      c->net, c->setting, compared, cell(ops, row, "phase"), cell(ops, row, "part"),
                      is_alloc ? "alloc" : "free", buffer, bytes, cell(ops, row, "op"),
                      found->op == SIM_PLAN_ALLOC ? "alloc" : "free",
                      found->buffer - step->first_buffer, ours->bytes, name);
        compared++;
    }
    ck_assert_uint_gt(compared, 100);
    for (; at < sim_plan_length(step->plan); at++) {
        const SimInstruction *more = sim_plan_instruction(step->plan, at);
        ck_assert_msg(more->op != SIM_PLAN_ALLOC && more->op != SIM_PLAN_FREE,
                      "%s %s: more events than the %zu recorded", c->net, c->setting, compared);
    }
}

START_TEST(allocations_and_frees_are_pytorchs)
{
    const Case *c = &cases[_i];
    g_autoptr(SimCsv) ops = load_data("ops.csv.gz");
    SimModelOptions options = {
        .code = c->code, .is_norm_composite = c->is_norm_composite, .dropout = c->dropout};
    Step step;
    bool is_gelu_kernel = g_str_has_suffix(c->setting, "gelukernel");
    run_step(&step, build_recorded_net(c->net, &options, is_gelu_kernel), c->sequence);
    compare(&step, ops, c);
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
