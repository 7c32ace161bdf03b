/* SPDX-License-Identifier: Apache-2.0
 *
 * The communicators of a run and their collectives. A communicator runs its collectives one at a
 * time, in the order in which its ranks issue them (ProcessGroupNCCL gives them one stream; from
 * PyTorch 2.8 on NCCL itself keeps the order): the k-th of every member is one collective. It
 * starts when the last member's stream has reached it and the one before has ended.
 *
 * 72 bytes a collective and communicator.
 */
#pragma once

#include "base/units.h"
#include "rank/partition.h"
#include "rank/rank_program.h"
#include "rank/run_table.h"

#include <glib.h>
#include <stdbool.h>
#include <stdint.h>

typedef struct SimCollective {
    SimTime last_arrival;
    SimTime start;        /* SIM_TIME_NEVER until known */
    SimTime end;          /* the same */
    uint64_t wire_bytes;  /* sent by each member */
    uint32_t arrived;     /* ranks */
    uint32_t last_entity; /* who made last_arrival; the lowest of several */
    uint32_t instruction; /* of the plan, of the first to arrive */
    SimLoad load;         /* on every member; of the first to arrive */
    SimTime waited;       /* by all members, in the last step */
    bool is_mismatched;   /* a member brought another operation or size: it never starts */
} SimCollective;

typedef struct SimCommunicators SimCommunicators;

/* PROGRAMS [partition->programs]: how many collectives each rank plays. Borrows all. */
SimCommunicators *sim_communicators_new(const SimPlan *plan, const SimPartition *partition,
                                        SimRankProgram *const *programs);
void sim_communicators_free(SimCommunicators *communicators);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(SimCommunicators, sim_communicators_free)

/* How many collectives COMMUNICATOR has: as many as the member with most. */
uint32_t sim_communicators_count(const SimCommunicators *communicators, uint32_t communicator);

SimCollective *sim_communicators_get(const SimCommunicators *communicators, uint32_t communicator,
                                     uint32_t number);

/* MEMBER ranks of ENTITY reach collective NUMBER at TIME, with the plan's row INSTRUCTION. True if
 * the collective can start now: all are there and the one before has ended (its start is set). */
bool sim_communicators_arrive(SimCommunicators *communicators, uint32_t communicator,
                              uint32_t number, SimMember member, uint32_t instruction,
                              SimTime time);

/* Collective NUMBER has ended. True if the next can start now (its start is set). */
bool sim_communicators_finish(SimCommunicators *communicators, uint32_t communicator,
                              uint32_t number, SimTime time);

/* The first collective that has not ended, or sim_communicators_count(). */
uint32_t sim_communicators_current(const SimCommunicators *communicators, uint32_t communicator);
