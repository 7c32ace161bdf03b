/* SPDX-License-Identifier: Apache-2.0
 *
 * What a run leaves of the ranks that somebody wants to look at: their spans of time and their
 * allocator events. Whoever plays a plan (sim/rank, the executor) fills it; the writers of this
 * folder read it.
 *
 * Ranks with the same memory share one array of events; only the times are each rank's own.
 * Memory: 56 bytes a span, 24 a launch, 8 bytes a rank and memory event.
 */
#pragma once

#include "plan/plan.h"
#include "trace/memory_event.h"
#include "trace/span.h"

#include <glib.h>
#include <stddef.h>
#include <stdint.h>

/* The host's part in a kernel, copy or collective. */
typedef struct SimLaunch {
    uint32_t instruction; /* of the plan */
    SimTime begin, end;
} SimLaunch;

typedef struct SimTrack {
    uint32_t rank;
    GArray *spans;               /* of SimSpan, by (start, stream, instruction) once sorted */
    const GArray *memory_events; /* of SimMemoryEvent, in order; borrowed, may be NULL */
    GArray *memory_times;        /* of SimTime, one a memory event */
    GArray *launches;            /* of SimLaunch, in host order; empty if not known */
} SimTrack;

typedef struct SimRecorder SimRecorder;

/* PLAN is borrowed and gives all names. */
SimRecorder *sim_recorder_new(const SimPlan *plan);
void sim_recorder_free(SimRecorder *recorder);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(SimRecorder, sim_recorder_free)

const SimPlan *sim_recorder_plan(const SimRecorder *recorder);

/* An empty track for RANK, valid until the recorder is freed. Ranks in ascending order. */
SimTrack *sim_recorder_add(SimRecorder *recorder, uint32_t rank);

size_t sim_recorder_count(const SimRecorder *recorder);
const SimTrack *sim_recorder_track(const SimRecorder *recorder, size_t index);

/* Brings the spans of TRACK into the order of the timeline: (start, stream, instruction), with the
 * host's after all streams. A span begins at its arrival here. O(n log n). */
void sim_recorder_sort(SimTrack *track);
