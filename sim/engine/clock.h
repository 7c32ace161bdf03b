/* SPDX-License-Identifier: Apache-2.0
 *
 * Virtual time: it never goes back.
 */
#pragma once

#include "base/units.h"

#include <stdint.h>

/* A time that no event reaches. */
#define SIM_TIME_NEVER INT64_MAX

typedef struct SimClock {
    SimTime now;
    uint64_t events; /* how many times it was advanced: the events of the run */
} SimClock;

void sim_clock_init(SimClock *clock);

/* Moves to TIME, the time of an event that is about to be handled; asserts that it is not past. */
void sim_clock_advance(SimClock *clock, SimTime time);
