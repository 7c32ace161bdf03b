/* SPDX-License-Identifier: Apache-2.0
 *
 * Pins the formulas of products and attention on constants of the test's own, and how they fall
 * back where a work says less.
 */
#include <glib.h>
#include <stdlib.h>

#include <check.h>

#include "hardware/kernel_cost.h"

/* Constants and results of an independent implementation of the same formula: published with the
 * measurements, to a tenth of a microsecond. */
typedef struct Machine {
    double tflops, gbytes;
    uint32_t sms;
    SimGemmConstants gemm;
} Machine;

static const Machine machines[] = {
    {312.0, 2039, 108, {3.0062, 0.97249, 72.47, 225.15, 0.72179, 3.9367, 0.15935, 1.6634e11}},
    {989.4, 3350, 132, {3.0263, 0.88434, 3.8525, 216.53, 0.80831, 3.9971, 0.20698, 8.6497e11}},
    {2250.0, 7700, 148, {2.7037, 0.78827, 9.5956, 137.46, 0.67917, 3.9978, 0.18702, 9.5499e11}},
};

static const struct {
    uint64_t m, n, k;
    double us[G_N_ELEMENTS(machines)];
} products[] = {
    {8192, 4096, 4096, {1121.9, 362.0, 171.8}},   {8192, 14336, 4096, {3968.3, 1337.9, 641.4}},
    {8192, 4096, 14336, {3794.3, 1294.8, 614.1}}, {2048, 1024, 4096, {105.3, 24.7, 14.7}},
    {16384, 128, 4096, {105.3, 54.5, 29.4}},      {257, 4096, 4096, {61.6, 20.2, 12.9}},
};

static void fill_gpu(SimGpu *gpu, SimKernelConstants *constants, const Machine *machine)
{
    *constants = (SimKernelConstants){
        .boost = 1, .weight_gradient = 0.5, .gemm = machine->gemm, .n_attention = 0};
    *gpu = (SimGpu){
        .sms = machine->sms,
        .hbm_bytes_per_s = machine->gbytes * 1e9,
        .memory_fraction = 0.5,
        .kernel_time = 2 * SIM_MICROSECOND,
        .flops_per_s = {[SIM_PRECISION_F32] = 1e13, [SIM_PRECISION_BF16] = machine->tflops * 1e12},
        .matrix_product = {{1e9, 0.5}},
        .n_matrix_product = 1,
        .attention_forward_fraction = 0.5,
        .attention_backward_fraction = 0.25,
        .kernels = constants,
    };
}

START_TEST(a_product_takes_what_the_published_formula_gives)
{
    for (size_t i = 0; i < G_N_ELEMENTS(machines); i++) {
        SimKernelConstants constants;
        SimGpu gpu;
        fill_gpu(&gpu, &constants, &machines[i]);
        SimKernelWork work = {.kind = SIM_KERNEL_MATRIX_PRODUCT,
                              .precision = SIM_PRECISION_BF16,
                              .m = products[_i].m,
                              .n = products[_i].n,
                              .k = products[_i].k};
        double us = (double)sim_kernel_cost_compute(&gpu, &work) / SIM_MICROSECOND;
        /* power_flops is published as its logarithm, to a thousandth. */
        ck_assert_double_eq_tol(us, products[_i].us[i], 0.06 + 5e-4 * us);
    }
}
END_TEST

/* 10 SMs of 1e12 FLOP/s each, tiles of 256 x 128 and k = 640: 2 * 256 * 128 * 640 = 41,943,040
 * FLOPs = 41.943 us a wave. With tile_intensity 0 small tiles cost nothing extra; 20 large tiles
 * are 2 waves, and cut in other ways no less than the same arithmetic; a 21st makes it 2.1 waves at
 * best in smaller tiles. */
START_TEST(waves_are_whole)
{
    Machine machine = {10, 1e9, 10, {0, 1, 0, 0, 1, 1, 0, 1}};
    SimKernelConstants constants;
    SimGpu gpu;
    fill_gpu(&gpu, &constants, &machine);
    SimKernelWork work = {.kind = SIM_KERNEL_MATRIX_PRODUCT,
                          .precision = SIM_PRECISION_BF16,
                          .m = 256 * 20,
                          .n = 128,
                          .k = 640};
    SimKernelCost cost = sim_kernel_cost_describe(&gpu, &work);
    ck_assert_int_eq(cost.duration, INT64_C(83886080));
    ck_assert_uint_eq(cost.tiles, 20);
    /* 21 * 8 = 168 tiles of 64 x 64 make 17 waves of an eighth. */
    work.m = 256 * 21;
    ck_assert_int_eq(sim_kernel_cost_compute(&gpu, &work), INT64_C(83886080) / 16 * 17);
}
END_TEST

/* The same machine; a batch of 20 products of one large tile is 20 tiles. */
START_TEST(a_batch_multiplies_the_tiles)
{
    Machine machine = {10, 1e9, 10, {0, 1, 0, 0, 1, 1, 0, 1}};
    SimKernelConstants constants;
    SimGpu gpu;
    fill_gpu(&gpu, &constants, &machine);
    SimKernelWork work = {.kind = SIM_KERNEL_MATRIX_PRODUCT,
                          .precision = SIM_PRECISION_BF16,
                          .m = 256,
                          .n = 128,
                          .k = 640,
                          .batch = 20};
    ck_assert_int_eq(sim_kernel_cost_compute(&gpu, &work), INT64_C(83886080));
    work.layout = SIM_GEMM_NT; /* half the rate, in this test */
    ck_assert_int_eq(sim_kernel_cost_compute(&gpu, &work), 2 * INT64_C(83886080));
}
END_TEST

/* b = 2, s = 8192, h = 32, kv = 8, d = 128, causal; constants and times published with the
 * measurements, keys and values written into a cache. */
START_TEST(attention_takes_what_the_published_formula_gives)
{
    static const struct {
        double start, s0, w, bandwidth, efficiency, us;
    } published[G_N_ELEMENTS(machines)] = {
        {5.3412, 255.14, 1.8032, 0.54395, 0.6789, 5612},
        {12.892, 869.17, 0.37572, 0.40766, 0.6698, 1870},
        {6.3034, 908.59, 2.0003, 0.30793, 0.5876, 997},
    };
    for (size_t i = 0; i < G_N_ELEMENTS(machines); i++) {
        SimKernelConstants constants;
        SimGpu gpu;
        fill_gpu(&gpu, &constants, &machines[i]);
        char name[] = "some";
        SimAttentionConstants row = {name,
                                     false,
                                     true,
                                     published[i].start,
                                     published[i].s0,
                                     published[i].w,
                                     published[i].bandwidth,
                                     {0.1, published[i].efficiency, 0.2}};
        constants.attention = &row;
        constants.n_attention = 1;
        SimKernelWork work = {.kind = SIM_KERNEL_ATTENTION_FORWARD,
                              .precision = SIM_PRECISION_BF16,
                              .flops = UINT64_C(4) * 2 * 32 * 8192 * 8192 * 128,
                              .hbm_bytes = UINT64_C(2) * 2 * 8192 * 128 * (2 * 32 + 6 * 8),
                              .seq = 8192,
                              .head_dim = 128,
                              .causal = true};
        double us = (double)sim_kernel_cost_compute(&gpu, &work) / SIM_MICROSECOND;
        ck_assert_double_eq_tol(us, published[i].us, 0.5);
    }
}
END_TEST

/* 1e12 FLOPs of a full square at half of 312e12 = 6,410.26 us, causal half of that; the file has no
 * backward kernel, so a quarter of the peak counts. */
START_TEST(attention_without_dimensions_or_constants_takes_its_fraction)
{
    SimKernelConstants constants;
    SimGpu gpu;
    fill_gpu(&gpu, &constants, &machines[0]);
    char name[] = "some";
    SimAttentionConstants row = {name, false, true, 5, 100, 1, 1, {0.5, 0.5, 0.5}};
    constants.attention = &row;
    constants.n_attention = 1;
    SimKernelWork work = {.kind = SIM_KERNEL_ATTENTION_FORWARD,
                          .precision = SIM_PRECISION_BF16,
                          .flops = 1000000000000};
    ck_assert_int_eq(sim_kernel_cost_compute(&gpu, &work), INT64_C(6410256411));
    work.causal = true;
    ck_assert_int_eq(sim_kernel_cost_compute(&gpu, &work), INT64_C(3205128206));
    work.kind = SIM_KERNEL_ATTENTION_BACKWARD;
    work.seq = 1024;
    work.head_dim = 128;
    ck_assert_int_eq(sim_kernel_cost_compute(&gpu, &work), INT64_C(6410256411));
}
END_TEST

/* 1 GB at half of 2,039 GB/s and at each kind's part of it, and 2 us. */
START_TEST(kinds_of_traffic_have_fractions_of_their_own)
{
    static const struct {
        SimKernelKind kind;
        double fraction;
    } kinds[] = {{SIM_KERNEL_MEMORY_BOUND, 0.5},
                 {SIM_KERNEL_NORM, 0.1},
                 {SIM_KERNEL_NORM_GRAD, 0.2},
                 {SIM_KERNEL_SOFTMAX, 0.3},
                 {SIM_KERNEL_OPTIMIZER, 0.4}};
    SimKernelConstants constants;
    SimGpu gpu;
    fill_gpu(&gpu, &constants, &machines[0]);
    for (size_t i = 1; i < G_N_ELEMENTS(kinds); i++)
        constants.traffic[i - 1] = kinds[i].fraction;
    for (size_t i = 0; i < G_N_ELEMENTS(kinds); i++) {
        SimKernelWork work = {.kind = kinds[i].kind, .hbm_bytes = 1000000000};
        double us = (double)sim_kernel_cost_compute(&gpu, &work) / SIM_MICROSECOND;
        ck_assert_double_eq_tol(us, 2 + 1e6 / (2039 * kinds[i].fraction), 1e-5);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("kernel_cost_shapes");
    TCase *shapes = tcase_create("shapes");
    tcase_add_loop_test(shapes, a_product_takes_what_the_published_formula_gives, 0,
                        G_N_ELEMENTS(products));
    tcase_add_test(shapes, waves_are_whole);
    tcase_add_test(shapes, a_batch_multiplies_the_tiles);
    tcase_add_test(shapes, attention_takes_what_the_published_formula_gives);
    tcase_add_test(shapes, attention_without_dimensions_or_constants_takes_its_fraction);
    tcase_add_test(shapes, kinds_of_traffic_have_fractions_of_their_own);
    suite_add_tcase(suite, shapes);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
