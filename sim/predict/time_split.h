/* SPDX-License-Identifier: Apache-2.0
 *
 * Where the time of one step went on one rank. Every moment of the step counts once, to the first
 * of these that it belongs to:
 *
 *     compute                a kernel runs on stream `compute`
 *     exposed_communication  a collective runs (all its members are there)
 *     compute                a kernel or copy runs on another stream (casts, copy-in)
 *     waiting                a collective waits for a later member
 *     host_bound             nothing: the host has not issued it yet
 *
 * so that compute + exposed_communication + waiting + host_bound = step, to the picosecond.
 * Exposed = communication less kernels of `compute`, as HTA
 * (facebookresearch/HolisticTraceAnalysis, communication_analysis.py) counts it.
 */
#pragma once

#include "base/units.h"
#include "trace/recorder.h"

#include <glib.h>
#include <stdint.h>

typedef struct SimTimeSplit {
    SimTime step;
    SimTime compute;
    SimTime communication; /* union of the collectives, hidden or not */
    SimTime exposed_communication;
    SimTime waiting;
    SimTime host_bound;
} SimTimeSplit;

/* TRACK's spans between BEGIN and END. O(spans * log spans). */
SimTimeSplit sim_time_split_compute(const SimPlan *plan, const SimTrack *track, SimTime begin,
                                    SimTime end);
