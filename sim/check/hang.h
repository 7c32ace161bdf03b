/* SPDX-License-Identifier: Apache-2.0
 *
 * Plays all classes of ranks without time, as far as they get. Hosts issue until a host wait; lanes
 * run in order; a wait needs its record; a collective needs all members' arrival at the same place
 * of their communicator's order, and every earlier collective of that communicator (NCCL runs one
 * after the other, in the order of issue). Nothing here is a choice, so one play decides for all
 * interleavings. If some rank does not reach its end, who waits for whom holds a circle, or ends at
 * someone who will never come: that is the finding.
 *
 * O(rows of all classes).
 */
#pragma once

#include "check/findings.h"
#include "check/matching.h"

/* How many ranks of a circle are told. */
#define SIM_HANG_TOLD 8

/* True if every class reaches its end; else a finding says why not. */
bool sim_hang_check(const SimRankSetup *setup, SimFindings *findings);
