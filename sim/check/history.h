/* SPDX-License-Identifier: Apache-2.0
 *
 * Who touched which bytes of which buffer last: the shadow memory of the race search.
 *
 * A buffer is a list of pieces, each with its last write and the reads since then that no later
 * read is known to follow. An access splits pieces at its ends; a write makes one piece of what it
 * covers. So a buffer that is always touched whole costs one piece. Memory: O(pieces * lanes),
 * given back at the buffer's death.
 */
#pragma once

#include "check/clocks.h"

#include <glib.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct SimHistory SimHistory;

typedef struct SimConflict {
    SimEpoch earlier, later; /* in order of issue */
    bool earlier_writes, later_writes;
    uint64_t begin, end; /* bytes of the buffer */
} SimConflict;

typedef void (*SimHistoryConflictFunc)(const SimConflict *conflict, void *user_data);
typedef void (*SimHistoryAccessFunc)(SimEpoch last, void *user_data);

SimHistory *sim_history_new(size_t buffers);
void sim_history_free(SimHistory *history);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(SimHistory, sim_history_free)

void sim_history_start(SimHistory *history, uint32_t buffer, uint64_t bytes);
void sim_history_finish(SimHistory *history, uint32_t buffer);

/* EPOCH accesses [BEGIN, END) of BUFFER, which must be started; FUNC hears of each earlier access
 * that is not ordered before it. read returns how many of the bytes were never written. */
uint64_t sim_history_read(SimHistory *history, const SimClocks *clocks, uint32_t buffer,
                          uint64_t begin, uint64_t end, SimEpoch epoch, SimHistoryConflictFunc func,
                          void *user_data);
void sim_history_write(SimHistory *history, const SimClocks *clocks, uint32_t buffer,
                       uint64_t begin, uint64_t end, SimEpoch epoch, SimHistoryConflictFunc func,
                       void *user_data);

/* The accesses that, once over, mean that all accesses of BUFFER are over. */
void sim_history_each_last(const SimHistory *history, uint32_t buffer, SimHistoryAccessFunc func,
                           void *user_data);
