/* SPDX-License-Identifier: Apache-2.0
 *
 * Who waits for whom, on a plan of a few rows.
 */
#include <check.h>

#include "trace/dependencies.h"

typedef struct Fixture {
    SimPlan *plan;
    uint32_t gather;
} Fixture;

static void add_kernel(SimPlan *plan, uint32_t stream)
{
    sim_plan_kernel(plan, stream, sim_strings_intern(sim_plan_strings(plan), "k"), 0,
                    SIM_DTYPE_F32);
}

/* Row 0: a kernel on compute; 1: the event "a" behind it; 2: all_gather waits for it; 3: the event
 * "b" on all_gather, where nothing ran yet; 4: the host waits for "b"; 5: a kernel on all_gather;
 * 6: compute waits for all of all_gather; 7: a kernel on compute. */
static SimPlan *new_plan(void)
{
    SimPlan *plan = sim_plan_new(2);
    sim_plan_stream(plan, "compute");
    uint32_t gather = sim_plan_stream(plan, "all_gather");
    add_kernel(plan, 0);
    uint32_t a = sim_plan_record(plan, 0, sim_plan_parse_name(plan, "a"));
    sim_plan_wait(plan, gather, a);
    uint32_t b = sim_plan_record(plan, gather, sim_plan_parse_name(plan, "b"));
    sim_plan_host_wait(plan, b);
    add_kernel(plan, gather);
    sim_plan_wait_stream(plan, 0, gather);
    add_kernel(plan, 0);
    return plan;
}

static void assert_rows(const GArray *rows, guint count, uint32_t first)
{
    ck_assert_uint_eq(rows->len, count);
    if (count > 0) {
        ck_assert_uint_eq(g_array_index(rows, uint32_t, 0), first);
    }
}

START_TEST(an_event_stands_for_all_that_its_stream_had_been_given)
{
    g_autoptr(SimPlan) plan = new_plan();
    SimDependencies order;
    sim_dependencies_init(&order, plan, 1);
    ck_assert(sim_dependencies_next(&order));
    ck_assert_uint_eq(order.row, 0);
    ck_assert_uint_eq(order.before, SIM_PLAN_NONE);
    assert_rows(order.waits, 0, 0);
    /* "b" was recorded where only a wait for row 0 stood. */
    ck_assert(sim_dependencies_next(&order));
    ck_assert_uint_eq(order.row, 4);
    assert_rows(order.waits, 1, 0);
    ck_assert(sim_dependencies_next(&order));
    ck_assert_uint_eq(order.row, 5);
    ck_assert_uint_eq(order.before, SIM_PLAN_NONE);
    assert_rows(order.waits, 1, 0);
    assert_rows(order.host_waits, 1, 0);
    ck_assert(sim_dependencies_next(&order));
    ck_assert_uint_eq(order.row, 7);
    ck_assert_uint_eq(order.before, 0);
    assert_rows(order.waits, 1, 5);
    ck_assert(!sim_dependencies_next(&order));
    sim_dependencies_done(&order);
}
END_TEST

START_TEST(rows_of_other_ranks_are_passed_over)
{
    g_autoptr(SimPlan) plan = sim_plan_new(2);
    uint32_t rank_set;
    sim_plan_stream(plan, "compute");
    add_kernel(plan, 0);
    ck_assert(sim_plan_add_rank_set(plan, "1", &rank_set, NULL));
    sim_plan_context(plan)->rank_set = rank_set;
    add_kernel(plan, 0);
    sim_plan_context(plan)->rank_set = 0;
    add_kernel(plan, 0);
    static const uint32_t before[] = {0, 1};
    for (uint32_t rank = 0; rank < 2; rank++) {
        SimDependencies order;
        guint count = 0;
        sim_dependencies_init(&order, plan, rank);
        while (sim_dependencies_next(&order)) {
            count++;
        }
        ck_assert_uint_eq(count, rank + 2);
        ck_assert_uint_eq(order.before, before[rank]);
        sim_dependencies_done(&order);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("dependencies");
    TCase *tcase = tcase_create("dependencies");
    tcase_add_test(tcase, an_event_stands_for_all_that_its_stream_had_been_given);
    tcase_add_test(tcase, rows_of_other_ranks_are_passed_over);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? 0 : 1;
}
