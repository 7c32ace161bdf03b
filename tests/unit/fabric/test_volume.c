/* SPDX-License-Identifier: Apache-2.0
 *
 * Pins that nothing is lost to rounding, whatever a volume is divided by and however often it is
 * interrupted.
 */
#include <glib.h>
#include <stdlib.h>

#include <check.h>

#include "fabric/volume.h"

/* 2 * 10 / 3 = 6.666...: 6 bytes and 666,666,666,667 / 10^12, rounded up. */
START_TEST(a_division_keeps_twelve_digits)
{
    SimVolume volume = sim_volume_divide(2, 10, 3);
    ck_assert_uint_eq(volume.bytes, 6);
    ck_assert_uint_eq(volume.picobytes, 666666666667);
    volume = sim_volume_divide(7, 8, 8);
    ck_assert_uint_eq(volume.bytes, 7);
    ck_assert_uint_eq(volume.picobytes, 0);
    ck_assert(sim_volume_is_empty(sim_volume_divide(0, 8, 8)));
}
END_TEST

/* 1 byte at 3 bytes/s = 333,333,333,333.3 ps, rounded up. */
START_TEST(time_is_rounded_up)
{
    SimVolume byte = {.bytes = 1};
    ck_assert_int_eq(sim_volume_time(byte, 3), INT64_C(333333333334));
    ck_assert_int_eq(sim_volume_time(byte, 4), INT64_C(250000000000));
    ck_assert_int_eq(sim_volume_time((SimVolume){0}, 4), 0);
    ck_assert_int_eq(sim_volume_time((SimVolume){.bytes = UINT64_MAX}, 1), SIM_VOLUME_LONGEST);
}
END_TEST

/* The rate changes at random times; in the end exactly the whole has moved: moving rate * duration
 * picobytes each time leaves nothing to round. */
START_TEST(interruptions_lose_nothing)
{
    g_autoptr(GRand) rand = g_rand_new_with_seed((guint32)_i);
    SimVolume volume = sim_volume_divide(1023, 436000000, 1024);
    SimTime now = 0, end = sim_volume_time(volume, 50000000000);
    SimVolume left = volume;
    while (now < end) {
        SimTime drawn = g_rand_int_range(rand, 1, 2000000000);
        SimTime step = MIN(drawn, end - now);
        left = sim_volume_after(left, 50000000000, step);
        now += step;
        ck_assert_int_eq(now + sim_volume_time(left, 50000000000), end);
    }
    ck_assert(sim_volume_is_empty(left));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("volume");
    TCase *volume = tcase_create("volume");
    tcase_add_test(volume, a_division_keeps_twelve_digits);
    tcase_add_test(volume, time_is_rounded_up);
    tcase_add_loop_test(volume, interruptions_lose_nothing, 0, 20);
    suite_add_tcase(suite, volume);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
