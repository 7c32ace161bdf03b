/* SPDX-License-Identifier: Apache-2.0
 *
 * Names what went wrong between two rows: which of the rules it breaks, by what the buffer is for
 * and what the rows do, the rows, the streams, and the event that would put it right.
 */
#pragma once

#include "check/allocator_reuse.h"
#include "check/findings.h"
#include "check/history.h"
#include "check/pool_debts.h"
#include "check/rank_view.h"

#include <stdbool.h>
#include <stdint.h>

/* Two accesses of BUFFER that are not ordered. */
void sim_pair_report_race(const SimRankView *view, SimFindings *findings,
                          const SimConflict *conflict, uint32_t buffer);
/* OWNER, alloc'd at OWNER_ROW, may have memory whose last use, DEBT, is not over at TOUCH. */
void sim_pair_report_reuse(const SimRankView *view, SimFindings *findings, const SimPoolDebt *debt,
                           uint32_t owner, uint32_t owner_row, SimEpoch touch);
/* What the allocator would do, added to a reuse FINDING. */
void sim_pair_report_answer(const SimRankView *view, SimFinding *finding,
                            const SimReuseQuestion *answer);
/* Row INDEX uses BUFFER, which died at DIED (UINT32_MAX: is not born yet). */
void sim_pair_report_dead_use(const SimRankView *view, SimFindings *findings, uint32_t index,
                              uint32_t buffer, uint32_t died, bool is_write);
void sim_pair_report_dead_free(const SimRankView *view, SimFindings *findings, uint32_t index,
                               uint32_t buffer, uint32_t died);
void sim_pair_report_unwritten(const SimRankView *view, SimFindings *findings, uint32_t index,
                               SimByteRange span, uint64_t unwritten);
void sim_pair_report_outside(const SimRankView *view, SimFindings *findings, uint32_t index,
                             SimTouch touch);
/* Row INDEX waits for an event recorded at RECORDED, later (UINT32_MAX: never). */
void sim_pair_report_unrecorded(const SimRankView *view, SimFindings *findings, uint32_t index,
                                uint32_t recorded);
