/* SPDX-License-Identifier: Apache-2.0
 *
 * A group of a plan as an MPI communicator, and its collectives as FSDP means them: reductions by
 * sum, mean, or a sum of scaled parts; bf16 and f16 by an operation of our own (MPI has none).
 *
 * A communicator may be used by one thread at a time: two collectives of one communicator in two
 * threads would be erroneous MPI. Before each collective its members compare what they are about to
 * do, so that ranks that disagree end with a message instead of mixing up messages.
 */
#pragma once

#include "base/dtype.h"
#include "base/units.h"
#include "plan/plan.h"

#include <glib.h>
#include <mpi.h>
#include <stdbool.h>
#include <stdint.h>

typedef struct SimCommunicator SimCommunicator;

typedef struct SimCollective {
    uint32_t row; /* of the plan */
    SimCollectiveKind kind;
    uint64_t bytes; /* of the whole, unsharded buffer */
    SimDtype dtype;
    const char *reduction; /* "sum", "avg", "premul:0.125"; "" where nothing is reduced */
    const void *send;
    void *receive;
    SimTime nominal; /* when this rank was ready */
} SimCollective;

/* Collective over WORLD: every rank calls it for every group in the same order. COLOUR: which of
 * the group's lists this rank is in, or negative (then the communicator is of no use); PLACE in it.
 */
SimCommunicator *sim_communicator_new(MPI_Comm world, const char *name, int colour, uint32_t place);
void sim_communicator_free(SimCommunicator *communicator);

uint32_t sim_communicator_members(const SimCommunicator *communicator);

/* Waits for all members and compares; *NOMINAL is when the last one was ready. Error MISMATCH:
 * members disagree (both rows are named), or this rank is none. */
bool sim_communicator_meet(SimCommunicator *communicator, const SimCollective *collective,
                           SimTime *nominal, GError **error);

/* Runs COLLECTIVE, after meet. Errors UNSUPPORTED (element type), IO (MPI). */
bool sim_communicator_run(SimCommunicator *communicator, const SimCollective *collective,
                          GError **error);
