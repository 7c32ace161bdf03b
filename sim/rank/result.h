/* SPDX-License-Identifier: Apache-2.0
 *
 * What a run came to. Out of memory and deadlock are results like any other.
 */
#pragma once

#include "base/units.h"
#include "rank/memory_history.h"
#include "rank/rank_program.h"

#include <glib.h>
#include <stdbool.h>
#include <stdint.h>

/* One of those that wait for each other (or for what never comes). */
typedef struct SimBlocked {
    uint32_t rank;
    uint32_t stream;      /* SIM_PLAN_NONE = the host */
    uint32_t instruction; /* of the plan, at which it is stuck */
    char *waits_for;      /* "event ag:layers.3#7", "rank 5 in all_gather of group shard" */
} SimBlocked;

/* Waiting for a later member. */
typedef struct SimLateness {
    uint32_t group;  /* of the collectives */
    uint32_t entity; /* simulated rank that came last */
    SimTime waited;
} SimLateness;

/* Ranks that nothing distinguishes. */
typedef struct SimClassResult {
    uint32_t rank;  /* the first */
    uint32_t count; /* how many they are */
    const SimRankProgram *program;
    const SimMemoryHistory *memory; /* NULL if its host never got to the first allocation */
    const SimTime *phase_ends; /* [program->phases] when stream `compute` has ended the work of the
                                  phase; SIM_TIME_NEVER where never */
    SimTime waited;     /* by each of them in collectives of the last step, for later members */
    const GArray *late; /* of SimLateness: the same by who was late; NULL if it never waited */
    SimTime caused;     /* waiting of all other ranks that they caused, in all */
} SimClassResult;

typedef struct SimResult {
    uint32_t ranks, simulated_ranks;
    uint64_t events;
    GArray *classes;    /* of SimClassResult, by first rank (unfolded: all ranks) */
    bool is_oom;        /* some rank ran out of memory: the run ended there */
    GPtrArray *blocked; /* of SimBlocked: the deadlock, who waits for whom; empty if none */
} SimResult;
