/* SPDX-License-Identifier: Apache-2.0
 *
 * One rank plays a plan for real: a host thread that issues the rows in order, a thread a stream, a
 * thread a communicator. The host allocates, frees and records as the rows say, without waiting for
 * what it has launched.
 *
 * Born with a value: buffers of category optimizer_state are zero. Buffers that a `fill` with
 * `below` made in phase init are inputs: they are filled anew when a forward of another step or
 * microbatch begins.
 */
#pragma once

#include "executor/faults.h"
#include "executor/ledger.h"
#include "executor/values.h"
#include "plan/plan.h"
#include "trace/recorder.h"

#include <glib.h>
#include <mpi.h>
#include <stdbool.h>
#include <stdint.h>

typedef struct SimRunOptions {
    bool is_checked;       /* keep the ledger: patterns, owners, races */
    bool is_paced;         /* no arithmetic: work takes the time that the plan says */
    double bytes_per_s;    /* paced: a collective's volume at this rate, unless it has a duration */
    const char *allocator; /* PYTORCH_ALLOC_CONF */
    uint64_t device_bytes; /* UINT64_MAX = without end */
    uint32_t delayed_row;  /* its work begins late, or SIM_PLAN_NONE */
    SimTime delay;
    SimTime limit; /* without progress for so long the run is given up */
} SimRunOptions;

/* What the allocator counted after a row of alloc or free. */
typedef struct SimRunMemory {
    uint32_t row, buffer;
    bool is_alloc;
    uint64_t allocated_bytes, reserved_bytes; /* as the allocator says */
    uint64_t live_bytes;                      /* as the ledger of blocks says */
} SimRunMemory;

typedef struct SimRun SimRun;

/* Collective over WORLD. PLAN and OPTIONS are borrowed. Errors SCHEMA (an operator that it does not
 * know), PARSE (allocator), MISMATCH (the plan is for another number of ranks). */
SimRun *sim_run_new(const SimPlan *plan, const SimRunOptions *options, MPI_Comm world,
                    GError **error);
void sim_run_free(SimRun *run);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(SimRun, sim_run_free)

/* Plays all rows and waits for the end. A run that is given up ends the process group with a
 * message (MPI_Abort). False: out of memory; the fault says where. */
bool sim_run_play(SimRun *run);

SimFaults *sim_run_faults(SimRun *run);
const SimValues *sim_run_values(const SimRun *run);
const SimLedger *sim_run_ledger(const SimRun *run); /* NULL if not checked */
const GArray *sim_run_memory(const SimRun *run);    /* of SimRunMemory, in order */
/* Spans of what ran where, unsorted. */
const GArray *sim_run_spans(const SimRun *run); /* of SimSpan */
/* From the first row of step STEP to the last work of it, as this rank saw it; 0 if there is none.
 */
SimTime sim_run_step_time(const SimRun *run, int32_t step);
