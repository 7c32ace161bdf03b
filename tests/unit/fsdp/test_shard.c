/* SPDX-License-Identifier: Apache-2.0 */
#include "fsdp/rank_classes.h"
#include "fsdp/shard.h"

#include <check.h>

static SimShape make_shape(uint64_t rows, uint64_t columns)
{
    return (SimShape){.dims = {rows, columns}, .n_dims = 2};
}

/* torch.chunk: c = ceil(n / W), later ranks get fewer rows or none; padded rows W c. */
static const struct {
    uint64_t rows;
    uint32_t ranks;
    uint64_t shard_rows, padded_rows;
    uint32_t first_partial, first_empty;
    uint64_t last_rows; /* of the last rank */
} CASES[] = {
    {10, 8, 2, 16, 5, 5, 0},                    /* five ranks own two rows, three own none */
    {3, 8, 1, 8, 3, 3, 0},                      /* three ranks own one row */
    {251, 2, 126, 252, 1, 2, 125},              /* the last rank owns one row less */
    {251, 4, 63, 252, 3, 4, 62},                /* 3 x 63 + 62 */
    {101, 4, 26, 104, 3, 4, 23},                /* 3 x 26 + 23 */
    {4096, 8, 512, 4096, 8, 8, 512},            /* divides */
    {128256, 1024, 126, 129024, 1017, 1018, 0}, /* 1017 x 126 = 128,142, then 114, then none */
    {1, 1, 1, 1, 1, 1, 1},
};

START_TEST(rows_are_cut_as_torch_chunk_cuts_them)
{
    SimShape shape = make_shape(CASES[_i].rows, 7);
    SimShard shard = sim_shard_compute(&shape, 0, CASES[_i].ranks);
    ck_assert_uint_eq(shard.shard_rows, CASES[_i].shard_rows);
    ck_assert_uint_eq(shard.shard_elements, 7 * CASES[_i].shard_rows);
    ck_assert_uint_eq(shard.padded_elements, 7 * CASES[_i].padded_rows);
    ck_assert_uint_eq(sim_shard_true_rows(&shard, CASES[_i].ranks - 1), CASES[_i].last_rows);
    uint64_t rows = 0;
    for (uint32_t rank = 0; rank < CASES[_i].ranks; rank++)
        rows += sim_shard_true_rows(&shard, rank);
    ck_assert_uint_eq(rows, CASES[_i].rows);
}
END_TEST

START_TEST(ranks_with_other_rows_begin_at_the_breaks)
{
    SimShape shape = make_shape(CASES[_i].rows, 7);
    SimShard shard = sim_shard_compute(&shape, 0, CASES[_i].ranks);
    uint32_t first_partial, first_empty;
    sim_shard_find_breaks(&shard, CASES[_i].ranks, &first_partial, &first_empty);
    ck_assert_uint_eq(first_partial, CASES[_i].first_partial);
    ck_assert_uint_eq(first_empty, CASES[_i].first_empty);
    for (uint32_t rank = 0; rank < CASES[_i].ranks; rank++) {
        uint64_t rows = sim_shard_true_rows(&shard, rank);
        ck_assert_int_eq(rows == shard.shard_rows, rank < first_partial);
        ck_assert_int_eq(rows == 0, rank >= first_empty);
    }
}
END_TEST

/* 4,096 x 14,336 in its second dimension by 8: 4,096 x 1,792, nothing is padded. */
START_TEST(another_dimension_is_cut_where_it_divides)
{
    SimShape shape = make_shape(4096, 14336);
    SimShard shard = sim_shard_compute(&shape, 1, 8);
    ck_assert_uint_eq(shard.shard_rows, 1792);
    ck_assert_uint_eq(shard.shard_elements, 4096 * 1792);
    ck_assert_uint_eq(shard.padded_elements, shard.elements);
}
END_TEST

START_TEST(a_whole_parameter_is_on_every_rank)
{
    SimShape shape = make_shape(5, 3);
    SimShard shard = sim_shard_whole(&shape);
    uint32_t first_partial, first_empty;
    sim_shard_find_breaks(&shard, 8, &first_partial, &first_empty);
    ck_assert_uint_eq(first_partial, 8);
    ck_assert_uint_eq(first_empty, 8);
    ck_assert_uint_eq(sim_shard_true_rows(&shard, 7), 5);
}
END_TEST

static GArray *compute_classes(SimPlan *plan, uint32_t size, const uint64_t *rows, size_t count)
{
    g_autoptr(GArray) shards = g_array_new(FALSE, FALSE, sizeof(SimShard));
    for (size_t i = 0; i < count; i++) {
        SimShape shape = make_shape(rows[i], 4);
        SimShard shard = sim_shard_compute(&shape, 0, size);
        g_array_append_val(shards, shard);
    }
    return sim_rank_classes_compute(plan, size, shards);
}

START_TEST(ranks_are_one_class_where_all_rows_divide)
{
    g_autoptr(SimPlan) plan = sim_plan_new(8);
    static const uint64_t ROWS[] = {8, 16, 4096};
    g_autoptr(GArray) classes = compute_classes(plan, 8, ROWS, G_N_ELEMENTS(ROWS));
    ck_assert_uint_eq(classes->len, 1);
    ck_assert_uint_eq(g_array_index(classes, SimRankClass, 0).rank_set, 0);
}
END_TEST

/* 10 rows on 8 ranks: 5 x 2; 3 rows: 3 x 1. So ranks 0-2 have both, 3-4 the first, 5-7 nothing;
 * with two replicas the same places of the second group belong to each class. */
START_TEST(classes_are_intervals_between_the_breaks_of_all_parameters)
{
    g_autoptr(SimPlan) plan = sim_plan_new(16);
    static const uint64_t ROWS[] = {10, 3};
    static const char *const RANKS[] = {"0-2 8-10", "3-4 11-12", "5-7 13-15"};
    g_autoptr(GArray) classes = compute_classes(plan, 8, ROWS, G_N_ELEMENTS(ROWS));
    ck_assert_uint_eq(classes->len, 3);
    for (uint32_t i = 0; i < 3; i++) {
        const SimRankClass *class = &g_array_index(classes, SimRankClass, i);
        ck_assert_str_eq(sim_plan_rank_set_text(plan, class->rank_set), RANKS[i]);
    }
}
END_TEST

static Suite *make_suite(void)
{
    Suite *suite = suite_create("shard");
    TCase *tests = tcase_create("shard");
    tcase_add_loop_test(tests, rows_are_cut_as_torch_chunk_cuts_them, 0, G_N_ELEMENTS(CASES));
    tcase_add_loop_test(tests, ranks_with_other_rows_begin_at_the_breaks, 0, G_N_ELEMENTS(CASES));
    tcase_add_test(tests, another_dimension_is_cut_where_it_divides);
    tcase_add_test(tests, a_whole_parameter_is_on_every_rank);
    tcase_add_test(tests, ranks_are_one_class_where_all_rows_divide);
    tcase_add_test(tests, classes_are_intervals_between_the_breaks_of_all_parameters);
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
