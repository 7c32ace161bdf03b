/* SPDX-License-Identifier: Apache-2.0
 *
 * The part of a plan that can make ranks wait: records, waits and collectives, 16 bytes a row. It
 * outlives the plan, so a thousand plans are read one after the other and only these are kept.
 */
#pragma once

#include "base/strings.h"
#include "check/rank_view.h"

#include <glib.h>
#include <stdint.h>

typedef enum SimSyncOp {
    SIM_SYNC_RECORD,
    SIM_SYNC_WAIT,      /* TARGET: event */
    SIM_SYNC_WAIT_LANE, /* TARGET: lane */
    SIM_SYNC_COLLECTIVE /* TARGET: index into collectives */
} SimSyncOp;

typedef struct SimSyncStep {
    uint32_t row;
    uint32_t target;
    SimStringId label; /* of an event: its stem */
    uint16_t lane;     /* that runs it; SIM_CLOCKS_HOST blocks the host */
    uint8_t op;        /* SimSyncOp */
} SimSyncStep;

typedef struct SimSyncCollective {
    uint64_t bytes;
    uint32_t step_index; /* in steps */
    uint32_t row;
    uint32_t group;   /* of the verifier: the same number in every program */
    uint32_t ordinal; /* which of its group's, from 0 */
    SimStringId unit; /* its name where it has no unit */
    int32_t step;
    uint8_t kind;  /* SimCollectiveKind */
    uint8_t dtype; /* SimDtype */
    uint8_t phase; /* SimPhase */
    uint16_t lane;
} SimSyncCollective;

typedef struct SimSyncProgram {
    uint32_t source, rank; /* a rank that plays it */
    uint32_t n_lanes;
    size_t n_events;
    GArray *steps;       /* of SimSyncStep, in order of issue */
    GArray *collectives; /* of SimSyncCollective, in order of issue */
    GPtrArray *by_group; /* GArray of uint32_t: collectives of each group */
    SimStringId *lanes;  /* names */
} SimSyncProgram;

/* The rows of VIEW. GROUPS maps the plan's groups to those of the verifier, of which there are
 * N_GROUPS; texts go to STRINGS. */
SimSyncProgram *sim_sync_program_new(const SimRankView *view, const uint32_t *groups,
                                     uint32_t n_groups, SimStrings *strings);
void sim_sync_program_free(SimSyncProgram *program);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(SimSyncProgram, sim_sync_program_free)

/* The collectives of GROUP; NULL if the program knew no such group. */
const GArray *sim_sync_program_of_group(const SimSyncProgram *program, uint32_t group);
const SimSyncCollective *sim_sync_program_collective(const SimSyncProgram *program, uint32_t index);
const SimSyncStep *sim_sync_program_step(const SimSyncProgram *program, uint32_t index);
