/* SPDX-License-Identifier: Apache-2.0
 *
 * The rows of a plan that one rank plays, compiled: one list of items for each stream, and the few
 * places where the host stops. Ranks with the same rows share a program.
 *
 * The host issues rows one after the other; each costs it time (host_cost.h), so the moment at
 * which it issues a row is known beforehand but for the places where it waits ("stops"). A
 * stream is a queue: an item begins when the one before has ended and the host has issued it.
 * Kernels with nothing between them become one item, because two numbers say all that matters of
 * them (max-plus algebra): issued at o_1..o_n with durations d_1..d_n on a stream that is ready at
 * r, they end at
 *
 *     max(r + sum d_i,  max_i (o_i + d_i + d_i+1 + ... + d_n))
 *
 * Positions count the program's rows from 0. Host times are those of a host that never waits; what
 * it did wait comes on top (rank/rank.h).
 * Sources: CUDA C++ Programming Guide, "Streams" and "Events" (what record and wait mean).
 */
#pragma once

#include "hardware/gpu.h"
#include "plan/plan.h"
#include "rank/run_table.h"

#include <glib.h>
#include <stdbool.h>
#include <stdint.h>

typedef enum SimItemKind {
    SIM_ITEM_RUN,        /* kernels and copies with nothing between them */
    SIM_ITEM_WAIT,       /* the stream waits for an event */
    SIM_ITEM_RECORD,     /* an event happens */
    SIM_ITEM_MARK,       /* an event that notes when the stream's work so far ends */
    SIM_ITEM_PHASE,      /* the same for a phase of the step */
    SIM_ITEM_COLLECTIVE, /* the stream joins a collective */
} SimItemKind;

typedef struct SimItem {
    uint8_t kind;
    uint32_t position; /* of its last row */
    uint32_t group;    /* collective */
    uint32_t number;   /* event; phase; run of the run table; collective: how-manieth of its group
                          on this rank */
    SimTime offset;    /* when the host has issued it */
    SimTime duration;  /* run: sum d_i, alone on the GPU */
    SimTime tail;      /* run: max_i (o_i + d_i + ... + d_n), the same */
} SimItem;

typedef enum SimStopKind {
    SIM_STOP_EVENT,  /* the host waits for an event */
    SIM_STOP_MEMORY, /* an allocator call whose outcome may depend on time */
} SimStopKind;

typedef struct SimStop {
    uint8_t kind;
    uint32_t position; /* rows before it are issued without it */
    uint32_t event;
    SimTime offset; /* when the host gets there */
} SimStop;

/* A free of a block that another stream uses: the event that its reuse waits for. */
typedef struct SimLentFree {
    uint32_t position;
    uint32_t stream;
    uint32_t event;
} SimLentFree;

/* Rows that follow each other in one phase of one microbatch of one step. */
typedef struct SimPhaseRange {
    int32_t step, microbatch; /* -1 = none */
    uint8_t phase;            /* SimPhase; recomputation counts as backward */
    uint32_t first, end;      /* positions first .. end-1 */
} SimPhaseRange;

typedef struct SimRankProgram {
    uint32_t rank;   /* one of those that play it */
    uint32_t length; /* rows up to the end, or to where memory runs out */
    uint32_t streams, groups;
    GArray *rows;         /* of uint32_t: instruction of the plan */
    GArray *phases;       /* of SimPhaseRange */
    bool is_time_bound;   /* record_stream: what memory does depends on time */
    GArray *kernels;      /* of SimRunKernel, by position: kernels, copies; duration -1: neither */
    GArray **items;       /* [streams] of SimItem */
    GArray *stops;        /* of SimStop, by position */
    GArray *lent_frees;   /* of SimLentFree, by position */
    GArray **collectives; /* [groups] of uint32_t: positions */
    uint32_t events;      /* those of the plan first, then those made here */
    GArray *waits;        /* of uint32_t, by event: how often it is waited for */
} SimRankProgram;

/* The rows and phases of RANK: what the allocator needs. O(rows). */
SimRankProgram *sim_rank_program_new(const SimPlan *plan, uint32_t rank);
void sim_rank_program_free(SimRankProgram *program);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(SimRankProgram, sim_rank_program_free)

/* Compiles. LENGTH cuts the program off where memory ran out (else its length). SYNCS, ascending
 * positions of uint32_t, are allocations that made the allocator give memory back: cudaFree waits
 * for all that the device has been given. Errors MISMATCH: a collective of a group in which the
 * rank is not. O(rows). */
bool sim_rank_program_compile(SimRankProgram *program, const SimPlan *plan, const SimGpu *gpu,
                              SimRunTable *runs, uint32_t length, const GArray *syncs,
                              GError **error);

/* The instruction at a position. */
static inline uint32_t sim_rank_program_row(const SimRankProgram *program, uint32_t position)
{
    return g_array_index(program->rows, uint32_t, position);
}
