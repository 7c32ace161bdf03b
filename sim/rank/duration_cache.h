/* SPDX-License-Identifier: Apache-2.0
 *
 * How long kernels and copies take that have the GPU to themselves. Layers of a model repeat the
 * same few dozen kernels, so the last ones are remembered (direct mapped; a miss only costs time).
 */
#pragma once

#include "hardware/gpu.h"
#include "plan/plan.h"
#include "rank/run_table.h"

#include <stdint.h>

#define SIM_DURATION_CACHE_SLOTS 512

typedef struct SimDurationSlot {
    bool is_used;
    uint8_t op, dtype;
    SimStringId operator_name, arguments;
    uint64_t flops, bytes;
    SimTime duration;
    uint32_t class_;
} SimDurationSlot;

/* All zero is an empty cache. */
typedef struct SimDurationCache {
    SimDurationSlot slots[SIM_DURATION_CACHE_SLOTS];
} SimDurationCache;

/* The row's fixed duration if it has one, else a kernel by the cost model (hardware/kernel_cost.h),
 * a copy by its bytes over PCIe; *CLASS_: of a kernel by the cost model its class in RUNS, else
 * SIM_KERNEL_CLASS_FIXED. O(1) for a known one, else O(length of the arguments). */
SimTime sim_duration_cache_find(SimDurationCache *cache, const SimPlan *plan, const SimGpu *gpu,
                                SimRunTable *runs, const SimInstruction *instruction,
                                uint32_t *class_);
