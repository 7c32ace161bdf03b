/* SPDX-License-Identifier: Apache-2.0
 *
 * Pins the order in which events come out and that the heap keeps its shape; the oracle is GLib's
 * balanced tree. How fast it is tests/bench prints.
 */
#include <glib.h>
#include <stdlib.h>

#include <check.h>

#include "engine/clock.h"
#include "engine/event_queue.h"

static SimEvent event(SimTime time, uint32_t phase, uint32_t entity, uint32_t sequence)
{
    return (SimEvent){.time = time, .phase = phase, .entity = entity, .sequence = sequence};
}

static int compare(const SimEvent *a, const SimEvent *b)
{
    if (a->time != b->time)
        return a->time < b->time ? -1 : 1;
    if (a->phase != b->phase)
        return a->phase < b->phase ? -1 : 1;
    if (a->entity != b->entity)
        return a->entity < b->entity ? -1 : 1;
    return (a->sequence > b->sequence) - (a->sequence < b->sequence);
}

static gint compare_pointers(gconstpointer a, gconstpointer b, gpointer user_data)
{
    (void)user_data;
    return compare(a, b);
}

static void assert_same(SimEvent a, SimEvent b)
{
    ck_assert_int_eq(a.time, b.time);
    ck_assert_uint_eq(a.phase, b.phase);
    ck_assert_uint_eq(a.entity, b.entity);
    ck_assert_uint_eq(a.sequence, b.sequence);
}

START_TEST(an_empty_queue_has_no_event)
{
    g_autoptr(SimEventQueue) queue = sim_event_queue_new();
    SimEvent out = event(7, 0, 0, 0);
    ck_assert(!sim_event_queue_pop(queue, &out));
    ck_assert(!sim_event_queue_peek(queue, &out));
    ck_assert_int_eq(out.time, 7);
    sim_event_queue_push(queue, event(1, 0, 0, 0));
    ck_assert(sim_event_queue_pop(queue, &out));
    ck_assert(!sim_event_queue_pop(queue, &out));
    ck_assert_uint_eq(sim_event_queue_size(queue), 0);
}
END_TEST

/* Later fields matter only where all earlier ones are equal. */
START_TEST(time_comes_before_phase_before_entity_before_sequence)
{
    const SimEvent sorted[] = {
        event(0, 15, SIM_EVENT_MAX_ENTITY, UINT32_MAX),
        event(1, 0, 5, 9),
        event(1, 1, 0, 9),
        event(1, 1, 2, 0),
        event(1, 1, 2, 1),
        event(1, 1, 3, 0),
        event(INT64_MAX, 0, 0, 0),
    };
    size_t n = G_N_ELEMENTS(sorted);
    for (size_t shift = 0; shift < n; shift++) {
        g_autoptr(SimEventQueue) queue = sim_event_queue_new();
        for (size_t i = 0; i < n; i++)
            sim_event_queue_push(queue, sorted[(i * 3 + shift) % n]);
        for (size_t i = 0; i < n; i++) {
            SimEvent out;
            ck_assert(sim_event_queue_pop(queue, &out));
            assert_same(out, sorted[i]);
        }
    }
}
END_TEST

START_TEST(the_order_of_insertion_does_not_matter)
{
    enum { N = 1000 };
    for (int direction = 0; direction < 2; direction++) {
        g_autoptr(SimEventQueue) queue = sim_event_queue_new();
        for (uint32_t i = 0; i < N; i++) {
            uint32_t j = direction ? N - 1 - i : i;
            sim_event_queue_push(queue, event((SimTime)(j % 10), j % 3, j, j));
        }
        SimEvent last = event(-1, 0, 0, 0);
        for (uint32_t i = 0; i < N; i++) {
            SimEvent out;
            ck_assert(sim_event_queue_check(queue));
            ck_assert(sim_event_queue_pop(queue, &out));
            ck_assert_int_lt(compare(&last, &out), 0);
            last = out;
        }
    }
}
END_TEST

/* Random pushes and pops, with few distinct times so that all fields of the key decide. */
START_TEST(it_pops_what_a_balanced_tree_pops)
{
    g_autoptr(GRand) rand = g_rand_new_with_seed((guint32)_i);
    g_autoptr(SimEventQueue) queue = sim_event_queue_new();
    g_autoptr(GTree) tree = g_tree_new_full(compare_pointers, NULL, g_free, NULL);
    for (uint32_t i = 0; i < 20000; i++) {
        if (g_rand_int_range(rand, 0, 100) < (i < 10000 ? 60 : 40)) {
            SimEvent pushed =
                event(g_rand_int_range(rand, 0, 50), (uint32_t)g_rand_int_range(rand, 0, 4),
                      (uint32_t)g_rand_int_range(rand, 0, 20), i);
            sim_event_queue_push(queue, pushed);
            SimEvent *copy = g_memdup2(&pushed, sizeof(pushed));
            g_tree_insert(tree, copy, copy);
        } else if (g_tree_nnodes(tree) > 0) {
            SimEvent *first = g_tree_node_key(g_tree_node_first(tree));
            SimEvent peeked, popped;
            ck_assert(sim_event_queue_peek(queue, &peeked));
            ck_assert(sim_event_queue_pop(queue, &popped));
            assert_same(peeked, *first);
            assert_same(popped, *first);
            g_tree_remove(tree, first);
        }
        ck_assert_uint_eq(sim_event_queue_size(queue), (size_t)g_tree_nnodes(tree));
        if (i % 97 == 0)
            ck_assert(sim_event_queue_check(queue));
    }
}
END_TEST

START_TEST(clear_drops_everything)
{
    g_autoptr(SimEventQueue) queue = sim_event_queue_new();
    for (uint32_t i = 0; i < 300; i++)
        sim_event_queue_push(queue, event((SimTime)(1000 - i), 0, i, 0));
    sim_event_queue_clear(queue);
    ck_assert_uint_eq(sim_event_queue_size(queue), 0);
    sim_event_queue_push(queue, event(3, 2, 1, 4));
    SimEvent out;
    ck_assert(sim_event_queue_pop(queue, &out));
    assert_same(out, event(3, 2, 1, 4));
}
END_TEST

START_TEST(a_negative_time_is_a_bug)
{
    g_autoptr(SimEventQueue) queue = sim_event_queue_new();
    sim_event_queue_push(queue, event(-1, 0, 0, 0));
}
END_TEST

START_TEST(a_phase_of_sixteen_is_a_bug)
{
    g_autoptr(SimEventQueue) queue = sim_event_queue_new();
    sim_event_queue_push(queue, event(0, 16, 0, 0));
}
END_TEST

START_TEST(the_clock_counts_events_and_may_stand_still)
{
    SimClock clock;
    sim_clock_init(&clock);
    sim_clock_advance(&clock, 5);
    sim_clock_advance(&clock, 5);
    sim_clock_advance(&clock, 8);
    ck_assert_int_eq(clock.now, 8);
    ck_assert_uint_eq(clock.events, 3);
}
END_TEST

START_TEST(the_clock_never_goes_back)
{
    SimClock clock;
    sim_clock_init(&clock);
    sim_clock_advance(&clock, 5);
    sim_clock_advance(&clock, 4);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("event_queue");
    TCase *order = tcase_create("order");
    tcase_add_test(order, an_empty_queue_has_no_event);
    tcase_add_test(order, time_comes_before_phase_before_entity_before_sequence);
    tcase_add_test(order, the_order_of_insertion_does_not_matter);
    tcase_add_loop_test(order, it_pops_what_a_balanced_tree_pops, 0, 10);
    tcase_add_test(order, clear_drops_everything);
    suite_add_tcase(suite, order);
    TCase *bugs = tcase_create("bugs");
    tcase_add_test_raise_signal(bugs, a_negative_time_is_a_bug, SIGABRT);
    tcase_add_test_raise_signal(bugs, a_phase_of_sixteen_is_a_bug, SIGABRT);
    tcase_add_test_raise_signal(bugs, the_clock_never_goes_back, SIGABRT);
    tcase_add_test(bugs, the_clock_counts_events_and_may_stand_still);
    suite_add_tcase(suite, bugs);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
