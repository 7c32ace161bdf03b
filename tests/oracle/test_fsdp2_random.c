/* SPDX-License-Identifier: Apache-2.0
 *
 * The first hundred random jobs (support/random_fsdp2.h); slow_fsdp2_random.c has more.
 */
#include "support/random_fsdp2.h"

START_TEST(plans_of_random_jobs_are_safe_and_steady)
{
    random_job_check((uint32_t)_i);
}
END_TEST

static Suite *make_suite(void)
{
    Suite *suite = suite_create("fsdp2_random");
    TCase *tests = tcase_create("random");
    tcase_set_timeout(tests, 60);
    tcase_add_loop_test(tests, plans_of_random_jobs_are_safe_and_steady, 0, 100);
    suite_add_tcase(suite, tests);
    return suite;
}

int main(void)
{
    SRunner *runner = srunner_create(make_suite());
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? 0 : 1;
}
