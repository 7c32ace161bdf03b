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
 * `extra` applies to LL from 2 KiB a step on; the copy of the own shard only out of place. Across
 * nodes NCCL's own form (src/graph/tuning.cc, ncclTopoGetAlgoTime) with its constants:
 *
 *     T = base + intra steps * hop + inter steps * inter_hop + volume / rate
 */
#pragma once

#include "base/units.h"
#include "hardware/basis.h"

#include <glib.h>
#include <stddef.h>
#include <stdint.h>

typedef enum SimCommOperation {
    SIM_COMM_ALL_GATHER,
    SIM_COMM_REDUCE_SCATTER,
    SIM_COMM_ALL_REDUCE,
    SIM_COMM_BROADCAST,
} SimCommOperation;
#define SIM_COMM_OPERATION_COUNT 4

typedef enum SimCommProtocol {
    SIM_COMM_LL,
    SIM_COMM_LL128,
    SIM_COMM_SIMPLE,
    SIM_COMM_NVLS, /* reduced in the switch; a Simple protocol in NCCL's own terms */
} SimCommProtocol;

/* One row: an operation and protocol, from a number of ranks on. Rates in bytes a second; a
 * copy_rate of 0 means that the copy costs nothing. */
typedef struct SimCommRow {
    SimCommOperation operation;
    SimCommProtocol protocol;
    uint32_t from_ranks;
    double base_us;
    double hop_us;
    double extra_us;
    double rate;
    double copy_rate;
    double ramp_us;    /* a square root of 1000 bytes */
    uint32_t channels; /* 0 = the set's node_channels */
} SimCommRow;

/* One protocol of rings that cross the network. rate 0 = no limit but the links'. */
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
} SimComm;

/* NAME: a name in MODELS/comm, or a path that ends in .json. Errors as sim_gpu_load. */
SimComm *sim_comm_load(const char *models, const char *name, GError **error);
void sim_comm_free(SimComm *comm);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(SimComm, sim_comm_free)

/* The row that holds for so many ranks, the one with the largest from_ranks; NULL if none. A
 * broadcast without rows of its own uses the all-gather's. Borrowed. O(rows). */
const SimCommRow *sim_comm_find_row(const SimComm *comm, SimCommOperation operation,
                                    SimCommProtocol protocol, uint32_t ranks);

/* The network's constants of that protocol; NULL if none. Borrowed. */
const SimCommNetwork *sim_comm_find_network(const SimComm *comm, SimCommProtocol protocol);

/* "all_gather"; "LL", "LL128", "Simple", "NVLS". */
const char *sim_comm_operation_name(SimCommOperation operation);
const char *sim_comm_protocol_name(SimCommProtocol protocol);
