/* SPDX-License-Identifier: Apache-2.0 */
#include <check.h>
#include <string.h>

#include "base/error.h"
#include "hardware/slow_link.h"

static const char *const models = SIM_SOURCE_DIR "/models";

static SimCluster *load_cluster(void)
{
    SimCluster *cluster = sim_cluster_load(models, "h100", NULL);
    ck_assert(sim_cluster_choose_gpus(cluster, 20, NULL));
    return cluster;
}

/* 20 GPUs are three nodes of eight NICs. */
static const struct {
    const char *text;
    SimSlowLink link;
} good_rows[] = {
    {"nvlink19:0.5", {SIM_LINK_NVLINK, 19, 0.5}},
    {"pcie0:1", {SIM_LINK_PCIE, 0, 1}},
    {"nic2.3:0.25", {SIM_LINK_NIC, 19, 0.25}},
};

START_TEST(a_link_is_named_by_its_place)
{
    g_autoptr(SimCluster) cluster = load_cluster();
    SimSlowLink link;
    ck_assert(sim_slow_link_parse(good_rows[_i].text, cluster, &link, NULL));
    ck_assert_uint_eq(link.kind, good_rows[_i].link.kind);
    ck_assert_uint_eq(link.number, good_rows[_i].link.number);
    ck_assert_double_eq(link.factor, good_rows[_i].link.factor);
}
END_TEST

static const struct {
    const char *text;
    int code;
    const char *message;
} bad_rows[] = {
    {"nvlink20:0.5", SIM_ERROR_RANGE, "from 0 to 19"},
    {"nic3.0:0.5", SIM_ERROR_RANGE, "from 0 to 2"},
    {"nic0.8:0.5", SIM_ERROR_RANGE, "from 0 to 7"},
    {"nic0:0.5", SIM_ERROR_PARSE, "expected nicN.M"},
    {"nvlink0.1:0.5", SIM_ERROR_PARSE, "expected nvlinkN"},
    {"leaf0:0.5", SIM_ERROR_RANGE, "no leaf switches"},
    {"nick0:0.5", SIM_ERROR_SCHEMA, "did you mean 'nic'"},
    {"nvlink0", SIM_ERROR_PARSE, "NAME:FACTOR"},
    {"nvlink0:0", SIM_ERROR_RANGE, "above 0 and at most 1"},
    {"nvlink0:1.5", SIM_ERROR_RANGE, "above 0 and at most 1"},
    {"nvlink0:half", SIM_ERROR_RANGE, "above 0 and at most 1"},
};

START_TEST(what_is_no_link_is_refused)
{
    g_autoptr(SimCluster) cluster = load_cluster();
    g_autoptr(GError) error = NULL;
    SimSlowLink link;
    ck_assert(!sim_slow_link_parse(bad_rows[_i].text, cluster, &link, &error));
    ck_assert_msg(g_error_matches(error, SIM_ERROR, bad_rows[_i].code), "%s", error->message);
    ck_assert_msg(strstr(error->message, bad_rows[_i].message) != NULL, "%s", error->message);
}
END_TEST

START_TEST(factors_of_one_link_multiply)
{
    g_autoptr(SimCluster) cluster = load_cluster();
    SimSlowLink half = {SIM_LINK_NIC, 3, 0.5};
    ck_assert_double_eq(sim_slow_link_find(cluster, SIM_LINK_NIC, 3), 1);
    cluster->slow_links = g_array_new(FALSE, FALSE, sizeof half);
    g_array_append_val(cluster->slow_links, half);
    g_array_append_val(cluster->slow_links, half);
    ck_assert_double_eq(sim_slow_link_find(cluster, SIM_LINK_NIC, 3), 0.25);
    ck_assert_double_eq(sim_slow_link_find(cluster, SIM_LINK_PCIE, 3), 1);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("slow link");
    TCase *all = tcase_create("all");
    tcase_add_loop_test(all, a_link_is_named_by_its_place, 0, G_N_ELEMENTS(good_rows));
    tcase_add_loop_test(all, what_is_no_link_is_refused, 0, G_N_ELEMENTS(bad_rows));
    tcase_add_test(all, factors_of_one_link_multiply);
    suite_add_tcase(suite, all);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed > 0;
}
