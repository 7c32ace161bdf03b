/* SPDX-License-Identifier: Apache-2.0
 *
 * Pins which row of constants holds, and that a cluster's and its constants' files are read
 * strictly.
 */
#include <glib.h>
#include <glib/gstdio.h>
#include <stdlib.h>
#include <string.h>

#include <check.h>

#include "base/error.h"
#include "hardware/cluster.h"
#include "hardware/comm.h"

#define MODELS SIM_SOURCE_DIR "/models"

static SimComm *load(const char *name)
{
    g_autoptr(GError) error = NULL;
    SimComm *comm = sim_comm_load(MODELS, name, &error);
    ck_assert_msg(comm != NULL, "%s", error ? error->message : "");
    return comm;
}

START_TEST(every_shipped_set_loads)
{
    g_auto(GStrv) names = sim_cluster_list(MODELS, "comm");
    ck_assert_uint_ge(g_strv_length(names), 8);
    for (size_t i = 0; names[i]; i++) {
        g_autoptr(SimComm) comm = load(names[i]);
        ck_assert_str_eq(comm->name, names[i]);
        ck_assert_str_ne(comm->calibration, "");
    }
}
END_TEST

/* pcie4 has Simple rows from 2, 4 and 8 ranks. */
START_TEST(the_row_of_the_most_ranks_not_above_holds)
{
    g_autoptr(SimComm) comm = load("pcie4");
    static const struct {
        uint32_t ranks, from;
    } cases[] = {{2, 2}, {3, 2}, {4, 4}, {7, 4}, {8, 8}, {1000, 8}};
    for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) {
        const SimCommRow *row = sim_comm_find_row(comm, SIM_COMM_ALL_GATHER, SIM_COMM_RING,
                                                  SIM_COMM_SIMPLE, cases[i].ranks);
        ck_assert_uint_eq(row->from_ranks, cases[i].from);
    }
    ck_assert_ptr_null(
        sim_comm_find_row(comm, SIM_COMM_ALL_GATHER, SIM_COMM_RING, SIM_COMM_SIMPLE, 1));
    ck_assert_ptr_null(sim_comm_find_row(comm, SIM_COMM_ALL_GATHER, SIM_COMM_RING, SIM_COMM_LL, 8));
}
END_TEST

START_TEST(rows_are_told_apart_by_algorithm)
{
    g_autoptr(SimComm) comm = load("h100");
    ck_assert_ptr_nonnull(
        sim_comm_find_row(comm, SIM_COMM_ALL_REDUCE, SIM_COMM_NVLS, SIM_COMM_SIMPLE, 8));
    ck_assert_ptr_null(
        sim_comm_find_row(comm, SIM_COMM_ALL_GATHER, SIM_COMM_NVLS, SIM_COMM_SIMPLE, 8));
    ck_assert_ptr_null(sim_comm_find_row(comm, SIM_COMM_ALL_REDUCE, SIM_COMM_NVLS, SIM_COMM_LL, 8));
}
END_TEST

START_TEST(a_broadcast_without_rows_uses_the_all_gathers)
{
    g_autoptr(SimComm) comm = load("h100");
    ck_assert_ptr_eq(sim_comm_find_row(comm, SIM_COMM_BROADCAST, SIM_COMM_RING, SIM_COMM_LL, 8),
                     sim_comm_find_row(comm, SIM_COMM_ALL_GATHER, SIM_COMM_RING, SIM_COMM_LL, 8));
}
END_TEST

/* One change to a shipped file, and what the message must name. */
typedef struct BadFile {
    const char *folder;
    const char *name;
    const char *from;
    const char *to;
    SimError code;
    const char *said;
} BadFile;

#define LEAF(nodes, oversubscription)                                                              \
    "\"leaf\": {\"nodes\": {\"value\": " #nodes ", \"source\": \"-\"}, "                           \
    "\"oversubscription\": {\"value\": " #oversubscription ", \"source\": \"-\"}, "                \
    "\"rails\": true}, "

static const BadFile bad_files[] = {
    {"clusters", "h100", "\"400Gb/s\"", "\"0Gb/s\"", SIM_ERROR_RANGE, "$.nic.value: "},
    {"clusters", "h100", "\"400Gb/s\"", "\"-400Gb/s\"", SIM_ERROR_RANGE, "$.nic.value: "},
    {"clusters", "h100", "\"400Gb/s\"", "\"400\"", SIM_ERROR_PARSE, "$.nic.value: "},
    {"clusters", "h100", "\"gpu\": \"h100\"", "\"gpu\": \"h10\"", SIM_ERROR_SCHEMA,
     "did you mean 'h100'?"},
    {"clusters", "h100", "\"comm\": \"h100\"", "\"comm\": \"g100\"", SIM_ERROR_SCHEMA,
     "did you mean"},
    {"clusters", "h100", "\"gpus_per_node\": {\"value\": 8", "\"gpus_per_node\": {\"value\": 0",
     SIM_ERROR_RANGE, "$.gpus_per_node.value: "},
    {"clusters", "h100", "\"nics_per_node\"", "\"nics_per_nod\"", SIM_ERROR_SCHEMA,
     "did you mean 'nics_per_node'?"},
    {"clusters", "h100", "{", "[", SIM_ERROR_PARSE, "cluster.json:2:"},
    {"clusters", "h100", "\"nics_per_node\": {\"value\": 8", "\"nics_per_node\": {\"value\": 0",
     SIM_ERROR_RANGE, "$.nics_per_node.value: "},
    /* A leaf switch that joins no nodes, and one that gives out more than it takes. */
    {"clusters", "h100", "\"nic\":", LEAF(0, 1) "\"nic\":", SIM_ERROR_RANGE,
     "$.leaf.nodes.value: "},
    {"clusters", "h100", "\"nic\":", LEAF(4, 0.5) "\"nic\":", SIM_ERROR_RANGE,
     "$.leaf.oversubscription.value: "},
    {"clusters", "h100", "\"nic\":", "\"leaf\": {\"rails\": true}, \"nic\":", SIM_ERROR_SCHEMA,
     "$.leaf.nodes"},
    {"clusters", "h100", "\"nic\":", "\"pcie\": {\"value\": 63, \"source\": \"-\"}, \"nic\":",
     SIM_ERROR_SCHEMA, "$.pcie.value"},
    {"clusters", "h100", "\"nic\":",
     "\"nic_latency\": {\"value\": \"-3us\", \"source\": \"-\"}, \"nic\":", SIM_ERROR_RANGE,
     "$.nic_latency.value: "},
    {"comm", "h100", "\"LL\"", "\"LL64\"", SIM_ERROR_SCHEMA, "$.node[0].protocol: "},
    {"comm", "h100", "\"from_ranks\": 2", "\"from_ranks\": 1", SIM_ERROR_RANGE,
     "$.node[0].from_ranks: "},
    {"comm", "h100", "\"base_us\": 4.701", "\"base_us\": -4.701", SIM_ERROR_RANGE,
     "$.node[0].base_us: "},
    {"comm", "h100", "\"rate\": \"236.9GB/s\"", "\"rate\": 236.9", SIM_ERROR_SCHEMA,
     "$.node[0].rate"},
    {"comm", "h100", "\"Ring\"", "\"Rign\"", SIM_ERROR_SCHEMA, "$.node[0].algorithm: "},
    {"comm", "h100", "\"Hopper\"", "\"Volta\"", SIM_ERROR_SCHEMA, "$.tuner.architecture: "},
    {"comm", "h100", "\"370.8GB/s\"", "\"370.8\"", SIM_ERROR_PARSE, "$.tuner.nvlink.value: "},
    {"comm", "flat", "\"reduce_scatter\"", "\"all_gather\"", SIM_ERROR_SCHEMA,
     "$.node: expected a row for reduce_scatter"},
};

START_TEST(a_bad_file_is_named_with_its_path)
{
    const BadFile *bad = &bad_files[_i];
    g_autofree char *source = g_strdup_printf("%s/%s/%s.json", MODELS, bad->folder, bad->name);
    g_autofree char *text = NULL;
    ck_assert(g_file_get_contents(source, &text, NULL, NULL));
    ck_assert_ptr_nonnull(strstr(text, bad->from));
    g_autoptr(GString) changed = g_string_new(text);
    g_string_replace(changed, bad->from, bad->to, 1);
    g_autofree char *folder = g_dir_make_tmp("fsdpsim-XXXXXX", NULL);
    g_autofree char *file = g_build_filename(folder, "cluster.json", NULL);
    ck_assert(g_file_set_contents(file, changed->str, -1, NULL));

    g_autoptr(GError) error = NULL;
    if (g_str_equal(bad->folder, "comm"))
        ck_assert_ptr_null(sim_comm_load(MODELS, file, &error));
    else
        ck_assert_ptr_null(sim_cluster_load(MODELS, file, &error));
    ck_assert_msg(strstr(error->message, bad->said) != NULL, "%s", error->message);
    ck_assert_msg(g_error_matches(error, SIM_ERROR, (int)bad->code), "%d: %s", error->code,
                  error->message);
    ck_assert_ptr_null(strchr(error->message, '\n'));
    g_remove(file);
    g_rmdir(folder);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("comm");
    TCase *rows = tcase_create("rows");
    tcase_add_test(rows, every_shipped_set_loads);
    tcase_add_test(rows, the_row_of_the_most_ranks_not_above_holds);
    tcase_add_test(rows, rows_are_told_apart_by_algorithm);
    tcase_add_test(rows, a_broadcast_without_rows_uses_the_all_gathers);
    suite_add_tcase(suite, rows);
    TCase *bad = tcase_create("bad input");
    tcase_add_loop_test(bad, a_bad_file_is_named_with_its_path, 0, G_N_ELEMENTS(bad_files));
    suite_add_tcase(suite, bad);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
