/* SPDX-License-Identifier: Apache-2.0
 *
 * Tables, names, groups, rank sets, events; what the checker refuses of plans that are built, not
 * read.
 */
#include <check.h>
#include <string.h>

#include "base/error.h"
#include "plan/plan.h"

static SimName name_of(SimPlan *plan, const char *text)
{
    return sim_plan_parse_name(plan, text);
}

static uint32_t alloc(SimPlan *plan, const char *name, uint64_t bytes)
{
    return sim_plan_alloc(plan, 0, name_of(plan, name), bytes, SIM_CATEGORY_TEMPORARY,
                          SIM_DTYPE_F32, 0);
}

static uint32_t enter_ranks(SimPlan *plan, const char *ranks)
{
    ck_assert(sim_plan_add_rank_set(plan, ranks, &sim_plan_context(plan)->rank_set, NULL));
    return sim_plan_context(plan)->rank_set;
}

static const struct {
    const char *text, *stem, *tail;
    int serial;
} names[] = {
    {"A:layers.3#7", "A:layers.3", "", 7},
    {"U:layers.3#7:attention.wq.weight", "U:layers.3", "attention.wq.weight", 7},
    {"plain", "plain", "", -1},
    {"P:layers.0:w", "P:layers.0:w", "", -1},
    {"#0", "", "", 0},
    /* What would not be printed the same is not split. */
    {"a#", "a#", "", -1},
    {"a#07", "a#07", "", -1},
    {"a#-1", "a#-1", "", -1},
    {"a#7:", "a#7:", "", -1},
    {"a#7b", "a#7b", "", -1},
    {"a#2147483647", "a", "", INT32_MAX},
    {"a#2147483648", "a#2147483648", "", -1},
    {"a#99999999999999999999999", "a#99999999999999999999999", "", -1},
    {"a#1b#2", "a#1b", "", 2},
    {"a#1:b#2", "a", "b#2", 1},
    {"", "", "", -1},
};

START_TEST(a_name_is_split_where_it_prints_back)
{
    g_autoptr(SimPlan) plan = sim_plan_new(1);
    SimName name = name_of(plan, names[_i].text);
    g_autofree char *text = sim_plan_print_name(plan, name);
    ck_assert_str_eq(sim_plan_string(plan, name.stem), names[_i].stem);
    ck_assert_str_eq(sim_plan_string(plan, name.tail), names[_i].tail);
    ck_assert_int_eq(name.serial, names[_i].serial);
    ck_assert_str_eq(text, names[_i].text);
}
END_TEST

START_TEST(stems_longer_than_the_buffer_on_the_stack_are_split_too)
{
    g_autoptr(SimPlan) plan = sim_plan_new(1);
    g_autofree char *stem = g_strnfill(1000, 'x');
    g_autofree char *text = g_strdup_printf("%s#3:w", stem);
    SimName name = name_of(plan, text);
    ck_assert_str_eq(sim_plan_string(plan, name.stem), stem);
    ck_assert_int_eq(name.serial, 3);
}
END_TEST

START_TEST(compute_is_stream_zero_and_others_come_by_first_use)
{
    g_autoptr(SimPlan) plan = sim_plan_new(2);
    ck_assert_uint_eq(sim_plan_stream(plan, "all_gather"), 1);
    ck_assert_uint_eq(sim_plan_stream(plan, "compute"), 0);
    ck_assert_uint_eq(sim_plan_stream(plan, "all_gather"), 1);
    ck_assert_uint_eq(sim_plan_stream_count(plan), 2);
}
END_TEST

START_TEST(meta_is_replaced_and_keeps_its_place)
{
    g_autoptr(SimPlan) plan = sim_plan_new(2);
    sim_plan_set_meta(plan, "cluster", "h100");
    sim_plan_set_meta(plan, "model", "tiny");
    sim_plan_set_meta(plan, "cluster", "flat");
    ck_assert_uint_eq(sim_plan_meta_count(plan), 2);
    ck_assert_str_eq(sim_plan_meta_key(plan, 0), "cluster");
    ck_assert_str_eq(sim_plan_get_meta(plan, "cluster"), "flat");
    ck_assert_ptr_null(sim_plan_get_meta(plan, "config"));
}
END_TEST

/* Eight ranks, two nodes of four: the shard groups are ranges, the replicate groups strided. */
START_TEST(a_rank_has_a_place_in_one_list_of_a_group)
{
    g_autoptr(SimPlan) plan = sim_plan_new(8);
    uint32_t list, place, members, n_ranges;
    ck_assert(sim_plan_add_group(plan, "shard", "0-3 4-7", NULL));
    ck_assert(sim_plan_add_group(plan, "replicate", "0,4 1,5 2,6", NULL));
    ck_assert_uint_eq(sim_plan_group_count(plan), 2);
    ck_assert(sim_plan_group_of_rank(plan, 0, 6, &list, &place, &members));
    ck_assert_uint_eq(list, 1);
    ck_assert_uint_eq(place, 2);
    ck_assert_uint_eq(members, 4);
    ck_assert(sim_plan_group_of_rank(plan, 1, 5, &list, &place, &members));
    ck_assert_uint_eq(list, 1);
    ck_assert_uint_eq(place, 1);
    ck_assert_uint_eq(members, 2);
    ck_assert(!sim_plan_group_of_rank(plan, 1, 7, &list, &place, &members));
    const SimRange *ranges = sim_plan_group_ranges(plan, 1, 2, &n_ranges);
    ck_assert_uint_eq(n_ranges, 2);
    ck_assert_uint_eq(ranges[1].first, 6);
    g_autofree char *text = sim_plan_print_group(plan, 1);
    ck_assert_str_eq(text, "0,4 1,5 2,6");
}
END_TEST

START_TEST(equal_rank_sets_have_equal_ids)
{
    g_autoptr(SimPlan) plan = sim_plan_new(8);
    uint32_t set = enter_ranks(plan, "7 0-1 2-3");
    ck_assert_uint_ne(set, 0);
    ck_assert_str_eq(sim_plan_rank_set_text(plan, set), "0-3 7");
    ck_assert_uint_eq(enter_ranks(plan, "0-2 1-3 7"), set);
    ck_assert_uint_eq(enter_ranks(plan, ""), 0);
    ck_assert_uint_eq(enter_ranks(plan, "4-7 0-3"), 0);
    ck_assert_uint_eq(sim_plan_rank_set_count(plan), 2);
    for (uint32_t rank = 0; rank < 8; rank++) {
        ck_assert(sim_plan_rank_set_has(plan, 0, rank));
        ck_assert_int_eq(sim_plan_rank_set_has(plan, set, rank), rank <= 3 || rank == 7);
    }
}
END_TEST

START_TEST(a_record_makes_an_event_unless_one_waits_for_it)
{
    g_autoptr(SimPlan) plan = sim_plan_new(4);
    SimName x = name_of(plan, "x");
    uint32_t first = sim_plan_event(plan, x);
    sim_plan_wait(plan, 0, first);
    ck_assert_uint_eq(sim_plan_record(plan, 0, x), first);
    ck_assert_uint_eq(sim_plan_event(plan, x), first);
    uint32_t second = sim_plan_record(plan, 0, x);
    ck_assert_uint_ne(second, first);
    ck_assert_uint_eq(sim_plan_event(plan, x), second);
    ck_assert_uint_eq(sim_plan_event_count(plan), 2);
}
END_TEST

START_TEST(ranks_that_record_in_rows_of_their_own_share_an_event)
{
    g_autoptr(SimPlan) plan = sim_plan_new(4);
    SimName x = name_of(plan, "x");
    enter_ranks(plan, "0-2");
    uint32_t first = sim_plan_record(plan, 0, x);
    enter_ranks(plan, "3");
    ck_assert_uint_eq(sim_plan_record(plan, 0, x), first);
    enter_ranks(plan, "0");
    uint32_t second = sim_plan_record(plan, 0, x);
    ck_assert_uint_ne(second, first);
    /* Rank 0 has recorded it again, rank 3 has not. */
    sim_plan_wait(plan, 0, sim_plan_event(plan, x));
    ck_assert_uint_eq(sim_plan_last(plan)->event, second);
    enter_ranks(plan, "3");
    sim_plan_wait(plan, 0, sim_plan_event(plan, x));
    ck_assert_uint_eq(sim_plan_last(plan)->event, first);
    ck_assert(sim_plan_check(plan, NULL));
}
END_TEST

START_TEST(a_buffer_may_die_on_one_rank_after_the_other)
{
    g_autoptr(SimPlan) plan = sim_plan_new(4);
    uint32_t x = alloc(plan, "x", 8);
    enter_ranks(plan, "1-2");
    sim_plan_free_buffer(plan, x);
    enter_ranks(plan, "1");
    alloc(plan, "x", 16);
    enter_ranks(plan, "0 3");
    sim_plan_free_buffer(plan, x);
    enter_ranks(plan, "2-3");
    alloc(plan, "x", 32);
    ck_assert(sim_plan_check(plan, NULL));
    enter_ranks(plan, "2");
    sim_plan_free_buffer(plan, x);
    g_autoptr(GError) error = NULL;
    ck_assert(!sim_plan_check(plan, &error));
    ck_assert_str_eq(error->message,
                     "row 6 (free): buffer 'x' does not live here: it was freed, or belongs to "
                     "other ranks");
}
END_TEST

typedef void (*BreakFunc)(SimPlan *plan);

static void use_before_birth(SimPlan *plan)
{
    sim_plan_kernel(plan, 0, 0, 0, SIM_DTYPE_F32);
    sim_plan_add_read(plan, SIM_TOUCH_WHOLE(5));
}

static void free_a_buffer_twice(SimPlan *plan)
{
    sim_plan_free_buffer(plan, alloc(plan, "x", 8));
    sim_plan_free_buffer(plan, 0);
}

static void read_past_the_end(SimPlan *plan)
{
    uint32_t x = alloc(plan, "x", 8);
    sim_plan_kernel(plan, 0, 0, 0, SIM_DTYPE_F32);
    sim_plan_add_read(plan, (SimTouch){.buffer = x, .offset = UINT64_MAX - 3, .bytes = 8});
}

static void give_a_name_twice(SimPlan *plan)
{
    alloc(plan, "x", 8);
    alloc(plan, "x", 8);
}

static void wait_for_an_older_record(SimPlan *plan)
{
    uint32_t first = sim_plan_record(plan, 0, name_of(plan, "x"));
    sim_plan_record(plan, 0, name_of(plan, "x"));
    sim_plan_wait(plan, 0, first);
}

static void name_with_a_space(SimPlan *plan)
{
    alloc(plan, "x y", 8);
}

static void serial_inside_the_stem(SimPlan *plan)
{
    SimName name = {.stem = sim_strings_intern(sim_plan_strings(plan), "a#1"), .serial = -1};
    sim_plan_alloc(plan, 0, name, 8, SIM_CATEGORY_BUFFER, SIM_DTYPE_F32, 0);
}

static void name_a_stream_that_is_not(SimPlan *plan)
{
    sim_plan_kernel(plan, 7, 0, 0, SIM_DTYPE_F32);
}

static void leave_out_the_group(SimPlan *plan)
{
    sim_plan_collective(plan, 0, 0, SIM_COLLECTIVE_ALL_GATHER, SIM_PLAN_NONE, 8, SIM_DTYPE_F32);
}

static void leave_out_the_duration(SimPlan *plan)
{
    sim_plan_host(plan, "x", -1);
}

static const struct {
    BreakFunc build;
    const char *expected;
} unsound[] = {
    {use_before_birth, "row 1 (kernel): reads: expected a buffer, found number 5 of 0"},
    {free_a_buffer_twice, "row 3 (free): buffer 'x' does not live here: it was freed, or belongs "
                          "to other ranks"},
    {read_past_the_end, "row 2 (kernel): reads: part [18446744073709551612:8] is outside buffer "
                        "'x' of 8 bytes"},
    {give_a_name_twice, "row 2 (alloc): buffer 'x' lives already"},
    {wait_for_an_older_record, "row 3 (wait): event 'x' was recorded again in between; expected a "
                               "name of its own for each record that is waited for"},
    {name_with_a_space, "row 1 (alloc): a buffer's name holds no space or bracket: 'x y'"},
    {serial_inside_the_stem, "row 1 (alloc): buffer 'a#1' has a serial in its stem"},
    {name_a_stream_that_is_not, "row 1 (kernel): stream 7 out of range"},
    {leave_out_the_group, "row 1 (collective): collective: expected a value in column 'group'"},
    {leave_out_the_duration, "row 1 (host): host: expected a value in column 'duration'"},
};

START_TEST(the_checker_names_the_row)
{
    g_autoptr(SimPlan) plan = sim_plan_new(2);
    g_autoptr(GError) error = NULL;
    unsound[_i].build(plan);
    ck_assert(!sim_plan_check(plan, &error));
    ck_assert_str_eq(error->message, unsound[_i].expected);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("plan");
    TCase *tests = tcase_create("plan");

    tcase_add_loop_test(tests, a_name_is_split_where_it_prints_back, 0, G_N_ELEMENTS(names));
    tcase_add_test(tests, stems_longer_than_the_buffer_on_the_stack_are_split_too);
    tcase_add_test(tests, compute_is_stream_zero_and_others_come_by_first_use);
    tcase_add_test(tests, meta_is_replaced_and_keeps_its_place);
    tcase_add_test(tests, a_rank_has_a_place_in_one_list_of_a_group);
    tcase_add_test(tests, equal_rank_sets_have_equal_ids);
    tcase_add_test(tests, a_record_makes_an_event_unless_one_waits_for_it);
    tcase_add_test(tests, ranks_that_record_in_rows_of_their_own_share_an_event);
    tcase_add_test(tests, a_buffer_may_die_on_one_rank_after_the_other);
    tcase_add_loop_test(tests, the_checker_names_the_row, 0, G_N_ELEMENTS(unsound));
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? 0 : 1;
}
