/* SPDX-License-Identifier: Apache-2.0 */
#include "fabric/nccl_cost.h"

#include <float.h>
#include <math.h>

#define N_PROTOCOLS 3
#define N_ALGORITHMS (SIM_COMM_PAT + 1)

/* All tables: src/graph/tuning.cc, ncclTunerConstantsDefaults; LL, LL128, Simple. Microseconds. */
static const double base_latency[N_ALGORITHMS][N_PROTOCOLS] = {
    [SIM_COMM_TREE] = {6.8, 14.0, 8.4},
    [SIM_COMM_RING] = {6.6, 14.0, 8.4},
    [SIM_COMM_PAT] = {8.0, 8.0, 8.0},
};
static const double nvlink_latency[N_ALGORITHMS][N_PROTOCOLS] = {
    [SIM_COMM_TREE] = {0.6, 1.25, 4.0}, [SIM_COMM_RING] = {0.6, 1.9, 3.4},
    [SIM_COMM_NVLS] = {0, 0, 25},       [SIM_COMM_NVLS_TREE] = {0, 0, 25},
    [SIM_COMM_PAT] = {0, 0, 4.0},
};
static const double network_latency[N_ALGORITHMS][N_PROTOCOLS] = {
    [SIM_COMM_TREE] = {5.0, 8.5, 14}, [SIM_COMM_RING] = {2.7, 4.0, 14.0},
    [SIM_COMM_NVLS] = {0, 0, 18},     [SIM_COMM_NVLS_TREE] = {0, 0, 20.9},
    [SIM_COMM_PAT] = {0, 0, 14},
};

/* GB/s by architecture and by one node, two, more. */
typedef double Ceilings[3][3];
static const Ceilings ring_ll128 = {{20, 20, 20}, {36.7, 36.7, 36.7}, {40, 40, 40}};
static const Ceilings tree_ll128 = {{20, 20, 20}, {36.7, 36.7, 29}, {55.6, 31.67, 20}};
static const Ceilings tree_simple = {{24, 23.6, 17.8}, {38.7, 41.4, 36}, {70, 42.8, 24}};
static const Ceilings nvls_tree = {{24, 23.6, 17.8}, {0, 57.7, 45.5}, {0, 96, 80}};
/* LL of one node goes by the GPU, of several by the host's processor: Intel (or Arm), AMD. */
static const double ll_node[3] = {87.7, 141.0, 2 * 141.0};
static const double ll_network[2][3] = {{39.0, 39.0, 20.4}, {87.7, 22.5, 19.0}};

static const float nvls_efficiency[3] = {0, 0.85F, 0.74F};

/* By the power of two of the bytes, from 64 on. */
#define N_TREE_FACTORS 24
static const float tree_factors[N_PROTOCOLS][N_TREE_FACTORS] = {
    {1,   1,   1,   1,   .9F, .8F, .7F, .7F, .7F, .7F, .6F, .5F,
     .4F, .4F, .5F, .6F, .7F, .8F, .9F, 1,   1,   1,   1,   1},
    {1,   1,   1,   1,   1,   .9F, .8F, .8F, .8F, .7F, .6F, .6F,
     .6F, .6F, .6F, .6F, .8F, .9F, .9F, .9F, .9F, 1,   1,   1},
    {.9F, .9F, .9F, .9F, .9F, .9F, .9F, .8F, .7F, .6F, .6F, .5F,
     .5F, .5F, .5F, .6F, .7F, .8F, .7F, .7F, .8F, .9F, .9F, .9F},
};

/* Everything that one cell of the table depends on. */
typedef struct Cell {
    const SimCluster *cluster;
    const SimGroupShape *shape;
    const SimNcclGraphs *graphs;
    SimCommOperation operation;
    SimCommAlgorithm algorithm;
    SimCommProtocol protocol;
    const SimNcclGraph *graph;
    int steps;  /* of a ring */
    int column; /* one node, two, more */
    float ranks_a_node;
} Cell;

static double ceiling(const Cell *cell, const Ceilings ceilings)
{
    return ceilings[cell->cluster->comm->tuner.architecture][cell->column];
}

static double ll_ceiling(const Cell *cell)
{
    const SimCommTuner *tuner = &cell->cluster->comm->tuner;
    return cell->shape->nodes == 1 ? ll_node[tuner->architecture]
                                   : ll_network[tuner->host == SIM_COMM_AMD][cell->column];
}

static bool is_gather_or_scatter(const Cell *cell)
{
    return cell->operation == SIM_COMM_ALL_GATHER || cell->operation == SIM_COMM_REDUCE_SCATTER;
}

/* Which pairs NCCL looks at for an operation. */
static bool exists(const Cell *cell)
{
    const SimGroupShape *shape = cell->shape;
    if (cell->graph->channels == 0)
        return false;
    if (cell->operation == SIM_COMM_BROADCAST)
        return cell->algorithm == SIM_COMM_RING;
    if (cell->protocol == SIM_COMM_LL128 && shape->nodes > 1 &&
        !cell->cluster->comm->tuner.has_network_ll128)
        return false;
    switch (cell->algorithm) {
    case SIM_COMM_RING:
        return true;
    case SIM_COMM_TREE:
        return cell->operation == SIM_COMM_ALL_REDUCE;
    case SIM_COMM_NVLS:
        return cell->protocol == SIM_COMM_SIMPLE && cell->graph->channels >= 2 &&
               shape->nodes == 1 && (cell->operation == SIM_COMM_ALL_REDUCE || shape->ranks <= 32);
    case SIM_COMM_NVLS_TREE:
        return cell->protocol == SIM_COMM_SIMPLE && cell->graph->channels >= 2 &&
               shape->nodes > 1 && cell->operation == SIM_COMM_ALL_REDUCE;
    case SIM_COMM_PAT:
        return cell->protocol == SIM_COMM_SIMPLE && is_gather_or_scatter(cell) &&
               shape->nodes == shape->ranks;
    default:
        return false;
    }
}

static float nvls_channel_bandwidth(const Cell *cell)
{
    const SimNcclGraph *graph = cell->graph;
    float channels = (float)graph->channels;
    float intra = graph->intra * nvls_efficiency[cell->cluster->comm->tuner.architecture] *
                  (channels - 1) / channels;
    if (cell->operation == SIM_COMM_ALL_REDUCE)
        intra *= 2.0F;
    else
        intra *= (cell->ranks_a_node - 1) / cell->ranks_a_node;
    bool is_tree = cell->algorithm == SIM_COMM_NVLS_TREE;
    float inter = graph->inter * (cell->shape->nodes <= 2 && is_tree ? 2.0F : 1.0F);
    float most = is_tree ? (float)ceiling(cell, nvls_tree) : FLT_MAX;
    return MIN(MIN(intra, inter), most);
}

/* What the wires of all channels carry, GB/s. */
static float bus_bandwidth(const Cell *cell)
{
    const SimNcclGraph *graph = cell->graph;
    double channels = graph->channels;
    float channel = cell->shape->nodes <= 2 ? graph->intra : graph->inter;
    if (cell->algorithm == SIM_COMM_NVLS || cell->algorithm == SIM_COMM_NVLS_TREE)
        channel = nvls_channel_bandwidth(cell);
    float bus = (float)graph->channels * channel;
    if (cell->algorithm == SIM_COMM_RING && cell->protocol == SIM_COMM_LL)
        bus = (float)MIN(ll_ceiling(cell), (double)bus * .5);
    if (cell->algorithm == SIM_COMM_RING && cell->protocol == SIM_COMM_LL128)
        bus = (float)MIN((double)bus * 0.92, channels * ceiling(cell, ring_ll128));
    if (cell->algorithm == SIM_COMM_TREE) {
        bus = (float)MIN((double)bus * .92, channels * ceiling(cell, tree_simple));
        if (cell->protocol == SIM_COMM_LL)
            bus = (float)MIN((double)bus * 1.0 / 3.8, ll_ceiling(cell));
        if (cell->protocol == SIM_COMM_LL128)
            bus = (float)MIN((double)bus * (cell->shape->nodes == 1 ? 7.0 / 9.0 : 120.0 / 128.0),
                             channels * ceiling(cell, tree_ll128));
        if (cell->graphs->has_plain_trees)
            bus = (float)((double)bus * .85);
    }
    if (cell->algorithm == SIM_COMM_PAT)
        bus = (float)((double)bus * .75);
    return bus;
}

static float compute_bandwidth(const Cell *cell)
{
    float bus = bus_bandwidth(cell);
    if (cell->algorithm != SIM_COMM_RING && is_gather_or_scatter(cell))
        return bus;
    bool is_half = cell->algorithm == SIM_COMM_TREE || cell->algorithm == SIM_COMM_PAT;
    float ratio = is_half ? .5F : (float)(1.0 * cell->shape->ranks / cell->steps);
    return bus * ratio;
}

/* src/graph/tuning.cc, getNetOverhead: the proxy's cost of a message. */
static float proxy_overhead(const Cell *cell)
{
    if (cell->shape->nodes == 1)
        return 0;
    float overhead = cell->cluster->comm->tuner.host == SIM_COMM_AMD ? 2.0F : 1.0F;
    return cell->protocol == SIM_COMM_SIMPLE ? overhead * 3 : overhead;
}

static float ring_latency(const Cell *cell, float intra, float inter)
{
    int nodes = (int)cell->shape->nodes;
    float latency = (float)base_latency[SIM_COMM_RING][cell->protocol];
    if (cell->operation == SIM_COMM_BROADCAST) {
        /* Channels take the GPUs in one order, so a chunk passes them in a pipeline. */
        const double(*hop)[N_PROTOCOLS] = nodes == 1 ? nvlink_latency : network_latency;
        return latency + (float)hop[SIM_COMM_RING][cell->protocol];
    }
    intra = MAX(intra, proxy_overhead(cell));
    int inter_steps = cell->operation == SIM_COMM_ALL_REDUCE ? 2 * (nodes - 1) : nodes - 1;
    return latency + ((float)(cell->steps - inter_steps) * intra + (float)inter_steps * inter);
}

static int log2_floor(uint64_t value)
{
    int log = -1;
    for (; value; value >>= 1)
        log++;
    return log;
}

static float compute_latency(const Cell *cell)
{
    const SimGroupShape *shape = cell->shape;
    SimCommAlgorithm algorithm = cell->algorithm;
    SimCommProtocol protocol = cell->protocol;
    float nic = (float)((double)cell->cluster->nic_latency / SIM_MICROSECOND);
    float intra = (float)nvlink_latency[algorithm][protocol];
    float inter = (float)(shape->nodes == shape->ranks ? network_latency[SIM_COMM_TREE][protocol]
                                                       : network_latency[algorithm][protocol]);
    inter += nic;
    if (protocol == SIM_COMM_SIMPLE)
        inter += nic;
    float latency = (float)base_latency[algorithm][protocol];
    float levels = (float)log2_floor(shape->nodes);
    float others = (float)(shape->ranks / shape->nodes - 1);
    switch (algorithm) {
    case SIM_COMM_TREE:
        return latency + 2 * (others * intra + levels * inter);
    case SIM_COMM_NVLS:
        return intra;
    case SIM_COMM_NVLS_TREE:
        return latency + (intra + 2 * levels * inter);
    case SIM_COMM_PAT:
        return (float)((double)latency +
                       ((double)levels * ((double)inter / 3.5) + shape->ranks * 2.8));
    default:
        return ring_latency(cell, intra, inter);
    }
}

static const SimNcclGraph *find_graph(const SimNcclGraphs *graphs, SimCommAlgorithm algorithm)
{
    switch (algorithm) {
    case SIM_COMM_TREE:
    case SIM_COMM_PAT:
        return &graphs->tree;
    case SIM_COMM_NVLS:
    case SIM_COMM_NVLS_TREE:
        return &graphs->nvls;
    default:
        return &graphs->ring;
    }
}

/* What depends on the size: trees do not keep to the model in the middle, long rings across nodes
 * take longer to start. */
static void adjust(const Cell *cell, uint64_t bytes, SimNcclCost *cost)
{
    if (cell->operation != SIM_COMM_ALL_REDUCE)
        return;
    const SimCommTuner *tuner = &cell->cluster->comm->tuner;
    int log = log2_floor(bytes >> 6);
    bool is_bent_tree = cell->algorithm == SIM_COMM_TREE && log < N_TREE_FACTORS - 1;
    bool is_bent_nvls_tree = cell->algorithm == SIM_COMM_NVLS_TREE && log < N_TREE_FACTORS &&
                             tuner->architecture == SIM_COMM_BLACKWELL &&
                             tuner->host != SIM_COMM_ARM;
    if (log >= 0 && (is_bent_tree || is_bent_nvls_tree))
        cost->bandwidth *= tree_factors[cell->protocol][log];
    uint64_t blocks = (uint64_t)cell->graphs->channels * cell->shape->ranks;
    if (cell->algorithm == SIM_COMM_RING && cell->protocol == SIM_COMM_SIMPLE &&
        cell->shape->nodes > 1 && bytes / blocks >= 64)
        cost->latency = (float)((double)cost->latency * 1.4);
}

SimNcclCost sim_nccl_cost_compute(const SimCluster *cluster, const SimGroupShape *shape,
                                  const SimNcclGraphs *graphs, SimCommOperation operation,
                                  SimCommAlgorithm algorithm, SimCommProtocol protocol,
                                  uint64_t bytes)
{
    int ranks = (int)shape->ranks;
    int steps = operation == SIM_COMM_ALL_REDUCE  ? 2 * (ranks - 1)
                : operation == SIM_COMM_BROADCAST ? ranks
                                                  : ranks - 1;
    const Cell cell = {
        .cluster = cluster,
        .shape = shape,
        .graphs = graphs,
        .operation = operation,
        .algorithm = algorithm,
        .protocol = protocol,
        .graph = find_graph(graphs, algorithm),
        .steps = steps,
        .column = (int)MIN(shape->nodes, 3) - 1,
        .ranks_a_node = (float)ranks / (float)shape->nodes,
    };
    if (!exists(&cell))
        return (SimNcclCost){0};
    SimNcclCost cost = {compute_latency(&cell), compute_bandwidth(&cell)};
    adjust(&cell, bytes, &cost);
    return cost;
}

float sim_nccl_cost_time(SimNcclCost cost, uint64_t bytes)
{
    if (cost.bandwidth <= 0)
        return -1;
    return cost.latency + (float)bytes / (1000 * cost.bandwidth);
}
