/* SPDX-License-Identifier: Apache-2.0 */
#include "fabric/collective.h"

#include <math.h>
#include <stdlib.h>

#define PICOSECONDS 1e6     /* a microsecond */
#define RAMP_BYTES 1000.0   /* ramps are fitted to the square root of kilobytes */
#define LL_LONG_STEP 2048.0 /* from here on an LL step takes `extra` more */

/* NCCL gives up a channel for each that would have less (src/enqueue.cc): threads x bytes a thread
 * (src/include/comm.h); for LL the latter grows with the ranks. */
#define SIMPLE_BYTES_A_CHANNEL (UINT64_C(512) * 64)
#define LL_BYTES_A_CHANNEL_AND_RANK (UINT64_C(512) * 8)

/* NCCL's tuner adds this to the latency of a ring all-reduce across nodes once a thread block has
 * 64 bytes for each rank (src/graph/tuning.cc, sm80 and later). */
#define NETWORK_ALL_REDUCE_FACTOR 1.4
#define NETWORK_ALL_REDUCE_BYTES 64

void sim_collective_nics(const SimCluster *cluster, uint32_t rank, uint32_t *first, uint32_t *end)
{
    uint64_t local = rank % cluster->gpus_per_node;
    uint64_t nics = cluster->nics_per_node;
    *first = (uint32_t)(local * nics / cluster->gpus_per_node);
    uint32_t next = (uint32_t)((local + 1) * nics / cluster->gpus_per_node);
    *end = MAX(*first + 1, next);
}

static int compare_ranks(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

/* How many NICs are next to the COUNT GPUs, all in one node and ascending. */
static uint32_t count_nics(const SimCluster *cluster, const uint32_t *ranks, uint32_t count)
{
    uint32_t nics = 0, next = 0;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t first, end;
        sim_collective_nics(cluster, ranks[i], &first, &end);
        first = MAX(first, next);
        nics += end > first ? end - first : 0;
        next = end;
    }
    return nics;
}

SimGroupShape sim_collective_shape(const SimCluster *cluster, const uint32_t *ranks, uint32_t count)
{
    g_assert(count >= 1);
    g_autofree uint32_t *sorted = g_memdup2(ranks, count * sizeof(*sorted));
    qsort(sorted, count, sizeof(*sorted), compare_ranks);
    g_assert(sorted[count - 1] < cluster->gpus);
    SimGroupShape shape = {.ranks = count, .min_ranks_in_node = count, .nics = UINT32_MAX};
    uint32_t size = cluster->gpus_per_node;
    for (uint32_t begin = 0, end; begin < count; begin = end) {
        for (end = begin; end < count && sorted[end] / size == sorted[begin] / size; end++)
            ;
        shape.nodes++;
        shape.max_ranks_in_node = MAX(shape.max_ranks_in_node, end - begin);
        shape.min_ranks_in_node = MIN(shape.min_ranks_in_node, end - begin);
        shape.nics = MIN(shape.nics, count_nics(cluster, sorted + begin, end - begin));
    }
    return shape;
}

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

static uint32_t count_channels(SimCommProtocol protocol, const SimCollectiveRequest *request,
                               uint32_t most)
{
    uint64_t bytes_a_channel = protocol == SIM_COMM_LL
                                   ? LL_BYTES_A_CHANNEL_AND_RANK * request->shape.ranks
                                   : SIMPLE_BYTES_A_CHANNEL;
    uint64_t channels = request->bytes / bytes_a_channel;
    return (uint32_t)MIN(MAX(channels, 1), most);
}

static SimCollectiveCost make_cost(SimCommProtocol protocol, SimVolume volume, double latency_us,
                                   double rate)
{
    return (SimCollectiveCost){
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
    double steps = row->protocol == SIM_COMM_NVLS ? 1 : count_steps(request->operation, ranks);
    double bytes = (double)request->bytes;
    double shard = row->protocol == SIM_COMM_NVLS ? bytes : bytes / ranks;
    double latency =
        row->base_us + steps * row->hop_us + row->ramp_us * sqrt(steps * shard / RAMP_BYTES);
    if (row->protocol == SIM_COMM_LL && shard >= LL_LONG_STEP)
        latency += steps * row->extra_us;
    if (!request->in_place && row->copy_rate > 0)
        latency += shard / row->copy_rate * PICOSECONDS;
    double rate = row->rate;
    if (cluster->pair_bytes_per_s > 0)
        rate = MIN(rate, cluster->pair_bytes_per_s * (ranks - 1));
    SimVolume volume = row->protocol == SIM_COMM_NVLS ? (SimVolume){.bytes = request->bytes}
                                                      : ring_volume(request);
    SimCollectiveCost cost = make_cost(row->protocol, volume, latency, rate);
    uint32_t most = row->channels ? row->channels : cluster->comm->node_channels;
    cost.channels = count_channels(row->protocol, request, most);
    return cost;
}

/* NCCL's latency of a ring across nodes: one step in N/n goes over the network. */
static double network_latency(const SimCollectiveRequest *request, const SimCommNetwork *network,
                              uint32_t channels)
{
    const SimGroupShape *shape = &request->shape;
    uint32_t steps = count_steps(request->operation, shape->ranks);
    uint32_t inter = count_steps(request->operation, shape->nodes);
    double latency =
        network->base_us + (steps - inter) * network->hop_us + inter * network->inter_hop_us;
    bool is_long = request->bytes / MAX(channels, 1) / shape->ranks >= NETWORK_ALL_REDUCE_BYTES;
    if (request->operation == SIM_COMM_ALL_REDUCE && network->protocol == SIM_COMM_SIMPLE &&
        is_long)
        latency *= NETWORK_ALL_REDUCE_FACTOR;
    return latency;
}

static SimCollectiveCost network_cost(const SimCluster *cluster,
                                      const SimCollectiveRequest *request,
                                      const SimCommNetwork *network)
{
    const SimGroupShape *shape = &request->shape;
    const SimCommRow *row = sim_comm_find_row(cluster->comm, request->operation, SIM_COMM_SIMPLE,
                                              MAX(shape->max_ranks_in_node, 2));
    double rate = shape->nics * cluster->nic_bytes_per_s * cluster->nic_fraction;
    /* Of g ports in a node a ring that leaves it uses g - 1, so it goes that much faster. */
    uint32_t g = shape->max_ranks_in_node;
    if (g > 1)
        rate = MIN(rate, row->rate * g / (g - 1));
    if (network->rate > 0)
        rate = MIN(rate, network->rate);
    uint32_t channels = count_channels(network->protocol, request, cluster->comm->network_channels);
    double latency = network_latency(request, network, channels);
    if (!request->in_place && row->copy_rate > 0)
        latency += (double)request->bytes / shape->ranks / row->copy_rate * PICOSECONDS;
    SimCollectiveCost cost = make_cost(network->protocol, ring_volume(request), latency, rate);
    cost.channels = channels;
    return cost;
}

/* One rank: a copy on the device, or nothing. */
static SimCollectiveCost copy_cost(const SimCluster *cluster, const SimCollectiveRequest *request)
{
    SimCollectiveCost cost = {.protocol = SIM_COMM_SIMPLE, .rate = 1};
    if (!request->in_place) {
        const SimGpu *gpu = cluster->gpu;
        double seconds = 2 * (double)request->bytes / (gpu->hbm_bytes_per_s * gpu->memory_fraction);
        cost.latency = gpu->kernel_time + to_time(seconds * PICOSECONDS);
    }
    return cost;
}

SimCollectiveCost sim_collective_compute(const SimCluster *cluster,
                                         const SimCollectiveRequest *request)
{
    static const SimCommProtocol protocols[] = {SIM_COMM_SIMPLE, SIM_COMM_LL, SIM_COMM_NVLS};
    const SimGroupShape *shape = &request->shape;
    if (shape->ranks == 1)
        return copy_cost(cluster, request);
    bool is_on_network = shape->nodes > 1 && cluster->comm->network->len > 0;
    SimCollectiveCost best = {0};
    SimTime least = INT64_MAX;
    for (size_t i = 0; i < G_N_ELEMENTS(protocols); i++) {
        const SimCommRow *row =
            sim_comm_find_row(cluster->comm, request->operation, protocols[i], shape->ranks);
        const SimCommNetwork *network = sim_comm_find_network(cluster->comm, protocols[i]);
        if (is_on_network ? !network : !row)
            continue;
        SimCollectiveCost cost = is_on_network ? network_cost(cluster, request, network)
                                               : node_cost(cluster, request, row);
        SimTime time = sim_collective_alone(&cost);
        if (time < least) {
            least = time;
            best = cost;
        }
    }
    g_assert(least < INT64_MAX);
    return best;
}

SimTime sim_collective_alone(const SimCollectiveCost *cost)
{
    return cost->latency + sim_volume_time(cost->volume, cost->rate);
}
