/* SPDX-License-Identifier: Apache-2.0
 *
 * A cluster of equal nodes: GPUs joined inside a node (NVLink, xGMI or PCIe), nodes joined by NICs.
 * Rank r is GPU r % gpus_per_node of node r / gpus_per_node.
 *
 * It is described by a name in models/clusters, a file, or one string of key:value items:
 *
 *     node:4 gpu:8 type:h100 nics:8 nic:400Gb/s nvlink:450GB/s
 *
 * node = how many nodes, gpu = GPUs a node, type = a shipped cluster (or file) from which
 * everything else is taken, nics = NICs a node, nic = one NIC's rate each direction, nvlink = one
 * GPU's rate to the others, each direction. Only type is required.
 *
 * A file may say more: nic_latency, network_ll128 (whether NCCL may use LL128 between nodes), pcie,
 * leaf {nodes, oversubscription, rails}; traces/clusters has examples.
 *
 * A named cluster has as many nodes as the number of GPUs asks for; a string with node: has just
 * those.
 */
#pragma once

#include "base/units.h"
#include "hardware/comm.h"
#include "hardware/gpu.h"

#include <glib.h>
#include <stdbool.h>
#include <stdint.h>

#define SIM_CLUSTER_MAX_GPUS UINT32_C(1048576)

typedef struct SimCluster {
    char *name;                /* as the user gave it */
    char *type;                /* the shipped name or file that it was made from */
    SimGpu *gpu;               /* owned */
    SimComm *comm;             /* owned */
    bool has_node_count;       /* nodes was stated; else it grows with gpus */
    uint32_t nodes;            /* at least 1 */
    uint32_t gpus_per_node;    /* what one NVLink domain joins */
    uint32_t gpus;             /* how many of them the job uses: ranks 0 .. gpus-1 */
    double nvlink_bytes_per_s; /* of one GPU, one direction, by specification */
    double nvlink_fraction;    /* of it that copies reach */
    double
        pair_bytes_per_s; /* between two GPUs where no switch joins them (a mesh); 0 = switched */
    uint32_t nics_per_node;
    double nic_bytes_per_s;  /* of one NIC, one direction, by specification */
    double nic_fraction;     /* of it that collectives reach */
    double pcie_bytes_per_s; /* between a GPU and its NICs, one direction; 0 = no limit */
    SimTime nic_latency;     /* that the network adds to a message beyond an InfiniBand's */
    uint32_t leaf_nodes;     /* nodes below one leaf switch (or one a rail); 0 = no switch limits */
    double oversubscription; /* of a leaf's ports down to those up, at least 1 */
    bool has_rails;          /* a node's NICs go to as many leaf switches */
    SimCommLibrary library;  /* whose algorithms run: nccl unless the job says otherwise */
    GArray *slow_links;      /* of SimSlowLink (slow_link.h), owned; NULL = none */
} SimCluster;

/* Loads DESCRIPTION: a name, a file (ends in .json) or a string (has a colon). MODELS is the folder
 * models/. All GPUs of the string are used, or 8 (one node's if that is fewer) of a named cluster.
 * Errors: SCHEMA (unknown name or key, with the nearest), PARSE, RANGE, IO. */
SimCluster *sim_cluster_load(const char *models, const char *description, GError **error);
void sim_cluster_free(SimCluster *cluster);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(SimCluster, sim_cluster_free)

/* Uses the first GPUS. RANGE error if that is 0, more than a stated node count has, or more than
 * SIM_CLUSTER_MAX_GPUS. A last node that is not full is allowed: sim_cluster_is_even says so. */
bool sim_cluster_choose_gpus(SimCluster *cluster, uint64_t gpus, GError **error);

/* True if every node that is used is used whole. */
bool sim_cluster_is_even(const SimCluster *cluster);

/* The canonical string: parsing it gives an equal cluster. Owned by the caller. */
char *sim_cluster_print(const SimCluster *cluster);

/* Device memory of one communicator: channels times the buffers of one (12 MiB on NVLink), for
 * rings and for trees once more, as NCCL sets up both (src/transport/p2p.cc, src/include/comm.h).
 */
uint64_t sim_cluster_communicator_bytes(const SimCluster *cluster);

/* What the caching allocator may reserve at most: the GPU's total less context and COMMUNICATORS.
 */
uint64_t sim_cluster_usable_bytes(const SimCluster *cluster, uint32_t communicators);

/* The names in MODELS/FOLDER (folder "clusters", "gpus", "comm"), sorted, NULL-terminated, without
 * .json. Empty if the folder cannot be read. Owned by the caller (g_strfreev). */
char **sim_cluster_list(const char *models, const char *folder);
