/* SPDX-License-Identifier: Apache-2.0 */
#include <check.h>
#include <glib/gstdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/csv.h"
#include "base/error.h"

/* Loads TEXT through a file; a message that begins with the file's name begins with "FILE" then. */
static SimCsv *load_text(const char *text, const char *const *known, GError **error)
{
    g_autofree char *folder = g_dir_make_tmp("fsdpsim-XXXXXX", NULL);
    g_autofree char *path = g_build_filename(folder, "a.csv", NULL);
    ck_assert(g_file_set_contents(path, text, -1, NULL));
    g_autoptr(GError) failure = NULL;
    SimCsv *csv = sim_csv_load(path, known, &failure);
    if (csv == NULL) {
        ck_assert(g_str_has_prefix(failure->message, path));
        g_set_error(error, failure->domain, failure->code, "FILE%s",
                    failure->message + strlen(path));
    }
    g_remove(path);
    g_rmdir(folder);
    return csv;
}

START_TEST(cells_are_found_by_row_and_column)
{
    g_autoptr(SimCsv) csv =
        load_text("op,bytes,name\nalloc,512,\"a, \"\"b\"\"\"\r\nfree,,x\n", NULL, NULL);
    ck_assert_uint_eq(sim_csv_rows(csv), 2);
    int name = sim_csv_column(csv, "name");
    ck_assert_int_eq(name, 2);
    ck_assert_int_eq(sim_csv_column(csv, "none"), -1);
    ck_assert_str_eq(sim_csv_cell(csv, 0, name), "a, \"b\"");
    ck_assert_str_eq(sim_csv_cell(csv, 0, 1), "512");
    ck_assert_str_eq(sim_csv_cell(csv, 1, 1), "");
    ck_assert_str_eq(sim_csv_cell(csv, 1, -1), "");
    ck_assert(g_str_has_suffix(sim_csv_file(csv), "a.csv"));
}
END_TEST

START_TEST(lines_count_blank_lines_and_line_ends_in_quotes)
{
    /* Line 1 blank, 2 header, 3 blanks, 4-6 one row with two line ends, 7 blank, 8 without an end.
     */
    g_autoptr(SimCsv) csv = load_text("\na,b\n  \n\"x\n\ny\",1\n\nz,2", NULL, NULL);
    ck_assert_uint_eq(sim_csv_rows(csv), 2);
    ck_assert_str_eq(sim_csv_cell(csv, 0, 0), "x\n\ny");
    ck_assert_uint_eq(sim_csv_line(csv, 0), 4);
    ck_assert_uint_eq(sim_csv_line(csv, 1), 8);

    g_autoptr(SimCsv) carriage = load_text("a,b\r1,2\r\r3,4\r", NULL, NULL);
    ck_assert_uint_eq(sim_csv_rows(carriage), 2);
    ck_assert_uint_eq(sim_csv_line(carriage, 1), 4);
}
END_TEST

START_TEST(what_is_wrong_is_named_with_its_line)
{
    static const char *const known[] = {"op", "bytes", NULL};
    static const struct {
        const char *text;
        SimError code;
        const char *message;
    } rows[] = {
        {"", SIM_ERROR_PARSE, "FILE:1: expected a header row, found an empty file"},
        {"\n\n", SIM_ERROR_PARSE, "FILE:1: expected a header row, found an empty file"},
        {"op,bytes\n\nfree\n", SIM_ERROR_PARSE,
         "FILE:3: expected 2 cells as in the header, found 1"},
        {"op,bytes\na,1,2\n", SIM_ERROR_PARSE,
         "FILE:2: expected 2 cells as in the header, found 3"},
        {"op,bytes\na,1\nb", SIM_ERROR_PARSE, "FILE:3: expected 2 cells as in the header, found 1"},
        {"op,byte\n", SIM_ERROR_SCHEMA,
         "FILE:1: unknown column 'byte'; did you mean 'bytes'? (one of op, bytes)"},
        {"\nop,op\n", SIM_ERROR_SCHEMA, "FILE:2: expected each column once, found 'op' twice"},
    };
    for (size_t i = 0; i < G_N_ELEMENTS(rows); i++) {
        g_autoptr(GError) error = NULL;
        ck_assert_ptr_null(load_text(rows[i].text, known, &error));
        ck_assert_str_eq(error->message, rows[i].message);
        ck_assert(g_error_matches(error, SIM_ERROR, (int)rows[i].code));
    }
}
END_TEST

START_TEST(stray_and_unclosed_quotes_are_refused_where_they_stand)
{
    static const struct {
        const char *text;
        const char *where;
    } rows[] = {
        {"a,b\n1,2\n1,x\"y\n", "FILE:3: "},    /* a quote inside a bare cell */
        {"a,b\n1,\"x\"y\n", "FILE:2: "},       /* text behind the closing quote */
        {"a,b\n1,2\n\"1,\n\n2\n", "FILE:3: "}, /* never closed: where the row began */
    };
    for (size_t i = 0; i < G_N_ELEMENTS(rows); i++) {
        g_autoptr(GError) error = NULL;
        ck_assert_ptr_null(load_text(rows[i].text, NULL, &error));
        ck_assert_msg(g_str_has_prefix(error->message, rows[i].where), "%s", error->message);
        ck_assert(g_error_matches(error, SIM_ERROR, SIM_ERROR_PARSE));
    }
}
END_TEST

START_TEST(written_rows_quote_only_where_needed_and_read_back)
{
    g_autofree char *folder = g_dir_make_tmp("fsdpsim-XXXXXX", NULL);
    g_autofree char *path = g_build_filename(folder, "a.csv", NULL);
    static const char *const texts[] = {"plain",    "a,b", "say \"hi\"",  "two\nlines",
                                        " padded ", "",    "inner space", "\r"};
    g_autoptr(SimOutputFile) file = sim_output_file_new(path, NULL);
    SimCsvWriter writer;
    sim_csv_writer_init(&writer, file);
    sim_csv_writer_text(&writer, "only");
    sim_csv_writer_end_row(&writer);
    for (size_t i = 0; i < G_N_ELEMENTS(texts); i++) {
        sim_csv_writer_text(&writer, texts[i]);
        sim_csv_writer_end_row(&writer);
    }
    ck_assert(sim_output_file_commit(file, NULL));

    g_autofree char *content = NULL;
    ck_assert(g_file_get_contents(path, &content, NULL, NULL));
    ck_assert_str_eq(content, "only\nplain\n\"a,b\"\n\"say \"\"hi\"\"\"\n\"two\nlines\"\n"
                              "\" padded \"\n\"\"\ninner space\n\"\r\"\n");
    g_autoptr(SimCsv) csv = sim_csv_load(path, NULL, NULL);
    ck_assert_uint_eq(sim_csv_rows(csv), G_N_ELEMENTS(texts));
    for (size_t i = 0; i < G_N_ELEMENTS(texts); i++)
        ck_assert_str_eq(sim_csv_cell(csv, i, 0), texts[i]);
    g_remove(path);
    g_rmdir(folder);
}
END_TEST

START_TEST(numbers_and_empty_cells_are_written_in_full)
{
    g_autofree char *folder = g_dir_make_tmp("fsdpsim-XXXXXX", NULL);
    g_autofree char *path = g_build_filename(folder, "a.csv", NULL);
    g_autoptr(SimOutputFile) file = sim_output_file_new(path, NULL);
    SimCsvWriter writer;
    sim_csv_writer_init(&writer, file);
    sim_csv_writer_int(&writer, INT64_MIN);
    sim_csv_writer_int(&writer, 0);
    sim_csv_writer_empty(&writer);
    sim_csv_writer_text(&writer, NULL);
    sim_csv_writer_uint(&writer, UINT64_MAX);
    sim_csv_writer_end_row(&writer);
    sim_csv_writer_empty(&writer);
    sim_csv_writer_int(&writer, -7);
    sim_csv_writer_end_row(&writer);
    ck_assert(sim_output_file_commit(file, NULL));
    g_autofree char *content = NULL;
    ck_assert(g_file_get_contents(path, &content, NULL, NULL));
    ck_assert_str_eq(content, "-9223372036854775808,0,,,18446744073709551615\n,-7\n");
    g_remove(path);
    g_rmdir(folder);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("csv");
    TCase *tests = tcase_create("csv");
    tcase_add_test(tests, cells_are_found_by_row_and_column);
    tcase_add_test(tests, lines_count_blank_lines_and_line_ends_in_quotes);
    tcase_add_test(tests, what_is_wrong_is_named_with_its_line);
    tcase_add_test(tests, stray_and_unclosed_quotes_are_refused_where_they_stand);
    tcase_add_test(tests, written_rows_quote_only_where_needed_and_read_back);
    tcase_add_test(tests, numbers_and_empty_cells_are_written_in_full);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
