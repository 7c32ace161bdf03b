/* SPDX-License-Identifier: Apache-2.0
 *
 * The queue of future events, a 4-ary min-heap.
 *
 * An event is its key and nothing else: when, in which phase of that instant, whose, and the
 * how-manieth of that entity's own events. The order (time, phase, entity, sequence) is therefore
 * total and does not depend on the order of insertion, so that a run in which fewer ranks are
 * simulated, or whose entities are visited in another order, pops the same events in the same
 * order.
 *
 * A phase tells the kind of event; smaller phases of one instant come first (completions before
 * rate solves before starts). An event that has become void is not removed: its entity remembers
 * the sequence number that still counts and drops the others when they come up.
 *
 * Memory: 16 bytes a pending event, so that the four children of a node fill one cache line.
 */
#pragma once

#include "base/units.h"

#include <glib.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SIM_EVENT_MAX_PHASE 15U
#define SIM_EVENT_MAX_ENTITY ((UINT32_C(1) << 28) - 1)

typedef struct SimEvent {
    SimTime time;      /* not negative */
    uint32_t phase;    /* 0 .. SIM_EVENT_MAX_PHASE */
    uint32_t entity;   /* 0 .. SIM_EVENT_MAX_ENTITY */
    uint32_t sequence; /* the entity's own counter */
} SimEvent;

typedef struct SimEventQueue SimEventQueue;

SimEventQueue *sim_event_queue_new(void);
void sim_event_queue_free(SimEventQueue *queue);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(SimEventQueue, sim_event_queue_free)

/* Asserts the ranges of the fields above. O(log n), in most runs O(1). */
void sim_event_queue_push(SimEventQueue *queue, SimEvent event);

/* Takes the first event out; false (and *EVENT untouched) if there is none. O(log n). */
bool sim_event_queue_pop(SimEventQueue *queue, SimEvent *event);

/* The first event, left in; false if there is none. O(1). */
bool sim_event_queue_peek(const SimEventQueue *queue, SimEvent *event);

size_t sim_event_queue_size(const SimEventQueue *queue);

/* Drops all events and keeps the memory. */
void sim_event_queue_clear(SimEventQueue *queue);

/* True if no event comes before its parent in the heap: for tests, after every step. O(n). */
bool sim_event_queue_check(const SimEventQueue *queue);
