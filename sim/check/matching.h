/* SPDX-License-Identifier: Apache-2.0
 *
 * Whether the members of each communicator issue the same collectives: same order, operation, unit,
 * bytes and element type (rules 25, 26). The first place where they part is reported with both
 * sides; a difference in bytes or type alone is reported at each place, because the order goes on.
 *
 * Same operation and size, but another unit, is the treacherous case: nothing hangs, and each rank
 * gets the other unit's data.
 *
 * O(collectives * classes).
 */
#pragma once

#include "check/rank_meetings.h"
#include "check/findings.h"
#include "check/sync_program.h"

#include <stdint.h>

/* Everything that judges ranks together sees them so. All borrowed. */
typedef struct SimRankSetup {
    const SimRankMeetings *ranks;
    GPtrArray *programs;        /* of SimSyncProgram */
    const uint32_t *program_of; /* by class */
    const SimStrings *strings;
    const char *const *groups; /* names */
} SimRankSetup;

const SimSyncProgram *sim_matching_program(const SimRankSetup *setup, uint32_t rank_class);

/* "rank 3" or "ranks like 0 (8)". Owned by the caller. */
char *sim_matching_class_name(const SimRankSetup *setup, uint32_t rank_class);
/* "all_gather of layers.3 (1048576 B bf16, row 12, step 0 forward)". Owned by the caller. */
char *sim_matching_describe(const SimRankSetup *setup, const SimSyncCollective *collective);

/* Returns the collectives compared. */
uint64_t sim_matching_check(const SimRankSetup *setup, SimFindings *findings);
