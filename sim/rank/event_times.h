/* SPDX-License-Identifier: Apache-2.0
 *
 * When the events of one rank happened. A plan has thousands of events, of which a rank needs a few
 * dozen at a time: one that all its waits have seen is forgotten and its place used again.
 *
 * What is played on trial (rank_streams.h) is kept apart, so that it can be dropped.
 *
 * Memory: 16 bytes for each of the most that were needed at once, times two.
 */
#pragma once

#include "base/units.h"

#include <glib.h>
#include <stdbool.h>
#include <stdint.h>

typedef struct SimEventSlot {
    uint32_t event;
    uint32_t waits; /* yet to come; UINT32_MAX = keep for ever */
    SimTime time;
} SimEventSlot;

/* All zero is empty. */
typedef struct SimEventTimes {
    SimEventSlot *slots; /* open addressing; event NONE = empty */
    uint32_t size;       /* a power of two */
    uint32_t count;
} SimEventTimes;

void sim_event_times_done(SimEventTimes *times);

/* EVENT happened at TIME and is waited for WAITS times (0: nobody asks; UINT32_MAX: kept). An event
 * happens once. O(1). */
void sim_event_times_set(SimEventTimes *times, uint32_t event, uint32_t waits, SimTime time);

/* SIM_TIME_NEVER if it has not happened yet. O(1). */
SimTime sim_event_times_find(const SimEventTimes *times, uint32_t event);

/* One of its waits has seen EVENT. O(1). */
void sim_event_times_release(SimEventTimes *times, uint32_t event);
