/* SPDX-License-Identifier: Apache-2.0
 *
 * Who waits for whom among one rank's kernels, copies and collectives, row by row in host order:
 * the item before it on its stream, the items behind the events that its stream was told to wait
 * for since, and the items behind the last host wait. An event stands for all that its stream had
 * been given when it was recorded: the last item, or, where none came since, what the stream itself
 * waits for (CUDA C++ Programming Guide, "Events").
 *
 *     SimDependencies order;
 *     sim_dependencies_init(&order, plan, rank);
 *     while (sim_dependencies_next(&order)) { ... order.row, order.waits ... }
 *     sim_dependencies_done(&order);
 *
 * A wait for an event that is recorded only later is left out: such a plan hangs. Memory: O(events
 * + streams). O(rows) in all.
 */
#pragma once

#include "plan/plan.h"

#include <glib.h>
#include <stdbool.h>
#include <stdint.h>

typedef struct SimDependencies {
    const SimPlan *plan; /* borrowed */
    uint32_t rank;
    size_t next_row;

    /* The present item. */
    uint32_t row;
    const SimInstruction *instruction;
    uint32_t before;          /* row of the item before it on its stream, or SIM_PLAN_NONE */
    const GArray *waits;      /* of uint32_t: rows, ascending, none twice */
    const GArray *host_waits; /* of uint32_t: what the host waited for last before issuing it */

    /* Private. */
    uint32_t *last;     /* [streams] row of the last item */
    GPtrArray *pending; /* [streams] of GArray: waits of the next item */
    GPtrArray *events;  /* [events] of GArray: rows behind it; NULL before it is recorded */
    GArray *present, *behind_host;
} SimDependencies;

void sim_dependencies_init(SimDependencies *order, const SimPlan *plan, uint32_t rank);
void sim_dependencies_done(SimDependencies *order);

/* Goes to the next kernel, copy, collective or host wait; of a host wait, WAITS are the rows behind
 * its event. False after the last. */
bool sim_dependencies_next(SimDependencies *order);
