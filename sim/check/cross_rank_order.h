/* SPDX-License-Identifier: Apache-2.0
 *
 * Order that a rank owes to other ranks. Two rows of a rank that nothing of its own orders may
 * still be ordered by a path through others: a collective ends on no rank before all members have
 * come to it, so what precedes it here precedes what follows it there, and from there a later
 * collective leads back. Rare, and costly to keep in every clock; so it is asked afterwards, of the
 * pairs that were found.
 *
 * Only between ranks that each stand for themselves: folded ranks say what their like do, not which
 * of them a path comes back to. A broadcast makes nobody wait for the receivers and gives no order.
 *
 * O(sweeps * rows of all ranks), with as many sweeps as the path changes rank, plus 1.
 */
#pragma once

#include "check/matching.h"

#include <stdbool.h>
#include <stdint.h>

/* True if on RANK_CLASS the row EARLIER of lane EARLIER_LANE is over before row LATER of LATER_LANE
 * starts. */
bool sim_cross_rank_order_holds(const SimRankSetup *setup, uint32_t rank_class,
                                uint32_t earlier_lane, uint32_t earlier, uint32_t later_lane,
                                uint32_t later);

/* Takes out of FINDINGS the pairs that are ordered so. Nothing is done where a class has several
 * ranks, or where that would be more than 2^30 rows to look at. */
void sim_cross_rank_order_filter(const SimRankSetup *setup, SimFindings *findings);
