/* SPDX-License-Identifier: Apache-2.0
 *
 * Plays all classes of ranks without time, as far as they get. Hosts issue until a host wait; lanes
 * run in order; a wait needs its record; a collective needs all members' arrival at the same place
 * of their communicator's order, with the same operation, and every earlier collective of that
 * communicator (NCCL runs one after the other, in the order of issue). Nothing here is a choice, so
 * one play decides for all interleavings.
 *
 * O(rows of all classes).
 */
#pragma once

#include "check/matching.h"

#include <glib.h>
#include <stdbool.h>
#include <stdint.h>

#define SIM_RANK_PLAY_THROUGH UINT32_MAX

typedef struct SimRankPlay SimRankPlay;

/* SETUP is borrowed. */
SimRankPlay *sim_rank_play_new(const SimRankSetup *setup);
void sim_rank_play_free(SimRankPlay *play);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(SimRankPlay, sim_rank_play_free)

/* Until nobody can move. */
void sim_rank_play_run(SimRankPlay *play);

/* The step at which LANE of RANK_CLASS stands, or THROUGH. */
uint32_t sim_rank_play_stand(const SimRankPlay *play, uint32_t rank_class, uint32_t lane);
/* The steps that RANK_CLASS's host has issued. */
uint32_t sim_rank_play_issued(const SimRankPlay *play, uint32_t rank_class);
/* The collectives of GROUP that RANK_CLASS has behind it. */
uint32_t sim_rank_play_completed(const SimRankPlay *play, uint32_t rank_class, uint32_t group);
/* True if RANK_CLASS has come to its next collective of GROUP and waits in it. */
bool sim_rank_play_has_arrived(const SimRankPlay *play, uint32_t rank_class, uint32_t group);
