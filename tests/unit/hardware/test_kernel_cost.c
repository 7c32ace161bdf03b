/* SPDX-License-Identifier: Apache-2.0
 *
 * Pins the roofline on a GPU with round numbers; how near it comes to real kernels is a matter of
 * tests/accuracy.
 */
#include <glib.h>
#include <stdlib.h>

#include <check.h>

#include "hardware/kernel_cost.h"

/* 1e12 bytes/s of which half is reached, 1e14 FLOP/s in bf16 and 1e13 in f32, 2 us at least. */
static SimGpu make_gpu(void)
{
    SimGpu gpu = {
        .hbm_bytes_per_s = 1e12,
        .memory_fraction = 0.5,
        .flops_per_s = {[SIM_PRECISION_F32] = 1e13, [SIM_PRECISION_BF16] = 1e14},
        .matrix_product = {{1e9, 0.2}, {1e11, 0.6}},
        .n_matrix_product = 2,
        .attention_forward_fraction = 0.5,
        .attention_backward_fraction = 0.25,
        .kernel_time = 2 * SIM_MICROSECOND,
    };
    return gpu;
}

/* 1e9 bytes at 0.5e12 bytes/s = 2 ms, and 2 us for start and end. */
START_TEST(a_memory_bound_kernel_takes_its_traffic_and_its_start)
{
    SimGpu gpu = make_gpu();
    SimKernelWork work = {.kind = SIM_KERNEL_MEMORY_BOUND, .hbm_bytes = 1000000000};
    ck_assert_int_eq(sim_kernel_cost_compute(&gpu, &work), 2002 * SIM_MICROSECOND);
    work.hbm_bytes = 0;
    ck_assert_int_eq(sim_kernel_cost_compute(&gpu, &work), 2 * SIM_MICROSECOND);
}
END_TEST

/* 1e11 FLOPs at 0.6 x 1e14 = 1,666.67 us. Halfway, 50.5e9 FLOPs, the fraction is 0.4:
 * 50.5e9 / 0.4e14 = 1,262.5 us. Above the table the last fraction holds. */
START_TEST(a_matrix_product_reaches_the_fraction_of_its_size)
{
    SimGpu gpu = make_gpu();
    SimKernelWork work = {.kind = SIM_KERNEL_MATRIX_PRODUCT, .precision = SIM_PRECISION_BF16};
    work.flops = 100000000000;
    ck_assert_int_eq(sim_kernel_cost_compute(&gpu, &work), INT64_C(1666666667));
    work.flops = 50500000000;
    ck_assert_int_eq(sim_kernel_cost_compute(&gpu, &work), INT64_C(1262500000));
    work.flops = 600000000000;
    ck_assert_int_eq(sim_kernel_cost_compute(&gpu, &work), 10 * SIM_MILLISECOND);
}
END_TEST

/* 1e6 FLOPs would take 0.05 us; 1e9 bytes take 2 ms whatever the arithmetic. */
START_TEST(the_longest_of_arithmetic_memory_and_the_shortest_kernel_counts)
{
    SimGpu gpu = make_gpu();
    SimKernelWork work = {
        .kind = SIM_KERNEL_MATRIX_PRODUCT, .precision = SIM_PRECISION_BF16, .flops = 1000000};
    ck_assert_int_eq(sim_kernel_cost_compute(&gpu, &work), 2 * SIM_MICROSECOND);
    work.hbm_bytes = 1000000000;
    ck_assert_int_eq(sim_kernel_cost_compute(&gpu, &work), 2 * SIM_MILLISECOND);
}
END_TEST

/* 1e12 FLOPs: forward at half of 1e14 = 20 ms, backward at a quarter = 40 ms. */
START_TEST(attention_has_fractions_of_its_own)
{
    SimGpu gpu = make_gpu();
    SimKernelWork work = {.kind = SIM_KERNEL_ATTENTION_FORWARD,
                          .precision = SIM_PRECISION_BF16,
                          .flops = 1000000000000};
    ck_assert_int_eq(sim_kernel_cost_compute(&gpu, &work), 20 * SIM_MILLISECOND);
    work.kind = SIM_KERNEL_ATTENTION_BACKWARD;
    ck_assert_int_eq(sim_kernel_cost_compute(&gpu, &work), 40 * SIM_MILLISECOND);
}
END_TEST

/* No f8 on this GPU, so at f32's 1e13: 1e12 / (0.6 x 1e13) = 166.67 ms. */
START_TEST(arithmetic_that_the_gpu_lacks_runs_in_f32)
{
    SimGpu gpu = make_gpu();
    SimKernelWork work = {
        .kind = SIM_KERNEL_MATRIX_PRODUCT, .precision = SIM_PRECISION_F8, .flops = 1000000000000};
    ck_assert_int_eq(sim_kernel_cost_compute(&gpu, &work), INT64_C(166666666667));
}
END_TEST

START_TEST(more_work_never_takes_less_time)
{
    g_autoptr(GError) error = NULL;
    g_autoptr(SimGpu) gpu = sim_gpu_load(SIM_SOURCE_DIR "/models", "h100", &error);
    ck_assert_msg(gpu != NULL, "%s", error ? error->message : "");
    SimTime last = 0;
    for (uint64_t flops = 1000; flops < UINT64_C(1) << 55; flops += flops / 16) {
        SimKernelWork work = {
            .kind = SIM_KERNEL_MATRIX_PRODUCT, .precision = SIM_PRECISION_BF16, .flops = flops};
        SimTime time = sim_kernel_cost_compute(gpu, &work);
        ck_assert_int_ge(time, last);
        last = time;
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("kernel_cost");
    TCase *cost = tcase_create("cost");
    tcase_add_test(cost, a_memory_bound_kernel_takes_its_traffic_and_its_start);
    tcase_add_test(cost, a_matrix_product_reaches_the_fraction_of_its_size);
    tcase_add_test(cost, the_longest_of_arithmetic_memory_and_the_shortest_kernel_counts);
    tcase_add_test(cost, attention_has_fractions_of_its_own);
    tcase_add_test(cost, arithmetic_that_the_gpu_lacks_runs_in_f32);
    tcase_add_test(cost, more_work_never_takes_less_time);
    suite_add_tcase(suite, cost);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
