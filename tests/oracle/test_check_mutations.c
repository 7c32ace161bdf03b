/* SPDX-License-Identifier: Apache-2.0
 *
 * Every way to break a good plan is reported, or a second judge says that it does no harm: 0
 * misses, 0 false alarms. Plans: PyTorch's own recordings. slow_check_mutations takes more of them.
 */
#include "support/check_mutations.h"

#define FOLDER SIM_SOURCE_DIR "/tests/oracle/pytorch/"

START_TEST(mutants_are_reported_or_harmless)
{
    static const char *const files[] = {FOLDER "fsdp2/hsdp-raf-false-2x2.csv.gz",
                                        FOLDER "fsdp2/base-w2.csv.gz",
                                        FOLDER "fsdp1/fsdp1-full-shard-w2.csv.gz"};
    MutationTest test = {0};
    for (size_t i = 0; i < G_N_ELEMENTS(files); i++)
        mutate_recording(&test, files[i]);
    finish_mutation_test(&test);
    /* Each kind but one does harm somewhere: FSDP1's host waits bound memory, not order. */
    for (PlanMutation mutation = 0; mutation < PLAN_MUTATION_COUNT; mutation++)
        ck_assert(test.table[mutation].reported > 0 || mutation == PLAN_MUTATION_DROP_HOST_WAIT);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("check_mutations");
    TCase *mutants = tcase_create("mutants");
    tcase_set_timeout(mutants, 200);
    tcase_add_test(mutants, mutants_are_reported_or_harmless);
    suite_add_tcase(suite, mutants);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? 0 : 1;
}
