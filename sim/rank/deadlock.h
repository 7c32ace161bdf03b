/* SPDX-License-Identifier: Apache-2.0
 *
 * Who waits for whom, when a run has come to a standstill before its end: from the first rank that
 * is stuck along what each waits for, until somebody comes up again (a cycle) or what is awaited
 * can never come (an event that no row records, a collective that a member never issues).
 */
#pragma once

#include "rank/result.h"
#include "rank/simulation.h"

#include <glib.h>

/* Appends the SimBlocked of the cycle, or of the chain to its end, to BLOCKED; nothing if every
 * rank has finished. O(items) a link of the chain. */
void sim_deadlock_find(const SimSimulation *simulation, GPtrArray *blocked);

/* Of a SimBlocked; a GDestroyNotify. */
void sim_deadlock_free_blocked(void *blocked);
