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
    bool has_no_window, is_rope_real, is_norm_wide;
    uint32_t moved; /* buffer + 1 whose free is compared as to whether, not when */
    uint32_t batch; /* 0 = 1 */
} Case;

#define HF(net, model, setting, attention, layers, sequence)                                       \
    {                                                                                              \
        net, model, setting, SIM_MODEL_CODE_TRANSFORMERS, SIM_ATTENTION_##attention, layers,       \
            sequence, false, false, false, 0, 1                                                    \
    }
#define BATCH(net, model, setting, attention, sequence, batch)                                     \
    {                                                                                              \
        net, model, setting, SIM_MODEL_CODE_TRANSFORMERS, SIM_ATTENTION_##attention, 2, sequence,  \
            false, false, false, 0, batch                                                          \
    }
#define TITAN(net, setting, is_rope_real, is_norm_wide, moved)                                     \
    {                                                                                              \
        net, net, setting, SIM_MODEL_CODE_TORCHTITAN, SIM_ATTENTION_FLASH, 2, 4096, false,         \
            is_rope_real, is_norm_wide, moved, 1                                                   \
    }

/* The recorded net with f32 norms keeps the last block's output in a variable during the head,
 * which torchtitan binds anew. The recordings called defaultnocudnn let PyTorch choose: flash
 * without a mask, else efficient. */
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
     SIM_ATTENTION_FLASH, 2, 4096, true, false, false, 0, 1},
    HF("mixtral-8x7b", "mixtral-8x7b", "hf-flash-s4096-none", FLASH, 2, 4096),
    HF("mixtral-8x7b", "mixtral-8x7b", "hf-flash-s4096-none-expertloop", FLASH, 2, 4096),
    HF("qwen3-30b-a3b", "qwen3-30b-a3b", "hf-flash-s4096-none", FLASH, 2, 4096),
    HF("gpt-neox-20b", "gpt-neox-20b", "hf-flash-s2048-none", FLASH, 2, 2048),
    HF("gemma-2-9b", "gemma-2-9b", "hf-eager-s4096-none", EAGER, 2, 4096),
    HF("gemma-2-9b", "gemma-2-9b", "hf-eager-s2048-none", EAGER, 2, 2048),
    HF("gpt2-medium", "gpt2-medium", "hf-eager-s1024-none-dropout", EAGER, 2, 1024),
    HF("gpt2-medium", "gpt2-medium", "hf-eager-s1024-none-nodropout", EAGER, 2, 1024),
    HF("gpt2-xl", "gpt2-xl", "hf-eager-s1024-none-dropout", EAGER, 2, 1024),
    HF("gpt2-xl", "gpt2-xl", "hf-eager-s1024-none-nodropout", EAGER, 2, 1024),
    TITAN("llama-3.1-8b", "titan-flash-s4096-none-realrope", true, false, 0),
    TITAN("llama-3.2-1b", "titan-flash-s4096-none-realrope", true, false, 0),
    TITAN("llama-2-7b", "titan-flash-s4096-none-realrope", true, false, 0),
    TITAN("llama-3.1-8b", "titan-flash-s4096-none-fp32norm", false, true, 85),
    HF("mistral-7b", "mistral-7b-v0.1", "hf-math-s4096-none", MATH, 2, 4096),
    HF("mistral-7b", "mistral-7b-v0.1", "hf-eager-s4096-none", EAGER, 2, 4096),
    HF("gpt2-medium", "gpt2-medium", "hf-efficient-s1024-none-dropout", EFFICIENT, 2, 1024),
    HF("gpt2-medium", "gpt2-medium", "hf-math-s1024-none-dropout", MATH, 2, 1024),
    BATCH("llama-3.2-1b", "llama-3.2-1b", "hf-efficient-s1000-none-b2", EFFICIENT, 1000, 2),
    BATCH("mistral-7b-v0.3", "mistral-7b-v0.3", "hf-eager-s1024-none-b2", EAGER, 1024, 2),
    BATCH("phi-3-mini", "phi-3-mini", "hf-defaultnocudnn-s2048-none-b3", FLASH, 2048, 3),
    BATCH("qwen3-30b-a3b", "qwen3-30b-a3b", "hf-flash-s2048-none-b2", FLASH, 2048, 2),
    BATCH("llama-3.1-8b", "llama-3.1-8b", "hf-math-s1024-none-b2", MATH, 1024, 2),
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
                               .is_norm_composite = c->code == SIM_MODEL_CODE_TRANSFORMERS,
                               .is_norm_wide = c->is_norm_wide,
                               .experts = g_str_has_suffix(c->setting, "expertloop")
                                              ? SIM_EXPERTS_LOOP
                                              : SIM_EXPERTS_GROUPED,
                               .is_rope_real = c->is_rope_real};
    SimModel *model = build_net(config, &options);
    if (c->code == SIM_MODEL_CODE_TRANSFORMERS)
        round_buffers(model);
    return model;
}

/* Parameters' types: f32 for norms. */
static SimDtype *wide_norms(const SimModel *model)
{
    SimDtype *dtypes = g_new(SimDtype, model->parameters->len);
    for (uint32_t i = 0; i < model->parameters->len; i++)
        dtypes[i] = strstr(sim_model_parameter(model, i)->path, "norm") != NULL ? SIM_DTYPE_F32
                                                                                : SIM_DTYPE_BF16;
    return dtypes;
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

/* The next allocation or free of the plan from *AT on, but for the free of buffer MOVED - 1. */
static const SimInstruction *next_event(const Step *step, uint32_t moved, size_t *at)
{
    for (; *at < sim_plan_length(step->plan); (*at)++) {
        const SimInstruction *row = sim_plan_instruction(step->plan, *at);
        bool is_moved = row->op == SIM_PLAN_FREE && row->buffer - step->first_buffer + 1 == moved;
        if ((row->op == SIM_PLAN_ALLOC || row->op == SIM_PLAN_FREE) && !is_moved) {
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
        guint64 buffer = g_ascii_strtoull(cell(ops, row, "buffer"), NULL, 10);
        if (buffer + 1 == c->moved && strcmp(cell(ops, row, "event"), "free") == 0)
            continue;
        const SimInstruction *found = next_event(step, c->moved, &at);
        ck_assert_msg(found != NULL, "%s %s: the stream ends after %zu events", c->model,
                      c->setting, compared);
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
    ck_assert_msg(next_event(step, c->moved, &at) == NULL,
                  "%s %s: more events than the %zu recorded", c->model, c->setting, compared);
}

START_TEST(allocations_and_frees_are_pytorchs)
{
    const Case *c = &cases[_i];
    g_autoptr(SimCsv) ops = load_oracle("ops.csv.gz");
    SimModel *model = build_case(c);
    g_autofree SimDtype *dtypes = c->is_norm_wide ? wide_norms(model) : NULL;
    Step step = {.parameter_dtypes = dtypes, .batch = c->batch};
    start_step(&step, model, c->sequence);
    sim_autograd_forward(step.autograd, 0, true);
    finish_step(&step);
    compare_streams(&step, ops, c);
    GError *error = NULL;
    ck_assert_msg(sim_plan_check(step.plan, &error), "%s", error != NULL ? error->message : "?");
    done_step(&step);
}
END_TEST

/* uint64 random state is I64 here, a mask of bool U8. */
static const char *plan_dtype(const char *torch)
{
    static const char *const names[][2] = {{"bfloat16", "bf16"}, {"float32", "f32"},
                                           {"int64", "i64"},     {"uint64", "i64"},
                                           {"bool", "u8"},       {"int32", "i32"}};
    for (size_t i = 0; i < G_N_ELEMENTS(names); i++)
        if (strcmp(names[i][0], torch) == 0)
            return names[i][1];
    ck_abort_msg("dtype %s", torch);
}

static guint64 elements_of(const char *shape)
{
    g_auto(GStrv) dims = g_strsplit(shape, "x", -1);
    guint64 elements = 1;
    for (guint i = 0; dims[i] != NULL; i++)
        elements *= g_ascii_strtoull(dims[i], NULL, 10);
    return elements;
}

static gint compare_text(gconstpointer a, gconstpointer b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static GPtrArray *recorded_saved(const Case *c)
{
    g_autoptr(SimCsv) csv = load_oracle("saved.csv.gz");
    GPtrArray *lines = g_ptr_array_new_with_free_func(g_free);
    for (size_t row = 0; row < sim_csv_rows(csv); row++)
        if (is_of(csv, row, c))
            g_ptr_array_add(lines, g_strdup_printf("%s %" G_GUINT64_FORMAT " of %s",
                                                   plan_dtype(cell(csv, row, "dtype")),
                                                   elements_of(cell(csv, row, "shape")),
                                                   cell(csv, row, "storage_bytes")));
    g_ptr_array_sort(lines, compare_text);
    return lines;
}

static bool is_buffer(const SimAutograd *autograd, const SimTensor *tensor)
{
    for (guint i = 0; i < autograd->buffers->len; i++) {
        const SimTensor *buffer = g_ptr_array_index(autograd->buffers, i);
        if (buffer->storage == tensor->storage)
            return true;
    }
    return false;
}

static GPtrArray *found_saved(SimAutograd *autograd)
{
    GPtrArray *lines = g_ptr_array_new_with_free_func(g_free);
    const SimGraph *graph = sim_autograd_graph(autograd, 0);
    for (uint32_t i = 0; i < graph->n_nodes; i++) {
        const SimNode *node = sim_graph_node(graph, i);
        for (uint32_t j = 0; j < node->n_saved; j++) {
            const SimTensor *tensor = node->saved[j];
            if (tensor->storage == NULL || is_buffer(autograd, tensor))
                continue;
            g_ptr_array_add(lines, g_strdup_printf("%s %" G_GUINT64_FORMAT " of %" G_GUINT64_FORMAT,
                                                   sim_dtype_name(tensor->layout.dtype),
                                                   sim_layout_elements(&tensor->layout),
                                                   tensor->storage->bytes));
        }
    }
    g_ptr_array_sort(lines, compare_text);
    return lines;
}

START_TEST(nodes_keep_what_pytorchs_keep)
{
    const Case *c = &cases[_i];
    SimModel *model = build_case(c);
    g_autofree SimDtype *dtypes = c->is_norm_wide ? wide_norms(model) : NULL;
    Step step = {.parameter_dtypes = dtypes, .batch = c->batch};
    start_step(&step, model, c->sequence);
    sim_autograd_forward(step.autograd, 0, true);
    g_autoptr(GPtrArray) expected = recorded_saved(c);
    if (expected->len == 0) { /* recorded without */
        finish_step(&step);
        done_step(&step);
        return;
    }
    g_autoptr(GPtrArray) lines = found_saved(step.autograd);
    for (guint i = 0; i < MIN(expected->len, lines->len); i++)
        ck_assert_msg(strcmp(expected->pdata[i], lines->pdata[i]) == 0,
                      "%s %s: expected %s, found %s", c->model, c->setting,
                      (char *)expected->pdata[i], (char *)lines->pdata[i]);
    ck_assert_uint_eq(lines->len, expected->len);
    ck_assert_uint_gt(lines->len, 20);
    finish_step(&step);
    done_step(&step);
}
END_TEST

/* FLOPs of two layers are those of torch.utils.flop_counter: of a block twice, and of the rest. */
START_TEST(flops_are_those_of_flop_counter)
{
    const Case *c = &cases[_i];
    g_autoptr(SimCsv) csv = load_oracle("flops.csv.gz");
    SimModel *model = build_case(c);
    g_autofree SimDtype *dtypes = c->is_norm_wide ? wide_norms(model) : NULL;
    Step step = {.parameter_dtypes = dtypes, .batch = c->batch};
    start_step(&step, model, c->sequence);
    sim_autograd_forward(step.autograd, 0, true);
    finish_step(&step);
    guint64 flops[2] = {0, 0}; /* forward, backward */
    for (size_t i = step.first_row; i < sim_plan_length(step.plan); i++) {
        const SimInstruction *row = sim_plan_instruction(step.plan, i);
        flops[row->phase != SIM_PHASE_FORWARD] += row->flops;
    }
    for (size_t row = 0; row < sim_csv_rows(csv); row++) {
        if (!is_of(csv, row, c))
            continue;
        guint64 block = g_ascii_strtoull(cell(csv, row, "block_flops"), NULL, 10);
        guint64 rest = g_ascii_strtoull(cell(csv, row, "rest_flops"), NULL, 10);
        bool is_backward = strcmp(cell(csv, row, "pass"), "backward") == 0;
        ck_assert_msg(flops[is_backward] == c->layers * block + rest,
                      "%s %s, %s: expected %" G_GUINT64_FORMAT ", found %" G_GUINT64_FORMAT,
                      c->model, c->setting, cell(csv, row, "pass"), c->layers * block + rest,
                      flops[is_backward]);
    }
    ck_assert_uint_gt(flops[1], flops[0]);
    done_step(&step);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("architectures");
    TCase *tcase = tcase_create("architectures");
    tcase_add_loop_test(tcase, allocations_and_frees_are_pytorchs, 0, G_N_ELEMENTS(cases));
    tcase_add_loop_test(tcase, nodes_keep_what_pytorchs_keep, 0, G_N_ELEMENTS(cases));
    tcase_add_loop_test(tcase, flops_are_those_of_flop_counter, 0, G_N_ELEMENTS(cases));
    tcase_set_timeout(tcase, 60);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed > 0;
}
