/* SPDX-License-Identifier: Apache-2.0
 *
 * The cells of one row of a plan's CSV, as values. Errors PARSE, SCHEMA, RANGE name the column; who
 * reads the rows puts file and line in front. An empty cell gives what a row has that does not say:
 * 0, -1, or no items.
 */
#pragma once

#include "base/csv.h"
#include "plan/plan_check.h"
#include "plan/plan_columns.h"

/* What a reader that keeps unsound rows knows of buffers that do not live. */
typedef struct SimPlanDead {
    GHashTable *born;   /* name as text, owned -> the last buffer of that name so far, plus 1 */
    GHashTable *unborn; /* the same -> the first of that name in the file, plus 1; NULL until asked
                           for */
    bool is_named;      /* the present row names one */
} SimPlanDead;

typedef struct SimPlanCells {
    const SimCsv *csv;
    int columns[SIM_COLUMN_COUNT]; /* -1: the file has it not */
    SimPlan *plan;
    SimPlanCheck *check; /* knows which buffers live */
    SimPlanDead *dead;   /* buffers that a row may name though they do not live; NULL: none may */
    size_t row;
} SimPlanCells;

const char *sim_plan_cells_text(const SimPlanCells *cells, SimPlanColumn column);
bool sim_plan_cells_has(const SimPlanCells *cells, SimPlanColumn column);

bool sim_plan_cells_read_uint(const SimPlanCells *cells, SimPlanColumn column, uint64_t *out,
                              GError **error);
bool sim_plan_cells_read_index(const SimPlanCells *cells, SimPlanColumn column, int32_t *out,
                               GError **error);
bool sim_plan_cells_read_duration(const SimPlanCells *cells, SimTime *duration, GError **error);
SimStringId sim_plan_cells_read_string(const SimPlanCells *cells, SimPlanColumn column);
bool sim_plan_cells_read_stream(const SimPlanCells *cells, uint16_t *stream, GError **error);

/* The word of that column among NAME(FIRST) to NAME(COUNT - 1), at most 32; an empty cell is 0
 * where FIRST is not. */
typedef const char *(*SimPlanWordFunc)(int word);
bool sim_plan_cells_read_word(const SimPlanCells *cells, SimPlanColumn column, SimPlanWordFunc name,
                              int first, int count, uint8_t *out, GError **error);

/* Buffers by name, as the context's ranks see them; where the reader keeps such rows, a freed one,
 * or one that a later row makes, whose number is then beyond the plan's buffers so far. */
bool sim_plan_cells_find_buffer(const SimPlanCells *cells, const char *name, uint32_t *buffer,
                                GError **error);
/* Appends the items of `reads` or `writes` to TOUCHES, of SimTouch. */
bool sim_plan_cells_read_touches(const SimPlanCells *cells, SimPlanColumn column, GArray *touches,
                                 GError **error);
