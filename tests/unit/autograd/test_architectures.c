/* SPDX-License-Identifier: Apache-2.0
 *
 * Every architecture, attention and norm: the allocate-and-free stream of a training step and what
 * the nodes of its forward keep are PyTorch's (tests/oracle/activations).
 */
#include "autograd/autograd_private.h"

#include "recording.h"

typedef struct Case {
    const char *net, *model, *setting; /* file in models/nets, names in the recordings */
    SimModelCode code;
    SimAttentionKind attention;
    uint32_t layers;
    uint64_t sequence;
    bool has_no_window;
} Case;

#define HF(net, model, setting, attention, layers, sequence)                                       \
    {                                                                                              \
        net, model, setting, SIM_MODEL_CODE_TRANSFORMERS, SIM_ATTENTION_##attention, layers,       \
            sequence, false                                                                        \
    }

/* The recordings called defaultnocudnn let PyTorch choose: flash without a mask, else efficient. */
static const Case cases[] = {
    HF("mistral-7b", "mistral-7b-v0.1", "hf-defaultnocudnn-s2048-none", FLASH, 2, 2048),
    HF("mistral-7b", "mistral-7b-v0.1", "hf-defaultnocudnn-s4096-none", FLASH, 2, 4096),
    HF("mistral-7b", "mistral-7b-v0.1", "hf-defaultnocudnn-s8192-none", FLASH, 2, 8192),
    HF("llama-3.1-8b", "llama-3.1-8b", "hf-efficient-s4096-none", EFFICIENT, 2, 4096),
    HF("llama-3.1-8b", "llama-3.1-8b", "hf-eager-s4096-none", EAGER, 2, 4096),
    HF("llama-3.1-8b", "llama-3.1-8b", "hf-math-s4096-none", MATH, 2, 4096),
    HF("gemma-3-1b", "gemma-3-1b", "hf-defaultnocudnn-s4096-none", FLASH, 6, 4096),
    HF("phi-3-mini", "phi-3-mini", "hf-defaultnocudnn-s4096-none-window", FLASH, 2, 4096),
    {"phi-3-mini", "phi-3-mini", "hf-flash-s4096-none-nowindow", SIM_MODEL_CODE_TRANSFORMERS,
     SIM_ATTENTION_FLASH, 2, 4096, true},
    HF("mixtral-8x7b", "mixtral-8x7b", "hf-flash-s4096-none", FLASH, 2, 4096),
    HF("qwen3-30b-a3b", "qwen3-30b-a3b", "hf-flash-s4096-none", FLASH, 2, 4096),
    HF("gpt-neox-20b", "gpt-neox-20b", "hf-flash-s2048-none", FLASH, 2, 2048),
    HF("gemma-2-9b", "gemma-2-9b", "hf-eager-s4096-none", EAGER, 2, 4096),
    HF("gemma-2-9b", "gemma-2-9b", "hf-eager-s2048-none", EAGER, 2, 2048),
    HF("mpt-125m", "mpt-125m", "hf-eager-s2048-none", EAGER, 2, 2048),
};

static SimModel *build_case(const Case *c)
{
    g_autoptr(SimModelConfig) config = load_net(c->net);
    config->layers = c->layers;
    if (c->has_no_window)
        config->sliding_window = 0;
    SimModelOptions options = {.code = c->code,
                               .attention = c->attention,
                               .sequence = c->sequence,
                               .dropout = strstr(c->setting, "-dropout") != NULL ? -1 : 0,
                               .is_norm_composite = c->code == SIM_MODEL_CODE_TRANSFORMERS};
    SimModel *model = build_net(config, &options);
    round_buffers(model);
    return model;
}

static SimCsv *load_oracle(const char *name)
{
    g_autofree char *file = g_strdup_printf("%s/tests/oracle/activations/%s", SIM_SOURCE_DIR, name);
    GError *error = NULL;
    SimCsv *csv = sim_csv_load(file, NULL, &error);
    ck_assert_msg(csv != NULL, "%s", error != NULL ? error->message : "?");
    return csv;
}

static bool is_of(const SimCsv *csv, size_t row, const Case *c)
{
    return strcmp(cell(csv, row, "model"), c->model) == 0 &&
           strcmp(cell(csv, row, "setting"), c->setting) == 0;
}

/* The next allocation or free of the plan from *AT on. */
static const SimInstruction *next_event(const Step *step, size_t *at)
{
    for (; *at < sim_plan_length(step->plan); (*at)++) {
        const SimInstruction *row = sim_plan_instruction(step->plan, *at);
        if (row->op == SIM_PLAN_ALLOC || row->op == SIM_PLAN_FREE) {
            (*at)++;
            return row;
        }
    }
    return NULL;
}

static void compare_streams(const Step *step, const SimCsv *ops, const Case *c)
{
    size_t at = step->first_row, compared = 0;
    for (size_t row = 0; row < sim_csv_rows(ops); row++) {
        if (!is_of(ops, row, c))
            continue;
        const SimInstruction *found = next_event(step, &at);
        ck_assert_msg(found != NULL, "%s %s: the stream ends after %zu events", c->model,
                      c->setting, compared);
        guint64 buffer = g_ascii_strtoull(cell(ops, row, "buffer"), NULL, 10);
        guint64 bytes = g_ascii_strtoull(cell(ops, row, "bytes"), NULL, 10);
        bool is_alloc = strcmp(cell(ops, row, "event"), "alloc") == 0;
        const SimBuffer *ours = sim_plan_buffer(step->plan, found->buffer);
        g_autofree char *name = sim_plan_print_name(step->plan, ours->name);
        ck_assert_msg(is_alloc == (found->op == SIM_PLAN_ALLOC) && bytes == ours->bytes &&
                          buffer == found->buffer - step->first_buffer,
                      "%s %s, event %zu: expected %s of buffer %" G_GUINT64_FORMAT
                      ", %" G_GUINT64_FORMAT " B (%s); found %s of %u, %" G_GUINT64_FORMAT
                      " B (%s)",
                      c->model, c->setting, compared, is_alloc ? "alloc" : "free", buffer, bytes,
                      cell(ops, row, "op"), found->op == SIM_PLAN_ALLOC ? "alloc" : "free",
                      found->buffer - step->first_buffer, ours->bytes, name);
        compared++;
    }
    ck_assert_uint_gt(compared, 100);
    ck_assert_msg(next_event(step, &at) == NULL, "%s %s: more events than the %zu recorded",
                  c->model, c->setting, compared);
}

START_TEST(allocations_and_frees_are_pytorchs)
{
    const Case *c = &cases[_i];
    g_autoptr(SimCsv) ops = load_oracle("ops.csv.gz");
    Step step;
    run_step(&step, build_case(c), c->sequence);
    compare_streams(&step, ops, c);
    GError *error = NULL;
    ck_assert_msg(sim_plan_check(step.plan, &error), "%s", error != NULL ? error->message : "?");
    done_step(&step);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("architectures");
    TCase *tcase = tcase_create("architectures");
    tcase_add_loop_test(tcase, allocations_and_frees_are_pytorchs, 0, G_N_ELEMENTS(cases));
    tcase_set_timeout(tcase, 60);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed > 0;
}
