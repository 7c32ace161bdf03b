/* SPDX-License-Identifier: Apache-2.0 */
#include <check.h>
#include <stdlib.h>

#include "base/error.h"

START_TEST(nearest_choice_has_the_least_edit_distance)
{
    static const char *const choices[] = {"none", "full", "selective", NULL};
    static const struct {
        const char *value;
        const char *nearest;
    } rows[] = {
        {"ful", "full"}, {"slective", "selective"}, {"nine", "none"}, {"full", "full"},
        {"", "none"},    {"fone", "none"}, /* 1 edit; full takes 3 */
    };
    for (size_t i = 0; i < G_N_ELEMENTS(rows); i++)
        ck_assert_str_eq(sim_error_nearest(rows[i].value, choices), rows[i].nearest);
}
END_TEST

START_TEST(of_equally_near_choices_the_first_wins)
{
    static const char *const choices[] = {"ab", "ba", NULL};
    ck_assert_str_eq(sim_error_nearest("bb", choices), "ab");
    static const char *const none[] = {NULL};
    ck_assert_ptr_null(sim_error_nearest("bb", none));
}
END_TEST

START_TEST(unknown_value_names_the_nearest_and_all_if_they_are_few)
{
    static const char *const few[] = {"off", "on", NULL};
    g_autoptr(GError) error = NULL;
    sim_error_set_unknown(&error, "job.json: clip", "value", "onn", few);
    ck_assert(g_error_matches(error, SIM_ERROR, SIM_ERROR_SCHEMA));
    ck_assert_str_eq(error->message, "job.json: clip: unknown value 'onn'; did you mean 'on'? "
                                     "(one of off, on)");

    /* 13 choices: one more than is listed. */
    static const char *const many[] = {"a", "b", "c", "d", "e", "f", "g",
                                       "h", "i", "j", "k", "l", "m", NULL};
    g_clear_error(&error);
    sim_error_set_unknown(&error, "x", "letter", "mm", many);
    ck_assert_str_eq(error->message, "x: unknown letter 'mm'; did you mean 'm'?");
}
END_TEST

START_TEST(quoted_value_is_one_line_of_valid_utf8_cut_to_80_bytes)
{
    g_autofree char *lines = sim_error_quote("a\nb\tc\"");
    ck_assert_str_eq(lines, "'a\\nb\\tc\"'");

    g_autofree char *broken = sim_error_quote("\xff-\xc3\xbc");
    ck_assert(g_utf8_validate(broken, -1, NULL));
    ck_assert_str_eq(broken, "'\xef\xbf\xbd-\xc3\xbc'");

    /* 79 letters and a letter of two bytes, which straddles the limit, so it goes. */
    g_autoptr(GString) value = g_string_new(NULL);
    g_autoptr(GString) expected = g_string_new("'");
    for (int i = 0; i < 79; i++) {
        g_string_append_c(value, 'x');
        g_string_append_c(expected, 'x');
    }
    g_string_append(value, "\xc3\xbc");
    g_string_append(expected, "...'");
    g_autofree char *cut = sim_error_quote(value->str);
    ck_assert_str_eq(cut, expected->str);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("error");
    TCase *tests = tcase_create("error");
    tcase_add_test(tests, nearest_choice_has_the_least_edit_distance);
    tcase_add_test(tests, of_equally_near_choices_the_first_wins);
    tcase_add_test(tests, unknown_value_names_the_nearest_and_all_if_they_are_few);
    tcase_add_test(tests, quoted_value_is_one_line_of_valid_utf8_cut_to_80_bytes);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
