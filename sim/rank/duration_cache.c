/* SPDX-License-Identifier: Apache-2.0 */
#include "rank/duration_cache.h"

#include "hardware/kernel_cost.h"
#include "rank/kernel_work.h"

static SimTime compute_duration(const SimPlan *plan, const SimGpu *gpu, SimRunTable *runs,
                                const SimInstruction *instruction, uint32_t *class_)
{
    *class_ = SIM_KERNEL_CLASS_FIXED;
    if (instruction->op == SIM_PLAN_COPY) {
        return gpu->kernel_time +
               sim_units_transfer_time(instruction->bytes, gpu->pcie_bytes_per_s);
    }
    SimKernelWork work = sim_kernel_work_compute(plan, instruction);
    SimKernelCost cost = sim_kernel_cost_describe(gpu, &work);
    *class_ = sim_run_table_add_class(runs, &cost);
    return cost.duration;
}

SimTime sim_duration_cache_find(SimDurationCache *cache, const SimPlan *plan, const SimGpu *gpu,
                                SimRunTable *runs, const SimInstruction *instruction,
                                uint32_t *class_)
{
    if (instruction->duration >= 0) {
        *class_ = SIM_KERNEL_CLASS_FIXED;
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
        *slot = (SimDurationSlot){.is_used = true,
                                  .op = instruction->op,
                                  .dtype = instruction->dtype,
                                  .operator_name = instruction->operator_name,
                                  .arguments = instruction->arguments,
                                  .flops = instruction->flops,
                                  .bytes = bytes};
        slot->duration = compute_duration(plan, gpu, runs, instruction, &slot->class_);
    }
    *class_ = slot->class_;
    return slot->duration;
}
