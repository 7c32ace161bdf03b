/* SPDX-License-Identifier: Apache-2.0
 *
 * One simulated rank playing its program: a host that issues, and streams that work off what it has
 * issued. Neither is driven by events of its own: a rank advances as far as what it knows allows
 * (a stream stops at an event that has not happened yet, or at a collective that has not ended),
 * and again when a collective has ended.
 *
 * Kernels run slower while a collective of the rank holds SMs and bandwidth, from the rank's
 * arrival to the end (run_table.h), so its streams are played in the order of the rank's own time
 * (rank_streams.h). While a collective is on its way nobody knows when it ends, so nothing after
 * `now` is certain; the rank then plays on on trial, as if nothing changed, up to its next arrival
 * at a collective (the one thing that others must learn of in time), asks to be woken then, and
 * takes the trial back. If a collective ends before, it plays from there again.
 *
 * Memory: 48 bytes a stream and 32 an event that is being waited for; nothing for the rows.
 */
#pragma once

#include "rank/communicators.h"
#include "rank/event_times.h"
#include "rank/memory_run.h"
#include "rank/pace.h"
#include "rank/rank_program.h"
#include "rank/run_table.h"

#include <glib.h>
#include <stdbool.h>
#include <stdint.h>

/* After a stop the host is behind its timetable by so much. */
typedef struct SimShift {
    uint32_t position; /* holds for rows after it */
    SimTime delay;
} SimShift;

typedef struct SimRankStream {
    uint32_t cursor; /* the item to come */
    uint32_t shift;  /* how many shifts are behind it */
    uint32_t kernel; /* of the run under the cursor: on the GPU if `is_busy`, else to come */
    bool is_busy;
    bool has_arrived; /* at the collective under the cursor */
    SimTime ready;    /* when what lies before has ended; of a kernel on the GPU: since when `left`
                         counts */
    SimTime left;     /* of the kernel on the GPU, in the present state */
    SimTime end;      /* of the run under the cursor, in the present state; -1 = not computed */
} SimRankStream;

/* All members of COMMUNICATOR's current collective are there. */
typedef void (*SimRankStartFunc)(uint32_t communicator, void *user_data);

/* ENTITY has something to do at TIME, unless it asks again before: advance it then. SEQUENCE is
 * SimRank.wakes of the request. */
typedef void (*SimRankWakeFunc)(uint32_t entity, SimTime time, uint32_t sequence, void *user_data);

/* What the collective of INSTRUCTION holds of each member of COMMUNICATOR. */
typedef SimLoad (*SimRankLoadFunc)(uint32_t communicator, uint32_t instruction, void *user_data);

/* An event of a trial. */
typedef struct SimTrialEvent {
    uint32_t event;
    SimTime time;
} SimTrialEvent;

/* What the ranks of one run share. */
typedef struct SimRankWorld {
    const SimPlan *plan;
    const SimPartition *partition;
    SimCommunicators *communicators;
    SimRunTable *runs;
    const SimPace *pace;
    int32_t last_step; /* whose waiting is counted; -1: all of the plan */
    SimTime now;       /* nothing that is not known yet can have happened before it */
    SimRankStartFunc start;
    SimRankWakeFunc wake;
    SimRankLoadFunc load;
    void *user_data;
    GArray *trial;        /* of SimTrialEvent: what a trial added */
    SimRankStream *saved; /* [streams]: as they were before it */
    bool is_trial;
    bool has_caught_up; /* the streams of the rank at hand have been played up to now */
    SimTime stop_time;  /* its host waits there for the streams; SIM_TIME_NEVER = it does not */
} SimRankWorld;

/* A change of what collectives hold of a rank. */
typedef struct SimStateChange {
    SimTime time;
    uint32_t state; /* of the run table */
} SimStateChange;

/* What a rank that is played once more (record.c) leaves. */
typedef struct SimRankLog {
    GArray *changes;   /* of SimStateChange, by time */
    SimTime *arrivals; /* [program->length], by position: at a collective */
} SimRankLog;

typedef struct SimRank {
    const SimRankProgram *program;
    uint32_t entity;
    uint32_t number;        /* of the rank, for jitter */
    uint32_t stop;          /* the program's, to come */
    uint32_t in_flight;     /* collectives that it has arrived at */
    uint32_t state;         /* of the run table */
    SimLoad load;           /* what those hold: the state's */
    SimRankStream *streams; /* [program->streams] */
    SimEventTimes events;
    SimTime *phase_ends;  /* [program->phases] */
    GArray *shifts;       /* of SimShift; NULL while there is none */
    SimMemoryRun *memory; /* its own, if memory depends on time; else NULL */
    SimRankLog *log;      /* NULL but for a rank that is played once more */
    uint64_t slowness;    /* its kernels' times, in 2^-32 */
    SimTime waited;       /* for later members of collectives, in the last step */
    GArray *late;         /* of SimLateness: the same by who was late; NULL while there is none */
    SimTime wake;         /* asked for; SIM_TIME_NEVER = none */
    uint32_t wakes;       /* how many were asked for: the last one counts */
    uint32_t known_frees; /* of the program's lent frees: the events of all before it are known */
    bool has_begun;
    bool is_out_of_memory;
} SimRank;

/* NUMBER: the rank it stands for; SLOWNESS: SIM_PACE_ONE for what the GPU's description says. */
void sim_rank_init(SimRank *rank, const SimRankProgram *program, uint32_t entity, uint32_t number,
                   uint64_t slowness);
void sim_rank_done(SimRank *rank);

/* Gives the rank an allocator of its own (a program whose memory depends on time). */
void sim_rank_start_memory(SimRank *rank, const SimPlan *plan, const SimMemoryOptions *options);

/* Plays as far as possible. */
void sim_rank_advance(SimRank *rank, SimRankWorld *world);

/* --- for rank_streams.c ------------------------------------------------------------------------
 */

/* When EVENT happened, SIM_TIME_NEVER if it is not known. */
SimTime sim_rank_find_event(const SimRank *rank, const SimRankWorld *world, uint32_t event);
void sim_rank_set_event(SimRank *rank, SimRankWorld *world, uint32_t event, SimTime time);
/* A wait has seen EVENT. */
void sim_rank_release_event(SimRank *rank, const SimRankWorld *world, uint32_t event);

/* Lets the host pass what it can; false if nothing moved. */
bool sim_rank_advance_host(SimRank *rank, SimRankWorld *world);

/* Rows up to here are issued. */
uint32_t sim_rank_last_issued(const SimRank *rank);
