/* SPDX-License-Identifier: Apache-2.0 */
#include "fabric/collective_cache.h"

typedef struct Entry {
    SimCollectiveRequest request;
    SimCollectiveCost cost;
} Entry;

struct SimCollectiveCache {
    const SimCluster *cluster;
    GHashTable *entries; /* Entry, which is its own key */
};

static guint hash_request(gconstpointer key)
{
    const SimCollectiveRequest *request = key;
    uint64_t hash = request->bytes * UINT64_C(0x9E3779B97F4A7C15);
    hash ^= (uint64_t)request->shape.ranks << 32 | request->shape.nodes << 3 |
            (unsigned)request->operation << 1 | request->in_place;
    return (guint)(hash ^ hash >> 32);
}

static gboolean equal_requests(gconstpointer a, gconstpointer b)
{
    const SimCollectiveRequest *x = a, *y = b;
    return x->operation == y->operation && x->bytes == y->bytes && x->in_place == y->in_place &&
           x->shape.ranks == y->shape.ranks && x->shape.nodes == y->shape.nodes &&
           x->shape.max_ranks_in_node == y->shape.max_ranks_in_node &&
           x->shape.min_ranks_in_node == y->shape.min_ranks_in_node &&
           x->shape.nics == y->shape.nics;
}

SimCollectiveCache *sim_collective_cache_new(const SimCluster *cluster)
{
    SimCollectiveCache *cache = g_new0(SimCollectiveCache, 1);
    cache->cluster = cluster;
    cache->entries = g_hash_table_new_full(hash_request, equal_requests, g_free, NULL);
    return cache;
}

void sim_collective_cache_free(SimCollectiveCache *cache)
{
    if (!cache)
        return;
    g_hash_table_unref(cache->entries);
    g_free(cache);
}

SimCollectiveCost sim_collective_cache_compute(SimCollectiveCache *cache,
                                               const SimCollectiveRequest *request)
{
    /* The request comes first in an entry, so both are found by it. */
    const Entry *known = g_hash_table_lookup(cache->entries, request);
    if (known)
        return known->cost;
    Entry *entry = g_new(Entry, 1);
    *entry = (Entry){*request, sim_collective_compute(cache->cluster, request)};
    g_hash_table_add(cache->entries, entry);
    return entry->cost;
}
