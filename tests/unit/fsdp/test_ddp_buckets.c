/* SPDX-License-Identifier: Apache-2.0 */
#include "fsdp/ddp_buckets.h"

#include <check.h>

#define MOST 6

/* Parameters of so many bytes each, cut at limits; a bucket is closed by the one that reaches its
 * limit, and the last limit holds for all that follow. */
static const struct {
    uint64_t bytes[MOST]; /* ends with 0 */
    uint64_t limits[2];
    size_t n_limits;
    uint64_t buckets[MOST];
} CASES[] = {
    {{4, 4, 4, 4}, {8}, 1, {8, 8}},
    {{4, 4, 4, 4, 4}, {8}, 1, {8, 8, 4}},
    {{4, 40, 4, 4, 4}, {4, 12}, 2, {4, 40, 12}}, /* one is larger than any limit */
    {{4, 4, 4, 4}, {1, 12}, 2, {4, 12}},
    {{4, 8, 12}, {UINT64_MAX}, 1, {24}},
    {{0}, {8}, 1, {0}},
};

START_TEST(buckets_close_when_they_reach_their_limit)
{
    SimModel model = {.parameters = g_array_new(FALSE, TRUE, sizeof(SimParameter))};
    g_autoptr(GArray) order = g_array_new(FALSE, FALSE, sizeof(uint32_t));
    for (uint32_t i = 0; CASES[_i].bytes[i] != 0; i++) {
        SimParameter parameter = {.elements = CASES[_i].bytes[i] / 4};
        g_array_append_val(model.parameters, parameter);
        g_array_append_val(order, i);
    }
    g_autoptr(GArray) buckets =
        sim_ddp_buckets_assign(&model, order, 4, CASES[_i].limits, CASES[_i].n_limits);
    uint32_t next = 0;
    for (uint32_t b = 0; b < buckets->len; b++) {
        const SimDdpBucket *bucket = &g_array_index(buckets, SimDdpBucket, b);
        ck_assert_uint_eq(bucket->bytes, CASES[_i].buckets[b]);
        for (uint32_t i = 0; i < bucket->parameters->len; i++)
            ck_assert_uint_eq(g_array_index(bucket->parameters, uint32_t, i), next++);
    }
    ck_assert_uint_eq(next, order->len);
    ck_assert_uint_eq(CASES[_i].buckets[buckets->len], 0);
    g_array_unref(model.parameters);
}
END_TEST

static Suite *make_suite(void)
{
    Suite *suite = suite_create("ddp_buckets");
    TCase *tests = tcase_create("assignment");
    tcase_add_loop_test(tests, buckets_close_when_they_reach_their_limit, 0,
                        (int)G_N_ELEMENTS(CASES));
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
