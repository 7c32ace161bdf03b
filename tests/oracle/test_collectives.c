/* SPDX-License-Identifier: Apache-2.0
 *
 * Holds the times of collectives to public measurements (tests/oracle/nccl/README.md): series of
 * single nodes, eight GPUs from what was learnt on two and four, a table up to 1,024 GPUs, and some
 * 3,000 nccl-tests rows of others' machines.
 */
#include <stdlib.h>

#include <check.h>

#include "support/public_collectives.h"

#define MEAN_LIMIT 0.04
#define NINETY_FIVE_LIMIT 0.12
#define HELD_OUT_LIMIT 0.08
#define NETWORK_LIMIT 0.08
#define MEDIAN_LIMIT 0.10
#define EXPLAINED_FROM 0.30

static GArray *new_errors(void)
{
    return g_array_new(FALSE, FALSE, sizeof(double));
}

/* A series is one operation on one GPU: 2, 4, 8 ranks, 512 B to 512 MiB. */
START_TEST(series_of_single_nodes_are_met)
{
    const CollectiveSeries *series = &collective_series[_i];
    g_autoptr(SimCluster) cluster = collective_rows_load_cluster(series->cluster);
    g_autoptr(GArray) points = collective_rows_load(series->gpu);
    for (unsigned o = SIM_COMM_ALL_GATHER; o <= SIM_COMM_ALL_REDUCE; o++) {
        g_autoptr(GArray) errors = new_errors();
        for (guint i = 0; i < points->len; i++) {
            const SimCalibrationPoint *point = &g_array_index(points, SimCalibrationPoint, i);
            double error = fabs(collective_rows_error(cluster, point, 1));
            if (point->operation == (SimCommOperation)o)
                g_array_append_val(errors, error);
        }
        ck_assert_uint_ge(errors->len, 42);
        ck_assert_double_le(collective_rows_mean(errors), MEAN_LIMIT);
        ck_assert_double_le(collective_rows_quantile(errors, 0.95), NINETY_FIVE_LIMIT);
    }
}
END_TEST

/* Puts constants learnt from POINTS in place of the cluster's. */
static void learn(SimCluster *cluster, const GArray *points)
{
    static const SimCommProtocol protocols[] = {SIM_COMM_LL, SIM_COMM_SIMPLE};
    const SimCalibrationPoint *at = (const SimCalibrationPoint *)(const void *)points->data;
    g_array_set_size(cluster->comm->node, 0);
    for (unsigned o = SIM_COMM_ALL_GATHER; o <= SIM_COMM_ALL_REDUCE; o++) {
        for (size_t i = 0; i < G_N_ELEMENTS(protocols); i++) {
            const SimCalibrationTarget target = {(SimCommOperation)o, SIM_COMM_RING, protocols[i]};
            SimCommRow row;
            ck_assert(sim_calibration_compute(cluster, at, points->len, &target, &row));
            g_array_append_val(cluster->comm->node, row);
        }
    }
}

/* Of rings with LL and Simple: NVLS and (but for all-reduces on A100) LL128 are what NCCL takes on
 * 8 GPUs only, so there is nothing to learn them from. */
START_TEST(eight_gpus_follow_from_two_and_four)
{
    const CollectiveSeries *series = &collective_series[_i];
    g_autoptr(SimCluster) cluster = collective_rows_load_cluster(series->cluster);
    g_autoptr(GArray) points = collective_rows_load(series->gpu);
    g_autoptr(GArray) learnt = g_array_new(FALSE, FALSE, sizeof(SimCalibrationPoint));
    for (guint i = 0; i < points->len; i++) {
        if (g_array_index(points, SimCalibrationPoint, i).ranks < 8)
            g_array_append_val(learnt, g_array_index(points, SimCalibrationPoint, i));
    }
    learn(cluster, learnt);
    for (unsigned o = SIM_COMM_ALL_GATHER; o <= SIM_COMM_ALL_REDUCE; o++) {
        g_autoptr(GArray) errors = new_errors();
        for (guint i = 0; i < points->len; i++) {
            const SimCalibrationPoint *point = &g_array_index(points, SimCalibrationPoint, i);
            SimCollectiveCost cost = collective_rows_compute(cluster, point, 1);
            if (point->operation != (SimCommOperation)o || point->ranks < 8 ||
                cost.algorithm != SIM_COMM_RING || cost.protocol == SIM_COMM_LL128)
                continue;
            double error = fabs(collective_rows_error(cluster, point, 1));
            g_array_append_val(errors, error);
        }
        if (errors->len > 0)
            ck_assert_double_le(collective_rows_mean(errors), HELD_OUT_LIMIT);
    }
}
END_TEST

/* SimAI's table: bus bandwidth as a part of 8 NICs of 400 Gb/s. Its NCCL had no LL128 between nodes
 * (allowed over PXN only since); entries that take longer than a larger size on the same nodes are
 * left out. */
START_TEST(a_table_up_to_1024_gpus_is_met)
{
    g_autoptr(SimCluster) cluster = collective_rows_load_cluster("h100");
    cluster->comm->tuner.has_network_ll128 = false;
    g_autoptr(SimCsv) csv = collective_rows_load_csv("simai_nic_ratio");
    g_autoptr(GArray) errors = new_errors();
    double next[129];
    for (size_t i = 0; i < G_N_ELEMENTS(next); i++)
        next[i] = INFINITY;
    for (size_t i = sim_csv_rows(csv); i-- > 0;) {
        uint32_t nodes = (uint32_t)collective_rows_number(csv, i, "nodes");
        double bytes = collective_rows_number(csv, i, "bytes");
        double bus = 400e9 * collective_rows_number(csv, i, "ratio");
        const SimCalibrationPoint point = {
            .ranks = 8 * nodes,
            .bytes = (uint64_t)bytes,
            .in_place = true,
            .us = bytes * (8 * nodes - 1) / (8 * nodes) / bus * 1e6,
        };
        if (point.us > next[nodes])
            continue;
        next[nodes] = point.us;
        double error = fabs(collective_rows_error(cluster, &point, nodes));
        g_array_append_val(errors, error);
    }
    ck_assert_uint_ge(errors->len, 70);
    ck_assert_double_le(collective_rows_mean(errors), NETWORK_LIMIT);
}
END_TEST

/* Why rows stand more than 30 per cent apart. */
typedef struct Reason {
    const char *system; /* how it begins; NULL = any */
    bool is_network;    /* several nodes */
    bool is_slower;     /* than predicted */
    uint64_t up_to;     /* bytes */
    const char *why;
} Reason;

static const Reason reasons[] = {
    {"L40S", false, true, UINT64_MAX,
     "rings over two sockets, staged through the host: constants from end points only"},
    {"L40S", false, false, UINT64_MAX, "the same"},
    {NULL, false, true, 16 * SIM_MIB,
     "the software's latency: constants are of one process with a thread a GPU and NCCL 2.29; "
     "these "
     "are older libraries, a process a GPU, PyTorch's host time, virtual machines"},
    {NULL, true, true, 128 * SIM_MIB,
     "the same, and networks slower to answer than NCCL's constants say"},
    {"8xB200-SXM", false, false, 32 * SIM_MIB,
     "NCCL 2.27.5: constants are of 2.29.2, which is slower where 2.30.7 takes LL128"},
    {"Vultr 8xB200 1 node", false, false, 32 * SIM_MIB, "the same; up to 1 KiB a newer LL"},
    {"GCP A3 Ultra, 1 H200 per node", true, true, UINT64_MAX,
     "a demonstration of drivers that gets 31 of the NIC's 50 GB/s at 8 GiB"},
    {"AWS p5.48xlarge 8xH100/node", true, true, 512 * SIM_MIB,
     "the EFA plugin's own tuner keeps to trees up to 1 GiB"},
    {"AWS p4d.24xlarge", true, true, UINT64_MAX,
     "NVIDIA/nccl issue 527, a report of low bandwidth"},
    {"8xA100 1 node", false, true, 32 * SIM_MIB,
     "InfiniCCL pull request 64: 523 us for 32 MiB, 2.7 times its own larger sizes' rate"},
};

static const Reason *find_reason(const PublicRow *row, uint32_t nodes, double error)
{
    for (size_t i = 0; i < G_N_ELEMENTS(reasons); i++) {
        const Reason *reason = &reasons[i];
        if ((!reason->system || g_str_has_prefix(row->name, reason->system)) &&
            reason->is_network == (nodes > 1) && reason->is_slower == (error < 0) &&
            row->point.bytes <= reason->up_to)
            return reason;
    }
    return NULL;
}

START_TEST(public_rows_are_met_or_explained)
{
    g_autoptr(SimCsv) csv = collective_rows_load_csv("collectives");
    g_autoptr(GArray) rows = public_collectives_load(csv);
    g_autoptr(GArray) errors = new_errors();
    guint used[G_N_ELEMENTS(reasons)] = {0};
    for (guint i = 0; i < rows->len; i++) {
        const PublicRow *row = &g_array_index(rows, PublicRow, i);
        g_autoptr(SimCluster) cluster = public_collectives_load_cluster(row);
        uint32_t nodes = public_collectives_nodes(row, cluster);
        double error = collective_rows_error(cluster, &row->point, nodes);
        double size = fabs(error);
        g_array_append_val(errors, size);
        if (size <= EXPLAINED_FROM)
            continue;
        const Reason *reason = find_reason(row, nodes, error);
        ck_assert_msg(reason != NULL, "%s, %s, %" G_GUINT64_FORMAT " bytes: %+.0f %%", row->name,
                      sim_comm_operation_name(row->point.operation), row->point.bytes, 100 * error);
        used[reason - reasons]++;
    }
    ck_assert_uint_ge(rows->len, 2900);
    ck_assert_double_le(collective_rows_quantile(errors, 0.5), MEDIAN_LIMIT);
    for (size_t i = 0; i < G_N_ELEMENTS(reasons); i++)
        ck_assert_msg(used[i] > 0, "nothing to explain: %s %s", reasons[i].system, reasons[i].why);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("collectives");
    TCase *tcase = tcase_create("measured");
    tcase_set_timeout(tcase, 60);
    tcase_add_loop_test(tcase, series_of_single_nodes_are_met, 0, G_N_ELEMENTS(collective_series));
    tcase_add_loop_test(tcase, eight_gpus_follow_from_two_and_four, 0,
                        G_N_ELEMENTS(collective_series));
    tcase_add_test(tcase, a_table_up_to_1024_gpus_is_met);
    tcase_add_test(tcase, public_rows_are_met_or_explained);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
