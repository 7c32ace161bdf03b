/* SPDX-License-Identifier: Apache-2.0 */
#include "rank/collective_load.h"

#define GIGA 1e9
#define PICOSECONDS_A_SECOND 1e12

static double traffic_of(const SimCollectiveRequest *request, const SimCollectiveCost *cost)
{
    double buffers = 3;
    if (request->operation == SIM_COMM_ALL_REDUCE) {
        buffers = cost->algorithm == SIM_COMM_NVLS ? 2 : 6;
    } else if (request->operation == SIM_COMM_BROADCAST) {
        buffers = 2;
    }
    if (cost->protocol == SIM_COMM_LL) {
        buffers *= 2;
    } else if (cost->protocol == SIM_COMM_LL128) {
        buffers = buffers * 16 / 15;
    }
    return buffers * (double)request->bytes;
}

SimLoad sim_collective_load_compute(const SimCollectiveRequest *request,
                                    const SimCollectiveCost *cost)
{
    SimTime alone = sim_collective_alone(cost);
    SimLoad load = {.sms = cost->channels};
    if (alone > 0 && cost->channels > 0) {
        double seconds = (double)alone / PICOSECONDS_A_SECOND;
        load.hbm_gbps = (uint32_t)(traffic_of(request, cost) / seconds / GIGA);
    }
    return load;
}
