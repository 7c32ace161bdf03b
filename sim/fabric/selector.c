/* SPDX-License-Identifier: Apache-2.0 */
#include "fabric/selector.h"

#include <float.h>

#include "fabric/nccl_cost.h"

/* Bytes of traffic below which no further channel is launched (src/enqueue.cc,
 * MinTrafficPerChannel). */
#define MIN_TRAFFIC UINT64_C(32768)
#define ELEMENT 2 /* bytes: bf16. Of bf16 and f32 only the rounding to whole elements differs */

/* Threads of a channel and bytes that each must have (src/include/device.h, comm.h). A ring over no
 * more than PCIe has half the threads, which machines with NVLink do not have. */
static uint32_t count_threads(SimCommAlgorithm algorithm, SimCommProtocol protocol)
{
    if (algorithm == SIM_COMM_PAT)
        return 0;
    return protocol == SIM_COMM_LL128 ? 640 : 512;
}

static uint64_t bytes_a_thread(SimCommAlgorithm algorithm, SimCommProtocol protocol, uint32_t ranks)
{
    if (protocol == SIM_COMM_SIMPLE)
        return 64;
    return protocol == SIM_COMM_LL && algorithm == SIM_COMM_RING ? UINT64_C(8) * ranks : 8;
}

static uint32_t count_max_channels(const SimNcclGraphs *graphs, SimCommAlgorithm algorithm,
                                   SimCommProtocol protocol, uint32_t ranks, uint64_t bytes)
{
    if (algorithm == SIM_COMM_NVLS || algorithm == SIM_COMM_NVLS_TREE)
        return graphs->nvls_channels;
    uint64_t work = count_threads(algorithm, protocol) * bytes_a_thread(algorithm, protocol, ranks);
    if (work == 0)
        return graphs->channels;
    return (uint32_t)CLAMP(bytes / work, 1, graphs->channels);
}

static uint64_t divide_up(uint64_t a, uint64_t b)
{
    return (a + b - 1) / b;
}

/* One collective in a launch: its cells are dealt out to channels, each at least MIN_TRAFFIC. */
static uint32_t count_channels(SimCommOperation operation, const SimSelection *selection,
                               uint32_t ranks, uint64_t bytes, uint32_t most)
{
    bool is_shared = operation == SIM_COMM_ALL_GATHER || operation == SIM_COMM_REDUCE_SCATTER;
    uint64_t traffic_a_byte = is_shared ? ranks : operation == SIM_COMM_ALL_REDUCE ? 2 : 1;
    uint64_t count = is_shared ? bytes / ranks : bytes; /* of one rank's piece */
    uint64_t traffic = MAX(MIN_TRAFFIC, count * traffic_a_byte);
    uint64_t a_channel = divide_up(traffic / selection->max_channels, 16) * 16;
    if (selection->protocol == SIM_COMM_LL)
        traffic_a_byte *= 4;
    uint64_t cell = divide_up(divide_up(MIN_TRAFFIC, traffic_a_byte), 16) * 16;
    uint64_t cells = divide_up(MAX(count, ELEMENT), cell);
    uint64_t cells_a_channel = MIN(cells, divide_up(a_channel, cell * traffic_a_byte));
    return (uint32_t)MIN(divide_up(cells, cells_a_channel), most);
}

SimSelection sim_selector_compute(const SimCluster *cluster, const SimGroupShape *shape,
                                  const SimNcclGraphs *graphs, SimCommOperation operation,
                                  uint64_t bytes)
{
    SimSelection best = {.algorithm = SIM_COMM_RING, .protocol = SIM_COMM_SIMPLE};
    float least = FLT_MAX;
    for (unsigned a = SIM_COMM_TREE; a <= SIM_COMM_PAT; a++) {
        for (unsigned p = SIM_COMM_LL; p <= SIM_COMM_SIMPLE; p++) {
            SimNcclCost cost = sim_nccl_cost_compute(
                cluster, shape, graphs, operation, (SimCommAlgorithm)a, (SimCommProtocol)p, bytes);
            float time = sim_nccl_cost_time(cost, bytes);
            if (time < 0 || time >= least)
                continue;
            least = time;
            best.algorithm = (SimCommAlgorithm)a;
            best.protocol = (SimCommProtocol)p;
        }
    }
    best.max_channels =
        count_max_channels(graphs, best.algorithm, best.protocol, shape->ranks, bytes);
    bool is_nvls = best.algorithm == SIM_COMM_NVLS || best.algorithm == SIM_COMM_NVLS_TREE;
    best.channels = count_channels(operation, &best, shape->ranks, bytes,
                                   is_nvls ? graphs->nvls_channels : graphs->channels);
    return best;
}
