/* SPDX-License-Identifier: Apache-2.0 */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/json.h"

static cJSON *parse(const char *text, GError **error)
{
    return sim_json_parse(text, strlen(text), "a.json", error);
}

START_TEST(members_are_read_by_type)
{
    g_autoptr(cJSON) json = parse("{\"i\": 8030261248, \"d\": 0.9, \"b\": true, \"s\": \"h100\", "
                                  "\"a\": [1], \"o\": {}, \"n\": null, \"e\": 1e3}",
                                  NULL);
    int64_t integer = 0;
    double number = 0.0;
    bool flag = false;
    const char *text = NULL;
    const cJSON *item = NULL;
    ck_assert(sim_json_get_int64(json, "x", "i", 1, INT64_MAX, &integer, NULL));
    ck_assert_int_eq(integer, INT64_C(8030261248));
    ck_assert(sim_json_get_int64(json, "x", "e", 1, INT64_MAX, &integer, NULL));
    ck_assert_int_eq(integer, 1000);
    ck_assert(sim_json_get_double(json, "x", "d", 0.0, 1.0, &number, NULL));
    ck_assert_double_eq(number, 0.9);
    ck_assert(sim_json_get_bool(json, "x", "b", &flag, NULL));
    ck_assert(flag);
    ck_assert(sim_json_get_string(json, "x", "s", &text, NULL));
    ck_assert_str_eq(text, "h100");
    ck_assert(sim_json_get_array(json, "x", "a", &item, NULL));
    ck_assert_int_eq(cJSON_GetArraySize(item), 1);
    ck_assert(sim_json_get_object(json, "x", "o", &item, NULL));
    ck_assert(sim_json_has(json, "i") && !sim_json_has(json, "n") && !sim_json_has(json, "I"));
}
END_TEST

START_TEST(integers_that_are_not_what_is_asked_leave_the_result)
{
    static const struct {
        const char *text;
        int64_t min;
        int64_t max;
        SimError code;
        const char *message;
    } rows[] = {
        {"{\"k\": -4}", 1, INT64_MAX, SIM_ERROR_RANGE,
         "m.k: expected a positive integer, found -4"},
        {"{\"k\": 9}", 1, 8, SIM_ERROR_RANGE, "m.k: expected an integer from 1 to 8, found 9"},
        {"{\"k\": 1.5}", 0, INT64_MAX, SIM_ERROR_SCHEMA,
         "m.k: expected an integer of 0 or more, found 1.5"},
        {"{\"k\": 1e18}", 1, INT64_MAX, SIM_ERROR_RANGE,
         "m.k: expected a positive integer (exact up to 2^53), found 1e+18"},
        {"{\"k\": 1e999}", 1, 8, SIM_ERROR_RANGE,
         "m.k: expected an integer from 1 to 8 (exact up to 2^53), found inf"},
        {"{\"k\": \"8\"}", 1, INT64_MAX, SIM_ERROR_SCHEMA,
         "m.k: expected a positive integer, found '8'"},
        {"{\"k\": [8]}", 1, INT64_MAX, SIM_ERROR_SCHEMA,
         "m.k: expected a positive integer, found an array"},
        {"{\"K\": 8}", 1, INT64_MAX, SIM_ERROR_SCHEMA,
         "m.k: expected a positive integer, found nothing (the key is missing)"},
        {"[8]", 1, INT64_MAX, SIM_ERROR_SCHEMA, "m: expected an object, found an array"},
    };
    for (size_t i = 0; i < G_N_ELEMENTS(rows); i++) {
        g_autoptr(cJSON) json = parse(rows[i].text, NULL);
        g_autoptr(GError) error = NULL;
        int64_t value = 77;
        ck_assert(!sim_json_get_int64(json, "m", "k", rows[i].min, rows[i].max, &value, &error));
        ck_assert_str_eq(error->message, rows[i].message);
        ck_assert(g_error_matches(error, SIM_ERROR, (int)rows[i].code));
        ck_assert_int_eq(value, 77);
    }
}
END_TEST

START_TEST(other_types_say_what_they_wanted)
{
    g_autoptr(cJSON) json = parse("{\"k\": null, \"d\": 1.5, \"o\": {}}", NULL);
    g_autoptr(GError) error = NULL;
    double number = 0.0;
    bool flag = false;
    const char *text = NULL;
    const cJSON *item = NULL;
    ck_assert(!sim_json_get_double(json, "m", "d", 0.0, 1.0, &number, &error));
    ck_assert_str_eq(error->message, "m.d: expected a number from 0 to 1, found 1.5");
    g_clear_error(&error);
    ck_assert(!sim_json_get_double(json, "m", "k", 0.0, G_MAXDOUBLE, &number, &error));
    ck_assert_str_eq(error->message, "m.k: expected a number of 0 or more, found null");
    g_clear_error(&error);
    ck_assert(!sim_json_get_bool(json, "m", "o", &flag, &error));
    ck_assert_str_eq(error->message, "m.o: expected true or false, found an object");
    g_clear_error(&error);
    ck_assert(!sim_json_get_string(json, "m", "d", &text, &error));
    ck_assert_str_eq(error->message, "m.d: expected a string, found 1.5");
    g_clear_error(&error);
    ck_assert(!sim_json_get_array(json, "m", "o", &item, &error));
    ck_assert_str_eq(error->message, "m.o: expected an array, found an object");
    g_clear_error(&error);
    ck_assert(!sim_json_get_object(json, "m", "d", &item, &error));
    ck_assert_str_eq(error->message, "m.d: expected an object, found 1.5");
}
END_TEST

START_TEST(keys_are_known_and_stand_once)
{
    static const char *const keys[] = {"hidden_size", "vocab_size", NULL};
    static const struct {
        const char *text;
        const char *message; /* NULL: accepted */
    } rows[] = {
        {"{}", NULL},
        {"{\"vocab_size\": 1, \"hidden_size\": 2}", NULL},
        {"{\"hiden_size\": 1}", "m: unknown key 'hiden_size'; did you mean 'hidden_size'? (one of "
                                "hidden_size, vocab_size)"},
        {"{\"vocab_size\": 1, \"vocab_size\": 1}",
         "m.vocab_size: expected each key once, found it twice"},
        {"7", "m: expected an object, found 7"},
    };
    for (size_t i = 0; i < G_N_ELEMENTS(rows); i++) {
        g_autoptr(cJSON) json = parse(rows[i].text, NULL);
        g_autoptr(GError) error = NULL;
        ck_assert(sim_json_check_keys(json, "m", keys, &error) == (rows[i].message == NULL));
        if (rows[i].message != NULL)
            ck_assert_str_eq(error->message, rows[i].message);
    }
}
END_TEST

START_TEST(broken_text_is_located_by_line_and_column)
{
    static const struct {
        const char *text;
        const char *where;
    } rows[] = {
        {"{\"a\": 1,\n \"b\": }", "a.json:2:7: expected JSON, found "},
        {"", "a.json:1:1: "},
        {"{\"a\": 1} x", "a.json:1:10: "},
        {"{'a': 1}", "a.json:1:3: "}, /* cJSON stops behind the quote */
        {"{\"a\": NaN}", "a.json:1:7: "},
        {"[1, 2\xff]", "a.json:1:6: "},
    };
    for (size_t i = 0; i < G_N_ELEMENTS(rows); i++) {
        g_autoptr(GError) error = NULL;
        ck_assert_ptr_null(parse(rows[i].text, &error));
        ck_assert(g_error_matches(error, SIM_ERROR, SIM_ERROR_PARSE));
        ck_assert_msg(g_str_has_prefix(error->message, rows[i].where), "%s", error->message);
        ck_assert_ptr_null(strchr(error->message, '\n'));
    }
}
END_TEST

START_TEST(nesting_of_a_million_is_an_error_and_not_a_crash)
{
    /* 100 MB: a million brackets, then blanks. */
    const size_t length = 100000000;
    g_autofree char *text = g_strnfill(length, ' ');
    memset(text, '[', 1000000);
    g_autoptr(GError) error = NULL;
    ck_assert_ptr_null(sim_json_parse(text, length, "deep.json", &error));
    ck_assert(g_error_matches(error, SIM_ERROR, SIM_ERROR_PARSE));
    ck_assert_msg(g_str_has_prefix(error->message,
                                   "deep.json:1:1001: expected JSON nested at most 1000 deep"),
                  "%s", error->message);
}
END_TEST

START_TEST(missing_file_is_named)
{
    g_autoptr(GError) error = NULL;
    ck_assert_ptr_null(sim_json_load("/nowhere/a.json", &error));
    ck_assert(g_error_matches(error, SIM_ERROR, SIM_ERROR_IO));
    ck_assert_str_eq(error->message, "/nowhere/a.json: cannot be read: No such file or directory");
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("json");
    TCase *tests = tcase_create("json");
    tcase_add_test(tests, members_are_read_by_type);
    tcase_add_test(tests, integers_that_are_not_what_is_asked_leave_the_result);
    tcase_add_test(tests, other_types_say_what_they_wanted);
    tcase_add_test(tests, keys_are_known_and_stand_once);
    tcase_add_test(tests, broken_text_is_located_by_line_and_column);
    tcase_add_test(tests, nesting_of_a_million_is_an_error_and_not_a_crash);
    tcase_add_test(tests, missing_file_is_named);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
