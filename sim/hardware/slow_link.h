/* SPDX-License-Identifier: Apache-2.0
 *
 * A link that is slower than its kind: a cable that runs at half its rate, a throttled port.
 *
 *     nvlink5    the NVLink port of GPU 5's rank
 *     pcie5      the PCIe link of GPU 5's rank
 *     nic2.3     NIC 3 of node 2
 *     leaf1      the uplinks of leaf switch 1; with rails leaf1.3, those of rail 3
 */
#pragma once

#include "hardware/cluster.h"

#include <glib.h>
#include <stdbool.h>
#include <stdint.h>

/* In the order of sim/fabric/links.c. */
typedef enum SimLinkKind {
    SIM_LINK_NVLINK,
    SIM_LINK_NIC,
    SIM_LINK_PCIE,
    SIM_LINK_LEAF,
} SimLinkKind;

typedef struct SimSlowLink {
    uint8_t kind;    /* SimLinkKind */
    uint32_t number; /* of its kind: rank, node * NICs + NIC, leaf * rails + rail */
    double factor;   /* of its rate, above 0 and at most 1 */
} SimSlowLink;

/* "nic2.3:0.5". The link must be one of CLUSTER's, whose GPUs in use are chosen. Errors SCHEMA
 * (unknown kind, with the nearest), PARSE, RANGE (with what is valid). */
bool sim_slow_link_parse(const char *text, const SimCluster *cluster, SimSlowLink *link,
                         GError **error);

/* The product of the factors of CLUSTER's slow links that are this one; 1 for a healthy one.
 * O(slow links). */
double sim_slow_link_find(const SimCluster *cluster, SimLinkKind kind, uint32_t number);
