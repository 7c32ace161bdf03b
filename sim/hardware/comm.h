/* SPDX-License-Identifier: Apache-2.0
 *
 * Constants of a communication library on one kind of machine: what a collective costs that has its
 * links to itself. Loaded from models/comm/NAME.json; each set names its calibration.
 *
 * Inside a node, for N ranks and a collective of S bytes (S the full buffer) with `steps` ring
 * steps (all-gather and reduce-scatter N-1, all-reduce 2(N-1)):
 *
 *     T = base + steps * (hop + extra) + steps * S/N / rate + S/N / copy_rate
 *         + ramp * sqrt(steps * S/N)
 *
 * `extra` applies to LL from 2 KiB a step on; the copy of the own shard only out of place. NVLS is
 * one step of the whole buffer. Across nodes NCCL's own form and constants (fabric/nccl_cost.h)
 * where the set has a tuner, which says what NCCL takes the machine for; a set's own constants, or
 * those of a set without one, stand in its network rows:
 *
 *     T = base + intra steps * hop + inter steps * inter_hop + volume / rate
 */
#pragma once

#include "base/units.h"
#include "hardware/basis.h"

#include <glib.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum SimCommOperation {
    SIM_COMM_ALL_GATHER,
    SIM_COMM_REDUCE_SCATTER,
    SIM_COMM_ALL_REDUCE,
    SIM_COMM_BROADCAST,
} SimCommOperation;
#define SIM_COMM_OPERATION_COUNT 4

/* Whose algorithms run. */
typedef enum SimCommLibrary {
    SIM_COMM_NCCL,
    SIM_COMM_OPENMPI,
    SIM_COMM_GLOO,
} SimCommLibrary;

/* NCCL's come first, in the order in which it tries them (src/include/nccl_common.h). */
typedef enum SimCommAlgorithm {
    SIM_COMM_TREE,
    SIM_COMM_RING,
    SIM_COMM_NVLS,      /* reduced or spread in the NVLink switch */
    SIM_COMM_NVLS_TREE, /* the same in each node, a tree between nodes */
    SIM_COMM_PAT,
    SIM_COMM_RECURSIVE_DOUBLING,
    SIM_COMM_RECURSIVE_HALVING,
    SIM_COMM_NEIGHBOR_EXCHANGE,
    SIM_COMM_BRUCK,
    SIM_COMM_BUTTERFLY,
    SIM_COMM_RABENSEIFNER, /* recursive halving, then doubling */
    SIM_COMM_BINOMIAL,
    SIM_COMM_LINEAR, /* all to one, and on */
} SimCommAlgorithm;

typedef enum SimCommProtocol {
    SIM_COMM_LL,
    SIM_COMM_LL128,
    SIM_COMM_SIMPLE,
} SimCommProtocol;

typedef enum SimCommArchitecture {
    SIM_COMM_AMPERE,
    SIM_COMM_HOPPER,
    SIM_COMM_BLACKWELL,
} SimCommArchitecture;

typedef enum SimCommHost {
    SIM_COMM_INTEL,
    SIM_COMM_AMD,
    SIM_COMM_ARM,
} SimCommHost;

/* What NCCL takes this kind of machine for when it chooses (fabric/nccl_graph.h), in its own
 * figures (src/graph/topo.h), which are below those of the data sheets. Bytes a second each
 * direction. */
typedef struct SimCommTuner {
    SimCommArchitecture architecture;
    SimCommHost host;
    double nvlink_bytes_per_s; /* of one GPU, all its links */
    double pcie_bytes_per_s;   /* between a GPU and its NICs */
    bool has_network_ll128;    /* whether NIC and GPU are close enough for LL128 */
} SimCommTuner;

/* One row: an operation, algorithm and protocol, from a number of ranks on. Rates in bytes a
 * second; a copy_rate of 0 means that the copy costs nothing. */
typedef struct SimCommRow {
    SimCommOperation operation;
    SimCommAlgorithm algorithm;
    SimCommProtocol protocol;
    uint32_t from_ranks;
    double base_us;
    double hop_us;
    double extra_us;
    double rate;
    double copy_rate;
    double ramp_us; /* a square root of 1000 bytes */
} SimCommRow;

/* One protocol of rings that cross the network. rate 0 = no limit but the links'. Other algorithms
 * take NCCL's own constants. */
typedef struct SimCommNetwork {
    SimCommProtocol protocol;
    double base_us;
    double hop_us;
    double inter_hop_us;
    double rate;
} SimCommNetwork;

typedef struct SimComm {
    char *name;
    SimBasis basis;
    char *calibration;      /* one line: what was measured, by whom */
    GArray *node;           /* SimCommRow */
    GArray *network;        /* SimCommNetwork; empty = one ring of node rows, however many nodes */
    uint32_t node_channels; /* thread blocks, each on an SM of its own, of a large collective */
    uint32_t network_channels; /* the same of one that crosses the network */
    uint64_t channel_bytes;    /* device memory of one channel of a communicator */
    bool has_tuner;            /* false: the cheapest by these constants is taken */
    SimCommTuner tuner;
} SimComm;

/* NAME: a name in MODELS/comm, or a path that ends in .json. Errors as sim_gpu_load. */
SimComm *sim_comm_load(const char *models, const char *name, GError **error);
void sim_comm_free(SimComm *comm);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(SimComm, sim_comm_free)

/* The row that holds for so many ranks, the one with the largest from_ranks; NULL if none. A
 * broadcast without rows of its own uses the all-gather's. Borrowed. O(rows). */
const SimCommRow *sim_comm_find_row(const SimComm *comm, SimCommOperation operation,
                                    SimCommAlgorithm algorithm, SimCommProtocol protocol,
                                    uint32_t ranks);

/* The network's constants of that protocol; NULL if none. Borrowed. */
const SimCommNetwork *sim_comm_find_network(const SimComm *comm, SimCommProtocol protocol);

/* "all_gather"; "Ring", "NVLSTree"; "LL", "LL128", "Simple"; "nccl". */
const char *sim_comm_operation_name(SimCommOperation operation);
const char *sim_comm_algorithm_name(SimCommAlgorithm algorithm);
const char *sim_comm_protocol_name(SimCommProtocol protocol);
const char *sim_comm_library_name(SimCommLibrary library);
