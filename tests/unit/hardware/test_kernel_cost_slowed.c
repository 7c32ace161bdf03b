/* SPDX-License-Identifier: Apache-2.0
 *
 * Pins how collectives slow the kernels beside them: waves, shares of bandwidth, the bounds, and
 * the one published case.
 */
#include <glib.h>
#include <stdlib.h>

#include <check.h>

#include "hardware/kernel_cost.h"

static SimGpu *load_h100(void)
{
    g_autoptr(GError) error = NULL;
    SimGpu *gpu = sim_gpu_load(SIM_SOURCE_DIR "/models", "h100", &error);
    ck_assert_msg(gpu != NULL, "%s", error ? error->message : "");
    return gpu;
}

static double slow(const SimGpu *gpu, const SimKernelCost *cost, uint32_t sms, double hbm)
{
    return (double)sim_kernel_cost_slowed(gpu, cost, sms, hbm) / (double)cost->duration;
}

/* 12 x 11 tiles of 128 x 256: one wave on 132 SMs, 1.22 on the 108 that an all-gather of 24 blocks
 * leaves. Published: 80 % of the peak alone and 47 % beside it, a factor of 1.70. */
START_TEST(a_product_of_one_full_wave_needs_a_second)
{
    g_autoptr(SimGpu) gpu = load_h100();
    SimKernelWork work = {.kind = SIM_KERNEL_MATRIX_PRODUCT,
                          .precision = SIM_PRECISION_BF16,
                          .m = 12 * 128,
                          .n = 11 * 256,
                          .k = 65536};
    work.flops = 2 * work.m * work.n * work.k;
    work.hbm_bytes = 2 * (work.m * work.k + work.n * work.k + work.m * work.n);
    SimKernelCost cost = sim_kernel_cost_describe(gpu, &work);
    ck_assert_uint_eq(cost.tiles, 132);
    double alone = (double)work.flops / ((double)cost.duration * 1e-12) / 989.4e12;
    ck_assert_double_eq_tol(alone, 0.80, 0.03);
    double slowdown = slow(gpu, &cost, 24, 0);
    ck_assert_double_eq_tol(slowdown, 0.80 / 0.47, 0.10);
    ck_assert_double_eq_tol(alone / slowdown, 0.47, 0.02);
}
END_TEST

/* 64 x 64 tiles of 128 x 256 or more: many waves, so the SMs that are left count: 132 / 108. */
START_TEST(a_product_of_many_waves_slows_as_sms_are_taken)
{
    g_autoptr(SimGpu) gpu = load_h100();
    SimKernelWork work = {.kind = SIM_KERNEL_MATRIX_PRODUCT,
                          .precision = SIM_PRECISION_BF16,
                          .m = 16384,
                          .n = 16384,
                          .k = 4096};
    SimKernelCost cost = sim_kernel_cost_describe(gpu, &work);
    ck_assert_double_eq_tol(slow(gpu, &cost, 24, 0), 132.0 / 108, 0.02);
}
END_TEST

/* Attention slows by 132 / 108; 60 SMs fewer would be 1.83, but no more than 1.4 was observed. */
START_TEST(attention_slows_as_sms_are_taken_up_to_the_bound)
{
    g_autoptr(SimGpu) gpu = load_h100();
    SimKernelWork work = {.kind = SIM_KERNEL_ATTENTION_FORWARD,
                          .precision = SIM_PRECISION_BF16,
                          .flops = UINT64_C(4) * 32 * 8192 * 8192 * 128,
                          .seq = 8192,
                          .head_dim = 128,
                          .causal = true};
    SimKernelCost cost = sim_kernel_cost_describe(gpu, &work);
    ck_assert_double_eq_tol(slow(gpu, &cost, 24, 0), 132.0 / 108, 1e-9);
    ck_assert_double_eq_tol(slow(gpu, &cost, 60, 0), 1.4, 1e-9);
    ck_assert_double_eq_tol(slow(gpu, &cost, 1000, 0), 1.4, 1e-9);
}
END_TEST

/* A copy of 8.5 GB at 0.85 x 3,350 GB/s demands nearly all of the 2,847.5 GB/s. While 500 GB/s are
 * taken it has 2,347.5: 1.213 of the time. At 1,150 GB/s (a ring at 360 GB/s, its data read and
 * written three times) the share is 1,697.5, a factor of 1.68, bounded by 1.4. SMs do not matter.
 */
START_TEST(a_kernel_bound_by_memory_slows_as_bandwidth_is_taken)
{
    g_autoptr(SimGpu) gpu = load_h100();
    SimKernelWork work = {.kind = SIM_KERNEL_MEMORY_BOUND, .hbm_bytes = UINT64_C(8500000000)};
    SimKernelCost cost = sim_kernel_cost_describe(gpu, &work);
    ck_assert_double_eq_tol(slow(gpu, &cost, 0, 500e9), 2847.5 / 2347.5, 2e-3);
    ck_assert_double_eq_tol(slow(gpu, &cost, 24, 1150e9), 1.4, 1e-9);
    ck_assert_int_eq(sim_kernel_cost_slowed(gpu, &cost, 24, 0), cost.duration);
}
END_TEST

START_TEST(nothing_beside_it_changes_nothing)
{
    g_autoptr(SimGpu) gpu = load_h100();
    for (unsigned kind = SIM_KERNEL_MEMORY_BOUND; kind <= SIM_KERNEL_OPTIMIZER; kind++) {
        for (uint64_t m = 64; m < 100000; m = m * 5 / 3) {
            SimKernelWork work = {.kind = (SimKernelKind)kind,
                                  .precision = SIM_PRECISION_BF16,
                                  .m = m,
                                  .n = 4096,
                                  .k = 1000,
                                  .seq = m,
                                  .head_dim = 128,
                                  .flops = 4 * 32 * 128 * m * m,
                                  .hbm_bytes = m * 100000};
            SimKernelCost cost = sim_kernel_cost_describe(gpu, &work);
            ck_assert_int_eq(cost.duration, sim_kernel_cost_compute(gpu, &work));
            ck_assert_int_eq(sim_kernel_cost_slowed(gpu, &cost, 0, 0), cost.duration);
            ck_assert_int_ge(sim_kernel_cost_slowed(gpu, &cost, 24, 1e12), cost.duration);
        }
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("kernel_cost_slowed");
    TCase *slowed = tcase_create("slowed");
    tcase_add_test(slowed, a_product_of_one_full_wave_needs_a_second);
    tcase_add_test(slowed, a_product_of_many_waves_slows_as_sms_are_taken);
    tcase_add_test(slowed, attention_slows_as_sms_are_taken_up_to_the_bound);
    tcase_add_test(slowed, a_kernel_bound_by_memory_slows_as_bandwidth_is_taken);
    tcase_add_test(slowed, nothing_beside_it_changes_nothing);
    suite_add_tcase(suite, slowed);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
