/* SPDX-License-Identifier: Apache-2.0
 *
 * Strides: when a reshape copies, and in which order of dimensions a pointwise result lies.
 * Expected values are what torch.Tensor.stride() gives for the operation named.
 */
#include "model/layout.h"

#include <check.h>

static SimLayout contiguous(uint32_t n, const uint64_t *dims)
{
    SimShape shape = {.n_dims = n};
    for (uint32_t i = 0; i < n; i++)
        shape.dims[i] = dims[i];
    return sim_layout_contiguous(&shape, SIM_DTYPE_BF16);
}

#define DIMS(...)                                                                                  \
    (sizeof((uint64_t[]){__VA_ARGS__}) / 8), (uint64_t[])                                          \
    {                                                                                              \
        __VA_ARGS__                                                                                \
    }

static void check_strides(const SimLayout *layout, uint32_t n, const uint64_t *strides)
{
    ck_assert_uint_eq(layout->shape.n_dims, n);
    for (uint32_t i = 0; i < n; i++)
        ck_assert_msg(layout->strides[i] == strides[i], "dimension %u: %" G_GUINT64_FORMAT, i,
                      layout->strides[i]);
}

START_TEST(transposed_heads_are_dense_but_not_contiguous)
{
    /* x.view(2, 8, 4, 16).transpose(1, 2): [2, 4, 8, 16] */
    SimLayout heads = contiguous(DIMS(2, 8, 4, 16));
    SimLayout turned = sim_layout_transpose(&heads, 1, 2);
    check_strides(&turned, DIMS(512, 16, 64, 1));
    ck_assert(!sim_layout_is_contiguous(&turned) && sim_layout_is_dense(&turned));
    /* of one token or of one head they are contiguous after all */
    SimLayout one = contiguous(DIMS(2, 1, 4, 16));
    turned = sim_layout_transpose(&one, 1, 2);
    ck_assert(sim_layout_is_contiguous(&turned));
}
END_TEST

START_TEST(reshape_is_a_view_only_within_pieces)
{
    SimLayout heads = contiguous(DIMS(2, 8, 4, 16)), out;
    SimLayout turned = sim_layout_transpose(&heads, 1, 2);
    SimShape merged = {.dims = {2, 4, 128}, .n_dims = 3};    /* joins 8 and 16: 64 != 16 * 1 */
    SimShape split = {.dims = {2, 4, 8, 4, 4}, .n_dims = 5}; /* cuts the last dimension */
    ck_assert(!sim_layout_reshape(&turned, &merged, &out));
    ck_assert(sim_layout_reshape(&turned, &split, &out));
    check_strides(&out, DIMS(512, 16, 64, 4, 1));
    SimLayout back = sim_layout_transpose(&turned, 1, 2);
    SimShape rows = {.dims = {16, 64}, .n_dims = 2};
    ck_assert(sim_layout_reshape(&back, &rows, &out));
    check_strides(&out, DIMS(64, 1));
}
END_TEST

START_TEST(part_of_a_fused_product_is_a_view_with_gaps)
{
    /* qkv [2, 8, 48] split in 16: heads of 4 x 4 */
    SimLayout part = contiguous(DIMS(2, 8, 48)), out;
    part.shape.dims[2] = 16;
    ck_assert(!sim_layout_is_dense(&part));
    SimShape heads = {.dims = {2, 8, 4, 4}, .n_dims = 4};
    ck_assert(sim_layout_reshape(&part, &heads, &out));
    check_strides(&out, DIMS(384, 48, 4, 1));
}
END_TEST

START_TEST(pointwise_results_take_the_first_operands_order)
{
    SimLayout heads = contiguous(DIMS(2, 8, 4, 16));
    SimLayout turned = sim_layout_transpose(&heads, 1, 2);
    SimLayout table = contiguous(DIMS(1, 1, 8, 16)), plain = contiguous(DIMS(2, 4, 8, 16));
    const SimLayout *broadcast[] = {&turned, &table}, *mixed[] = {&turned, &plain};
    const SimLayout *swapped[] = {&plain, &turned};
    SimLayout out = sim_layout_pointwise(broadcast, 2, SIM_DTYPE_BF16);
    check_strides(&out, DIMS(512, 16, 64, 1));
    out = sim_layout_pointwise(mixed, 2, SIM_DTYPE_BF16);
    check_strides(&out, DIMS(512, 16, 64, 1));
    out = sim_layout_pointwise(swapped, 2, SIM_DTYPE_BF16);
    check_strides(&out, DIMS(512, 128, 16, 1));
}
END_TEST

START_TEST(pointwise_results_of_views_have_no_gaps)
{
    /* -x[..., 8:] of transposed heads: half as large, same order */
    SimLayout heads = contiguous(DIMS(2, 8, 4, 16));
    SimLayout half = sim_layout_transpose(&heads, 1, 2);
    half.shape.dims[3] = 8;
    const SimLayout *inputs[] = {&half};
    SimLayout out = sim_layout_pointwise(inputs, 1, SIM_DTYPE_BF16);
    check_strides(&out, DIMS(256, 8, 32, 1));
    ck_assert_uint_eq(sim_layout_bytes(&out), 2 * 2 * 4 * 8 * 8);
}
END_TEST

START_TEST(broadcast_shapes_align_at_the_end)
{
    SimLayout a = contiguous(DIMS(8, 1)), b = contiguous(DIMS(4, 1, 16));
    const SimLayout *inputs[] = {&a, &b};
    SimShape shape = sim_layout_broadcast(inputs, 2);
    ck_assert_uint_eq(shape.n_dims, 3);
    ck_assert(shape.dims[0] == 4 && shape.dims[1] == 8 && shape.dims[2] == 16);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("layout");
    TCase *tcase = tcase_create("layout");
    tcase_add_test(tcase, transposed_heads_are_dense_but_not_contiguous);
    tcase_add_test(tcase, reshape_is_a_view_only_within_pieces);
    tcase_add_test(tcase, part_of_a_fused_product_is_a_view_with_gaps);
    tcase_add_test(tcase, pointwise_results_take_the_first_operands_order);
    tcase_add_test(tcase, pointwise_results_of_views_have_no_gaps);
    tcase_add_test(tcase, broadcast_shapes_align_at_the_end);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed > 0;
}
