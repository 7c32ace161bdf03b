/* SPDX-License-Identifier: Apache-2.0
 *
 * One simulated rank playing its program: a host that issues, and streams that work off what it has
 * issued. Neither is driven by events of its own: a rank advances as far as what it knows allows
 * (a stream stops at an event that has not happened yet, or at a collective that has not ended),
 * and again when a collective has ended. As every queue is in order, the outcome does not depend on
 * who advances first (a Kahn process network).
 *
 * Memory: 24 bytes a stream and 8 an event of the program; nothing for the rows.
 */
#pragma once

#include "rank/communicators.h"
#include "rank/memory_run.h"
#include "rank/rank_program.h"

#include <glib.h>
#include <stdbool.h>
#include <stdint.h>

/* After a stop the host is behind its timetable by so much. */
typedef struct SimShift {
    uint32_t position; /* holds for rows after it */
    SimTime delay;
} SimShift;

typedef struct SimRankStream {
    uint32_t cursor;  /* the item to come */
    uint32_t shift;   /* how many shifts are behind it */
    bool has_arrived; /* at the collective under the cursor */
    SimTime ready;    /* when what lies before the cursor has ended */
} SimRankStream;

/* All members of COMMUNICATOR's current collective are there. */
typedef void (*SimRankStartFunc)(uint32_t communicator, void *user_data);

/* ENTITY's host cannot go on before TIME: advance it then. */
typedef void (*SimRankWakeFunc)(uint32_t entity, SimTime time, void *user_data);

/* What the ranks of one run share. */
typedef struct SimRankWorld {
    const SimPlan *plan;
    const SimPartition *partition;
    SimCommunicators *communicators;
    SimTime now; /* nothing that is not known yet can have happened before it */
    SimRankStartFunc start;
    SimRankWakeFunc wake;
    void *user_data;
} SimRankWorld;

typedef struct SimRank {
    const SimRankProgram *program;
    uint32_t entity;
    uint32_t stop;          /* the program's, to come */
    SimRankStream *streams; /* [program->streams] */
    SimTime *events;        /* [program->events]; SIM_TIME_NEVER until known */
    GArray *shifts;         /* of SimShift; NULL while there is none */
    SimMemoryRun *memory;   /* its own, if memory depends on time; else NULL */
    uint32_t known_frees;   /* of the program's lent frees: the events of all before it are known */
    uint32_t woken_stop;    /* the stop for which a wake was asked last, plus one */
    bool is_out_of_memory;
} SimRank;

void sim_rank_init(SimRank *rank, const SimRankProgram *program, uint32_t entity);
void sim_rank_done(SimRank *rank);

/* Gives the rank an allocator of its own (a program whose memory depends on time). */
void sim_rank_start_memory(SimRank *rank, const SimPlan *plan, const SimMemoryOptions *options);

/* Plays as far as possible. */
void sim_rank_advance(SimRank *rank, const SimRankWorld *world);
