/* SPDX-License-Identifier: Apache-2.0 */
#include "fsdp/flat_parameter.h"

#include <check.h>

/* A unit of three vectors of 5, 8 and 3 elements, listed in another order than that of the model.
 */
typedef struct Fixture {
    SimModel model;
    SimUnit unit;
} Fixture;

static void add_parameter(Fixture *fixture, uint64_t elements)
{
    SimParameter parameter = {.elements = elements};
    g_array_append_val(fixture->model.parameters, parameter);
}

static void add_to_unit(Fixture *fixture, uint32_t index)
{
    SimUnitParameter parameter = {.parameter = index};
    g_array_append_val(fixture->unit.parameters, parameter);
}

static void set_up(Fixture *fixture)
{
    fixture->model.parameters = g_array_new(FALSE, TRUE, sizeof(SimParameter));
    fixture->unit.parameters = g_array_new(FALSE, TRUE, sizeof(SimUnitParameter));
    add_parameter(fixture, 5);
    add_parameter(fixture, 8);
    add_parameter(fixture, 3);
    add_to_unit(fixture, 1);
    add_to_unit(fixture, 2);
    add_to_unit(fixture, 0);
}

static void tear_down(Fixture *fixture)
{
    g_array_unref(fixture->model.parameters);
    g_array_unref(fixture->unit.parameters);
}

/* Starts are multiples of 16 bytes: 8 elements of bf16, 4 of f32. bf16: 0..5, 8..16, 16..19, filled
 * up to 20 for 4 ranks. f32: 0..5, 8..16, 16..19. Without alignment: 0..5, 5..13, 13..16, and for 3
 * ranks 6 each, so the last one is filled up. */
static const struct {
    SimDtype dtype;
    bool is_aligned;
    uint32_t ranks;
    uint64_t offsets[3]; /* of parameters 1, 2, 0 */
    uint64_t elements, shard_elements, padded_elements;
} LAYOUTS[] = {
    {SIM_DTYPE_BF16, true, 4, {8, 16, 0}, 20, 5, 20},
    {SIM_DTYPE_F32, true, 2, {8, 16, 0}, 20, 10, 20},
    {SIM_DTYPE_F32, true, 1, {8, 16, 0}, 19, 19, 19},
    {SIM_DTYPE_BF16, false, 4, {5, 13, 0}, 16, 4, 16},
    {SIM_DTYPE_BF16, false, 3, {5, 13, 0}, 16, 6, 18},
};

START_TEST(parameters_begin_where_pytorch_puts_them)
{
    Fixture fixture = {0};
    set_up(&fixture);
    SimFlatParameter flat;
    sim_flat_parameter_init(&flat, &fixture.unit, &fixture.model, LAYOUTS[_i].ranks,
                            LAYOUTS[_i].dtype, LAYOUTS[_i].is_aligned);
    for (int i = 0; i < 3; i++)
        ck_assert_uint_eq(flat.offsets[i], LAYOUTS[_i].offsets[i]);
    ck_assert_uint_eq(flat.order[0], 2);
    ck_assert_uint_eq(flat.order[1], 0);
    ck_assert_uint_eq(flat.order[2], 1);
    ck_assert_uint_eq(flat.elements, LAYOUTS[_i].elements);
    ck_assert_uint_eq(flat.shard_elements, LAYOUTS[_i].shard_elements);
    ck_assert_uint_eq(flat.padded_elements, LAYOUTS[_i].padded_elements);
    sim_flat_parameter_done(&flat);
    tear_down(&fixture);
}
END_TEST

/* Shards of 6 of 5 + 8 + 3: rank 0 has all of the first and 1 of the second, rank 1 has 6 of the
 * second, rank 2 its last one and the third. */
START_TEST(shards_cut_parameters_anywhere)
{
    static const struct {
        uint32_t index;
        uint64_t elements;
        SimFlatSlice slices[3];
    } CUTS[] = {
        {2, 5, {{0, 5}, {0, 0}, {0, 0}}},
        {0, 8, {{5, 1}, {0, 6}, {0, 1}}},
        {1, 3, {{0, 0}, {0, 0}, {1, 3}}},
    };
    Fixture fixture = {0};
    set_up(&fixture);
    SimFlatParameter flat;
    sim_flat_parameter_init(&flat, &fixture.unit, &fixture.model, 3, SIM_DTYPE_F32, false);
    for (size_t i = 0; i < G_N_ELEMENTS(CUTS); i++)
        for (uint32_t place = 0; place < 3; place++) {
            SimFlatSlice slice =
                sim_flat_parameter_slice(&flat, CUTS[i].index, CUTS[i].elements, place);
            ck_assert_uint_eq(slice.elements, CUTS[i].slices[place].elements);
            ck_assert_uint_eq(slice.offset, CUTS[i].slices[place].offset);
        }
    sim_flat_parameter_done(&flat);
    tear_down(&fixture);
}
END_TEST

static Suite *make_suite(void)
{
    Suite *suite = suite_create("flat_parameter");
    TCase *tests = tcase_create("layout");
    tcase_add_loop_test(tests, parameters_begin_where_pytorch_puts_them, 0,
                        (int)G_N_ELEMENTS(LAYOUTS));
    tcase_add_test(tests, shards_cut_parameters_anywhere);
    suite_add_tcase(suite, tests);
    return suite;
}

int main(void)
{
    SRunner *runner = srunner_create(make_suite());
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? 0 : 1;
}
