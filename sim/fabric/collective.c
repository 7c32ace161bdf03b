/* SPDX-License-Identifier: Apache-2.0 */
#include "fabric/collective.h"

#include <math.h>

#include "fabric/host_algorithm.h"
#include "fabric/nccl_cost.h"
#include "fabric/selector.h"

#define PICOSECONDS 1e6     /* a microsecond */
#define RAMP_BYTES 1000.0   /* ramps are fitted to the square root of kilobytes */
#define LL_LONG_STEP 2048.0 /* from here on an LL step takes `extra` more */
#define GB 1e9
#define UNLIMITED 1e6F /* GB/s */

/* NCCL's tuner adds this to the latency of a ring all-reduce across nodes once a thread block has
 * 64 bytes for each rank (src/graph/tuning.cc, sm80 and later). */
#define NETWORK_ALL_REDUCE_FACTOR 1.4
#define NETWORK_ALL_REDUCE_BYTES 64

static SimTime to_time(double microseconds)
{
    return (SimTime)floor(microseconds * PICOSECONDS + 0.5);
}

/* Rates are whole from here on, so that time is exact. */
static uint64_t to_rate(double bytes_per_s)
{
    return (uint64_t)MAX(bytes_per_s, 1);
}

/* Ring steps: a reduce-scatter and then an all-gather make an all-reduce; a broadcast passes the
 * whole on to N - 1 others, in a pipeline. */
static uint32_t count_steps(SimCommOperation operation, uint32_t ranks)
{
    return operation == SIM_COMM_ALL_REDUCE ? 2 * (ranks - 1) : ranks - 1;
}

/* What each edge of the ring carries. */
static SimVolume ring_volume(const SimCollectiveRequest *request)
{
    uint32_t ranks = request->shape.ranks;
    if (request->operation == SIM_COMM_BROADCAST)
        return (SimVolume){.bytes = request->bytes};
    return sim_volume_divide(count_steps(request->operation, ranks), request->bytes, ranks);
}

/* Each node passes the whole up its tree and down again, n - 1 of n nodes' worth; see
 * fabric/collective.h. */
static SimVolume tree_volume(const SimCollectiveRequest *request)
{
    uint32_t nodes = request->shape.nodes;
    return sim_volume_divide(2 * (nodes - 1), request->bytes, nodes);
}

static SimVolume compute_volume(const SimCollectiveRequest *request, SimCommAlgorithm algorithm)
{
    if (algorithm == SIM_COMM_NVLS)
        return (SimVolume){.bytes = request->bytes};
    if ((algorithm == SIM_COMM_TREE || algorithm == SIM_COMM_NVLS_TREE) && request->shape.nodes > 1)
        return tree_volume(request);
    return ring_volume(request);
}

static SimCollectiveCost make_cost(SimCommAlgorithm algorithm, SimCommProtocol protocol,
                                   SimVolume volume, double latency_us, double rate)
{
    return (SimCollectiveCost){
        .algorithm = algorithm,
        .protocol = protocol,
        .latency = to_time(latency_us),
        .volume = volume,
        .rate = to_rate(rate),
        .wire_bytes = volume.bytes + (volume.picobytes > 0),
    };
}

/* The formula of hardware/comm.h. In the switch (NVLS) the whole buffer goes up and down once. */
static SimCollectiveCost node_cost(const SimCluster *cluster, const SimCollectiveRequest *request,
                                   const SimCommRow *row)
{
    uint32_t ranks = request->shape.ranks;
    bool is_ring = row->algorithm != SIM_COMM_NVLS;
    double steps = is_ring ? count_steps(request->operation, ranks) : 1;
    double bytes = (double)request->bytes;
    double shard = is_ring ? bytes / ranks : bytes;
    double latency =
        row->base_us + steps * row->hop_us + row->ramp_us * sqrt(steps * shard / RAMP_BYTES);
    if (row->protocol == SIM_COMM_LL && shard >= LL_LONG_STEP)
        latency += steps * row->extra_us;
    if (!request->in_place && row->copy_rate > 0)
        latency += shard / row->copy_rate * PICOSECONDS;
    double rate = row->rate;
    if (cluster->pair_bytes_per_s > 0)
        rate = MIN(rate, cluster->pair_bytes_per_s * (ranks - 1));
    return make_cost(row->algorithm, row->protocol, compute_volume(request, row->algorithm),
                     latency, rate);
}

/* What a ring between nodes gets from NICs and ports. Of g ports in a node a ring that leaves it
 * uses g - 1, so it goes that much faster. */
static double network_rate(const SimCluster *cluster, const SimCollectiveRequest *request,
                           const SimCommRow *row)
{
    const SimGroupShape *shape = &request->shape;
    double rate = shape->nics * cluster->nic_bytes_per_s * cluster->nic_fraction;
    uint32_t g = shape->max_ranks_in_node;
    return g > 1 ? MIN(rate, row->rate * g / (g - 1)) : rate;
}

/* Moving a ring's own shard to its place costs what it does inside a node. */
static double copy_us(const SimCollectiveRequest *request, const SimCommRow *row)
{
    if (request->in_place || row->copy_rate <= 0)
        return 0;
    return (double)request->bytes / request->shape.ranks / row->copy_rate * PICOSECONDS;
}

/* A ring across nodes: NCCL's form (src/graph/tuning.cc) with the set's own constants. */
static SimCollectiveCost network_cost(const SimCluster *cluster,
                                      const SimCollectiveRequest *request,
                                      const SimCommNetwork *network, const SimCommRow *row)
{
    const SimGroupShape *shape = &request->shape;
    double rate = network_rate(cluster, request, row);
    if (network->rate > 0)
        rate = MIN(rate, network->rate);
    uint32_t steps = count_steps(request->operation, shape->ranks);
    uint32_t inter = count_steps(request->operation, shape->nodes);
    double hop = network->inter_hop_us + (double)cluster->nic_latency / PICOSECONDS;
    double latency = network->base_us + (steps - inter) * network->hop_us + inter * hop;
    uint32_t channels = MAX(cluster->comm->network_channels, 1);
    if (request->operation == SIM_COMM_ALL_REDUCE && network->protocol == SIM_COMM_SIMPLE &&
        request->bytes / channels / shape->ranks >= NETWORK_ALL_REDUCE_BYTES)
        latency *= NETWORK_ALL_REDUCE_FACTOR;
    return make_cost(SIM_COMM_RING, network->protocol, ring_volume(request),
                     latency + copy_us(request, row), rate);
}

/* NCCL's expectation of a pair; of NVLSTree that of its network part, as inside a node NVLS goes as
 * fast as measured there (on Blackwell faster than NCCL's 0.74 of the links). */
static SimNcclCost expect(const SimCluster *cluster, const SimCollectiveRequest *request,
                          const SimNcclGraphs *graphs, const SimSelection *selection)
{
    const SimCommRow *nvls = sim_comm_find_row(cluster->comm, request->operation, SIM_COMM_NVLS,
                                               SIM_COMM_SIMPLE, request->shape.ranks);
    SimNcclGraphs measured = *graphs;
    bool is_known = selection->algorithm == SIM_COMM_NVLS_TREE && nvls;
    if (is_known)
        measured.nvls.intra = UNLIMITED;
    SimNcclCost cost =
        sim_nccl_cost_compute(cluster, &request->shape, &measured, request->operation,
                              selection->algorithm, selection->protocol, request->bytes);
    if (is_known)
        cost.bandwidth = MIN(cost.bandwidth, (float)(nvls->rate / GB));
    return cost;
}

/* What NCCL itself expects, with the rate that this cluster's NICs reach in place of the speeds of
 * its search. */
static SimCollectiveCost expected_cost(const SimCluster *cluster,
                                       const SimCollectiveRequest *request,
                                       const SimNcclGraphs *graphs, const SimSelection *selection,
                                       const SimCommRow *row)
{
    double bytes = (double)request->bytes;
    SimNcclCost cost = expect(cluster, request, graphs, selection);
    SimVolume volume = compute_volume(request, selection->algorithm);
    double bandwidth = (double)cost.bandwidth * GB;
    double network = INFINITY;
    if (request->shape.nodes > 1)
        network = network_rate(cluster, request, row);
    if (request->shape.nodes > 1 && selection->protocol != SIM_COMM_LL)
        bandwidth *= network / ((double)graphs->ring.channels * (double)graphs->ring.inter * GB);
    double moved = (double)volume.bytes + (double)volume.picobytes / 1e12;
    double rate = MIN(bytes > 0 ? moved / bytes * bandwidth : bandwidth, network);
    double latency = (double)cost.latency;
    if (selection->algorithm == SIM_COMM_RING)
        latency += copy_us(request, row);
    return make_cost(selection->algorithm, selection->protocol, volume, latency, rate);
}

/* The constants of the pair that NCCL takes, or what NCCL expects of it. */
static SimCollectiveCost selected_cost(const SimCluster *cluster,
                                       const SimCollectiveRequest *request)
{
    const SimGroupShape *shape = &request->shape;
    const SimComm *comm = cluster->comm;
    SimNcclGraphs graphs = sim_nccl_graph_compute(cluster, shape);
    SimSelection selection =
        sim_selector_compute(cluster, shape, &graphs, request->operation, request->bytes);
    const SimCommRow *row = sim_comm_find_row(comm, request->operation, selection.algorithm,
                                              selection.protocol, shape->ranks);
    const SimCommRow *simple = sim_comm_find_row(comm, request->operation, SIM_COMM_RING,
                                                 SIM_COMM_SIMPLE, MAX(shape->max_ranks_in_node, 2));
    const SimCommNetwork *network = sim_comm_find_network(comm, selection.protocol);
    SimCollectiveCost cost;
    if (shape->nodes == 1 && row)
        cost = node_cost(cluster, request, row);
    else if (shape->nodes > 1 && network && selection.algorithm == SIM_COMM_RING)
        cost = network_cost(cluster, request, network, simple);
    else
        cost = expected_cost(cluster, request, &graphs, &selection, simple);
    cost.channels = selection.channels;
    return cost;
}

/* One rank: a copy on the device, or nothing. */
static SimCollectiveCost copy_cost(const SimCluster *cluster, const SimCollectiveRequest *request)
{
    SimCollectiveCost cost = {.algorithm = SIM_COMM_RING, .protocol = SIM_COMM_SIMPLE, .rate = 1};
    if (!request->in_place) {
        const SimGpu *gpu = cluster->gpu;
        double seconds = 2 * (double)request->bytes / (gpu->hbm_bytes_per_s * gpu->memory_fraction);
        cost.latency = gpu->kernel_time + to_time(seconds * PICOSECONDS);
    }
    return cost;
}

/* The least by the set's constants of its rings. */
static SimCollectiveCost cheapest_cost(const SimCluster *cluster,
                                       const SimCollectiveRequest *request)
{
    const SimGroupShape *shape = &request->shape;
    const SimComm *comm = cluster->comm;
    bool is_on_network = shape->nodes > 1 && comm->network->len > 0;
    SimCollectiveCost best = {0};
    SimTime least = INT64_MAX;
    for (unsigned p = SIM_COMM_LL; p <= SIM_COMM_SIMPLE; p++) {
        SimCommProtocol protocol = (SimCommProtocol)p;
        const SimCommRow *row =
            sim_comm_find_row(comm, request->operation, SIM_COMM_RING, protocol,
                              is_on_network ? MAX(shape->max_ranks_in_node, 2) : shape->ranks);
        const SimCommRow *simple =
            sim_comm_find_row(comm, request->operation, SIM_COMM_RING, SIM_COMM_SIMPLE,
                              MAX(shape->max_ranks_in_node, 2));
        const SimCommNetwork *network = sim_comm_find_network(comm, protocol);
        if (is_on_network ? !network : !row)
            continue;
        SimCollectiveCost cost = is_on_network ? network_cost(cluster, request, network, simple)
                                               : node_cost(cluster, request, row);
        SimTime time = sim_collective_alone(&cost);
        if (time < least) {
            least = time;
            best = cost;
        }
    }
    g_assert(least < INT64_MAX);
    best.channels = is_on_network ? comm->network_channels : comm->node_channels;
    return best;
}

SimCollectiveCost sim_collective_compute(const SimCluster *cluster,
                                         const SimCollectiveRequest *request)
{
    if (request->shape.ranks == 1)
        return copy_cost(cluster, request);
    if (cluster->library != SIM_COMM_NCCL)
        return sim_host_algorithm_compute(cluster, request);
    return cluster->comm->has_tuner ? selected_cost(cluster, request)
                                    : cheapest_cost(cluster, request);
}

SimTime sim_collective_alone(const SimCollectiveCost *cost)
{
    return cost->latency + sim_volume_time(cost->volume, cost->rate);
}
