/* SPDX-License-Identifier: Apache-2.0
 *
 * What really happens to memory, apart from what the allocator believes, in pieces of 512 bytes.
 *
 * In host order: who was given each piece; a block given to two owners at once is reported.
 *
 * In the order in which work gets to it: a buffer takes its memory over when its stream gets to the
 * birth, and loses it when that gets to the death. Memory that several streams touch may be freed
 * by the host long before they are done with it, so of those buffers the first touch is the birth,
 * and whoever touches the memory next is the death: just what happens on a GPU. The memory is
 * filled with a signalling pattern (no number that arithmetic makes): "never written" at birth,
 * "freed" at death. A piece that nobody wrote keeps its pattern, so that untouched workspaces cost
 * nothing.
 *
 * Reported: a touch of memory that belongs to somebody else by now, or to nobody; a read of a
 * pattern; a write after death (the pattern is damaged at the next birth); two touches at once of
 * which one writes.
 *
 * All functions may be called by any thread. Those that check return a line that says what is
 * wrong, owned by the caller, or NULL. Rows are indices into the plan.
 */
#pragma once

#include "plan/plan.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct SimLedger SimLedger;

/* What was seen of a buffer. Rows are SIM_PLAN_NONE if there was none. */
typedef struct SimLedgerLife {
    uint32_t birth, death;          /* rows of alloc and free */
    uint32_t first_write, last_use; /* rows whose work touched it */
    uint64_t address, bytes;        /* of the block */
} SimLedgerLife;

/* For memory at BASE, of BYTES. PLAN is borrowed. */
SimLedger *sim_ledger_new(const SimPlan *plan, void *base, uint64_t bytes);
void sim_ledger_free(SimLedger *ledger);

/* New memory: nothing in it was ever written. */
void sim_ledger_cover(SimLedger *ledger, uint64_t address, uint64_t bytes);

/* The host has got a block for BUFFER at ROW, and gives it back. */
char *sim_ledger_give(SimLedger *ledger, uint32_t buffer, uint32_t row, uint64_t address,
                      uint64_t bytes);
void sim_ledger_take(SimLedger *ledger, uint32_t buffer, uint32_t row);

/* The buffer's stream gets to its birth and to its death. */
char *sim_ledger_birth(SimLedger *ledger, uint32_t buffer);
void sim_ledger_death(SimLedger *ledger, uint32_t buffer);

/* ROW reads or writes BYTES at ADDRESS, of BUFFER (a root), from now until finish. */
char *sim_ledger_start(SimLedger *ledger, uint32_t row, uint32_t buffer, uint64_t address,
                       uint64_t bytes, bool is_write);
/* All touches of ROW are over. */
void sim_ledger_finish(SimLedger *ledger, uint32_t row);

const SimLedgerLife *sim_ledger_life(const SimLedger *ledger, uint32_t buffer);
