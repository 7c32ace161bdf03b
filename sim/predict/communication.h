/* SPDX-License-Identifier: Apache-2.0
 *
 * The collectives of one step on one rank, summed by communicator, operation and phase.
 */
#pragma once

#include "base/units.h"
#include "trace/recorder.h"

#include <glib.h>
#include <stdint.h>

typedef struct SimCommunicationLine {
    uint32_t group;     /* of the plan */
    uint8_t collective; /* SimCollectiveKind */
    uint8_t phase;      /* SimPhase */
    uint64_t count;
    uint64_t bytes;      /* full buffers */
    uint64_t wire_bytes; /* sent by this rank */
    SimTime time;        /* from the last member's arrival to the end, summed */
    SimTime exposed;     /* the part of it during which no kernel of `compute` ran */
} SimCommunicationLine;

/* Of the collectives of step STEP (-1: of those without), in order of first appearance. Owned by
 * the caller. O(spans + collectives * log spans). */
GArray *sim_communication_compute(const SimPlan *plan, const SimTrack *track, int32_t step);
