/* SPDX-License-Identifier: Apache-2.0
 *
 * The columns of a plan's CSV, in the order in which they are written.
 */
#pragma once

typedef enum SimPlanColumn {
    SIM_COLUMN_RANK,
    SIM_COLUMN_OP,
    SIM_COLUMN_STREAM,
    SIM_COLUMN_NAME,
    SIM_COLUMN_STEP,
    SIM_COLUMN_PHASE,
    SIM_COLUMN_MICROBATCH,
    SIM_COLUMN_UNIT,
    SIM_COLUMN_BUFFER,
    SIM_COLUMN_BYTES,
    SIM_COLUMN_SHAPE,
    SIM_COLUMN_DTYPE,
    SIM_COLUMN_CATEGORY,
    SIM_COLUMN_READS,
    SIM_COLUMN_WRITES,
    SIM_COLUMN_OPERATOR,
    SIM_COLUMN_ARGUMENTS,
    SIM_COLUMN_EVENT,
    SIM_COLUMN_GROUP,
    SIM_COLUMN_COLLECTIVE,
    SIM_COLUMN_FLOPS,
    SIM_COLUMN_HBM_BYTES,
    SIM_COLUMN_DURATION,
    SIM_COLUMN_COUNT
} SimPlanColumn;

#define SIM_PLAN_SCHEMA "fsdpsim.plan/1"

/* The columns' names; NULL-terminated. */
const char *const *sim_plan_columns(void);
