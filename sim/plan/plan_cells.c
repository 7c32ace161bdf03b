/* SPDX-License-Identifier: Apache-2.0 */
#include "plan/plan_cells.h"

#include <string.h>

#include "base/error.h"

const char *sim_plan_cells_text(const SimPlanCells *cells, SimPlanColumn column)
{
    return sim_csv_cell(cells->csv, cells->row, cells->columns[column]);
}

bool sim_plan_cells_has(const SimPlanCells *cells, SimPlanColumn column)
{
    return *sim_plan_cells_text(cells, column) != '\0';
}

/* Puts the column in front; the place of the row follows from who reads the rows. */
static bool fail_column(SimPlanColumn column, GError **error)
{
    g_prefix_error(error, "column '%s': ", sim_plan_columns()[column]);
    return false;
}

/* --- cells ---------------------------------------------------------------------------------------
 */

bool sim_plan_cells_read_uint(const SimPlanCells *cells, SimPlanColumn column, uint64_t *out,
                              GError **error)
{
    int64_t value = 0;

    if (sim_plan_cells_has(cells, column) &&
        !sim_units_parse_int64(sim_plan_cells_text(cells, column), 0, INT64_MAX, &value, error))
        return fail_column(column, error);
    *out = (uint64_t)value;
    return true;
}

bool sim_plan_cells_read_index(const SimPlanCells *cells, SimPlanColumn column, int32_t *out,
                               GError **error)
{
    int64_t value = -1;

    if (sim_plan_cells_has(cells, column) &&
        !sim_units_parse_int64(sim_plan_cells_text(cells, column), 0, INT32_MAX, &value, error))
        return fail_column(column, error);
    *out = (int32_t)value;
    return true;
}

/* The word of that column, from FIRST to COUNT - 1; an empty cell is 0. */
bool sim_plan_cells_read_word(const SimPlanCells *cells, SimPlanColumn column, SimPlanWordFunc name,
                              int first, int count, uint8_t *out, GError **error)
{
    const char *text = sim_plan_cells_text(cells, column);
    const char *choices[33] = {NULL};

    g_assert(count - first <= 32);

    for (int i = first; i < count; i++) {
        if (strcmp(text, name(i)) == 0) {
            *out = (uint8_t)i;
            return true;
        }
        choices[i - first] = name(i);
    }
    if (*text == '\0' && first > 0) {
        *out = 0;
        return true;
    }
    const char *what = sim_plan_columns()[column];
    g_autofree char *where = g_strdup_printf("column '%s'", what);
    sim_error_set_unknown(error, where, what, text, choices);
    return false;
}

SimStringId sim_plan_cells_read_string(const SimPlanCells *cells, SimPlanColumn column)
{
    return sim_strings_intern(sim_plan_strings(cells->plan), sim_plan_cells_text(cells, column));
}

static bool check_stream_name(const char *name, GError **error)
{
    if (*name != '\0' && strchr(name, ' ') == NULL && strcmp(name, "host") != 0)
        return true;
    return sim_error_fail(error, SIM_ERROR_SCHEMA,
                          "expected the name of a stream, in one word, found '%s'", name);
}

bool sim_plan_cells_read_stream(const SimPlanCells *cells, uint16_t *stream, GError **error)
{
    const char *name = sim_plan_cells_text(cells, SIM_COLUMN_STREAM);

    if (!check_stream_name(name, error))
        return fail_column(SIM_COLUMN_STREAM, error);
    *stream = (uint16_t)sim_plan_stream(cells->plan, name);
    return true;
}

bool sim_plan_cells_read_duration(const SimPlanCells *cells, SimTime *duration, GError **error)
{
    if (!sim_plan_cells_has(cells, SIM_COLUMN_DURATION)) {
        *duration = -1;
        return true;
    }
    if (!sim_units_parse_duration(sim_plan_cells_text(cells, SIM_COLUMN_DURATION), duration, error))
        return fail_column(SIM_COLUMN_DURATION, error);
    return true;
}

/* Buffers are numbered in the order of their rows. */
static GHashTable *list_births(const SimPlanCells *cells)
{
    GHashTable *births = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL);
    guint number = 0;

    for (size_t row = 0; row < sim_csv_rows(cells->csv); row++) {
        const char *op = sim_csv_cell(cells->csv, row, cells->columns[SIM_COLUMN_OP]);
        if (strcmp(op, sim_plan_op_name(SIM_PLAN_ALLOC)) != 0 &&
            strcmp(op, sim_plan_op_name(SIM_PLAN_VIEW)) != 0)
            continue;
        const char *name = sim_csv_cell(cells->csv, row, cells->columns[SIM_COLUMN_BUFFER]);
        number++;
        if (!g_hash_table_contains(births, name))
            g_hash_table_insert(births, g_strdup(name), GUINT_TO_POINTER(number));
    }
    return births;
}

/* The buffer of that name that does not live, plus 1; NULL = none ever does. */
static gpointer find_dead(const SimPlanCells *cells, const char *name)
{
    SimPlanDead *dead = cells->dead;
    gpointer buffer = g_hash_table_lookup(dead->born, name);

    if (buffer != NULL || cells->columns[SIM_COLUMN_BUFFER] < 0)
        return buffer;
    if (dead->unborn == NULL)
        dead->unborn = list_births(cells);
    return g_hash_table_lookup(dead->unborn, name);
}

bool sim_plan_cells_find_buffer(const SimPlanCells *cells, const char *name, uint32_t *buffer,
                                GError **error)
{
    g_autoptr(GError) own_error = NULL;

    if (sim_plan_check_find_buffer(cells->check, sim_plan_parse_name(cells->plan, name),
                                   sim_plan_context(cells->plan)->rank_set, buffer, &own_error))
        return true;
    gpointer dead = cells->dead != NULL ? find_dead(cells, name) : NULL;
    if (dead == NULL) {
        g_propagate_error(error, g_steal_pointer(&own_error));
        return false;
    }
    cells->dead->is_named = true;
    *buffer = GPOINTER_TO_UINT(dead) - 1;
    return true;
}

/* --- items of reads and writes -------------------------------------------------------------------
 */

static bool parse_digits(const char **text, char end, uint64_t *value)
{
    const char *p = *text;

    for (*value = 0; g_ascii_isdigit(*p); p++) {
        uint64_t digit = (uint64_t)(*p - '0');
        if (*value > (INT64_MAX - digit) / 10)
            return false;
        *value = *value * 10 + digit;
    }
    if (p == *text || *p != end)
        return false;
    *text = p + 1;
    return true;
}

/* "BUFFER", "BUFFER[offset:bytes]", "BUFFER[R*n:bytes]"; ITEM is changed. */
static bool parse_touch(const SimPlanCells *cells, char *item, SimTouch *touch, GError **error)
{
    char *bracket = strchr(item, '[');

    *touch = (SimTouch){0};
    if (bracket != NULL) {
        const char *p = bracket + 1;
        if (g_str_has_prefix(p, "R*")) {
            touch->times_rank = true;
            p += 2;
        }
        if (!parse_digits(&p, ':', &touch->offset) || !parse_digits(&p, ']', &touch->bytes) ||
            *p != '\0' || touch->bytes == 0)
            return sim_error_fail(
                error, SIM_ERROR_PARSE,
                "expected BUFFER, BUFFER[offset:bytes] or BUFFER[R*n:bytes], found '%s'", item);
        *bracket = '\0';
    }
    return sim_plan_cells_find_buffer(cells, item, &touch->buffer, error);
}

bool sim_plan_cells_read_touches(const SimPlanCells *cells, SimPlanColumn column, GArray *touches,
                                 GError **error)
{
    if (!sim_plan_cells_has(cells, column))
        return true;
    g_auto(GStrv) items = g_strsplit(sim_plan_cells_text(cells, column), " ", -1);
    for (size_t i = 0; items[i] != NULL; i++) {
        SimTouch touch;
        if (*items[i] == '\0')
            continue;
        if (!parse_touch(cells, items[i], &touch, error))
            return fail_column(column, error);
        g_array_append_val(touches, touch);
    }
    if (touches->len >= UINT16_MAX) {
        sim_error_fail(error, SIM_ERROR_RANGE, "expected at most %u items", UINT16_MAX - 1);
        return fail_column(column, error);
    }
    return true;
}
