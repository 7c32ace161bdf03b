/* SPDX-License-Identifier: Apache-2.0 */
#include <check.h>
#include <glib/gstdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/input_file.h"
#include "base/output_file.h"

typedef struct Place {
    char *folder;
    char *path;
} Place;

static void make_place(Place *place, const char *name)
{
    place->folder = g_dir_make_tmp("fsdpsim-XXXXXX", NULL);
    place->path = g_build_filename(place->folder, name, NULL);
}

static void clear_place(Place *place)
{
    g_remove(place->path);
    ck_assert_int_eq(g_rmdir(place->folder), 0);
    g_free(place->path);
    g_free(place->folder);
}

START_TEST(content_has_a_zero_byte_behind_it)
{
    Place place;
    make_place(&place, "a");
    ck_assert(g_file_set_contents(place.path, "ab\0c", 4, NULL));
    size_t length = 0;
    g_autofree char *content = sim_input_file_load(place.path, 4, &length, NULL);
    ck_assert_uint_eq(length, 4);
    ck_assert_mem_eq(content, "ab\0c\0", 5);
    clear_place(&place);
}
END_TEST

START_TEST(limit_counts_decompressed_bytes)
{
    Place place;
    make_place(&place, "a.gz");
    g_autofree char *text = g_strnfill(1 << 20, 'x');
    g_autoptr(SimOutputFile) file = sim_output_file_new(place.path, NULL);
    sim_output_file_puts(file, text);
    ck_assert(sim_output_file_commit(file, NULL));

    size_t length = 0;
    g_autofree char *content = sim_input_file_load(place.path, 1 << 20, &length, NULL);
    ck_assert_uint_eq(length, 1 << 20);
    ck_assert_str_eq(content, text);
    g_autoptr(GError) error = NULL;
    ck_assert_ptr_null(sim_input_file_load(place.path, (1 << 20) - 1, &length, &error));
    ck_assert(g_error_matches(error, SIM_ERROR, SIM_ERROR_IO));
    clear_place(&place);
}
END_TEST

START_TEST(gzip_members_are_read_to_the_last)
{
    Place place;
    make_place(&place, "a.gz");
    g_autoptr(SimOutputFile) file = sim_output_file_new(place.path, NULL);
    sim_output_file_puts(file, "member");
    ck_assert(sim_output_file_commit(file, NULL));
    g_autofree char *bytes = NULL;
    size_t count;
    ck_assert(g_file_get_contents(place.path, &bytes, &count, NULL));
    g_autofree char *twice = g_malloc(2 * count);
    memcpy(twice, bytes, count);
    memcpy(twice + count, bytes, count);
    ck_assert(g_file_set_contents(place.path, twice, (gssize)(2 * count), NULL));

    size_t length;
    g_autofree char *content = sim_input_file_load(place.path, 100, &length, NULL);
    ck_assert_str_eq(content, "membermember");

    /* Cut short: 3 bytes of the second member are missing. */
    ck_assert(g_file_set_contents(place.path, twice, (gssize)(2 * count - 3), NULL));
    g_autoptr(GError) error = NULL;
    ck_assert_ptr_null(sim_input_file_load(place.path, 100, &length, &error));
    ck_assert(g_error_matches(error, SIM_ERROR, SIM_ERROR_IO));
    clear_place(&place);
}
END_TEST

START_TEST(missing_files_and_folders_are_named)
{
    Place place;
    make_place(&place, "none");
    size_t length;
    g_autoptr(GError) error = NULL;
    ck_assert_ptr_null(sim_input_file_load(place.path, 100, &length, &error));
    ck_assert(g_error_matches(error, SIM_ERROR, SIM_ERROR_IO));
    g_autofree char *missing =
        g_strdup_printf("%s: cannot be read: No such file or directory", place.path);
    ck_assert_str_eq(error->message, missing);
    g_clear_error(&error);
    ck_assert_ptr_null(sim_input_file_load(place.folder, 100, &length, &error));
    ck_assert(g_str_has_suffix(error->message, "cannot be read: it is a folder"));
    clear_place(&place);
}
END_TEST

START_TEST(text_is_utf8_without_zero_bytes)
{
    static const struct {
        const char *bytes;
        gssize length;
        const char *found;
    } rows[] = {
        {"ok\nab\xff", 6, ":2:3: expected UTF-8 text, found byte 0xff"},
        {"a\0b", 3, ":1:2: expected UTF-8 text, found byte 0x00"},
        {"\xc3", 1, ":1:1: expected UTF-8 text, found byte 0xc3"}, /* cut short */
    };
    Place place;
    make_place(&place, "a");
    size_t length;
    for (size_t i = 0; i < G_N_ELEMENTS(rows); i++) {
        ck_assert(g_file_set_contents(place.path, rows[i].bytes, rows[i].length, NULL));
        g_autoptr(GError) error = NULL;
        ck_assert_ptr_null(sim_input_file_load_text(place.path, 100, &length, &error));
        ck_assert(g_error_matches(error, SIM_ERROR, SIM_ERROR_PARSE));
        g_autofree char *expected = g_strconcat(place.path, rows[i].found, NULL);
        ck_assert_str_eq(error->message, expected);
    }
    ck_assert(g_file_set_contents(place.path, "\xef\xbb\xbf{}", -1, NULL));
    g_autofree char *text = sim_input_file_load_text(place.path, 100, &length, NULL);
    ck_assert_str_eq(text, "{}"); /* without the byte order mark */
    ck_assert_uint_eq(length, 2);
    clear_place(&place);
}
END_TEST

START_TEST(places_count_lines_and_bytes_from_one)
{
    unsigned line;
    unsigned column;
    sim_input_file_locate("ab\ncd", 0, &line, &column);
    ck_assert(line == 1 && column == 1);
    sim_input_file_locate("ab\ncd", 4, &line, &column);
    ck_assert(line == 2 && column == 2);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("input_file");
    TCase *tests = tcase_create("input_file");
    tcase_add_test(tests, content_has_a_zero_byte_behind_it);
    tcase_add_test(tests, limit_counts_decompressed_bytes);
    tcase_add_test(tests, gzip_members_are_read_to_the_last);
    tcase_add_test(tests, missing_files_and_folders_are_named);
    tcase_add_test(tests, text_is_utf8_without_zero_bytes);
    tcase_add_test(tests, places_count_lines_and_bytes_from_one);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
