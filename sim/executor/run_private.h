/* SPDX-License-Identifier: Apache-2.0
 *
 * The state of a SimRun, for the files of this folder.
 */
#pragma once

#include "executor/arena.h"
#include "executor/communicator.h"
#include "executor/compute.h"
#include "executor/run.h"
#include "executor/stream.h"

/* A parameter's shard on this rank, known by what filled it. */
typedef struct SimRunShard {
    char *name;
    char *parts;    /* of a flat parameter, as in the fill; or NULL */
    uint64_t first; /* element of the whole that the shard's first is */
} SimRunShard;

/* An input and what fills it. */
typedef struct SimRunInput {
    uint32_t row, buffer;
} SimRunInput;

struct SimRun {
    const SimPlan *plan;
    SimRunOptions options;
    MPI_Comm world;
    uint32_t rank, ranks;
    SimTime begin, host_nominal;
    SimArena *arena;
    SimLedger *ledger;
    SimFaults *faults;
    SimValues *values;
    SimMarkers *markers;
    GPtrArray *streams;         /* of SimStream, by the plan's number */
    GPtrArray *communicators;   /* of SimCommunicator, by the plan's number of the group */
    GPtrArray *workers;         /* of SimStream, one a communicator */
    uint32_t *places, *members; /* by group */
    uint32_t shard_group;
    SimMarker **events;          /* by the plan's event */
    GPtrArray *allocator_events; /* of SimMarker */
    SimBlock **blocks;           /* by buffer */
    unsigned char **data;        /* by buffer: where it is; views too */
    SimRunShard *shards;         /* by buffer; name NULL where it is none */
    GArray *inputs;              /* of SimRunInput */
    int32_t input_step, input_microbatch;
    uint32_t row; /* that the host is at */
    int32_t first_step, last_step;
    uint64_t live_bytes;
    GArray *memory; /* of SimRunMemory */
    GMutex spans_lock;
    GArray *spans;                   /* of SimSpan */
    GArray *step_begins, *step_ends; /* of SimTime, by step */
};

/* launch.c: gives the work of ROW to its stream. */
void sim_run_launch_kernel(SimRun *run, uint32_t row);
void sim_run_launch_collective(SimRun *run, uint32_t row);
/* The kernel ROW, a fill of an input, as if it stood here: for STEP and MICROBATCH. */
void sim_run_launch_input(SimRun *run, uint32_t row, int32_t step, int32_t microbatch);
/* Birth and death of a buffer in the order of its stream. */
void sim_run_launch_birth(SimRun *run, uint32_t buffer);
void sim_run_launch_death(SimRun *run, uint32_t buffer, uint32_t stream);

/* N elements of SHARD from OFFSET on, under KIND in the run's values. */
void sim_run_note_elements(SimRun *run, const SimRunShard *shard, const char *kind, uint64_t offset,
                           uint64_t n, const float *elements);

/* Prints what is known, and ends all ranks. */
void sim_run_give_up(SimRun *run, const char *why) G_GNUC_NORETURN;

/* Where TOUCH of ROW is: its first byte, and in *BYTES how long. */
unsigned char *sim_run_locate(const SimRun *run, const SimInstruction *instruction, SimTouch touch,
                              uint64_t *bytes);
