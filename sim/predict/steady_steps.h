/* SPDX-License-Identifier: Apache-2.0
 *
 * --steps auto: after how many steps nothing changes any more. Optimizer states are born in the
 * first step, fragmentation settles one or two steps later.
 */
#pragma once

#include "hbm/allocator_config.h"
#include "plan/plan.h"

#include <stdint.h>

/* How many of PLAN's steps it takes until one has the same peaks (allocated, active, reserved) as
 * the one before; all of them if none does, or if memory runs out. Plays the first rank's memory;
 * events of record_stream are complete at once. */
uint32_t sim_steady_steps_count(const SimPlan *plan, const SimAllocatorConfig *config,
                                uint64_t device_bytes);
