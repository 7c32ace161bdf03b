/* SPDX-License-Identifier: Apache-2.0 */
#include "fabric/host_algorithm.h"

#include <math.h>

#define PICOSECONDS 1e6 /* a microsecond */

/* Up to so many ranks, up to so many bytes: both bounds lie outside. */
typedef struct Decision {
    uint32_t ranks;
    uint64_t bytes;
    SimCommAlgorithm algorithm;
} Decision;

#define ANY_BYTES UINT64_MAX
#define ANY_RANKS UINT32_MAX
#define LINEAR SIM_COMM_LINEAR
#define BRUCK SIM_COMM_BRUCK
#define DOUBLING SIM_COMM_RECURSIVE_DOUBLING
#define HALVING SIM_COMM_RECURSIVE_HALVING
#define NEIGHBOR SIM_COMM_NEIGHBOR_EXCHANGE
#define BUTTERFLY SIM_COMM_BUTTERFLY
#define RABENSEIFNER SIM_COMM_RABENSEIFNER
#define RING SIM_COMM_RING

/* By the bytes of one rank. Two ranks exchange their parts, which is a ring of one step. */
static const Decision openmpi_all_gather[] = {
    {3, ANY_BYTES, RING},
    {32, ANY_BYTES, DOUBLING},
    {64, 1024, DOUBLING},
    {64, 65536, NEIGHBOR},
    {64, ANY_BYTES, RING},
    {128, 512, DOUBLING},
    {128, 65536, NEIGHBOR},
    {128, ANY_BYTES, RING},
    {256, 512, DOUBLING},
    {256, 131072, NEIGHBOR},
    {256, 524288, RING},
    {256, 1048576, NEIGHBOR},
    {256, ANY_BYTES, RING},
    {512, 32, DOUBLING},
    {512, 128, BRUCK},
    {512, 1024, DOUBLING},
    {512, 131072, NEIGHBOR},
    {512, 524288, RING},
    {512, 1048576, NEIGHBOR},
    {512, ANY_BYTES, RING},
    {1024, 64, DOUBLING},
    {1024, 256, BRUCK},
    {1024, 2048, DOUBLING},
    {1024, ANY_BYTES, NEIGHBOR},
    {2048, 4, DOUBLING},
    {2048, 8, BRUCK},
    {2048, 16, DOUBLING},
    {2048, 32, BRUCK},
    {2048, 256, DOUBLING},
    {2048, 512, BRUCK},
    {2048, 4096, DOUBLING},
    {2048, ANY_BYTES, NEIGHBOR},
    {4096, 32, BRUCK},
    {4096, 128, DOUBLING},
    {4096, 512, BRUCK},
    {4096, 4096, DOUBLING},
    {4096, ANY_BYTES, NEIGHBOR},
    {ANY_RANKS, 2, DOUBLING},
    {ANY_RANKS, 8, BRUCK},
    {ANY_RANKS, 16, DOUBLING},
    {ANY_RANKS, 512, BRUCK},
    {ANY_RANKS, 4096, DOUBLING},
    {ANY_RANKS, ANY_BYTES, NEIGHBOR},
};

static const Decision openmpi_reduce_scatter[] = {
    {4, 65536, RING},
    {4, 131072, BUTTERFLY},
    {4, ANY_BYTES, RING},
    {8, 8, LINEAR},
    {8, 262144, HALVING},
    {8, ANY_BYTES, RING},
    {32, 262144, HALVING},
    {32, ANY_BYTES, RING},
    {64, 64, LINEAR},
    {64, 2048, HALVING},
    {64, 524288, BUTTERFLY},
    {64, ANY_BYTES, RING},
    {128, 256, LINEAR},
    {128, 512, HALVING},
    {128, 2048, BUTTERFLY},
    {128, 4096, HALVING},
    {128, ANY_BYTES, BUTTERFLY},
    {256, 256, LINEAR},
    {256, 512, HALVING},
    {256, ANY_BYTES, BUTTERFLY},
    {512, 256, LINEAR},
    {512, 1024, HALVING},
    {512, ANY_BYTES, BUTTERFLY},
    {1024, 512, LINEAR},
    {1024, 2048, HALVING},
    {1024, 8192, BUTTERFLY},
    {1024, 16384, HALVING},
    {1024, ANY_BYTES, BUTTERFLY},
    {2048, 512, LINEAR},
    {2048, 4096, HALVING},
    {2048, 16384, BUTTERFLY},
    {2048, 32768, HALVING},
    {2048, ANY_BYTES, BUTTERFLY},
    {4096, 512, LINEAR},
    {4096, 4096, HALVING},
    {4096, ANY_BYTES, BUTTERFLY},
    {ANY_RANKS, 1024, LINEAR},
    {ANY_RANKS, 8192, HALVING},
    {ANY_RANKS, ANY_BYTES, BUTTERFLY},
};

static const Decision openmpi_all_reduce[] = {
    {4, 8, RING},
    {4, 4096, DOUBLING},
    {4, 8192, RING},
    {4, 16384, DOUBLING},
    {4, 262144, RING},
    {4, ANY_BYTES, RABENSEIFNER},
    {8, 16, RING},
    {8, 8192, DOUBLING},
    {8, ANY_BYTES, RABENSEIFNER},
    {16, 8192, DOUBLING},
    {16, ANY_BYTES, RABENSEIFNER},
    {32, 64, RING},
    {32, 4096, DOUBLING},
    {32, ANY_BYTES, RABENSEIFNER},
    {64, 128, RING},
    {64, ANY_BYTES, RABENSEIFNER},
    {128, 262144, DOUBLING},
    {128, ANY_BYTES, RABENSEIFNER},
    {256, 131072, LINEAR},
    {256, 262144, DOUBLING},
    {256, ANY_BYTES, RABENSEIFNER},
    {512, 4096, LINEAR},
    {512, ANY_BYTES, RABENSEIFNER},
    {2048, 2048, LINEAR},
    {2048, 16384, DOUBLING},
    {2048, ANY_BYTES, RABENSEIFNER},
    {4096, 2048, LINEAR},
    {4096, 4096, RING},
    {4096, 16384, DOUBLING},
    {4096, ANY_BYTES, RABENSEIFNER},
    {ANY_RANKS, 2048, LINEAR},
    {ANY_RANKS, 16384, RING},
    {ANY_RANKS, 32768, DOUBLING},
    {ANY_RANKS, ANY_BYTES, RABENSEIFNER},
};

static SimCommAlgorithm decide(const Decision *decisions, size_t count, uint32_t ranks,
                               uint64_t bytes)
{
    for (size_t i = 0; i + 1 < count; i++) {
        if (ranks < decisions[i].ranks && bytes < decisions[i].bytes)
            return decisions[i].algorithm;
    }
    return decisions[count - 1].algorithm;
}

static bool is_power_of_two(uint32_t ranks)
{
    return (ranks & (ranks - 1)) == 0;
}

SimCommAlgorithm sim_host_algorithm_find_openmpi(SimCommOperation operation, uint32_t ranks,
                                                 uint64_t bytes)
{
    SimCommAlgorithm algorithm = SIM_COMM_BINOMIAL;
    switch (operation) {
    case SIM_COMM_ALL_GATHER:
        algorithm =
            decide(openmpi_all_gather, G_N_ELEMENTS(openmpi_all_gather), ranks, bytes / ranks);
        /* coll_base_allgather.c: what needs a power of two, or an even number, hands over. */
        if (algorithm == DOUBLING && !is_power_of_two(ranks))
            return BRUCK;
        return algorithm == NEIGHBOR && ranks % 2 ? RING : algorithm;
    case SIM_COMM_REDUCE_SCATTER:
        return decide(openmpi_reduce_scatter, G_N_ELEMENTS(openmpi_reduce_scatter), ranks, bytes);
    case SIM_COMM_ALL_REDUCE:
        return decide(openmpi_all_reduce, G_N_ELEMENTS(openmpi_all_reduce), ranks, bytes);
    case SIM_COMM_BROADCAST:
        break;
    }
    return algorithm;
}

static SimCommAlgorithm find_gloo(SimCommOperation operation)
{
    return operation == SIM_COMM_BROADCAST ? SIM_COMM_BINOMIAL : RING;
}

static uint32_t log2_up(uint32_t ranks)
{
    uint32_t log = 0;
    while (UINT64_C(1) << log < ranks)
        log++;
    return log;
}

/* Messages that follow one another on the longest path, and what a rank sends in all, in parts of
 * the buffer: PARTS / ranks of it. */
typedef struct Course {
    uint32_t messages;
    uint32_t parts;
} Course;

static Course find_course(SimCommOperation operation, SimCommAlgorithm algorithm, uint32_t ranks)
{
    uint32_t others = ranks - 1;
    uint32_t levels = log2_up(ranks);
    /* Ranks beyond a power of two first join a neighbour and get the result from it. */
    uint32_t extra = is_power_of_two(ranks) ? 0 : 1;
    switch (algorithm) {
    case SIM_COMM_RECURSIVE_DOUBLING:
        return operation == SIM_COMM_ALL_GATHER
                   ? (Course){levels, others}
                   : (Course){levels + extra, (levels + extra) * ranks};
    case SIM_COMM_BRUCK:
        return (Course){levels, others};
    case SIM_COMM_NEIGHBOR_EXCHANGE:
        return (Course){ranks / 2, others};
    case SIM_COMM_RECURSIVE_HALVING:
        return (Course){levels + extra, others + extra * ranks};
    case SIM_COMM_BUTTERFLY:
        return (Course){levels + extra, others};
    case SIM_COMM_RABENSEIFNER:
        return (Course){2 * levels, 2 * others + extra * ranks};
    case SIM_COMM_BINOMIAL:
        return (Course){levels, levels * ranks};
    case SIM_COMM_LINEAR: /* reduce, then scatter or broadcast */
        return operation == SIM_COMM_ALL_REDUCE
                   ? (Course){2 * levels, 2 * levels * ranks}
                   : (Course){levels + others, levels * ranks + others};
    default:
        return (Course){operation == SIM_COMM_ALL_REDUCE ? 2 * others : others,
                        operation == SIM_COMM_ALL_REDUCE ? 2 * others : others};
    }
}

/* Of a ring's messages one a node leaves it; the logarithmic algorithms' far half does. */
static uint32_t count_far(SimCommAlgorithm algorithm, uint32_t messages, const SimGroupShape *shape)
{
    if (shape->nodes == 1)
        return 0;
    bool is_ring = algorithm == SIM_COMM_RING || algorithm == SIM_COMM_NEIGHBOR_EXCHANGE;
    uint32_t far = is_ring ? messages * (shape->nodes - 1) / (shape->ranks - 1)
                           : messages * log2_up(shape->nodes) / log2_up(shape->ranks);
    return CLAMP(far, 1, messages);
}

SimCollectiveCost sim_host_algorithm_compute(const SimCluster *cluster,
                                             const SimCollectiveRequest *request)
{
    const SimGroupShape *shape = &request->shape;
    SimCommOperation operation = request->operation;
    SimCommAlgorithm algorithm =
        cluster->library == SIM_COMM_GLOO
            ? find_gloo(operation)
            : sim_host_algorithm_find_openmpi(operation, shape->ranks, request->bytes);
    if (cluster->library == SIM_COMM_GLOO && operation == SIM_COMM_REDUCE_SCATTER)
        operation = SIM_COMM_ALL_REDUCE;
    const SimCommRow *row = sim_comm_find_row(cluster->comm, request->operation, SIM_COMM_RING,
                                              SIM_COMM_SIMPLE, MAX(shape->max_ranks_in_node, 2));
    const SimCommNetwork *network = sim_comm_find_network(cluster->comm, SIM_COMM_SIMPLE);
    Course course = find_course(operation, algorithm, shape->ranks);
    uint32_t far = count_far(algorithm, course.messages, shape);
    double far_us = (network ? network->inter_hop_us : row->hop_us) +
                    (double)cluster->nic_latency / PICOSECONDS;
    double latency = row->base_us + (course.messages - far) * row->hop_us + far * far_us;
    double rate = row->rate;
    if (shape->nodes > 1)
        rate = MIN(rate, shape->nics * cluster->nic_bytes_per_s * cluster->nic_fraction);
    SimVolume volume = sim_volume_divide(course.parts, request->bytes, shape->ranks);
    return (SimCollectiveCost){
        .algorithm = algorithm,
        .protocol = SIM_COMM_SIMPLE,
        .latency = (SimTime)floor(latency * PICOSECONDS + 0.5),
        .volume = volume,
        .rate = (uint64_t)MAX(rate, 1),
        .wire_bytes = volume.bytes + (volume.picobytes > 0),
    };
}
