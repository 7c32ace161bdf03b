/* SPDX-License-Identifier: Apache-2.0
 *
 * A second way to judge one rank's plan, as plain as can be: the graph of what must precede what,
 * its full reachability as bits, and then every pair of accesses, every freed buffer against every
 * later one of its pool, every byte read. O(rows^2) and more, for plans of some hundred rows. It
 * shares no code with sim/check.
 */
#pragma once

#include "plan/plan.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct BruteForce {
    uint64_t races;      /* pairs of accesses that nothing orders */
    uint64_t reuses;     /* pairs of an access of a freed buffer and one of a later buffer */
    uint64_t dead;       /* uses and frees of what is not alive */
    uint64_t unwritten;  /* reads of bytes that nothing wrote */
    uint64_t unrecorded; /* waits for an event that was not recorded before */
    uint64_t twice;      /* shards that one operator of an optimizer writes twice in a step */
    uint64_t held;       /* gathers, unsharded parameters, reduce inputs alive after a backward */
    uint64_t many;       /* moments with more than two reduce-scatter inputs */
    uint64_t bytes_more; /* live bytes that a later step ends with beyond the one before */
} BruteForce;

/* All rows of PLAN count as the rank's. */
void brute_force_run(const SimPlan *plan, uint32_t rank, BruteForce *result);
bool brute_force_is_safe(const BruteForce *result);
