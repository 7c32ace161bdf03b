/* SPDX-License-Identifier: Apache-2.0
 *
 * A rank's memory over time for a chart: the plan's categories in eight series, and as many samples
 * as a chart has room for. Each sample is the moment of highest allocation in its stretch of time,
 * so peaks stay exactly.
 */
#pragma once

#include "plan/plan.h"
#include "trace/recorder.h"

#include <glib.h>
#include <stdint.h>

typedef enum SimSeries {
    SIM_SERIES_SHARD,     /* parameters that are always there */
    SIM_SERIES_GATHERED,  /* full weights and the buffers of their all-gathers */
    SIM_SERIES_REDUCED,   /* full gradients and the buffers of their reduction */
    SIM_SERIES_GRADIENT,  /* the shard's gradient */
    SIM_SERIES_OPTIMIZER, /* optimizer states */
    SIM_SERIES_ACTIVATION,
    SIM_SERIES_LOGITS, /* logits and loss */
    SIM_SERIES_REST,   /* workspaces, temporaries, input, buffers */
    SIM_SERIES_COUNT
} SimSeries;

SimSeries sim_memory_series_of(SimCategory category);
const char *sim_memory_series_name(SimSeries series);
const char *sim_memory_series_class(SimSeries series); /* of the pictures' style */

typedef struct SimMemorySample {
    SimTime time;
    uint64_t bytes[SIM_SERIES_COUNT];
    uint64_t allocated_bytes, reserved_bytes; /* the series' sum is ALLOCATED_BYTES */
    uint32_t instruction;                     /* during which */
} SimMemorySample;

/* At most COUNT samples, in order of time. Owned by the caller. O(memory events). */
GArray *sim_memory_series_compute(const SimPlan *plan, const SimTrack *track, guint count);
