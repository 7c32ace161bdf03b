/* SPDX-License-Identifier: Apache-2.0 */
#include "rank/duration_cache.h"

#include "hardware/kernel_cost.h"
#include "rank/kernel_work.h"

static SimTime compute_duration(const SimPlan *plan, const SimGpu *gpu,
                                const SimInstruction *instruction)
{
    if (instruction->op == SIM_PLAN_COPY) {
        return gpu->kernel_time +
               sim_units_transfer_time(instruction->bytes, gpu->pcie_bytes_per_s);
    }
    SimKernelWork work = sim_kernel_work_compute(plan, instruction);
    return sim_kernel_cost_compute(gpu, &work);
}

SimTime sim_duration_cache_find(SimDurationCache *cache, const SimPlan *plan, const SimGpu *gpu,
                                const SimInstruction *instruction)
{
    if (instruction->duration >= 0) {
        return instruction->duration;
    }
    uint64_t bytes = instruction->op == SIM_PLAN_COPY ? instruction->bytes : instruction->hbm_bytes;
    uint64_t hash = instruction->operator_name;
    hash = hash * 0x9E3779B97F4A7C15U + instruction->arguments;
    hash = hash * 0x9E3779B97F4A7C15U + instruction->flops;
    hash = hash * 0x9E3779B97F4A7C15U + bytes;
    hash = hash * 0x9E3779B97F4A7C15U + instruction->dtype;
    SimDurationSlot *slot = &cache->slots[(hash >> 32) % SIM_DURATION_CACHE_SLOTS];
    if (!slot->is_used || slot->op != instruction->op || slot->dtype != instruction->dtype ||
        slot->operator_name != instruction->operator_name ||
        slot->arguments != instruction->arguments || slot->flops != instruction->flops ||
        slot->bytes != bytes) {
        *slot = (SimDurationSlot){true,
                                  instruction->op,
                                  instruction->dtype,
                                  instruction->operator_name,
                                  instruction->arguments,
                                  instruction->flops,
                                  bytes,
                                  compute_duration(plan, gpu, instruction)};
    }
    return slot->duration;
}
