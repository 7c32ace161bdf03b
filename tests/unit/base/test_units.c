/* SPDX-License-Identifier: Apache-2.0 */
#include <check.h>
#include <inttypes.h>
#include <stdlib.h>

#include "base/error.h"
#include "base/units.h"

START_TEST(bytes_are_read_with_binary_and_decimal_suffixes)
{
    static const struct {
        const char *text;
        uint64_t bytes;
    } rows[] = {
        {"0", 0},
        {"4096", 4096},
        {"512B", 512},
        {"80GiB", UINT64_C(85899345920)}, /* 80 * 2^30 */
        {"1.5 GB", UINT64_C(1500000000)},
        {"0.5KiB", 512},
        {"25MB", 25000000},
        {"25MiB", 26214400},
        {"128M", 128000000},
        {"1k", 1000},
        {"2TiB", UINT64_C(2199023255552)},
        {"1e3", 1000},
        {".5GB", 500000000},
        {"0.1GB", 100000000},                             /* to the nearest byte */
        {"18446744073709551615", UINT64_MAX},             /* whole numbers are exact */
        {"9007199254740993", UINT64_C(9007199254740993)}, /* 2^53 + 1, no double */
    };
    for (size_t i = 0; i < G_N_ELEMENTS(rows); i++) {
        uint64_t bytes = 1;
        g_autoptr(GError) error = NULL;
        ck_assert_msg(sim_units_parse_bytes(rows[i].text, &bytes, &error), "%s", rows[i].text);
        ck_assert_uint_eq(bytes, rows[i].bytes);
    }
}
END_TEST

START_TEST(what_is_no_byte_count_is_refused_and_leaves_the_result)
{
    static const struct {
        const char *text;
        SimError code;
    } rows[] = {
        {"", SIM_ERROR_PARSE},
        {"GiB", SIM_ERROR_PARSE},
        {"80Gib", SIM_ERROR_PARSE}, /* b is a bit */
        {"80GiBs", SIM_ERROR_PARSE},
        {"0x10", SIM_ERROR_PARSE},
        {"inf", SIM_ERROR_PARSE},
        {"nan", SIM_ERROR_PARSE},
        {"1,5GB", SIM_ERROR_PARSE},
        {"+5", SIM_ERROR_PARSE},
        {" 5", SIM_ERROR_PARSE},
        {"1.2.3", SIM_ERROR_PARSE},
        {"0.5", SIM_ERROR_PARSE}, /* half a byte */
        {".", SIM_ERROR_PARSE},
        {"-4", SIM_ERROR_RANGE},
        {"18446744073709551616", SIM_ERROR_RANGE}, /* 2^64 */
        {"16777216TiB", SIM_ERROR_RANGE},          /* 2^24 * 2^40 = 2^64 */
        {"1e300", SIM_ERROR_RANGE},
    };
    for (size_t i = 0; i < G_N_ELEMENTS(rows); i++) {
        uint64_t bytes = 77;
        g_autoptr(GError) error = NULL;
        ck_assert_msg(!sim_units_parse_bytes(rows[i].text, &bytes, &error), "%s", rows[i].text);
        ck_assert_msg(g_error_matches(error, SIM_ERROR, (int)rows[i].code), "%s", rows[i].text);
        ck_assert_uint_eq(bytes, 77);
    }
}
END_TEST

START_TEST(counts_are_decimal)
{
    static const struct {
        const char *text;
        uint64_t count;
    } rows[] = {
        {"7000000", 7000000},         {"100M", 100000000}, {"1.5B", UINT64_C(1500000000)},
        {"2G", UINT64_C(2000000000)}, {"3k", 3000},        {"1T", UINT64_C(1000000000000)},
    };
    uint64_t count;
    for (size_t i = 0; i < G_N_ELEMENTS(rows); i++) {
        ck_assert(sim_units_parse_count(rows[i].text, &count, NULL));
        ck_assert_uint_eq(count, rows[i].count);
    }
    ck_assert(!sim_units_parse_count("1MiB", &count, NULL));
}
END_TEST

START_TEST(rates_tell_bits_from_bytes)
{
    static const struct {
        const char *text;
        uint64_t bytes_per_s;
    } rows[] = {
        {"450GB/s", UINT64_C(450000000000)},   {"400Gb/s", UINT64_C(50000000000)}, /* 400e9 / 8 */
        {"3.35TB/s", UINT64_C(3350000000000)}, {"1GiB/s", UINT64_C(1073741824)},   {"8b/s", 1},
    };
    double rate = 0.0;
    for (size_t i = 0; i < G_N_ELEMENTS(rows); i++) {
        ck_assert(sim_units_parse_rate(rows[i].text, &rate, NULL));
        ck_assert_uint_eq((uint64_t)rate, rows[i].bytes_per_s);
    }
    static const char *const refused[] = {"450GB", "450", "GB/s", "450G/s"};
    for (size_t i = 0; i < G_N_ELEMENTS(refused); i++) {
        g_autoptr(GError) error = NULL;
        ck_assert(!sim_units_parse_rate(refused[i], &rate, &error));
        ck_assert(g_error_matches(error, SIM_ERROR, SIM_ERROR_PARSE));
    }
    static const char *const impossible[] = {"0GB/s", "-1GB/s", "1e400GB/s"};
    for (size_t i = 0; i < G_N_ELEMENTS(impossible); i++) {
        g_autoptr(GError) error = NULL;
        ck_assert(!sim_units_parse_rate(impossible[i], &rate, &error));
        ck_assert(g_error_matches(error, SIM_ERROR, SIM_ERROR_RANGE));
    }
}
END_TEST

START_TEST(durations_become_picoseconds)
{
    static const struct {
        const char *text;
        SimTime time;
    } rows[] = {
        {"3ps", 3},
        {"10ns", 10000},
        {"2us", 2000000},
        {"25ms", INT64_C(25000000000)},
        {"1.5s", INT64_C(1500000000000)},
        {"0s", 0},
        {"9223372s", INT64_C(9223372000000000000)}, /* 106.7 days */
    };
    SimTime time = 0;
    for (size_t i = 0; i < G_N_ELEMENTS(rows); i++) {
        ck_assert(sim_units_parse_duration(rows[i].text, &time, NULL));
        ck_assert_int_eq(time, rows[i].time);
    }
    g_autoptr(GError) error = NULL;
    ck_assert(!sim_units_parse_duration("5", &time, &error));
    ck_assert(g_error_matches(error, SIM_ERROR, SIM_ERROR_PARSE));
    g_clear_error(&error);
    ck_assert(!sim_units_parse_duration("-5ms", &time, &error));
    ck_assert(g_error_matches(error, SIM_ERROR, SIM_ERROR_RANGE));
    g_clear_error(&error);
    ck_assert(!sim_units_parse_duration("9223373s", &time, &error)); /* above 2^63 ps */
    ck_assert(g_error_matches(error, SIM_ERROR, SIM_ERROR_RANGE));
}
END_TEST

START_TEST(whole_numbers_stand_alone_and_in_range)
{
    int64_t value = 0;
    ck_assert(sim_units_parse_int64("-9223372036854775808", INT64_MIN, INT64_MAX, &value, NULL));
    ck_assert(value == INT64_MIN);
    ck_assert(sim_units_parse_int64("007", 0, 7, &value, NULL));
    ck_assert_int_eq(value, 7);

    static const char *const refused[] = {"", "-", "1.0", "1e3", " 1", "1 ", "+1", "0x1", "one"};
    for (size_t i = 0; i < G_N_ELEMENTS(refused); i++) {
        g_autoptr(GError) error = NULL;
        ck_assert(!sim_units_parse_int64(refused[i], 0, 10, &value, &error));
        ck_assert(g_error_matches(error, SIM_ERROR, SIM_ERROR_PARSE));
    }
    static const char *const outside[] = {"-1", "11", "9223372036854775808"};
    for (size_t i = 0; i < G_N_ELEMENTS(outside); i++) {
        g_autoptr(GError) error = NULL;
        ck_assert(!sim_units_parse_int64(outside[i], 0, 10, &value, &error));
        ck_assert(g_error_matches(error, SIM_ERROR, SIM_ERROR_RANGE));
        g_autofree char *expected =
            g_strdup_printf("expected a whole number from 0 to 10, found '%s'", outside[i]);
        ck_assert_str_eq(error->message, expected);
    }
    ck_assert_int_eq(value, 7);
}
END_TEST

START_TEST(bytes_are_printed_with_two_decimals)
{
    static const struct {
        uint64_t bytes;
        const char *text;
    } rows[] = {
        {0, "0 B"},
        {1023, "1023 B"},
        {1024, "1.00 KiB"},
        {1536, "1.50 KiB"},
        {1048566, "1023.99 KiB"}, /* 1023.9902 */
        {1048575, "1.00 MiB"},    /* 1023.999 KiB rounds up to the next unit */
        {UINT64_C(70340827218), "65.51 GiB"},
        {UINT64_MAX, "16777216.00 TiB"},
    };
    for (size_t i = 0; i < G_N_ELEMENTS(rows); i++) {
        g_autofree char *text = sim_units_print_bytes(rows[i].bytes);
        ck_assert_str_eq(text, rows[i].text);
    }
}
END_TEST

START_TEST(durations_are_printed_in_the_unit_that_fits)
{
    static const struct {
        SimTime time;
        const char *text;
    } rows[] = {
        {0, "0 s"},
        {999, "999 ps"},
        {1000, "1.0 ns"},
        {12000000, "12.0 us"},
        {INT64_C(7644000000), "7.644 ms"},
        {INT64_C(1234000000000), "1.234 s"},
        {INT64_C(999999600000), "1.000 s"}, /* 999.9996 ms */
        {INT64_C(-2500000), "-2.5 us"},
        {INT64_MAX, "9223372.037 s"},
    };
    for (size_t i = 0; i < G_N_ELEMENTS(rows); i++) {
        g_autofree char *text = sim_units_print_duration(rows[i].time);
        ck_assert_str_eq(text, rows[i].text);
    }
}
END_TEST

START_TEST(transfer_times_are_exact_and_rounded_up)
{
    static const struct {
        uint64_t bytes;
        double rate;
        SimTime time;
    } rows[] = {
        {0, 1e9, 0},
        {1, 1e12, 1},
        {1000, 1e9, 1000000}, /* exactly 1 us: no picosecond too many */
        {1, 3e12, 1},         /* a third of one */
        {1, 3.0, INT64_C(333333333334)},
        {10, 2.9, INT64_C(5000000000000)}, /* 2 whole bytes a second */
        {1, 0.25, SIM_SECOND},             /* at least 1 */
        /* 2^40 bytes at 450 GB/s: 1099511627776e12 / 450e9 = 2443359172835.55... */
        {UINT64_C(1) << 40, 450e9, INT64_C(2443359172836)},
        {UINT64_MAX, 1.0, INT64_MAX}, /* saturates */
    };
    for (size_t i = 0; i < G_N_ELEMENTS(rows); i++)
        ck_assert_int_eq(sim_units_transfer_time(rows[i].bytes, rows[i].rate), rows[i].time);
}
END_TEST

START_TEST(seconds_are_for_output)
{
    ck_assert_double_eq(sim_units_seconds(INT64_C(1500000000000)), 1.5);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("units");
    TCase *tests = tcase_create("units");
    tcase_add_test(tests, bytes_are_read_with_binary_and_decimal_suffixes);
    tcase_add_test(tests, what_is_no_byte_count_is_refused_and_leaves_the_result);
    tcase_add_test(tests, counts_are_decimal);
    tcase_add_test(tests, rates_tell_bits_from_bytes);
    tcase_add_test(tests, durations_become_picoseconds);
    tcase_add_test(tests, whole_numbers_stand_alone_and_in_range);
    tcase_add_test(tests, bytes_are_printed_with_two_decimals);
    tcase_add_test(tests, durations_are_printed_in_the_unit_that_fits);
    tcase_add_test(tests, transfer_times_are_exact_and_rounded_up);
    tcase_add_test(tests, seconds_are_for_output);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
