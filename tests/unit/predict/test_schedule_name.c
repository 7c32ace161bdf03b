/* SPDX-License-Identifier: Apache-2.0 */
#include "predict/schedule_name.h"

#include <check.h>

static const struct {
    const char *config, *name;
} NAMES[] = {
    {"{}", "FSDP2"},
    {"{\"api\":\"fsdp2\",\"strategy\":\"full_shard\"}", "FSDP2 full_shard, ZeRO-3"},
    {"{\"api\":\"fsdp2\",\"strategy\":\"full_shard\",\"reshard_after_forward\":\"false\"}",
     "FSDP2 full_shard, ZeRO-2"},
    {"{\"api\":\"fsdp1\",\"strategy\":\"full_shard\",\"reshard_after_forward\":\"false\"}",
     "FSDP1 full_shard, ZeRO-3"},
    {"{\"api\":\"fsdp1\",\"strategy\":\"shard_grad_op\",\"gradient_sync\":\"every\","
     "\"accumulate\":4}",
     "FSDP1 shard_grad_op, ZeRO-2"},
    {"{\"api\":\"fsdp1\",\"strategy\":\"shard_grad_op\",\"gradient_sync\":\"last\","
     "\"accumulate\":4}",
     "FSDP1 shard_grad_op, ZeRO-1"},
    {"{\"api\":\"fsdp1\",\"strategy\":\"shard_grad_op\",\"gradient_sync\":\"last\","
     "\"accumulate\":1}",
     "FSDP1 shard_grad_op, ZeRO-2"},
    {"{\"api\":\"fsdp1\",\"strategy\":\"hybrid_shard\",\"shard_size\":8}",
     "FSDP1 hybrid_shard, ZeRO-3 in groups of 8"},
    {"{\"api\":\"fsdp2\",\"strategy\":\"hybrid_shard_zero2\",\"shard_size\":4}",
     "FSDP2 hybrid_shard_zero2, ZeRO-2 in groups of 4"},
    {"{\"api\":\"fsdp1\",\"strategy\":\"no_shard\"}", "FSDP1 no_shard, ZeRO-0"},
    {"{\"api\":\"ddp\",\"strategy\":\"full_shard\"}", "DDP, ZeRO-0"},
};

START_TEST(strategies_are_named_as_in_the_zero_paper)
{
    g_autoptr(cJSON) config = cJSON_Parse(NAMES[_i].config);
    g_autofree char *name = sim_schedule_name_print(config);
    ck_assert_str_eq(name, NAMES[_i].name);
}
END_TEST

static Suite *make_suite(void)
{
    Suite *suite = suite_create("schedule_name");
    TCase *tests = tcase_create("names");
    tcase_add_loop_test(tests, strategies_are_named_as_in_the_zero_paper, 0,
                        (int)G_N_ELEMENTS(NAMES));
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
