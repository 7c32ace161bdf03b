/* SPDX-License-Identifier: Apache-2.0 */
#include "hardware/comm.h"

#include "base/error.h"
#include "base/json.h"
#include "hardware/sourced_value.h"

#define SCHEMA "fsdpsim.comm/1"
#define LONGEST_US 1e6
#define MOST_CHANNELS 64 /* NCCL's MAXCHANNELS */

static const char *const operation_names[] = {"all_gather", "reduce_scatter", "all_reduce",
                                              "broadcast", NULL};
static const char *const algorithm_names[] = {"Tree",
                                              "Ring",
                                              "NVLS",
                                              "NVLSTree",
                                              "PAT",
                                              "recursive doubling",
                                              "recursive halving",
                                              "neighbor exchange",
                                              "Bruck",
                                              "butterfly",
                                              "Rabenseifner",
                                              "binomial",
                                              "linear",
                                              NULL};
static const char *const protocol_names[] = {"LL", "LL128", "Simple", NULL};
static const char *const library_names[] = {"nccl", "openmpi", "gloo", NULL};
static const char *const architecture_names[] = {"Ampere", "Hopper", "Blackwell", NULL};
static const char *const host_names[] = {"Intel", "AMD", "Arm", NULL};

const char *sim_comm_operation_name(SimCommOperation operation)
{
    return operation_names[operation];
}

const char *sim_comm_protocol_name(SimCommProtocol protocol)
{
    return protocol_names[protocol];
}

const char *sim_comm_algorithm_name(SimCommAlgorithm algorithm)
{
    return algorithm_names[algorithm];
}

const char *sim_comm_library_name(SimCommLibrary library)
{
    return library_names[library];
}

/* The position of member KEY's text in NAMES. */
static bool get_choice(const cJSON *object, const char *path, const char *key,
                       const char *const *names, unsigned *choice, GError **error)
{
    const char *text;
    if (!sim_json_get_string(object, path, key, &text, error))
        return false;
    for (unsigned i = 0; names[i]; i++) {
        if (g_str_equal(names[i], text)) {
            *choice = i;
            return true;
        }
    }
    g_autofree char *where = g_strdup_printf("%s.%s", path, key);
    sim_error_set_unknown(error, where, key, text, names);
    return false;
}

static bool get_microseconds(const cJSON *object, const char *path, const char *key, double *out,
                             GError **error)
{
    return sim_json_get_double(object, path, key, 0, LONGEST_US, out, error);
}

/* A rate; one that is left out is 0. */
static bool get_rate(const cJSON *object, const char *path, const char *key, double *out,
                     GError **error)
{
    *out = 0;
    if (!sim_json_has(object, key))
        return true;
    const char *text;
    if (!sim_json_get_string(object, path, key, &text, error))
        return false;
    if (sim_units_parse_rate(text, out, error))
        return true;
    g_prefix_error(error, "%s.%s: ", path, key);
    return false;
}

static bool read_row(const cJSON *object, const char *path, SimCommRow *row, GError **error)
{
    static const char *const keys[] = {"operation", "algorithm", "protocol", "from_ranks",
                                       "base_us",   "hop_us",    "extra_us", "rate",
                                       "copy_rate", "ramp_us",   "source",   NULL};
    unsigned operation, algorithm, protocol;
    int64_t from_ranks;
    const char *rate, *source;
    if (!sim_json_check_keys(object, path, keys, error) ||
        !get_choice(object, path, "operation", operation_names, &operation, error) ||
        !get_choice(object, path, "algorithm", algorithm_names, &algorithm, error) ||
        !get_choice(object, path, "protocol", protocol_names, &protocol, error) ||
        !sim_json_get_int64(object, path, "from_ranks", 2, UINT32_MAX, &from_ranks, error) ||
        !get_microseconds(object, path, "base_us", &row->base_us, error) ||
        !get_microseconds(object, path, "hop_us", &row->hop_us, error) ||
        !get_microseconds(object, path, "extra_us", &row->extra_us, error) ||
        !get_microseconds(object, path, "ramp_us", &row->ramp_us, error) ||
        !sim_json_get_string(object, path, "rate", &rate, error) ||
        !get_rate(object, path, "rate", &row->rate, error) ||
        !get_rate(object, path, "copy_rate", &row->copy_rate, error) ||
        !sim_json_get_string(object, path, "source", &source, error))
        return false;
    row->operation = (SimCommOperation)operation;
    row->algorithm = (SimCommAlgorithm)algorithm;
    row->protocol = (SimCommProtocol)protocol;
    row->from_ranks = (uint32_t)from_ranks;
    return true;
}

static bool read_network_row(const cJSON *object, const char *path, SimCommNetwork *row,
                             GError **error)
{
    static const char *const keys[] = {"protocol", "base_us", "hop_us", "inter_hop_us",
                                       "rate",     "source",  NULL};
    unsigned protocol;
    const char *source;
    if (!sim_json_check_keys(object, path, keys, error) ||
        !get_choice(object, path, "protocol", protocol_names, &protocol, error) ||
        !get_microseconds(object, path, "base_us", &row->base_us, error) ||
        !get_microseconds(object, path, "hop_us", &row->hop_us, error) ||
        !get_microseconds(object, path, "inter_hop_us", &row->inter_hop_us, error) ||
        !get_rate(object, path, "rate", &row->rate, error) ||
        !sim_json_get_string(object, path, "source", &source, error))
        return false;
    row->protocol = (SimCommProtocol)protocol;
    return true;
}

static bool read_tables(SimComm *comm, const cJSON *json, const char *path, GError **error)
{
    const cJSON *node, *network, *object;
    if (!sim_json_get_array(json, path, "node", &node, error) ||
        !sim_json_get_array(json, path, "network", &network, error))
        return false;
    cJSON_ArrayForEach(object, node)
    {
        g_autofree char *inner = g_strdup_printf("%s.node[%u]", path, comm->node->len);
        SimCommRow row;
        if (!read_row(object, inner, &row, error))
            return false;
        g_array_append_val(comm->node, row);
    }
    cJSON_ArrayForEach(object, network)
    {
        g_autofree char *inner = g_strdup_printf("%s.network[%u]", path, comm->network->len);
        SimCommNetwork row;
        if (!read_network_row(object, inner, &row, error))
            return false;
        g_array_append_val(comm->network, row);
    }
    return true;
}

/* A pair of ranks must be able to do each operation, and rings need a protocol that has no limit of
 * size. */
static bool check_complete(const SimComm *comm, const char *path, GError **error)
{
    for (unsigned i = 0; i < SIM_COMM_OPERATION_COUNT; i++) {
        if (!sim_comm_find_row(comm, (SimCommOperation)i, SIM_COMM_RING, SIM_COMM_SIMPLE, 2)) {
            g_set_error(error, SIM_ERROR, SIM_ERROR_SCHEMA,
                        "%s.node: expected a row for %s, Ring, Simple, from 2 ranks, found none",
                        path, operation_names[i]);
            return false;
        }
    }
    if (!comm->network->len || sim_comm_find_network(comm, SIM_COMM_SIMPLE))
        return true;
    g_set_error(error, SIM_ERROR, SIM_ERROR_SCHEMA,
                "%s.network: expected a row for Simple, found none", path);
    return false;
}

static bool read_tuner(SimComm *comm, const cJSON *json, const char *path, GError **error)
{
    static const char *const keys[] = {"architecture",  "host",   "nvlink", "pcie",
                                       "network_ll128", "source", NULL};
    const char *source;
    if (!sim_json_has(json, "tuner"))
        return true;
    g_autofree char *inner = g_strconcat(path, ".tuner", NULL);
    const cJSON *object;
    unsigned architecture, host;
    SimCommTuner *tuner = &comm->tuner;
    if (!sim_json_get_object(json, path, "tuner", &object, error) ||
        !sim_json_check_keys(object, inner, keys, error) ||
        !get_choice(object, inner, "architecture", architecture_names, &architecture, error) ||
        !get_choice(object, inner, "host", host_names, &host, error) ||
        !sim_sourced_value_get_rate(object, inner, "nvlink", &tuner->nvlink_bytes_per_s, error) ||
        !sim_sourced_value_get_rate(object, inner, "pcie", &tuner->pcie_bytes_per_s, error) ||
        !sim_json_get_bool(object, inner, "network_ll128", &tuner->has_network_ll128, error) ||
        !sim_json_get_string(object, inner, "source", &source, error))
        return false;
    tuner->architecture = (SimCommArchitecture)architecture;
    tuner->host = (SimCommHost)host;
    comm->has_tuner = true;
    return true;
}

static bool read_channels(SimComm *comm, const cJSON *json, const char *path, GError **error)
{
    int64_t node, network;
    if (!sim_sourced_value_get_count(json, path, "node_channels", 0, MOST_CHANNELS, &node, error) ||
        !sim_sourced_value_get_count(json, path, "network_channels", 0, MOST_CHANNELS, &network,
                                     error) ||
        !sim_sourced_value_get_bytes(json, path, "channel_bytes", &comm->channel_bytes, error))
        return false;
    comm->node_channels = (uint32_t)node;
    comm->network_channels = (uint32_t)network;
    return true;
}

SimComm *sim_comm_load(const char *models, const char *name, GError **error)
{
    static const char *const keys[] = {
        "schema",           "basis",   "calibration",   "node",  "node_channels",
        "network_channels", "network", "channel_bytes", "tuner", NULL};
    g_autofree char *origin = NULL;
    g_autoptr(cJSON) json = sim_sourced_value_load(models, "comm", name, &origin, error);
    if (!json)
        return NULL;
    g_autofree char *path = g_strconcat(origin, ": $", NULL);
    g_autoptr(SimComm) comm = g_new0(SimComm, 1);
    comm->name = g_strdup(name);
    comm->node = g_array_new(FALSE, FALSE, sizeof(SimCommRow));
    comm->network = g_array_new(FALSE, FALSE, sizeof(SimCommNetwork));
    const char *calibration;
    if (!sim_json_check_keys(json, path, keys, error) ||
        !sim_sourced_value_check_schema(json, path, SCHEMA, error) ||
        !sim_basis_get(json, path, &comm->basis, error) ||
        !sim_json_get_string(json, path, "calibration", &calibration, error) ||
        !read_channels(comm, json, path, error) || !read_tuner(comm, json, path, error) ||
        !read_tables(comm, json, path, error) || !check_complete(comm, path, error))
        return NULL;
    comm->calibration = g_strdup(calibration);
    return g_steal_pointer(&comm);
}

void sim_comm_free(SimComm *comm)
{
    if (!comm)
        return;
    g_free(comm->name);
    g_free(comm->calibration);
    g_array_unref(comm->node);
    g_array_unref(comm->network);
    g_free(comm);
}

static const SimCommRow *find_exact(const SimComm *comm, SimCommOperation operation,
                                    SimCommAlgorithm algorithm, SimCommProtocol protocol,
                                    uint32_t ranks)
{
    const SimCommRow *best = NULL;
    for (guint i = 0; i < comm->node->len; i++) {
        const SimCommRow *row = &g_array_index(comm->node, SimCommRow, i);
        if (row->operation == operation && row->algorithm == algorithm &&
            row->protocol == protocol && row->from_ranks <= ranks &&
            (!best || row->from_ranks > best->from_ranks))
            best = row;
    }
    return best;
}

const SimCommRow *sim_comm_find_row(const SimComm *comm, SimCommOperation operation,
                                    SimCommAlgorithm algorithm, SimCommProtocol protocol,
                                    uint32_t ranks)
{
    const SimCommRow *row = find_exact(comm, operation, algorithm, protocol, ranks);
    if (!row && operation == SIM_COMM_BROADCAST)
        row = find_exact(comm, SIM_COMM_ALL_GATHER, algorithm, protocol, ranks);
    return row;
}

const SimCommNetwork *sim_comm_find_network(const SimComm *comm, SimCommProtocol protocol)
{
    for (guint i = 0; i < comm->network->len; i++) {
        const SimCommNetwork *row = &g_array_index(comm->network, SimCommNetwork, i);
        if (row->protocol == protocol)
            return row;
    }
    return NULL;
}
