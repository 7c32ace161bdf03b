/* SPDX-License-Identifier: Apache-2.0 */
#include "rank/event_times.h"

#include "engine/clock.h"

#define EMPTY UINT32_MAX
#define KEPT UINT32_MAX
#define FIRST_SIZE 8

static uint32_t place_of(const SimEventTimes *times, uint32_t event)
{
    return (event * UINT32_C(2654435769)) & (times->size - 1);
}

/* The slot of EVENT, or the empty one where its search ends. */
static uint32_t find_slot(const SimEventTimes *times, uint32_t event)
{
    uint32_t at = place_of(times, event);
    while (times->slots[at].event != EMPTY && times->slots[at].event != event) {
        at = (at + 1) & (times->size - 1);
    }
    return at;
}

void sim_event_times_done(SimEventTimes *times)
{
    g_free(times->slots);
    *times = (SimEventTimes){0};
}

static void grow(SimEventTimes *times)
{
    SimEventTimes old = *times;
    times->size = old.size > 0 ? 2 * old.size : FIRST_SIZE;
    times->slots = g_new(SimEventSlot, times->size);
    for (uint32_t i = 0; i < times->size; i++) {
        times->slots[i].event = EMPTY;
    }
    for (uint32_t i = 0; i < old.size; i++) {
        if (old.slots[i].event != EMPTY) {
            times->slots[find_slot(times, old.slots[i].event)] = old.slots[i];
        }
    }
    g_free(old.slots);
}

void sim_event_times_set(SimEventTimes *times, uint32_t event, uint32_t waits, SimTime time)
{
    if (waits == 0) {
        return;
    }
    if (2 * (times->count + 1) > times->size) {
        grow(times);
    }
    uint32_t at = find_slot(times, event);
    g_assert(times->slots[at].event == EMPTY);
    times->slots[at] = (SimEventSlot){event, waits, time};
    times->count++;
}

SimTime sim_event_times_find(const SimEventTimes *times, uint32_t event)
{
    if (times->size == 0) {
        return SIM_TIME_NEVER;
    }
    const SimEventSlot *slot = &times->slots[find_slot(times, event)];
    return slot->event == event ? slot->time : SIM_TIME_NEVER;
}

/* Takes slot AT out; later ones of its cluster move up, so that no search ends before them. */
static void remove_slot(SimEventTimes *times, uint32_t at)
{
    uint32_t mask = times->size - 1;
    times->count--;
    for (uint32_t next = (at + 1) & mask; times->slots[next].event != EMPTY;
         next = (next + 1) & mask) {
        uint32_t home = place_of(times, times->slots[next].event);
        if (((next - home) & mask) >= ((next - at) & mask)) {
            times->slots[at] = times->slots[next];
            at = next;
        }
    }
    times->slots[at].event = EMPTY;
}

void sim_event_times_release(SimEventTimes *times, uint32_t event)
{
    uint32_t at = find_slot(times, event);
    g_assert(times->slots[at].event == event);
    if (times->slots[at].waits != KEPT && --times->slots[at].waits == 0) {
        remove_slot(times, at);
    }
}
