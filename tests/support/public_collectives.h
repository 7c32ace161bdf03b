/* SPDX-License-Identifier: Apache-2.0
 *
 * Public nccl-tests rows (tests/oracle/nccl/collectives.csv.gz) of machines that a cluster of ours
 * is, or that a file in traces/clusters describes. For tests and tables; each includes it once.
 */
#pragma once

#include "support/collective_rows.h"

/* A system of the file and what describes it. Rows of other systems have no cluster here: GPUs that
 * we do not ship (MI250X, V100, RTX 6000, B60, GB10), networks without verbs whose collectives do
 * not keep to any model (Slingshot), PCIe boxes of unknown layout. */
typedef struct PublicSystem {
    const char *system; /* how the text begins */
    const char *source; /* how that text begins; NULL = any */
    const char *cluster;
    bool is_in_place;
} PublicSystem;

static const PublicSystem public_systems[] = {
    {"8xA100-SXM4-80GB NVSwitch NVLink3", NULL, "a100", false},
    {"8xH100-SXM 80GB NVSwitch NVLink4", NULL, "h100", false},
    {"8xH200-SXM NVSwitch NVLink4", NULL, "h200", false},
    {"8xB200-SXM NVSwitch NVLink5", NULL, "b200", false},
    {"8xB300-SXM NVSwitch NVLink5", NULL, "b300", false},
    {"GB300 tray 4 GPU NVLink5", NULL, "gb200", false},
    {"L40S PCIe4 no NVLink", NULL, "l40s", false},
    {"8xH100-class 1 node NVLink", NULL, "h100", false},
    {"4 of 8 H100-SXM5-80GB NVSwitch", NULL, "h100", false},
    {"H100-SXM5-80GB NVSwitch NVLink4", NULL, "h100", false},
    {"8xH100 1 node", NULL, "h100", false},
    {"AWS p5.48xlarge 8xH100 single node", NULL, "h100", false},
    {"8xA100 1 node", NULL, "a100", false},
    {"8xH200 1 node NVLink4", NULL, "h200", true},
    {"8xH200 node NVLink4", NULL, "h200", false},
    {"8xB200 AWS p6-b200 1 node", NULL, "b200", true},
    {"AWS p6-b200 8xB200 node", NULL, "b200", false},
    {"Vultr 8xB200 1 node", NULL, "b200", false},
    {"GCP A4, 2xB200 same node", NULL, "b200", false},
    {"Azure ND A100 v4 8 GPUs 1 node", NULL, "a100", true},
    {"Azure ND H100 v5 8 GPUs 1 node", NULL, "h100", true},
    {"Azure ND H200 v5 8 GPUs 1 node", NULL, "h200", true},
    {"MI300X xGMI", NULL, "mi300x", false},
    {"OCI BM.GPU.MI300X.8", NULL, "mi300x", false},
    {"CoreWeave GB200 NVL72 1 rack", NULL, "gb200", false},
    {"GCP A3 Ultra, 1 H200 per node", NULL, "h200", false},
    {"GCP A4, 1 B200 per node", NULL, "b200", false},
    {"GCP A4 8xB200/node, 8x400G RoCE", NULL, "b200", false},
    {"GCP 2 nodes x 8 GPU RDMA 8x400Gbps", NULL, "h200", false},
    {"Lambda 8xB200/node, InfiniBand", NULL, "b200", false},
    {"Nebius 8-GPU nodes, InfiniBand", NULL, "h100", false},
    {"Vultr 8xB200/node, 8x400G", NULL, "b200", false},
    {"32 nodes x 8xH100", NULL, "h100", false},
    {"8xH100/node InfiniBand", NULL, "h100", false},
    {"OCI BM.GPU.B4.8 8xA100-40GB/node", NULL, "type:a100-40gb nics:16 nic:100Gb/s", false},
    {"GCP A3 Mega 8xH100/node", "GoogleCloudPlatform", "traces/clusters/a3-mega.json", false},
    {"GCP A3 Mega 8xH100/node", "lessizzmore", "traces/clusters/a3-mega.json", false},
    {"GCP A3 Mega 8xH100/node", "dstackai", "traces/clusters/a3-mega.json", false},
    {"AWS p5.48xlarge 8xH100/node", NULL, "traces/clusters/p5.json", false},
    {"AWS p5en.48xlarge 8xH200/node", NULL, "traces/clusters/p5en.json", false},
    {"AWS p4de.24xlarge 8xA100-80GB/node", NULL, "traces/clusters/p4d.json", false},
    {"AWS p4d.24xlarge 8xA100-40GB/node", NULL, "traces/clusters/p4d.json", false},
    {"AWS p6-b200 8xB200/node", NULL, "traces/clusters/p6-b200.json", false},
    {"GCP A4X Max 4xGB300/node", NULL, "traces/clusters/a4x-max.json", false},
};

typedef struct PublicRow {
    SimCalibrationPoint point; /* the measurement */
    uint32_t nodes;
    const PublicSystem *system;
    const char *source, *name, *notes; /* borrowed from the CSV */
} PublicRow;

static inline const PublicSystem *public_collectives_find(const char *system, const char *source)
{
    for (size_t i = 0; i < G_N_ELEMENTS(public_systems); i++) {
        const PublicSystem *at = &public_systems[i];
        if (g_str_has_prefix(system, at->system) &&
            (!at->source || g_str_has_prefix(source, at->source)))
            return at;
    }
    return NULL;
}

/* Rows of all systems that are described, with a size, a time and a number of ranks. The texts are
 * CSV's. */
static inline GArray *public_collectives_load(const SimCsv *csv)
{
    GArray *rows = g_array_new(FALSE, FALSE, sizeof(PublicRow));
    for (size_t i = 0; i < sim_csv_rows(csv); i++) {
        PublicRow row = {
            .point = {.ranks = (uint32_t)collective_rows_number(csv, i, "gpus"),
                      .bytes = (uint64_t)collective_rows_number(csv, i, "bytes"),
                      .us = collective_rows_number(csv, i, "time_us")},
            .nodes = (uint32_t)collective_rows_number(csv, i, "nodes"),
            .source = collective_rows_cell(csv, i, "source"),
            .name = collective_rows_cell(csv, i, "system"),
            .notes = collective_rows_cell(csv, i, "notes"),
        };
        row.system = public_collectives_find(row.name, row.source);
        if (!row.system || row.point.ranks < 2 || row.nodes < 1 || row.point.us <= 0 ||
            row.point.bytes < row.point.ranks ||
            !collective_rows_find_operation(collective_rows_cell(csv, i, "collective"),
                                            &row.point.operation))
            continue;
        row.point.in_place = row.system->is_in_place || strstr(row.notes, "in-place") ||
                             strstr(row.notes, "IN-PLACE");
        if (strstr(row.notes, "out-of-place"))
            row.point.in_place = false;
        g_array_append_val(rows, row);
    }
    return rows;
}

/* An NVLink domain counts as one node, whatever the row says. */
static inline uint32_t public_collectives_nodes(const PublicRow *row, const SimCluster *cluster)
{
    uint32_t least = (row->point.ranks + cluster->gpus_per_node - 1) / cluster->gpus_per_node;
    return cluster->gpus_per_node > 8 ? least : MAX(row->nodes, least);
}

static inline SimCluster *public_collectives_load_cluster(const PublicRow *row)
{
    if (!g_str_has_suffix(row->system->cluster, ".json"))
        return collective_rows_load_cluster(row->system->cluster);
    g_autofree char *file = g_build_filename(SIM_SOURCE_DIR, row->system->cluster, NULL);
    return collective_rows_load_cluster(file);
}
