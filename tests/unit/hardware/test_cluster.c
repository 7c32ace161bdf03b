/* SPDX-License-Identifier: Apache-2.0
 *
 * Pins the cluster string both ways, how many GPUs and nodes are used, memory outside the
 * allocator, and what messages say.
 */
#include <glib.h>
#include <stdlib.h>
#include <string.h>

#include <check.h>

#include "base/error.h"
#include "hardware/cluster.h"

#define MODELS SIM_SOURCE_DIR "/models"

static SimCluster *load(const char *description)
{
    g_autoptr(GError) error = NULL;
    SimCluster *cluster = sim_cluster_load(MODELS, description, &error);
    ck_assert_msg(cluster != NULL, "%s", error ? error->message : "");
    return cluster;
}

START_TEST(every_promised_name_loads)
{
    static const char *const names[] = {"h100", "h100-96gb", "h200",   "a100", "a100-40gb", "b200",
                                        "b300", "gb200",     "mi300x", "l40s", "rtx4090",   "flat"};
    for (size_t i = 0; i < G_N_ELEMENTS(names); i++) {
        g_autoptr(SimCluster) cluster = load(names[i]);
        ck_assert_str_eq(cluster->name, names[i]);
        ck_assert_uint_eq(cluster->gpus, 8);
        ck_assert(!cluster->has_node_count);
        ck_assert_uint_gt(sim_cluster_usable_bytes(cluster, 1), 20 * SIM_GIB);
    }
}
END_TEST

START_TEST(the_list_is_sorted_and_complete)
{
    g_auto(GStrv) names = sim_cluster_list(MODELS, "clusters");
    ck_assert_uint_ge(g_strv_length(names), 12);
    for (size_t i = 1; names[i]; i++)
        ck_assert_int_lt(strcmp(names[i - 1], names[i]), 0);
    g_auto(GStrv) none = sim_cluster_list(MODELS, "no-such-folder");
    ck_assert_uint_eq(g_strv_length(none), 0);
}
END_TEST

/* 400 Gb/s = 50e9 bytes a second. */
START_TEST(a_string_overrides_its_type)
{
    g_autoptr(SimCluster) cluster =
        load("node:4 gpu:2 type:h100 nics:3 nic:100Gb/s nvlink:200GB/s");
    ck_assert_uint_eq(cluster->nodes, 4);
    ck_assert_uint_eq(cluster->gpus_per_node, 2);
    ck_assert_uint_eq(cluster->gpus, 8);
    ck_assert(cluster->has_node_count);
    ck_assert_uint_eq(cluster->nics_per_node, 3);
    ck_assert_double_eq(cluster->nic_bytes_per_s, 12.5e9);
    ck_assert_double_eq(cluster->nvlink_bytes_per_s, 200e9);
    ck_assert_str_eq(cluster->gpu->name, "h100");
    ck_assert_str_eq(cluster->comm->name, "h100");
}
END_TEST

/* h100 has 8 NICs for 8 GPUs, so half a node has 4; l40s 2 for 8, so one GPU has 1 (rounded up). */
START_TEST(a_smaller_node_has_its_share_of_the_nics)
{
    g_autoptr(SimCluster) half = load("gpu:4 type:h100");
    ck_assert_uint_eq(half->nics_per_node, 4);
    ck_assert(!half->has_node_count);
    g_autoptr(SimCluster) one = load("gpu:1 type:l40s");
    ck_assert_uint_eq(one->nics_per_node, 1);
}
END_TEST

static void assert_equal(const SimCluster *a, const SimCluster *b)
{
    ck_assert_str_eq(a->type, b->type);
    ck_assert_int_eq(a->has_node_count, b->has_node_count);
    ck_assert_uint_eq(a->nodes, b->nodes);
    ck_assert_uint_eq(a->gpus_per_node, b->gpus_per_node);
    ck_assert_uint_eq(a->gpus, b->gpus);
    ck_assert_uint_eq(a->nics_per_node, b->nics_per_node);
    ck_assert_double_eq(a->nic_bytes_per_s, b->nic_bytes_per_s);
    ck_assert_double_eq(a->nvlink_bytes_per_s, b->nvlink_bytes_per_s);
}

START_TEST(the_canonical_string_is_as_documented)
{
    g_autoptr(SimCluster) cluster = load("type:h100, nic:50GB/s,node:4");
    g_autofree char *text = sim_cluster_print(cluster);
    ck_assert_str_eq(text, "node:4 gpu:8 type:h100 nics:8 nic:400Gb/s nvlink:450GB/s");
}
END_TEST

/* Random items, some left out, rates whole and not: what is printed parses to an equal cluster, and
 * prints the same again. */
START_TEST(printing_and_parsing_are_inverse)
{
    static const char *const types[] = {"h100", "a100-40gb", "gb200", "l40s", "mi300x"};
    static const char *const units[] = {"Gb/s", "GB/s", "MB/s", "B/s", "GiB/s"};
    g_autoptr(GRand) rand = g_rand_new_with_seed((guint32)_i);
    g_autoptr(GString) text = g_string_new("type:");
    g_string_append(text, types[g_rand_int_range(rand, 0, G_N_ELEMENTS(types))]);
    if (g_rand_boolean(rand))
        g_string_append_printf(text, " node:%d", g_rand_int_range(rand, 1, 1000));
    if (g_rand_boolean(rand))
        g_string_append_printf(text, " gpu:%d", g_rand_int_range(rand, 1, 100));
    if (g_rand_boolean(rand))
        g_string_append_printf(text, " nics:%d", g_rand_int_range(rand, 1, 20));
    for (int i = 0; i < 2; i++) {
        if (g_rand_boolean(rand))
            g_string_append_printf(text, " %s:%d.%d%s", i ? "nvlink" : "nic",
                                   g_rand_int_range(rand, 1, 1000), g_rand_int_range(rand, 0, 1000),
                                   units[g_rand_int_range(rand, 0, G_N_ELEMENTS(units))]);
    }
    g_autoptr(SimCluster) cluster = load(text->str);
    g_autofree char *printed = sim_cluster_print(cluster);
    g_autoptr(SimCluster) again = load(printed);
    assert_equal(cluster, again);
    g_autofree char *reprinted = sim_cluster_print(again);
    ck_assert_str_eq(printed, reprinted);
}
END_TEST

START_TEST(a_named_cluster_grows_with_its_gpus)
{
    g_autoptr(SimCluster) cluster = load("h100");
    ck_assert(sim_cluster_choose_gpus(cluster, 16384, NULL));
    ck_assert_uint_eq(cluster->nodes, 2048);
    ck_assert(sim_cluster_is_even(cluster));
    ck_assert(sim_cluster_choose_gpus(cluster, 12, NULL));
    ck_assert_uint_eq(cluster->nodes, 2);
    ck_assert(!sim_cluster_is_even(cluster));
    ck_assert(sim_cluster_choose_gpus(cluster, 1, NULL));
    ck_assert_uint_eq(cluster->nodes, 1);
}
END_TEST

START_TEST(only_as_many_gpus_as_there_are)
{
    g_autoptr(SimCluster) fixed = load("node:4 gpu:8 type:h100");
    static const uint64_t bad[] = {0, 33, 1000000000, UINT64_MAX};
    for (size_t i = 0; i < G_N_ELEMENTS(bad); i++) {
        g_autoptr(GError) error = NULL;
        ck_assert(!sim_cluster_choose_gpus(fixed, bad[i], &error));
        ck_assert(g_error_matches(error, SIM_ERROR, SIM_ERROR_RANGE));
        ck_assert_ptr_nonnull(strstr(error->message, "expected 1 to 32"));
    }
    ck_assert_uint_eq(fixed->gpus, 32);
    g_autoptr(SimCluster) grows = load("h100");
    ck_assert(!sim_cluster_choose_gpus(grows, 1000000000, NULL));
    ck_assert(sim_cluster_choose_gpus(fixed, 32, NULL));
}
END_TEST

/* A communicator on an NVSwitch node: 24 channels x 12 MiB, for rings and for trees = 576 MiB. The
 * context is 0.5 GiB, so two communicators leave 79.18 GiB - 512 MiB - 1,152 MiB. */
START_TEST(context_and_communicators_are_not_usable)
{
    g_autoptr(SimCluster) cluster = load("h100");
    ck_assert_uint_eq(sim_cluster_communicator_bytes(cluster), 576 * SIM_MIB);
    ck_assert_uint_eq(sim_cluster_usable_bytes(cluster, 2),
                      cluster->gpu->memory_bytes - (512 + 1152) * SIM_MIB);
    ck_assert_uint_eq(sim_cluster_usable_bytes(cluster, 1000), 0);
}
END_TEST

typedef struct BadString {
    const char *text;
    SimError code;
    const char *said;
} BadString;

static const BadString bad_strings[] = {
    {"h1000", SIM_ERROR_SCHEMA, "did you mean 'h100'?"},
    {"node:4 gpu:8 type:h1000", SIM_ERROR_SCHEMA, "did you mean 'h100'?"},
    {"node:4 gpus:8 type:h100", SIM_ERROR_SCHEMA, "did you mean 'gpu'?"},
    {"node:4 gpu:8", SIM_ERROR_SCHEMA, "expected a type"},
    {"node:0 type:h100", SIM_ERROR_RANGE, "node: "},
    {"node:-1 type:h100", SIM_ERROR_RANGE, "node: "},
    {"node:x type:h100", SIM_ERROR_PARSE, "node: "},
    {"gpu:99999999999999999999 type:h100", SIM_ERROR_RANGE, "gpu: "},
    {"node:1000000 gpu:1000 type:h100", SIM_ERROR_RANGE, "node: "},
    {"type:h100 nic:400", SIM_ERROR_PARSE, "nic: "},
    {"type:h100 nic:0Gb/s", SIM_ERROR_RANGE, "nic: "},
    {"type:h100 nic:-5Gb/s", SIM_ERROR_RANGE, "nic: "},
    {"type:h100 type:h200", SIM_ERROR_SCHEMA, "found twice"},
    {"type:h100 fast", SIM_ERROR_PARSE, "expected key:value, found 'fast'"},
    {"no-such-file.json", SIM_ERROR_IO, "no-such-file.json"},
};

START_TEST(a_bad_string_is_named)
{
    const BadString *bad = &bad_strings[_i];
    g_autoptr(GError) error = NULL;
    ck_assert_ptr_null(sim_cluster_load(MODELS, bad->text, &error));
    ck_assert_msg(strstr(error->message, bad->said) != NULL, "%s", error->message);
    ck_assert_msg(g_error_matches(error, SIM_ERROR, (int)bad->code), "%d: %s", error->code,
                  error->message);
    ck_assert_ptr_null(strchr(error->message, '\n'));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("cluster");
    TCase *strings = tcase_create("strings");
    tcase_add_test(strings, every_promised_name_loads);
    tcase_add_test(strings, the_list_is_sorted_and_complete);
    tcase_add_test(strings, a_string_overrides_its_type);
    tcase_add_test(strings, a_smaller_node_has_its_share_of_the_nics);
    tcase_add_test(strings, the_canonical_string_is_as_documented);
    tcase_add_loop_test(strings, printing_and_parsing_are_inverse, 0, 200);
    tcase_add_loop_test(strings, a_bad_string_is_named, 0, G_N_ELEMENTS(bad_strings));
    suite_add_tcase(suite, strings);
    TCase *sizes = tcase_create("sizes");
    tcase_add_test(sizes, a_named_cluster_grows_with_its_gpus);
    tcase_add_test(sizes, only_as_many_gpus_as_there_are);
    tcase_add_test(sizes, context_and_communicators_are_not_usable);
    suite_add_tcase(suite, sizes);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
