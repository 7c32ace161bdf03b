/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/clock.h"

#include <glib.h>

void sim_clock_init(SimClock *clock)
{
    *clock = (SimClock){0};
}

void sim_clock_advance(SimClock *clock, SimTime time)
{
    g_assert(time >= clock->now);
    clock->now = time;
    clock->events++;
}
