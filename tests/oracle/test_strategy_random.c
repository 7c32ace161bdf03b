/* SPDX-License-Identifier: Apache-2.0
 *
 * The first hundred random FSDP1 and DDP jobs (support/random_strategy.h); slow_strategy_random.c
 * has more.
 */
#include "support/random_strategy.h"

START_TEST(plans_of_random_jobs_are_safe_and_steady)
{
    random_strategy_check((uint32_t)_i);
}
END_TEST

static Suite *make_suite(void)
{
    Suite *suite = suite_create("strategy_random");
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
