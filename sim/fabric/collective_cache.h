/* SPDX-License-Identifier: Apache-2.0
 *
 * Costs of collectives, each computed once: training repeats the same few (operation, size, place,
 * shape of the group), and NCCL's choice looks at a table of some twenty entries.
 */
#pragma once

#include "fabric/collective.h"

#include <glib.h>

typedef struct SimCollectiveCache SimCollectiveCache;

/* CLUSTER is borrowed and must not change while the cache lives. */
SimCollectiveCache *sim_collective_cache_new(const SimCluster *cluster);
void sim_collective_cache_free(SimCollectiveCache *cache);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(SimCollectiveCache, sim_collective_cache_free)

/* sim_collective_compute's result. Amortised O(1). */
SimCollectiveCost sim_collective_cache_compute(SimCollectiveCache *cache,
                                               const SimCollectiveRequest *request);
