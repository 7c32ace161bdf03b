/* SPDX-License-Identifier: Apache-2.0
 *
 * Blocks that were freed while other streams may still use them: a first-in-first-out queue of
 * (event, block) for each stream that uses any. A head that is not complete blocks its own queue
 * only. Source: insert_events, process_events, synchronize_and_free_events of
 * c10/cuda/CUDACachingAllocator.cpp; PyTorch walks the queues in hash order, we in stream order
 * (the blocks freed are the same).
 */
#pragma once

#include "hbm/allocator.h"

#include <stddef.h>

typedef struct SimPendingEvents {
    GPtrArray *queues; /* GQueue of entries by stream; NULL where unused */
    size_t count;      /* entries in all queues */
} SimPendingEvents;

void sim_pending_events_init(SimPendingEvents *pending);
void sim_pending_events_done(SimPendingEvents *pending);

/* Records an event on each stream that uses BLOCK (at least one) and queues it. */
void sim_pending_events_push(SimAllocator *allocator, SimBlock *block);

/* Frees the blocks whose last event is complete. One is_complete for each stream, and one more for
 * each event found complete. */
void sim_pending_events_poll(SimAllocator *allocator);

/* Waits for all events and frees their blocks. */
void sim_pending_events_synchronize(SimAllocator *allocator);

/* How many entries name BLOCK. O(entries). */
size_t sim_pending_events_count(const SimPendingEvents *pending, const SimBlock *block);
