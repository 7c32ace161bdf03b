/* SPDX-License-Identifier: Apache-2.0
 *
 * Plays the memory rows of a program (alloc, free, record_stream) through the caching allocator, in
 * the order in which the host issues them: PyTorch's allocator decides then, and what the GPU does
 * matters to it only through blocks that other streams use (hbm/allocator.h). A program without
 * such blocks is played whole, before any time is simulated; one with them row by row, by a caller
 * who knows the time (DEVICE).
 *
 * Cost: that of the allocator's calls, and a copy of the categories' bytes at each new peak.
 */
#pragma once

#include "hbm/allocator.h"
#include "rank/memory_history.h"
#include "rank/rank_program.h"

#include <glib.h>
#include <stdbool.h>
#include <stdint.h>

typedef struct SimMemoryOptions {
    const SimAllocatorConfig *config; /* NULL = PyTorch's defaults */
    uint64_t device_bytes;            /* what cudaMalloc may hand out */
    bool keep_events;
} SimMemoryOptions;

typedef struct SimMemoryRun SimMemoryRun;

/* PLAN and PROGRAM are borrowed. DEVICE NULL: events are complete at once. */
SimMemoryRun *sim_memory_run_new(const SimPlan *plan, const SimRankProgram *program,
                                 const SimMemoryOptions *options, const SimAllocatorDevice *device);
void sim_memory_run_free(SimMemoryRun *run);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(SimMemoryRun, sim_memory_run_free)

/* Plays the row at POSITION (ascending from call to call; others than memory rows may be left out).
 * False if memory ran out: nothing may be played after that. */
bool sim_memory_run_step(SimMemoryRun *run, uint32_t position);

/* All rows, then finish. */
void sim_memory_run_play(SimMemoryRun *run);

/* Closes the last phases. */
void sim_memory_run_finish(SimMemoryRun *run);

/* Borrowed from RUN. */
const SimMemoryHistory *sim_memory_run_history(const SimMemoryRun *run);
