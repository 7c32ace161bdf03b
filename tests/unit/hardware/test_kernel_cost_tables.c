/* SPDX-License-Identifier: Apache-2.0
 *
 * Holds the cost of products and of attention against measured tables of seven GPUs
 * (tests/oracle/kernels), on the rows that the constants were fitted on and on those held out.
 */
#include <glib.h>
#include <stdio.h>
#include <stdlib.h>

#include <check.h>

#include "support/kernel_rows.h"

#define MODELS SIM_SOURCE_DIR "/models"

static SimGpu *load_gpu(const char *name)
{
    g_autoptr(GError) error = NULL;
    SimGpu *gpu = sim_gpu_load(MODELS, name, &error);
    ck_assert_msg(gpu != NULL, "%s", error ? error->message : "");
    return gpu;
}

static void check_errors(const SimGpu *gpu, const GArray *rows, const char *what, double median,
                         double p90)
{
    for (int held_out = 0; held_out < 2; held_out++) {
        KernelErrors errors = kernel_rows_compute_errors(gpu, rows, held_out == 1);
        printf("%-6s %-28s %-8s %5zu rows: median %4.1f %%, 90th percentile %4.1f %%\n", gpu->name,
               what, held_out ? "held out" : "fitted", errors.n, 100 * errors.median,
               100 * errors.p90);
        ck_assert_uint_ge(errors.n, 100);
        ck_assert_double_le(errors.median, median);
        ck_assert_double_le(errors.p90, p90);
    }
}

static const struct {
    const char *gpu, *table;
} measured[] = {{"a100", "a100_sxm"}, {"h100", "h100_sxm"}, {"h200", "h200_sxm"},
                {"b200", "b200_sxm"}, {"b300", "b300_sxm"}, {"gb200", "gb200"},
                {"l40s", "l40s"}};

START_TEST(products_take_as_long_as_measured)
{
    g_autoptr(SimGpu) gpu = load_gpu(measured[_i].gpu);
    g_autoptr(GArray) rows = kernel_rows_load_gemm(measured[_i].table, 1024);
    check_errors(gpu, rows, "products from 1024", 0.06, 0.20);
}
END_TEST

static const struct {
    const char *gpu, *table, *kernel;
    bool causal;
} attention[] = {
    {"a100", "a100_sxm", "flash2", true},    {"h100", "h100_sxm", "vllm_fa3", true},
    {"h100", "h100_sxm", "vllm_fa3", false}, {"h200", "h200_sxm", "vllm_fa3", true},
    {"h200", "h200_sxm", "vllm_fa3", false}, {"b200", "b200_sxm", "vllm_trtllm", true},
    {"b200", "b200_sxm", "vllm_fa4", false}, {"b300", "b300_sxm", "vllm_trtllm", true},
    {"b300", "b300_sxm", "vllm_fa4", false}, {"gb200", "gb200", "vllm_trtllm", true},
    {"gb200", "gb200", "vllm_fa4", false},   {"l40s", "l40s", "flash2", true},
    {"l40s", "l40s", "flash2", false},
};

START_TEST(attention_takes_as_long_as_measured)
{
    g_autoptr(SimGpu) gpu = load_gpu(attention[_i].gpu);
    g_autoptr(GArray) rows =
        kernel_rows_load_attention(attention[_i].table, attention[_i].kernel, attention[_i].causal);
    g_autofree char *what = g_strdup_printf("%s %s forward", attention[_i].kernel,
                                            attention[_i].causal ? "causal" : "full");
    check_errors(gpu, rows, what, 0.12, 0.35);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("kernel_cost_tables");
    TCase *tables = tcase_create("tables");
    tcase_add_loop_test(tables, products_take_as_long_as_measured, 0, G_N_ELEMENTS(measured));
    tcase_add_loop_test(tables, attention_takes_as_long_as_measured, 0, G_N_ELEMENTS(attention));
    suite_add_tcase(suite, tables);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
