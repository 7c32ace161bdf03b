/* SPDX-License-Identifier: Apache-2.0
 *
 * Happens-before within one rank, by vector clocks: one clock a lane. Lane 0 is the host, lane s +
 * 1 the plan's stream s.
 *
 *   - what a lane runs, runs in the order of issue;
 *   - what is issued comes after all that the host has waited for by then;
 *   - a wait puts a lane behind all that the event's lane had been given at the record.
 *
 * Model: Lamport, Mattern; an access is kept as an epoch (lane, count, row) as in FastTrack
 * (Flanagan and Freund, PLDI 2009), so comparing two accesses is one look at a clock. A clock holds
 * only the lanes up to the highest it knows of. Memory: O(lanes^2) for the clocks, O(lanes) for an
 * event between its record and its last wait. Cost: launch O(1), record and wait O(lanes).
 */
#pragma once

#include <glib.h>
#include <stdbool.h>
#include <stdint.h>

#define SIM_CLOCKS_HOST UINT32_C(0)
#define SIM_CLOCKS_NO_LANE UINT32_MAX

typedef struct SimEpoch {
    uint32_t lane;
    uint32_t count; /* the lane's own: its COUNTth launch */
    uint32_t row;   /* the plan's row, for messages */
} SimEpoch;

typedef struct SimClocks SimClocks;

SimClocks *sim_clocks_new(uint32_t lanes, size_t events);
void sim_clocks_free(SimClocks *clocks);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(SimClocks, sim_clocks_free)

/* ROW is issued to LANE now. */
SimEpoch sim_clocks_launch(SimClocks *clocks, uint32_t lane, uint32_t row);

/* True if what happened at EARLIER is over when LANE runs what it is given next. */
bool sim_clocks_is_before(const SimClocks *clocks, SimEpoch earlier, uint32_t lane);

void sim_clocks_record(SimClocks *clocks, uint32_t lane, uint32_t event);
/* LANE (the host too) waits. False if the event was not recorded: then nothing is ordered, as in
 * CUDA. */
bool sim_clocks_wait(SimClocks *clocks, uint32_t lane, uint32_t event);
/* LANE waits for all that OTHER has been given so far. */
void sim_clocks_wait_lane(SimClocks *clocks, uint32_t lane, uint32_t other);
/* Nothing waits for EVENT any more. */
void sim_clocks_forget(SimClocks *clocks, uint32_t event);
