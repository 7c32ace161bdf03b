/* SPDX-License-Identifier: Apache-2.0 */
#include "hardware/cluster.h"

#include <string.h>

#include "base/error.h"
#include "base/json.h"
#include "hardware/sourced_value.h"

#define SCHEMA "fsdpsim.cluster/1"
#define DEFAULT_GPUS 8
#define MOST_NICS 1024
#define MOST_OVERSUBSCRIPTION 100
#define GIGA 1e9

/* "leaf": {"nodes": ..., "oversubscription": ..., "rails": true}: the switches above the nodes. */
static bool read_leaf(SimCluster *cluster, const cJSON *json, const char *path, GError **error)
{
    static const char *const keys[] = {"nodes", "oversubscription", "rails", NULL};
    if (!sim_json_has(json, "leaf"))
        return true;
    g_autofree char *inner = g_strconcat(path, ".leaf", NULL);
    const cJSON *leaf;
    int64_t nodes;
    if (!sim_json_get_object(json, path, "leaf", &leaf, error) ||
        !sim_json_check_keys(leaf, inner, keys, error) ||
        !sim_sourced_value_get_count(leaf, inner, "nodes", 1, SIM_CLUSTER_MAX_GPUS, &nodes,
                                     error) ||
        !sim_sourced_value_get_number(leaf, inner, "oversubscription", 1, MOST_OVERSUBSCRIPTION,
                                      &cluster->oversubscription, error) ||
        !sim_json_get_bool(leaf, inner, "rails", &cluster->has_rails, error))
        return false;
    cluster->leaf_nodes = (uint32_t)nodes;
    return true;
}

static bool read_links(SimCluster *cluster, const cJSON *json, const char *path, GError **error)
{
    int64_t nics;
    if (!sim_sourced_value_get_rate(json, path, "nvlink", &cluster->nvlink_bytes_per_s, error) ||
        !sim_sourced_value_get_number(json, path, "nvlink_fraction", 0.001, 1,
                                      &cluster->nvlink_fraction, error) ||
        !sim_sourced_value_get_count(json, path, "nics_per_node", 1, MOST_NICS, &nics, error) ||
        !sim_sourced_value_get_rate(json, path, "nic", &cluster->nic_bytes_per_s, error) ||
        !sim_sourced_value_get_number(json, path, "nic_fraction", 0.001, 1, &cluster->nic_fraction,
                                      error))
        return false;
    cluster->nics_per_node = (uint32_t)nics;
    if (sim_json_has(json, "pair") &&
        !sim_sourced_value_get_rate(json, path, "pair", &cluster->pair_bytes_per_s, error))
        return false;
    if (sim_json_has(json, "pcie") &&
        !sim_sourced_value_get_rate(json, path, "pcie", &cluster->pcie_bytes_per_s, error))
        return false;
    if (sim_json_has(json, "nic_latency") &&
        !sim_sourced_value_get_duration(json, path, "nic_latency", &cluster->nic_latency, error))
        return false;
    return read_leaf(cluster, json, path, error);
}

static bool read_counts(SimCluster *cluster, const cJSON *json, const char *path, GError **error)
{
    int64_t gpus, nodes = 1;
    if (!sim_sourced_value_get_count(json, path, "gpus_per_node", 1, SIM_CLUSTER_MAX_GPUS, &gpus,
                                     error))
        return false;
    cluster->has_node_count = sim_json_has(json, "nodes");
    if (cluster->has_node_count &&
        !sim_sourced_value_get_count(json, path, "nodes", 1, SIM_CLUSTER_MAX_GPUS / gpus, &nodes,
                                     error))
        return false;
    cluster->gpus_per_node = (uint32_t)gpus;
    cluster->nodes = (uint32_t)nodes;
    return true;
}

static SimCluster *load_file(const char *models, const char *name, GError **error)
{
    static const char *const keys[] = {"schema",
                                       "title",
                                       "gpu",
                                       "comm",
                                       "gpus_per_node",
                                       "nodes",
                                       "nvlink",
                                       "nvlink_fraction",
                                       "nics_per_node",
                                       "nic",
                                       "nic_fraction",
                                       "pair",
                                       "nic_latency",
                                       "pcie",
                                       "leaf",
                                       "network_ll128",
                                       NULL};
    g_autofree char *origin = NULL;
    g_autoptr(cJSON) json = sim_sourced_value_load(models, "clusters", name, &origin, error);
    if (!json)
        return NULL;
    g_autofree char *path = g_strconcat(origin, ": $", NULL);
    g_autoptr(SimCluster) cluster = g_new0(SimCluster, 1);
    cluster->type = g_strdup(name);
    const char *title, *gpu, *comm;
    if (!sim_json_check_keys(json, path, keys, error) ||
        !sim_sourced_value_check_schema(json, path, SCHEMA, error) ||
        !sim_json_get_string(json, path, "title", &title, error) ||
        !sim_json_get_string(json, path, "gpu", &gpu, error) ||
        !sim_json_get_string(json, path, "comm", &comm, error) ||
        !read_counts(cluster, json, path, error) || !read_links(cluster, json, path, error))
        return NULL;
    cluster->gpu = sim_gpu_load(models, gpu, error);
    if (!cluster->gpu) {
        g_prefix_error(error, "%s.gpu: ", path);
        return NULL;
    }
    cluster->comm = sim_comm_load(models, comm, error);
    if (!cluster->comm) {
        g_prefix_error(error, "%s.comm: ", path);
        return NULL;
    }
    if (sim_json_has(json, "network_ll128") &&
        !sim_json_get_bool(json, path, "network_ll128", &cluster->comm->tuner.has_network_ll128,
                           error))
        return NULL;
    return g_steal_pointer(&cluster);
}

/* The items of a cluster string, NULL where an item is not given. */
typedef struct Items {
    const char *node;
    const char *gpu;
    const char *type;
    const char *nics;
    const char *nic;
    const char *nvlink;
} Items;

/* Splits WORDS ("key:value") in place. */
static bool split_items(char **words, const char *where, Items *items, GError **error)
{
    static const char *const keys[] = {"node", "gpu", "type", "nics", "nic", "nvlink", NULL};
    const char **values[] = {&items->node, &items->gpu, &items->type,
                             &items->nics, &items->nic, &items->nvlink};
    for (size_t i = 0; words[i]; i++) {
        if (!*words[i])
            continue;
        char *colon = strchr(words[i], ':');
        if (!colon) {
            g_autofree char *quoted = sim_error_quote(words[i]);
            g_set_error(error, SIM_ERROR, SIM_ERROR_PARSE, "%s: expected key:value, found %s",
                        where, quoted);
            return false;
        }
        *colon = '\0';
        size_t key = 0;
        while (keys[key] && !g_str_equal(keys[key], words[i]))
            key++;
        if (!keys[key]) {
            sim_error_set_unknown(error, where, "key", words[i], keys);
            return false;
        }
        if (*values[key]) {
            g_set_error(error, SIM_ERROR, SIM_ERROR_SCHEMA, "%s: %s: expected once, found twice",
                        where, words[i]);
            return false;
        }
        *values[key] = colon + 1;
    }
    if (items->type)
        return true;
    g_set_error(error, SIM_ERROR, SIM_ERROR_SCHEMA,
                "%s: expected a type, such as type:h100, found none", where);
    return false;
}

/* Leaves *OUT as it is where TEXT is NULL. */
static bool parse_count(const char *text, const char *where, const char *key, int64_t max,
                        uint32_t *out, GError **error)
{
    int64_t value;
    if (!text)
        return true;
    if (!sim_units_parse_int64(text, 1, max, &value, error)) {
        g_prefix_error(error, "%s: %s: ", where, key);
        return false;
    }
    *out = (uint32_t)value;
    return true;
}

static bool parse_rate(const char *text, const char *where, const char *key, double *out,
                       GError **error)
{
    if (!text || sim_units_parse_rate(text, out, error))
        return true;
    g_prefix_error(error, "%s: %s: ", where, key);
    return false;
}

static SimCluster *parse(const char *models, const char *text, GError **error)
{
    g_autofree char *quoted = sim_error_quote(text);
    g_autofree char *where = g_strdup_printf("cluster %s", quoted);
    g_auto(GStrv) words = g_strsplit_set(text, " \t,", -1);
    Items items = {0};
    if (!split_items(words, where, &items, error))
        return NULL;
    g_autoptr(SimCluster) cluster = load_file(models, items.type, error);
    if (!cluster) {
        g_prefix_error(error, "%s: type: ", where);
        return NULL;
    }
    uint32_t type_gpus = cluster->gpus_per_node;
    if (!parse_count(items.gpu, where, "gpu", SIM_CLUSTER_MAX_GPUS, &cluster->gpus_per_node, error))
        return NULL;
    /* A node with fewer GPUs has its share of the NICs. */
    if (items.gpu)
        cluster->nics_per_node = (uint32_t)CLAMP(
            ((uint64_t)cluster->nics_per_node * cluster->gpus_per_node + type_gpus - 1) / type_gpus,
            1, MOST_NICS);
    if (!parse_count(items.node, where, "node", SIM_CLUSTER_MAX_GPUS / cluster->gpus_per_node,
                     &cluster->nodes, error) ||
        !parse_count(items.nics, where, "nics", MOST_NICS, &cluster->nics_per_node, error) ||
        !parse_rate(items.nic, where, "nic", &cluster->nic_bytes_per_s, error) ||
        !parse_rate(items.nvlink, where, "nvlink", &cluster->nvlink_bytes_per_s, error))
        return NULL;
    cluster->has_node_count = cluster->has_node_count || items.node;
    return g_steal_pointer(&cluster);
}

SimCluster *sim_cluster_load(const char *models, const char *description, GError **error)
{
    bool is_string = strchr(description, ':') && !g_str_has_suffix(description, ".json");
    g_autoptr(SimCluster) cluster =
        is_string ? parse(models, description, error) : load_file(models, description, error);
    if (!cluster)
        return NULL;
    cluster->name = g_strdup(description);
    cluster->gpus = cluster->has_node_count ? cluster->nodes * cluster->gpus_per_node
                                            : MIN(cluster->gpus_per_node, DEFAULT_GPUS);
    return g_steal_pointer(&cluster);
}

void sim_cluster_free(SimCluster *cluster)
{
    if (!cluster)
        return;
    g_free(cluster->name);
    g_free(cluster->type);
    sim_gpu_free(cluster->gpu);
    sim_comm_free(cluster->comm);
    g_clear_pointer(&cluster->slow_links, g_array_unref);
    g_free(cluster);
}

bool sim_cluster_choose_gpus(SimCluster *cluster, uint64_t gpus, GError **error)
{
    uint64_t most = cluster->has_node_count ? (uint64_t)cluster->nodes * cluster->gpus_per_node
                                            : SIM_CLUSTER_MAX_GPUS;
    if (gpus < 1 || gpus > most) {
        g_set_error(error, SIM_ERROR, SIM_ERROR_RANGE,
                    "GPUs: expected 1 to %" G_GUINT64_FORMAT " (cluster '%s'), found "
                    "%" G_GUINT64_FORMAT,
                    most, cluster->name, gpus);
        return false;
    }
    cluster->gpus = (uint32_t)gpus;
    if (!cluster->has_node_count)
        cluster->nodes = (cluster->gpus + cluster->gpus_per_node - 1) / cluster->gpus_per_node;
    return true;
}

bool sim_cluster_is_even(const SimCluster *cluster)
{
    return cluster->gpus % cluster->gpus_per_node == 0;
}

/* In whole UNIT (GB/s or Gb/s) where that is exact, else in bytes a second, exactly. */
static void append_rate(GString *text, const char *key, double bytes_per_s, bool in_bits)
{
    double giga = bytes_per_s * (in_bits ? 8 : 1) / GIGA;
    uint64_t whole = (uint64_t)giga;
    bool is_whole = !((double)whole < giga);
    if (is_whole) {
        g_string_append_printf(text, " %s:%" G_GUINT64_FORMAT "%s", key, whole,
                               in_bits ? "Gb/s" : "GB/s");
        return;
    }
    char digits[G_ASCII_DTOSTR_BUF_SIZE];
    g_ascii_dtostr(digits, sizeof(digits), bytes_per_s);
    g_string_append_printf(text, " %s:%sB/s", key, digits);
}

char *sim_cluster_print(const SimCluster *cluster)
{
    GString *text = g_string_new(NULL);
    if (cluster->has_node_count)
        g_string_append_printf(text, "node:%u ", cluster->nodes);
    g_string_append_printf(text, "gpu:%u type:%s nics:%u", cluster->gpus_per_node, cluster->type,
                           cluster->nics_per_node);
    append_rate(text, "nic", cluster->nic_bytes_per_s, true);
    append_rate(text, "nvlink", cluster->nvlink_bytes_per_s, false);
    return g_string_free(text, FALSE);
}

uint64_t sim_cluster_communicator_bytes(const SimCluster *cluster)
{
    const uint64_t rings_and_trees = 2;
    return rings_and_trees * cluster->comm->node_channels * cluster->comm->channel_bytes;
}

uint64_t sim_cluster_usable_bytes(const SimCluster *cluster, uint32_t communicators)
{
    uint64_t taken =
        cluster->gpu->context_bytes + communicators * sim_cluster_communicator_bytes(cluster);
    return taken < cluster->gpu->memory_bytes ? cluster->gpu->memory_bytes - taken : 0;
}

char **sim_cluster_list(const char *models, const char *folder)
{
    return sim_sourced_value_list(models, folder);
}
