/* SPDX-License-Identifier: Apache-2.0 */
#include <check.h>
#include <glib/gstdio.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/input_file.h"
#include "base/output_file.h"

/* A folder of its own for a test. Owned by the caller. */
static char *make_folder(void)
{
    char *folder = g_dir_make_tmp("fsdpsim-XXXXXX", NULL);
    ck_assert_ptr_nonnull(folder);
    return folder;
}

static unsigned count_entries(const char *folder)
{
    g_autoptr(GDir) dir = g_dir_open(folder, 0, NULL);
    unsigned count = 0;
    while (g_dir_read_name(dir) != NULL)
        count++;
    return count;
}

static void assert_content(const char *path, const char *expected)
{
    size_t length;
    g_autofree char *content = sim_input_file_load(path, 1 << 24, &length, NULL);
    ck_assert_ptr_nonnull(content);
    ck_assert_str_eq(content, expected);
    ck_assert_uint_eq(length, strlen(expected));
}

static void write_file(const char *path, const char *content)
{
    g_autoptr(SimOutputFile) file = sim_output_file_new(path, NULL);
    ck_assert_ptr_nonnull(file);
    sim_output_file_puts(file, content);
    ck_assert(sim_output_file_commit(file, NULL));
}

static void remove_folder(const char *folder)
{
    g_autoptr(GDir) dir = g_dir_open(folder, 0, NULL);
    for (const char *name = g_dir_read_name(dir); name != NULL; name = g_dir_read_name(dir)) {
        g_autofree char *path = g_build_filename(folder, name, NULL);
        g_remove(path);
    }
    ck_assert_int_eq(g_rmdir(folder), 0);
}

START_TEST(committed_file_holds_everything_in_order)
{
    g_autofree char *folder = make_folder();
    g_autofree char *path = g_build_filename(folder, "a.csv", NULL);
    g_autoptr(SimOutputFile) file = sim_output_file_new(path, NULL);
    g_autoptr(GString) expected = g_string_new(NULL);
    /* 100,000 rows of 6 bytes and more: beyond the write buffer of 256 KiB. */
    for (int i = 0; i < 100000; i++) {
        sim_output_file_printf(file, "%05d\n", i);
        g_string_append_printf(expected, "%05d\n", i);
    }
    sim_output_file_write(file, "end", 3);
    g_string_append(expected, "end");
    ck_assert(!g_file_test(path, G_FILE_TEST_EXISTS)); /* nothing before commit */
    ck_assert(sim_output_file_commit(file, NULL));
    assert_content(path, expected->str);
    ck_assert_uint_eq(count_entries(folder), 1);
    remove_folder(folder);
}
END_TEST

START_TEST(freed_without_commit_leaves_the_old_file)
{
    g_autofree char *folder = make_folder();
    g_autofree char *path = g_build_filename(folder, "a", NULL);
    write_file(path, "old");
    SimOutputFile *file = sim_output_file_new(path, NULL);
    sim_output_file_puts(file, "new");
    sim_output_file_free(file);
    assert_content(path, "old");
    ck_assert_uint_eq(count_entries(folder), 1);
    write_file(path, "newer");
    assert_content(path, "newer");
    remove_folder(folder);
}
END_TEST

START_TEST(full_disk_leaves_the_old_file_and_reports)
{
    g_autofree char *folder = make_folder();
    g_autofree char *path = g_build_filename(folder, "a", NULL);
    write_file(path, "old");

    /* A limit on the file's size fails write() as a full disk does, without its signal. */
    signal(SIGXFSZ, SIG_IGN);
    struct rlimit limit = {.rlim_cur = 4096, .rlim_max = RLIM_INFINITY};
    getrlimit(RLIMIT_FSIZE, &limit);
    struct rlimit small = {.rlim_cur = 4096, .rlim_max = limit.rlim_max};
    ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &small), 0);
    g_autoptr(SimOutputFile) file = sim_output_file_new(path, NULL);
    for (int i = 0; i < 100000; i++)
        sim_output_file_puts(file, "0123456789");
    g_autoptr(GError) error = NULL;
    ck_assert(!sim_output_file_commit(file, &error));
    ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);

    ck_assert(g_error_matches(error, SIM_ERROR, SIM_ERROR_IO));
    g_autofree char *expected = g_strdup_printf("%s: cannot be written: File too large", path);
    ck_assert_str_eq(error->message, expected);
    assert_content(path, "old");
    ck_assert_uint_eq(count_entries(folder), 1);
    remove_folder(folder);
}
END_TEST

START_TEST(folder_that_is_missing_is_an_error_at_once)
{
    g_autofree char *folder = make_folder();
    g_autofree char *path = g_build_filename(folder, "none", "a", NULL);
    g_autoptr(GError) error = NULL;
    ck_assert_ptr_null(sim_output_file_new(path, &error));
    ck_assert(g_error_matches(error, SIM_ERROR, SIM_ERROR_IO));
    g_clear_error(&error);
    ck_assert_ptr_null(sim_output_file_new(folder, &error));
    ck_assert(g_error_matches(error, SIM_ERROR, SIM_ERROR_IO));
    ck_assert(g_str_has_suffix(error->message, "cannot be written: it is a folder"));
    remove_folder(folder);
}
END_TEST

START_TEST(compressed_output_is_reproducible_and_reads_back)
{
    g_autofree char *folder = make_folder();
    g_autofree char *one = g_build_filename(folder, "a.json.gz", NULL);
    g_autofree char *two = g_build_filename(folder, "b.json.gz", NULL);
    g_autofree char *text = g_strnfill(1000000, 'x');
    write_file(one, text);
    write_file(two, text);
    g_autofree char *first = NULL;
    g_autofree char *second = NULL;
    size_t first_length;
    size_t second_length;
    ck_assert(g_file_get_contents(one, &first, &first_length, NULL));
    ck_assert(g_file_get_contents(two, &second, &second_length, NULL));
    ck_assert_uint_lt(first_length, 10000);
    ck_assert_uint_eq(first_length, second_length);
    ck_assert_mem_eq(first, second, first_length);
    /* RFC 1952: bytes 4 to 7 are the time stamp, 0 for none. */
    ck_assert_mem_eq(first + 4, "\0\0\0\0", 4);
    assert_content(one, text);
    remove_folder(folder);
}
END_TEST

START_TEST(devices_are_written_and_links_followed_but_never_replaced)
{
    write_file("/dev/null", "gone");
    struct stat status;
    ck_assert_int_eq(stat("/dev/null", &status), 0);
    ck_assert(S_ISCHR(status.st_mode));

    g_autoptr(SimOutputFile) full = sim_output_file_new("/dev/full", NULL);
    sim_output_file_puts(full, "x");
    g_autoptr(GError) error = NULL;
    ck_assert(!sim_output_file_commit(full, &error));
    ck_assert_str_eq(error->message, "/dev/full: cannot be written: No space left on device");

    g_autofree char *folder = make_folder();
    g_autofree char *path = g_build_filename(folder, "a", NULL);
    g_autofree char *link = g_build_filename(folder, "link", NULL);
    write_file(path, "old");
    ck_assert_int_eq(chmod(path, 0600), 0);
    ck_assert_int_eq(symlink("a", link), 0);
    write_file(link, "new");
    ck_assert(g_file_test(link, G_FILE_TEST_IS_SYMLINK));
    assert_content(path, "new");
    ck_assert_int_eq(stat(path, &status), 0);
    ck_assert_uint_eq(status.st_mode & 0777, 0600); /* the old file's mode */
    remove_folder(folder);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("output_file");
    TCase *tests = tcase_create("output_file");
    tcase_add_test(tests, committed_file_holds_everything_in_order);
    tcase_add_test(tests, freed_without_commit_leaves_the_old_file);
    tcase_add_test(tests, full_disk_leaves_the_old_file_and_reports);
    tcase_add_test(tests, folder_that_is_missing_is_an_error_at_once);
    tcase_add_test(tests, compressed_output_is_reproducible_and_reads_back);
    tcase_add_test(tests, devices_are_written_and_links_followed_but_never_replaced);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
