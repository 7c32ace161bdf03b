/* SPDX-License-Identifier: Apache-2.0
 *
 * One action of the caching allocator, with what it counts right after it. Actions are named as in
 * PyTorch's memory snapshot (hbm/allocator.h).
 */
#pragma once

#include "base/units.h"

#include <stdint.h>

typedef struct SimMemoryEvent {
    uint32_t instruction; /* of the plan, during which it happened */
    uint32_t buffer;      /* of the plan; SIM_PLAN_NONE for segments */
    uint32_t stream;      /* whose pool */
    uint8_t action;       /* SimAllocatorAction */
    uint64_t bytes;       /* requested; of the segment or range for segment actions */
    uint64_t address;     /* of the block, segment or range; 0 for an OOM */
    uint64_t allocated_bytes;
    uint64_t active_bytes;
    uint64_t reserved_bytes;
} SimMemoryEvent;
