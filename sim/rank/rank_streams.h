/* SPDX-License-Identifier: Apache-2.0
 *
 * A rank's streams, played together in the order of the rank's own time.
 *
 * Kernels of different streams do not disturb each other here, so between two moments at which a
 * collective arrives or ends each stream is played by itself, run by run. At such a moment the
 * kernel that each stream has on the GPU keeps the part of its work that is left, and its time is
 * scaled from the old state to the new one (rounded up).
 *
 *     compute     [ kernel A ........ ]              A: 10 us alone, 14 us beside the all-gather
 *     all_gather        [ all-gather ......]         that arrives after 4 us: 6 us are left,
 *     time        0     4          12.4    16        which take 6 * 14/10 = 8.4 us
 *
 * A collective arrives when its stream reaches it and blocks of running kernels have made room for
 * its own (run_table.h).
 */
#pragma once

#include "rank/rank.h"

typedef enum SimRankPause {
    SIM_RANK_BLOCKED, /* nothing moves before a collective has ended */
    SIM_RANK_LIMIT,   /* the next thing happens after the limit */
    SIM_RANK_ARRIVAL, /* on trial: the next thing is an arrival */
} SimRankPause;

/* Plays until nothing moves. While a collective is in flight nothing after LIMIT is played. *TIME:
 * when the next thing happens, unless BLOCKED. On trial (world->is_trial) an arrival pauses. */
SimRankPause sim_rank_streams_play(SimRank *rank, SimRankWorld *world, SimTime limit,
                                   SimTime *time);
