/* SPDX-License-Identifier: Apache-2.0
 *
 * Who waits for whom: of the last step, how long ranks wait in collectives for later members, and
 * how much waiting of others each causes. Ranks that nothing distinguishes are one line.
 */
#pragma once

#include "rank/simulation.h"

#include <glib.h>
#include <stdint.h>

#define SIM_WAITING_CAUSES 3 /* of a line, the largest */
#define SIM_WAITING_LINES 8  /* of each list, the largest */

/* Waiting for rank RANK. */
typedef struct SimWaitingCause {
    uint32_t rank;
    SimTime time;
} SimWaitingCause;

/* Ranks that nothing distinguishes. */
typedef struct SimWaitingLine {
    uint32_t rank;      /* the first */
    uint32_t ranks;     /* how many they are */
    SimTime waited;     /* by each */
    SimTime caused;     /* waiting of all others, caused by all of them */
    const GArray *late; /* of SimLateness: by the first rank; borrowed from the run */
    uint32_t n_causes;
    SimWaitingCause causes[SIM_WAITING_CAUSES]; /* of the first rank's waiting */
} SimWaitingLine;

typedef struct SimWaiting {
    SimTime min, median, max; /* waited, over all ranks */
    GArray *waiters;          /* of SimWaitingLine, the longest waited first, none of zero */
    GArray *causers;          /* the same, the most caused first */
} SimWaiting;

/* O(ranks log ranks). */
SimWaiting *sim_waiting_new(const SimSimulation *simulation, const SimResult *result);
void sim_waiting_free(SimWaiting *waiting);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(SimWaiting, sim_waiting_free)
