/* SPDX-License-Identifier: Apache-2.0
 *
 * PyTorch ends its out-of-memory message with "If reserved but unallocated memory is large try
 * setting PYTORCH_ALLOC_CONF=expandable_segments:True": here that is tried.
 */
#pragma once

#include "hbm/allocator_config.h"
#include "plan/plan.h"

#include <stdint.h>

typedef enum SimExpandableHint {
    SIM_EXPANDABLE_NOT_ASKED, /* memory did not run out, or the segments were expandable */
    SIM_EXPANDABLE_FITS,
    SIM_EXPANDABLE_FAILS,
} SimExpandableHint;

/* Plays RANK's memory once more, with expandable segments in place of CONFIG's, on a device that
 * gives DEVICE_BYTES. Events of record_stream are complete at once, the best case. */
SimExpandableHint sim_expandable_hint_compute(const SimPlan *plan, uint32_t rank,
                                              const SimAllocatorConfig *config,
                                              uint64_t device_bytes);

/* What it is called in the summary; NULL if not asked. */
const char *sim_expandable_hint_name(SimExpandableHint hint);
