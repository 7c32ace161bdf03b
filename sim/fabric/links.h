/* SPDX-License-Identifier: Apache-2.0
 *
 * The links of a cluster as the solver sees them, and the links each communicator crosses.
 *
 * Physical links are the NVLink port of each GPU (PCIe where there is no NVLink), the NICs of each
 * node, the PCIe link between a GPU and its NICs where the cluster states one, and the uplinks of
 * leaf switches (one of all NICs together, or one a rail) where the cluster has leaf switches: all
 * that goes from a leaf's nodes to others. The spine above takes what the leaves send. Each has the
 * same capacity both ways; a ring loads both ways alike, so one of them is kept. Links that the
 * same communicators cross with the same weights carry the same load at every moment, so they are
 * one class and the solver sees it once. A job on 16,384 GPUs has a handful.
 *
 * A communicator of one ring, g of its ranks in a node of several, sends its stream once over each
 * rank's port (in a ring across nodes, over (g-1)/g of them, as the ring leaves the node once) and
 * once into and out of each node, spread evenly over the NICs next to its GPUs: weight 1/NICs each;
 * and once out of each leaf, as ranks of one leaf are neighbours in the ring.
 *
 * Folding: communicators that nothing distinguishes run as one flow. The caller gives them the same
 * flow number; the weights of those that share a physical link add up there.
 */
#pragma once

#include "hardware/cluster.h"

#include <glib.h>
#include <stddef.h>
#include <stdint.h>

/* A communicator's ranks (borrowed during the call) and the flow class it belongs to, 0, 1, ... */
typedef struct SimLinkGroup {
    const uint32_t *ranks;
    uint32_t count;
    uint32_t flow;
} SimLinkGroup;

/* What a flow crosses. Borrowed from the links. */
typedef struct SimRoute {
    const uint32_t *link;   /* link classes, ascending */
    const uint32_t *weight; /* in 1/65536, see fabric/maxmin.h */
    uint32_t count;
} SimRoute;

typedef struct SimLinks SimLinks;

/* FLOWS is how many flow classes the groups name. Every rank must be below cluster->gpus. A group
 * of one rank crosses nothing. A flow is held back by all links that any of its groups crosses.
 * Time O(r log r) in the sum r of the groups' ranks, memory O(r) while it runs. */
SimLinks *sim_links_new(const SimCluster *cluster, const SimLinkGroup *groups, size_t n_groups,
                        size_t flows);
void sim_links_free(SimLinks *links);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(SimLinks, sim_links_free)

size_t sim_links_count(const SimLinks *links);

/* Bytes a second of each class, [sim_links_count]. Borrowed. */
const uint64_t *sim_links_capacities(const SimLinks *links);

/* How many physical links a class stands for. */
uint32_t sim_links_multiplicity(const SimLinks *links, uint32_t link);

/* "nvlink", "nic", "pcie" or "leaf". */
const char *sim_links_kind(const SimLinks *links, uint32_t link);

SimRoute sim_links_route(const SimLinks *links, uint32_t flow);
