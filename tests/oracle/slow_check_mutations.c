/* SPDX-License-Identifier: Apache-2.0
 *
 * test_check_mutations on every third recording whose original is safe: about 65 s of work. All
 * three thirds together are 110,000 mutants, and 4 minutes.
 */
#include <string.h>

#include "support/check_mutations.h"

#define FOLDER SIM_SOURCE_DIR "/tests/oracle/pytorch/"

static gint compare_names(gconstpointer a, gconstpointer b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static void mutate_folder(MutationTest *test, const char *folder)
{
    g_autofree char *path = g_build_filename(FOLDER, folder, NULL);
    g_autoptr(GDir) dir = g_dir_open(path, 0, NULL);
    ck_assert_ptr_nonnull(dir);
    g_autoptr(GPtrArray) files = g_ptr_array_new_with_free_func(g_free);
    for (const char *name = g_dir_read_name(dir); name != NULL; name = g_dir_read_name(dir))
        if (g_str_has_suffix(name, ".csv.gz") && strstr(name, "keep-unsharded") == NULL)
            g_ptr_array_add(files, g_build_filename(path, name, NULL));
    g_ptr_array_sort(files, compare_names);
    ck_assert_uint_gt(files->len, 18);
    for (guint i = 1; i < files->len; i += 3)
        mutate_recording(test, g_ptr_array_index(files, i));
}

START_TEST(mutants_of_many_recordings_are_reported_or_harmless)
{
    MutationTest test = {0};
    mutate_folder(&test, "fsdp2");
    mutate_folder(&test, "fsdp1");
    finish_mutation_test(&test);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("check_mutations_many");
    TCase *mutants = tcase_create("mutants");
    tcase_set_timeout(mutants, 1150);
    tcase_add_test(mutants, mutants_of_many_recordings_are_reported_or_harmless);
    suite_add_tcase(suite, mutants);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? 0 : 1;
}
