/* SPDX-License-Identifier: Apache-2.0
 *
 * Fits the constants of models/comm on the measurements of tests/oracle/nccl and prints them as the
 * JSON rows that stand there:
 *
 *     fit_collectives GPU        of series.csv.gz
 */
#include <stdio.h>

#include "support/collective_rows.h"

/* NCCL's choices inside a node; LL128 after the Simple ring that it is derived from. */
static const struct {
    SimCommAlgorithm algorithm;
    SimCommProtocol protocol;
} pairs[] = {
    {SIM_COMM_RING, SIM_COMM_LL},
    {SIM_COMM_RING, SIM_COMM_SIMPLE},
    {SIM_COMM_RING, SIM_COMM_LL128},
    {SIM_COMM_NVLS, SIM_COMM_SIMPLE},
};

static void print_row(const SimCommRow *row, const char *nccl)
{
    printf("    {\"operation\": \"%s\", \"algorithm\": \"%s\", \"protocol\": \"%s\", "
           "\"from_ranks\": %u, \"base_us\": %.4g, \"hop_us\": %.4g, \"extra_us\": %.4g, "
           "\"rate\": \"%.4gGB/s\", ",
           sim_comm_operation_name(row->operation), sim_comm_algorithm_name(row->algorithm),
           sim_comm_protocol_name(row->protocol), row->from_ranks, row->base_us, row->hop_us,
           row->extra_us, row->rate / 1e9);
    if (row->copy_rate > 0)
        printf("\"copy_rate\": \"%.4gGB/s\", ", row->copy_rate / 1e9);
    printf("\"ramp_us\": %.3g, \"source\": \"fit_collectives on NCCL %s, "
           "ai-dynamo/aiconfigurator 095f58a\"},\n",
           row->ramp_us, nccl);
}

int main(int argc, char **argv)
{
    const CollectiveSeries *series = NULL;
    for (size_t i = 0; i < G_N_ELEMENTS(collective_series); i++) {
        if (argc == 2 && g_str_equal(collective_series[i].gpu, argv[1]))
            series = &collective_series[i];
    }
    if (!series) {
        fprintf(stderr, "usage: fit_collectives GPU\n");
        return 2;
    }
    g_autoptr(SimCluster) cluster = collective_rows_load_cluster(series->cluster);
    g_autoptr(GArray) points = collective_rows_load(series->gpu);
    const SimCalibrationPoint *at = (const SimCalibrationPoint *)(const void *)points->data;
    for (unsigned o = SIM_COMM_ALL_GATHER; o <= SIM_COMM_ALL_REDUCE; o++) {
        SimCommRow simple = {0};
        for (size_t i = 0; i < G_N_ELEMENTS(pairs); i++) {
            const SimCalibrationTarget target = {(SimCommOperation)o, pairs[i].algorithm,
                                                 pairs[i].protocol};
            SimCommRow row = simple;
            if (!sim_calibration_compute(cluster, at, points->len, &target, &row))
                continue;
            if (target.algorithm == SIM_COMM_RING && target.protocol == SIM_COMM_SIMPLE)
                simple = row;
            print_row(&row, g_str_equal(series->gpu, "a100") ? "2.27.3" : "2.29.2");
        }
    }
    return 0;
}
