/* SPDX-License-Identifier: Apache-2.0
 *
 * Pins NCCL 2.30.7's choices. Each case says what the best two of the cost table come to, in
 * microseconds (latency + bytes / GB/s, trees and NVLSTree bent by the table of lines 623-627), and
 * in brackets the lines of src/graph/tuning.cc that they rest on. The channels that have enough
 * work are src/enqueue.cc, topoGetAlgoInfo; those launched scheduleCollTasksToPlan (a cell is 32
 * KiB of traffic, of LL a quarter).
 *
 * All of it was compared with NCCL's own search.cc and tuning.cc, compiled and run on topology
 * files of these machines: on 69 communicators and 24 sizes each choice and each expected time
 * agrees.
 */
#include <glib.h>
#include <math.h>
#include <stdlib.h>

#include <check.h>

#include "fabric/nccl_cost.h"
#include "fabric/selector.h"

#define MODELS SIM_SOURCE_DIR "/models"

typedef struct Case {
    const char *cluster;
    SimCommOperation operation;
    uint32_t nodes;
    uint32_t gpus; /* a node */
    uint64_t bytes;
    SimCommAlgorithm algorithm;
    SimCommProtocol protocol;
    uint32_t max_channels;
    uint32_t channels;
} Case;

static const Case cases[] = {
    /* Ring LL 10.8 + S/100.2 = 10.8 (327, 412) < Ring LL128 27.3 + S/252.3 = 27.3 (328-329, 412) */
    {"a100", SIM_COMM_ALL_GATHER, 1, 8, SIM_KIB, SIM_COMM_RING, SIM_COMM_LL, 1, 1},
    /* Ring LL 10.8 + S/100.2 = 21.3 (327, 412) < Ring LL128 27.3 + S/252.3 = 31.5 (328-329, 412) */
    {"a100", SIM_COMM_REDUCE_SCATTER, 1, 8, SIM_MIB, SIM_COMM_RING, SIM_COMM_LL, 24, 24},
    /* Ring LL128 27.3 + S/252.3 = 43.9 (328-329, 412) < Ring Simple 32.2 + S/274.3 = 47.5 (324,
       412) */
    {"a100", SIM_COMM_ALL_GATHER, 1, 8, 4 * SIM_MIB, SIM_COMM_RING, SIM_COMM_LL128, 24, 22},
    /* Ring Simple 32.2 + S/274.3 = 3946.9 (324, 412) < Ring LL128 27.3 + S/252.3 = 4282.4 (328-329,
       412) */
    {"a100", SIM_COMM_ALL_GATHER, 1, 8, SIM_GIB, SIM_COMM_RING, SIM_COMM_SIMPLE, 24, 24},
    /* Ring LL 15.0 + S/50.1 = 56.8 (327, 412) < Ring LL128 40.6 + S/126.2 = 57.2 (328-329, 412) */
    {"a100", SIM_COMM_ALL_REDUCE, 1, 8, 2 * SIM_MIB, SIM_COMM_RING, SIM_COMM_LL, 24, 24},
    /* Ring Simple 56.0 + S/137.1 = 545.3 (324, 412) < Ring LL128 40.6 + S/126.2 = 572.5 (328-329,
       412) */
    {"a100", SIM_COMM_ALL_REDUCE, 1, 8, 64 * SIM_MIB, SIM_COMM_RING, SIM_COMM_SIMPLE, 24, 24},
    /* Ring LL128 46.0 + S/170.7 = 52.1 (328-329, 412) < Ring LL 37.3 + S/24.0 = 81.0 (327, 412) */
    {"a100", SIM_COMM_ALL_GATHER, 2, 8, SIM_MIB, SIM_COMM_RING, SIM_COMM_LL128, 16, 16},
    /* Ring LL128 154.0 + S/162.5 = 257.2 (328-329, 412) < Ring Simple 442.4 + S/195.0 = 528.4 (324,
       412) */
    {"a100", SIM_COMM_REDUCE_SCATTER, 8, 8, 16 * SIM_MIB, SIM_COMM_RING, SIM_COMM_LL128, 16, 16},
    /* Tree LL128 65.5 + S/66.8 = 72.0 (330-335, 336, 416, 640-641) < Tree LL 35.2 + S/9.5 = 104.2
       (330-332, 336, 416, 640-641) */
    {"a100", SIM_COMM_ALL_REDUCE, 4, 8, 256 * SIM_KIB, SIM_COMM_TREE, SIM_COMM_LL128, 16, 16},
    /* Ring LL128 294.0 + S/81.3 = 1119.8 (328-329, 412) < Tree LL128 82.5 + S/66.8 = 1199.6
       (330-335, 336, 416, 640-641) */
    {"a100", SIM_COMM_ALL_REDUCE, 8, 8, 64 * SIM_MIB, SIM_COMM_RING, SIM_COMM_LL128, 16, 16},
    /* PAT Simple 68.8 + S/18.0 = 127.1 (337, 431-433) < Ring LL 81.6 + S/12.8 = 163.5 (327, 412) */
    {"a100", SIM_COMM_ALL_GATHER, 16, 1, SIM_MIB, SIM_COMM_PAT, SIM_COMM_SIMPLE, 2, 2},
    /* Ring Simple 1772.4 + S/12.2 = 90561.7 (324, 412, 647-649) < Ring LL128 1085.0 + S/10.2 =
       106781.5 (328-329, 412) */
    {"a100", SIM_COMM_ALL_REDUCE, 64, 1, SIM_GIB, SIM_COMM_RING, SIM_COMM_SIMPLE, 2, 2},
    /* Ring LL 10.8 + S/161.1 = 11.2 (327, 412) < NVLS Simple 25.0 + S/208.2 = 25.3 (307-323, 425)
     */
    {"h100", SIM_COMM_ALL_GATHER, 1, 8, 64 * SIM_KIB, SIM_COMM_RING, SIM_COMM_LL, 2, 8},
    /* Ring LL 10.8 + S/161.1 = 36.8 (327, 412) < Ring LL128 27.3 + S/378.5 = 38.4 (328-329, 412) */
    {"h100", SIM_COMM_ALL_GATHER, 1, 8, 4 * SIM_MIB, SIM_COMM_RING, SIM_COMM_LL, 24, 24},
    /* Ring LL128 27.3 + S/378.5 = 49.5 (328-329, 412) < Ring Simple 32.2 + S/411.4 = 52.6 (324,
       412) */
    {"h100", SIM_COMM_ALL_GATHER, 1, 8, 8 * SIM_MIB, SIM_COMM_RING, SIM_COMM_LL128, 24, 24},
    /* Ring Simple 32.2 + S/411.4 = 113.8 (324, 412) < Ring LL128 27.3 + S/378.5 = 115.9 (328-329,
       412) */
    {"h100", SIM_COMM_REDUCE_SCATTER, 1, 8, 32 * SIM_MIB, SIM_COMM_RING, SIM_COMM_SIMPLE, 24, 24},
    /* Ring LL 15.0 + S/80.6 = 28.0 (327, 412) < NVLS Simple 25.0 + S/272.0 = 28.9 (307-323, 425) */
    {"h100", SIM_COMM_ALL_REDUCE, 1, 8, SIM_MIB, SIM_COMM_RING, SIM_COMM_LL, 24, 24},
    /* NVLS Simple 25.0 + S/272.0 = 32.7 (307-323, 425) < Ring LL 15.0 + S/80.6 = 41.0 (327, 412) */
    {"h100", SIM_COMM_ALL_REDUCE, 1, 8, 2 * SIM_MIB, SIM_COMM_NVLS, SIM_COMM_SIMPLE, 16, 16},
    /* Ring Simple 28.8 + S/240.0 = 98.7 (324, 412) < Ring LL128 25.4 + S/220.8 = 101.4 (328-329,
       412) */
    {"h100", SIM_COMM_ALL_REDUCE, 1, 4, 16 * SIM_MIB, SIM_COMM_RING, SIM_COMM_SIMPLE, 24, 24},
    /* Ring Simple 70.0 + S/409.6 = 725.4 (324, 412) < Ring LL128 44.6 + S/313.2 = 901.7 (328-329,
       412) */
    {"h100", SIM_COMM_ALL_GATHER, 2, 8, 256 * SIM_MIB, SIM_COMM_RING, SIM_COMM_SIMPLE, 16, 16},
    /* Ring LL128 148.4 + S/298.3 = 373.4 (328-329, 412) < Ring Simple 296.8 + S/390.1 = 468.8 (324,
       412) */
    {"h100", SIM_COMM_REDUCE_SCATTER, 8, 8, 64 * SIM_MIB, SIM_COMM_RING, SIM_COMM_LL128, 16, 16},
    /* Ring LL128 1117.2 + S/294.2 = 4767.2 (328-329, 412) < Ring Simple 2413.6 + S/384.8 = 5204.3
       (324, 412) */
    {"h100", SIM_COMM_ALL_GATHER, 64, 8, SIM_GIB, SIM_COMM_RING, SIM_COMM_LL128, 16, 16},
    /* NVLSTree Simple 66.8 + S/246.2 = 1157.2 (307-323, 428) < Ring Simple 131.6 + S/204.8 = 1495.0
       (324, 412, 647-649) */
    {"h100", SIM_COMM_ALL_REDUCE, 2, 8, 256 * SIM_MIB, SIM_COMM_NVLS_TREE, SIM_COMM_SIMPLE, 16, 16},
    /* Tree LL 55.2 + S/8.7 = 67.8 (330-332, 336, 416, 640-641) < Tree LL128 99.5 + S/98.6 = 100.6
       (330-335, 336, 416, 640-641) */
    {"h100", SIM_COMM_ALL_REDUCE, 16, 8, 64 * SIM_KIB, SIM_COMM_TREE, SIM_COMM_LL, 16, 16},
    /* NVLSTree Simple 192.2 + S/183.4 = 6045.8 (307-323, 428) < Ring Simple 1190.0 + S/193.5 =
       7214.7 (324, 412, 647-649) */
    {"h100", SIM_COMM_ALL_REDUCE, 16, 8, SIM_GIB, SIM_COMM_NVLS_TREE, SIM_COMM_SIMPLE, 16, 16},
    /* Ring LL128 73.5 + S/50.5 = 156.6 (328-329, 412) < PAT Simple 42.4 + S/36.0 = 158.9 (337,
       431-433) */
    {"h100", SIM_COMM_REDUCE_SCATTER, 8, 1, 4 * SIM_MIB, SIM_COMM_RING, SIM_COMM_LL128, 4, 4},
    /* Ring LL128 48.8 + S/188.4 = 54.4 (328-329, 412) < Ring LL 26.7 + S/21.8 = 74.9 (327, 412) */
    {"h100", SIM_COMM_ALL_GATHER, 4, 4, SIM_MIB, SIM_COMM_RING, SIM_COMM_LL128, 16, 16},
    /* Ring LL 10.8 + S/322.3 = 36.8 (327, 412) < Ring LL128 27.3 + S/731.4 = 38.8 (328-329, 412) */
    {"b200", SIM_COMM_ALL_GATHER, 1, 8, 8 * SIM_MIB, SIM_COMM_RING, SIM_COMM_LL, 32, 32},
    /* Ring Simple 32.2 + S/822.9 = 1337.1 (324, 412) < Ring LL128 27.3 + S/731.4 = 1495.3 (328-329,
       412) */
    {"b200", SIM_COMM_REDUCE_SCATTER, 1, 8, SIM_GIB, SIM_COMM_RING, SIM_COMM_SIMPLE, 32, 32},
    /* NVLS Simple 25.0 + S/411.4 = 188.1 (307-323, 425) < Ring Simple 56.0 + S/411.4 = 219.1 (324,
       412) */
    {"b200", SIM_COMM_ALL_REDUCE, 1, 8, 64 * SIM_MIB, SIM_COMM_NVLS, SIM_COMM_SIMPLE, 24, 24},
    /* NVLSTree Simple 108.6 + S/198.2 = 5526.2 (307-323, 428) < Ring Simple 282.8 + S/198.2 =
       5813.6 (324, 412, 647-649) */
    {"b200", SIM_COMM_ALL_REDUCE, 4, 8, SIM_GIB, SIM_COMM_NVLS_TREE, SIM_COMM_SIMPLE, 24, 24},
    /* Ring LL128 286.8 + S/322.5 = 338.8 (328-329, 412) < Ring Simple 599.2 + S/387.0 = 642.5 (324,
       412) */
    {"b200", SIM_COMM_ALL_GATHER, 16, 8, 16 * SIM_MIB, SIM_COMM_RING, SIM_COMM_LL128, 16, 16},
    /* Ring Simple 428.4 + S/25.6 = 5842.6 (324, 412, 647-649) < Ring LL128 269.0 + S/23.6 = 5967.8
       (328-329, 412) */
    {"b200", SIM_COMM_ALL_REDUCE, 16, 1, 128 * SIM_MIB, SIM_COMM_RING, SIM_COMM_SIMPLE, 4, 4},
    /* Ring LL128 21.8 + S/117.8 = 39.6 (328-329, 412) < Ring Simple 29.2 + S/128.0 = 45.6 (324,
       412) */
    {"b200", SIM_COMM_REDUCE_SCATTER, 2, 2, 2 * SIM_MIB, SIM_COMM_RING, SIM_COMM_LL128, 8, 8},
};

static SimCluster *load(const char *name)
{
    g_autoptr(GError) error = NULL;
    SimCluster *cluster = sim_cluster_load(MODELS, name, &error);
    ck_assert_msg(cluster != NULL, "%s", error ? error->message : "");
    return cluster;
}

/* GPUs that are neighbours, each with its NIC. */
static SimGroupShape shape_of(uint32_t nodes, uint32_t gpus)
{
    return (SimGroupShape){nodes * gpus, nodes, gpus, gpus, gpus};
}

START_TEST(nccl_takes_the_least_of_its_table)
{
    const Case *at = &cases[_i];
    g_autoptr(SimCluster) cluster = load(at->cluster);
    SimGroupShape shape = shape_of(at->nodes, at->gpus);
    SimNcclGraphs graphs = sim_nccl_graph_compute(cluster, &shape);
    SimSelection selection =
        sim_selector_compute(cluster, &shape, &graphs, at->operation, at->bytes);
    ck_assert_str_eq(sim_comm_algorithm_name(selection.algorithm),
                     sim_comm_algorithm_name(at->algorithm));
    ck_assert_str_eq(sim_comm_protocol_name(selection.protocol),
                     sim_comm_protocol_name(at->protocol));
    ck_assert_uint_eq(selection.max_channels, at->max_channels);
    ck_assert_uint_eq(selection.channels, at->channels);
}
END_TEST

/* What NCCL's search prints for these machines ("Pattern 4, ... nChannels 12, bw 30/30"): ring,
 * tree and NVLS. */
typedef struct Graphs {
    const char *cluster;
    uint32_t nodes;
    uint32_t gpus;
    SimNcclGraph ring, tree, nvls;
    uint32_t channels;
} Graphs;

static const Graphs graphs_found[] = {
    {"a100", 1, 8, {12, 20, 20}, {12, 20, 20}, {0}, 24},
    {"h100", 1, 8, {12, 30, 30}, {12, 30, 30}, {8, 40, 60}, 24},
    {"h100", 1, 4, {12, 30, 30}, {12, 30, 30}, {4, 60, 60}, 24},
    {"b200", 1, 8, {16, 45, 45}, {16, 45, 45}, {8, 80, 90}, 32},
    {"a100", 2, 8, {8, 24, 24}, {8, 30, 24}, {0}, 16},
    {"h100", 2, 8, {8, 48, 48}, {8, 48, 48}, {8, 40, 48}, 16},
    {"h100", 4, 4, {8, 24, 24}, {8, 48, 24}, {4, 48, 48}, 16},
    {"h100", 8, 1, {2, 24, 24}, {2, 48, 24}, {0}, 4},
    {"a100", 8, 1, {1, 24, 24}, {1, 48, 24}, {0}, 2},
    {"b200", 16, 8, {8, 48, 48}, {8, 96, 48}, {8, 48, 48}, 16},
};

static void assert_graph(SimNcclGraph graph, SimNcclGraph found)
{
    ck_assert_uint_eq(graph.channels, found.channels);
    ck_assert_float_eq(graph.intra, found.intra);
    ck_assert_float_eq(graph.inter, found.inter);
}

START_TEST(channels_are_those_of_nccls_search)
{
    const Graphs *at = &graphs_found[_i];
    g_autoptr(SimCluster) cluster = load(at->cluster);
    SimGroupShape shape = shape_of(at->nodes, at->gpus);
    SimNcclGraphs graphs = sim_nccl_graph_compute(cluster, &shape);
    assert_graph(graphs.ring, at->ring);
    assert_graph(graphs.tree, at->tree);
    assert_graph(graphs.nvls, at->nvls);
    ck_assert_uint_eq(graphs.channels, at->channels);
}
END_TEST

/* Between nodes LL128 needs NIC and GPU close together (tuning.cc, lines 519-525). Without it LL of
 * 624.7 us + S/20.4 loses to Simple of 2413.6 us + S/384.8 from 38.5 MB on. */
START_TEST(without_ll128_between_nodes_simple_takes_over_from_ll)
{
    g_autoptr(SimCluster) cluster = load("h100");
    cluster->comm->tuner.has_network_ll128 = false;
    SimGroupShape shape = shape_of(64, 8);
    SimNcclGraphs graphs = sim_nccl_graph_compute(cluster, &shape);
    static const struct {
        uint64_t bytes;
        SimCommProtocol protocol;
    } sizes[] = {{38 * 1000000, SIM_COMM_LL}, {39 * 1000000, SIM_COMM_SIMPLE}};
    for (size_t i = 0; i < G_N_ELEMENTS(sizes); i++) {
        SimSelection selection =
            sim_selector_compute(cluster, &shape, &graphs, SIM_COMM_ALL_GATHER, sizes[i].bytes);
        ck_assert_int_eq(selection.protocol, sizes[i].protocol);
    }
}
END_TEST

/* 50 Mb/s are below the slowest speed of the list, 0.12 GB/s: NCCL falls back to one channel of
 * 0.1, which setting up doubles. */
START_TEST(a_network_below_the_list_still_has_a_channel)
{
    g_autoptr(SimCluster) cluster = load("node:2 gpu:8 type:h100 nic:50Mb/s");
    SimGroupShape shape = shape_of(2, 8);
    SimNcclGraphs graphs = sim_nccl_graph_compute(cluster, &shape);
    ck_assert_uint_eq(graphs.ring.channels, 1);
    ck_assert_uint_eq(graphs.channels, 2);
}
END_TEST

/* Whatever the group and the network, there is a choice, it has between 1 and 64 channels, and its
 * rings ask no more of a node's NICs than they have. */
START_TEST(every_group_has_a_choice)
{
    static const char *const names[] = {"a100", "h100", "b200", "b300", "gb200"};
    g_autoptr(GRand) random = g_rand_new_with_seed(20260713);
    for (int i = 0; i < 2000; i++) {
        g_autoptr(SimCluster) cluster = load(names[i % 5]);
        cluster->nic_bytes_per_s = g_rand_double_range(random, 0.01e9, 200e9);
        uint32_t gpus = (uint32_t)g_rand_int_range(random, 1, (gint32)cluster->gpus_per_node + 1);
        uint32_t nodes = (uint32_t)g_rand_int_range(random, gpus > 1 ? 1 : 2, 300);
        SimGroupShape shape = shape_of(nodes, gpus);
        shape.nics = (uint32_t)g_rand_int_range(random, 1, 9);
        SimNcclGraphs graphs = sim_nccl_graph_compute(cluster, &shape);
        uint64_t bytes = UINT64_C(1) << g_rand_int_range(random, 0, 37);
        SimSelection selection = sim_selector_compute(
            cluster, &shape, &graphs, (SimCommOperation)g_rand_int_range(random, 0, 4), bytes);
        ck_assert_uint_ge(selection.channels, 1);
        ck_assert_uint_le(selection.channels, 64);
        double rate = (double)graphs.ring.channels * (double)graphs.ring.inter;
        if (nodes > 1 && graphs.ring.inter > 0.11F)
            ck_assert_double_le(rate, shape.nics * cluster->nic_bytes_per_s / 1e9 * 1.001);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("selector");
    TCase *tcase = tcase_create("nccl");
    tcase_add_loop_test(tcase, nccl_takes_the_least_of_its_table, 0, G_N_ELEMENTS(cases));
    tcase_add_loop_test(tcase, channels_are_those_of_nccls_search, 0, G_N_ELEMENTS(graphs_found));
    tcase_add_test(tcase, a_network_below_the_list_still_has_a_channel);
    tcase_add_test(tcase, every_group_has_a_choice);
    tcase_add_test(tcase, without_ll128_between_nodes_simple_takes_over_from_ll);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
