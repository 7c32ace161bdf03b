/* SPDX-License-Identifier: Apache-2.0 */
#include "rank/host_cost.h"

#define COLLECTIVE (71 * SIM_MICROSECOND)
#define RECORD (2400 * SIM_NANOSECOND)
#define WAIT (1 * SIM_MICROSECOND)

SimTime sim_host_cost_compute(const SimGpu *gpu, const SimInstruction *instruction)
{
    switch ((SimPlanOp)instruction->op) {
    case SIM_PLAN_KERNEL:
    case SIM_PLAN_COPY:
        return gpu->launch_time;
    case SIM_PLAN_COLLECTIVE:
        return COLLECTIVE;
    case SIM_PLAN_RECORD:
        return RECORD;
    case SIM_PLAN_WAIT:
        return WAIT;
    case SIM_PLAN_HOST:
        return MAX(instruction->duration, 0);
    default:
        return 0;
    }
}
