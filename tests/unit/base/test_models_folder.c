/* SPDX-License-Identifier: Apache-2.0 */
#include <check.h>
#include <glib.h>
#include <stdlib.h>

#include "base/models_folder.h"

START_TEST(environment_wins_even_if_it_is_wrong)
{
    g_setenv("FSDPSIM_MODELS", "/nowhere/models", TRUE);
    g_autofree char *folder = sim_models_folder_find();
    ck_assert_str_eq(folder, "/nowhere/models");
}
END_TEST

START_TEST(program_that_is_not_installed_takes_the_source_tree)
{
    g_unsetenv("FSDPSIM_MODELS");
    g_autofree char *folder = sim_models_folder_find();
    ck_assert_ptr_nonnull(folder);
    g_autofree char *cluster = g_build_filename(folder, "clusters", NULL);
    ck_assert(g_file_test(cluster, G_FILE_TEST_IS_DIR));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("models_folder");
    TCase *tests = tcase_create("models_folder");
    tcase_add_test(tests, environment_wins_even_if_it_is_wrong);
    tcase_add_test(tests, program_that_is_not_installed_takes_the_source_tree);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
