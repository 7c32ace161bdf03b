/* SPDX-License-Identifier: Apache-2.0
 *
 * All that can be judged within one rank: one pass over its rows, in host order, that drives
 * clocks, histories, pool debts, freshness, gradient flow and bounds.
 *
 * What other ranks do adds order between rows of this one only where two collectives are ordered
 * elsewhere and not here. That order is asked for at the end, of the pairs found here
 * (cross_rank_order.h).
 *
 * Cost: O(rows * streams) at worst, O(rows) where waits are few. Memory: O(buffers * streams).
 */
#pragma once

#include "check/bounds.h"
#include "check/findings.h"
#include "check/rank_view.h"

#include <glib.h>
#include <stdint.h>

/* What a check looked at: it is what "safe" means. */
typedef struct SimProof {
    uint64_t rows;
    uint64_t accesses; /* reads and writes compared with all earlier ones of the same bytes */
    uint64_t buffers;  /* lives followed */
    uint64_t events;   /* records */
    uint64_t waits;
    uint64_t reuses; /* first touches of memory that had an owner before */
    uint64_t collectives;
    uint64_t gradients; /* applied by an optimizer */
    uint64_t matched;   /* collectives compared between ranks */
    uint32_t ranks;
    uint32_t classes; /* of ranks that play the same rows */
} SimProof;

/* Streams and events that would need more than a GiB of clocks at once. */
#define SIM_RANK_CHECK_CLOCK_BYTES (UINT64_C(1) << 30)

/* Adds what is wrong to FINDINGS and what was looked at to PROOF. Error UNSUPPORTED: more clocks
 * than SIM_RANK_CHECK_CLOCK_BYTES hold. */
bool sim_rank_check_run(const SimRankView *view, const SimBoundsLimits *limits,
                        SimFindings *findings, SimProof *proof, GError **error);
