/* SPDX-License-Identifier: Apache-2.0
 *
 * Whether the ranks reach the end of their plans, and if not, why. From the first that is stuck it
 * is followed who waits for whom, until someone comes twice: a circle; or until nobody is left to
 * come. The finding names ranks, streams, rows, units and phases along that way.
 */
#pragma once

#include "check/findings.h"
#include "check/matching.h"

#include <stdbool.h>

/* How many places of a circle are told. */
#define SIM_HANG_TOLD 8

/* True if every class reaches its end; else a finding says why not. */
bool sim_hang_check(const SimRankSetup *setup, SimFindings *findings);
