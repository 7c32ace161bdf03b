/* SPDX-License-Identifier: Apache-2.0 */
#include <check.h>

#include "engine/clock.h"
#include "rank/event_times.h"

START_TEST(an_event_is_forgotten_when_all_its_waits_have_seen_it)
{
    SimEventTimes times = {0};
    sim_event_times_set(&times, 7, 2, 100);
    sim_event_times_release(&times, 7);
    ck_assert_int_eq(sim_event_times_find(&times, 7), 100);
    sim_event_times_release(&times, 7);
    ck_assert_int_eq(sim_event_times_find(&times, 7), SIM_TIME_NEVER);
    ck_assert_uint_eq(times.count, 0);
    sim_event_times_done(&times);
}
END_TEST

START_TEST(an_event_that_nobody_waits_for_takes_no_place)
{
    SimEventTimes times = {0};
    sim_event_times_set(&times, 3, 0, 100);
    ck_assert_uint_eq(times.size, 0);
    sim_event_times_done(&times);
}
END_TEST

/* 10,000 events of which at most 40 live: against an array, at places that collide. */
START_TEST(many_events_use_the_same_few_places)
{
    enum { EVENTS = 10000, LIVING = 40 };
    SimEventTimes times = {0};
    for (uint32_t i = 0; i < EVENTS; i++) {
        sim_event_times_set(&times, i * 5, 1, i);
        if (i >= LIVING) {
            sim_event_times_release(&times, (i - LIVING) * 5);
        }
        for (uint32_t age = 0; age <= LIVING + 2 && age <= i; age++) {
            SimTime expected = age < LIVING ? (SimTime)(i - age) : SIM_TIME_NEVER;
            if (i >= LIVING || age <= i) {
                ck_assert_int_eq(sim_event_times_find(&times, (i - age) * 5),
                                 i < LIVING ? (SimTime)(i - age) : expected);
            }
        }
    }
    ck_assert_uint_le(times.size, 128);
    sim_event_times_done(&times);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("event times");
    TCase *all = tcase_create("all");
    tcase_add_test(all, an_event_is_forgotten_when_all_its_waits_have_seen_it);
    tcase_add_test(all, an_event_that_nobody_waits_for_takes_no_place);
    tcase_add_test(all, many_events_use_the_same_few_places);
    suite_add_tcase(suite, all);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed > 0;
}
