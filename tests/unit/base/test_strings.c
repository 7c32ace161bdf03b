/* SPDX-License-Identifier: Apache-2.0 */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "base/strings.h"

START_TEST(ids_follow_the_order_of_first_appearance)
{
    g_autoptr(SimStrings) strings = sim_strings_new();
    ck_assert_uint_eq(sim_strings_count(strings), 1); /* the empty string */
    ck_assert_uint_eq(sim_strings_intern(strings, ""), 0);
    ck_assert_uint_eq(sim_strings_intern(strings, NULL), 0);
    ck_assert_uint_eq(sim_strings_intern(strings, "layers.0"), 1);
    ck_assert_uint_eq(sim_strings_intern(strings, "layers.1"), 2);
    ck_assert_uint_eq(sim_strings_intern(strings, "layers.0"), 1);
    ck_assert_uint_eq(sim_strings_internf(strings, "layers.%d", 1), 2);
    ck_assert_uint_eq(sim_strings_count(strings), 3);
    ck_assert_str_eq(sim_strings_get(strings, 2), "layers.1");
    ck_assert_str_eq(sim_strings_get(strings, 0), "");
}
END_TEST

START_TEST(finding_makes_nothing)
{
    g_autoptr(SimStrings) strings = sim_strings_new();
    sim_strings_intern(strings, "wq");
    ck_assert_uint_eq(sim_strings_find(strings, "wq"), 1);
    ck_assert_uint_eq(sim_strings_find(strings, "wk"), 0);
    ck_assert_uint_eq(sim_strings_find(strings, NULL), 0);
    ck_assert_uint_eq(sim_strings_count(strings), 2);
}
END_TEST

START_TEST(texts_stay_in_place_while_the_table_grows)
{
    g_autoptr(SimStrings) strings = sim_strings_new();
    const char *first = sim_strings_get(strings, sim_strings_intern(strings, "first"));
    const unsigned count = 20000;
    for (unsigned i = 0; i < count; i++)
        ck_assert_uint_eq(sim_strings_internf(strings, "text %u", i), i + 2);
    for (unsigned i = 0; i < count; i++) {
        g_autofree char *text = g_strdup_printf("text %u", i);
        ck_assert_uint_eq(sim_strings_find(strings, text), i + 2);
        ck_assert_str_eq(sim_strings_get(strings, i + 2), text);
    }
    ck_assert_ptr_eq(sim_strings_get(strings, 1), first);
    ck_assert_uint_eq(sim_strings_count(strings), count + 2);
}
END_TEST

START_TEST(formatted_texts_may_be_long)
{
    g_autoptr(SimStrings) strings = sim_strings_new();
    g_autofree char *path = g_strnfill(1000, 'x');
    SimStringId id = sim_strings_internf(strings, "%s.%d", path, 7);
    ck_assert_uint_eq(strlen(sim_strings_get(strings, id)), 1002);
    ck_assert(g_str_has_suffix(sim_strings_get(strings, id), "x.7"));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("strings");
    TCase *tests = tcase_create("strings");
    tcase_add_test(tests, ids_follow_the_order_of_first_appearance);
    tcase_add_test(tests, finding_makes_nothing);
    tcase_add_test(tests, texts_stay_in_place_while_the_table_grows);
    tcase_add_test(tests, formatted_texts_may_be_long);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
