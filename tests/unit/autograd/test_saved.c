/* SPDX-License-Identifier: Apache-2.0
 *
 * What the nodes of a forward keep is what PyTorch's keep: the same tensors, by type, elements and
 * storage, as many times.
 */
#include "autograd/autograd_private.h"

#include "recording.h"

static const struct {
    const char *net, *setting;
    SimModelCode code;
    bool is_norm_composite;
    double dropout;
    uint64_t sequence;
} cases[] = {
    {"llama-3.1-8b", "titan-flash-s8192-none", SIM_MODEL_CODE_TORCHTITAN, false, 0, 8192},
    {"llama-3.1-8b", "titan-flash-s4096-none-upcastnorm", SIM_MODEL_CODE_TORCHTITAN, true, 0, 4096},
    {"llama-3.1-8b", "hf-flash-s4096-none", SIM_MODEL_CODE_TRANSFORMERS, true, 0, 4096},
    {"qwen2.5-7b", "hf-flash-s4096-none", SIM_MODEL_CODE_TRANSFORMERS, true, 0, 4096},
    {"gpt2-medium", "hf-flash-s1024-none-dropout", SIM_MODEL_CODE_TRANSFORMERS, false, -1, 1024},
    {"gpt2-xl", "hf-flash-s1024-none-nodropout", SIM_MODEL_CODE_TRANSFORMERS, false, 0, 1024},
};

static gint compare_text(gconstpointer a, gconstpointer b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* uint64 random state is I64 here, a mask of bool U8. */
static const char *plan_dtype(const char *torch)
{
    static const char *const names[][2] = {{"bfloat16", "bf16"}, {"float32", "f32"},
                                           {"int64", "i64"},     {"uint64", "i64"},
                                           {"bool", "u8"},       {"complex64", "c64"}};
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

static GPtrArray *recorded(const char *net, const char *setting)
{
    g_autoptr(SimCsv) csv = load_data("saved.csv.gz");
    GPtrArray *lines = g_ptr_array_new_with_free_func(g_free);
    for (size_t row = 0; row < sim_csv_rows(csv); row++) {
        if (strcmp(cell(csv, row, "model"), net) != 0 ||
            strcmp(cell(csv, row, "setting"), setting) != 0 || *cell(csv, row, "alias") != '\0')
            continue;
        g_ptr_array_add(lines, g_strdup_printf("%s %" G_GUINT64_FORMAT " of %s",
                                               plan_dtype(cell(csv, row, "dtype")),
                                               elements_of(cell(csv, row, "shape")),
                                               cell(csv, row, "storage_bytes")));
    }
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

static GPtrArray *found(SimAutograd *autograd)
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
    SimModelOptions options = {.code = cases[_i].code,
                               .is_norm_composite = cases[_i].is_norm_composite,
                               .dropout = cases[_i].dropout};
    Step step = {0};
    start_step(&step, build_recorded_net(cases[_i].net, &options, false), cases[_i].sequence);
    sim_autograd_forward(step.autograd, 0, true);
    g_autoptr(GPtrArray) expected = recorded(cases[_i].net, cases[_i].setting);
    g_autoptr(GPtrArray) lines = found(step.autograd);
    for (guint i = 0; i < MIN(expected->len, lines->len); i++)
        ck_assert_msg(strcmp(expected->pdata[i], lines->pdata[i]) == 0,
                      "%s %s: expected %s, found %s", cases[_i].net, cases[_i].setting,
                      (char *)expected->pdata[i], (char *)lines->pdata[i]);
    ck_assert_uint_eq(lines->len, expected->len);
    ck_assert_uint_gt(lines->len, 20);
    finish_step(&step);
    done_step(&step);
}
END_TEST

START_TEST(nothing_is_kept_without_grad)
{
    SimModelOptions options = {.code = SIM_MODEL_CODE_TORCHTITAN};
    Step step = {0};
    start_step(&step, build_recorded_net("llama-3.1-8b", &options, false), 4096);
    sim_autograd_forward(step.autograd, 0, false);
    ck_assert_uint_eq(sim_autograd_graph(step.autograd, 0)->n_nodes, 0);
    sim_autograd_drop_loss(step.autograd, 0);
    /* All that the forward allocated is freed again. */
    int64_t live = 0;
    for (size_t i = step.first_row; i < sim_plan_length(step.plan); i++) {
        const SimInstruction *row = sim_plan_instruction(step.plan, i);
        live += (row->op == SIM_PLAN_ALLOC) - (row->op == SIM_PLAN_FREE);
    }
    ck_assert_int_eq(live, 0);
    sim_autograd_free(g_steal_pointer(&step.autograd));
    done_step(&step);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("saved");
    TCase *tcase = tcase_create("saved");
    tcase_add_loop_test(tcase, nodes_keep_what_pytorchs_keep, 0, G_N_ELEMENTS(cases));
    tcase_add_test(tcase, nothing_is_kept_without_grad);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed > 0;
}
