/* SPDX-License-Identifier: Apache-2.0
 *
 * Writes the table of collectives, predicted and real, as CSV on standard output: the measured
 * series of single nodes and the public rows of tests/oracle/nccl.
 *
 *     table_collectives
 */
#include <stdio.h>

#include "support/public_collectives.h"

static void print_row(const PublicRow *row, const SimCluster *cluster)
{
    uint32_t nodes = public_collectives_nodes(row, cluster);
    SimCollectiveCost cost = collective_rows_compute(cluster, &row->point, nodes);
    double us = (double)sim_collective_alone(&cost) / SIM_MICROSECOND;
    printf("\"%s\",\"%s\",%s,%u,%u,%" G_GUINT64_FORMAT ",%s,%s,%s,%.2f,%.2f,%.1f\n", row->name,
           row->system->cluster, sim_comm_operation_name(row->point.operation), row->point.ranks,
           nodes, row->point.bytes, row->point.in_place ? "true" : "false",
           sim_comm_algorithm_name(cost.algorithm), sim_comm_protocol_name(cost.protocol), us,
           row->point.us, 100 * (us / row->point.us - 1));
}

int main(void)
{
    g_autoptr(SimCsv) csv = collective_rows_load_csv("collectives");
    g_autoptr(GArray) rows = public_collectives_load(csv);
    printf("system,cluster,collective,ranks,nodes,bytes,in_place,algorithm,protocol,predicted_us,"
           "real_us,error_percent\n");
    for (guint i = 0; i < rows->len; i++) {
        const PublicRow *row = &g_array_index(rows, PublicRow, i);
        g_autoptr(SimCluster) cluster = public_collectives_load_cluster(row);
        print_row(row, cluster);
    }
    return 0;
}
