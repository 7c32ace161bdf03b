/* SPDX-License-Identifier: Apache-2.0
 *
 * Reading: meta and group rows first, wherever they stand, then the instructions in order, each
 * checked as it comes.
 */
#include "plan/plan_csv.h"

#include <string.h>

#include "base/error.h"
#include "plan/plan_cells.h"

static const char *phase_word(int word)
{
    return sim_plan_phase_name((SimPhase)word);
}

static const char *category_word(int word)
{
    return sim_plan_category_name((SimCategory)word);
}

static const char *collective_word(int word)
{
    return sim_plan_collective_name((SimCollectiveKind)word);
}

static const char *dtype_word(int word)
{
    return sim_dtype_name((SimDtype)word);
}

/* The ops, and behind them those that are no instructions. */
enum { OP_META = SIM_PLAN_OP_COUNT, OP_GROUP, OP_WORDS };

static const char *op_word(int word)
{
    return word == OP_META    ? "meta"
           : word == OP_GROUP ? "group"
                              : sim_plan_op_name((SimPlanOp)word);
}

/* --- meta and group rows -------------------------------------------------------------------------
 */

/* "stream stream ...": their numbers, in order. */
static bool read_streams(const SimPlanCells *cells, const char *text, GError **error)
{
    g_auto(GStrv) names = g_strsplit(text, " ", -1);

    for (uint32_t i = 0; names[i] != NULL; i++) {
        if (*names[i] == '\0' || sim_plan_stream(cells->plan, names[i]) != i)
            return sim_error_fail(
                error, SIM_ERROR_SCHEMA,
                "meta streams: expected 'compute' and then each other stream once, found "
                "'%s'",
                text);
    }
    return true;
}

static bool read_head_row(const SimPlanCells *cells, int op, GError **error)
{
    const char *name = sim_plan_cells_text(cells, SIM_COLUMN_NAME);
    const char *value = sim_plan_cells_text(cells, SIM_COLUMN_ARGUMENTS);

    if (*name == '\0')
        return sim_error_fail(error, SIM_ERROR_SCHEMA, "%s: expected a value in column 'name'",
                              op_word(op));
    if (op == OP_GROUP)
        return sim_plan_add_group(cells->plan, name, value, error);
    if (strcmp(name, "schema") == 0 && strcmp(value, SIM_PLAN_SCHEMA) != 0)
        return sim_error_fail(error, SIM_ERROR_SCHEMA,
                              "meta schema: expected " SIM_PLAN_SCHEMA ", found '%s'", value);
    if (strcmp(name, "schema") == 0 || strcmp(name, "ranks") == 0)
        return true;
    if (strcmp(name, "streams") == 0)
        return read_streams(cells, value, error);
    if (sim_plan_get_meta(cells->plan, name) != NULL)
        return sim_error_fail(error, SIM_ERROR_SCHEMA, "meta %s stands twice", name);
    sim_plan_set_meta(cells->plan, name, value);
    return true;
}

/* The highest number in TEXT, which is a rank or rank lists; -1 if there is none. */
static int64_t find_highest_number(const char *text)
{
    int64_t highest = -1;

    while (*text != '\0') {
        int64_t value = 0;
        if (!g_ascii_isdigit(*text)) {
            text++;
            continue;
        }
        for (; g_ascii_isdigit(*text); text++)
            value = MIN(value * 10 + (*text - '0'), SIM_PLAN_MAX_RANKS);
        highest = MAX(highest, value);
    }
    return highest;
}

/* `meta ranks`, else as many as the rows name. */
static bool find_ranks(SimPlanCells *cells, uint32_t *ranks, GError **error)
{
    int64_t value = 1;

    for (cells->row = 0; cells->row < sim_csv_rows(cells->csv); cells->row++) {
        const char *op = sim_plan_cells_text(cells, SIM_COLUMN_OP);
        const char *arguments = sim_plan_cells_text(cells, SIM_COLUMN_ARGUMENTS);
        if (strcmp(op, "meta") == 0 &&
            strcmp(sim_plan_cells_text(cells, SIM_COLUMN_NAME), "ranks") == 0) {
            if (!sim_units_parse_int64(arguments, 1, SIM_PLAN_MAX_RANKS, &value, error)) {
                g_prefix_error(error, "meta ranks: ");
                return false;
            }
            break;
        }
        if (strcmp(op, "group") == 0)
            value = MAX(value, find_highest_number(arguments) + 1);
        value = MAX(value, find_highest_number(sim_plan_cells_text(cells, SIM_COLUMN_RANK)) + 1);
    }
    *ranks = (uint32_t)MIN(value, SIM_PLAN_MAX_RANKS);
    return true;
}

/* --- instructions --- */

/* Which of the columns that belong to some ops only an op must have, or may have. */
typedef struct OpColumns {
    SimPlanColumn needed[4]; /* closed by SIM_COLUMN_RANK */
    SimPlanColumn allowed[4];
} OpColumns;

static const OpColumns *op_columns(int op)
{
    static const OpColumns table[SIM_PLAN_OP_COUNT] = {
        [SIM_PLAN_ALLOC] = {{SIM_COLUMN_STREAM, SIM_COLUMN_BUFFER, SIM_COLUMN_BYTES},
                            {SIM_COLUMN_CATEGORY}},
        [SIM_PLAN_VIEW] = {{SIM_COLUMN_BUFFER, SIM_COLUMN_READS}, {0}},
        [SIM_PLAN_FREE] = {{SIM_COLUMN_BUFFER}, {0}},
        [SIM_PLAN_RECORD_STREAM] = {{SIM_COLUMN_STREAM, SIM_COLUMN_BUFFER}, {0}},
        [SIM_PLAN_KERNEL] = {{SIM_COLUMN_STREAM},
                             {SIM_COLUMN_READS, SIM_COLUMN_WRITES, SIM_COLUMN_GROUP}},
        [SIM_PLAN_COPY] = {{SIM_COLUMN_STREAM, SIM_COLUMN_ARGUMENTS},
                           {SIM_COLUMN_READS, SIM_COLUMN_WRITES, SIM_COLUMN_GROUP}},
        [SIM_PLAN_COLLECTIVE] = {{SIM_COLUMN_STREAM, SIM_COLUMN_GROUP, SIM_COLUMN_COLLECTIVE},
                                 {SIM_COLUMN_READS, SIM_COLUMN_WRITES}},
        [SIM_PLAN_RECORD] = {{SIM_COLUMN_STREAM, SIM_COLUMN_EVENT}, {0}},
        [SIM_PLAN_WAIT] = {{SIM_COLUMN_STREAM, SIM_COLUMN_EVENT}, {0}},
        [SIM_PLAN_HOST_WAIT] = {{SIM_COLUMN_EVENT}, {0}},
        [SIM_PLAN_HOST] = {{SIM_COLUMN_DURATION}, {0}},
        [SIM_PLAN_MARK] = {{SIM_COLUMN_NAME}, {0}},
    };
    return &table[op];
}

static bool is_listed(const SimPlanColumn *columns, SimPlanColumn column)
{
    for (int i = 0; i < 4 && columns[i] != SIM_COLUMN_RANK; i++) {
        if (columns[i] == column)
            return true;
    }
    return false;
}

static bool check_columns(const SimPlanCells *cells, int op, GError **error)
{
    static const SimPlanColumn special[] = {
        SIM_COLUMN_STREAM,   SIM_COLUMN_BUFFER, SIM_COLUMN_READS, SIM_COLUMN_WRITES,
        SIM_COLUMN_CATEGORY, SIM_COLUMN_EVENT,  SIM_COLUMN_GROUP, SIM_COLUMN_COLLECTIVE};
    const OpColumns *columns = op_columns(op);

    for (int i = 0; i < 4 && columns->needed[i] != SIM_COLUMN_RANK; i++) {
        if (!sim_plan_cells_has(cells, columns->needed[i]))
            return sim_error_fail(error, SIM_ERROR_SCHEMA, "%s: expected a value in column '%s'",
                                  op_word(op), sim_plan_columns()[columns->needed[i]]);
    }
    for (size_t i = 0; i < G_N_ELEMENTS(special); i++) {
        if (sim_plan_cells_has(cells, special[i]) && !is_listed(columns->needed, special[i]) &&
            !is_listed(columns->allowed, special[i]))
            return sim_error_fail(
                error, SIM_ERROR_SCHEMA, "%s: column '%s' does not apply, found '%s'", op_word(op),
                sim_plan_columns()[special[i]], sim_plan_cells_text(cells, special[i]));
    }
    return true;
}

static bool read_context(const SimPlanCells *cells, GError **error)
{
    SimPlanContext *context = sim_plan_context(cells->plan);
    uint8_t phase;

    if (!sim_plan_add_rank_set(cells->plan, sim_plan_cells_text(cells, SIM_COLUMN_RANK),
                               &context->rank_set, error)) {
        g_prefix_error(error, "column 'rank': ");
        return false;
    }
    if (!sim_plan_cells_read_index(cells, SIM_COLUMN_STEP, &context->step, error) ||
        !sim_plan_cells_read_index(cells, SIM_COLUMN_MICROBATCH, &context->microbatch, error) ||
        !sim_plan_cells_read_word(cells, SIM_COLUMN_PHASE, phase_word, 1, SIM_PHASE_COUNT, &phase,
                                  error))
        return false;
    context->phase = (SimPhase)phase;
    context->unit = sim_plan_cells_read_string(cells, SIM_COLUMN_UNIT);
    return true;
}

/* What any op may have. */
typedef struct RowValues {
    SimInstruction plain;
    uint8_t category;
    GArray *reads, *writes; /* of SimTouch */
} RowValues;

static bool read_values(const SimPlanCells *cells, RowValues *values, GError **error)
{
    SimInstruction *row = &values->plain;

    row->name = sim_plan_cells_read_string(cells, SIM_COLUMN_NAME);
    row->operator_name = sim_plan_cells_read_string(cells, SIM_COLUMN_OPERATOR);
    row->arguments = sim_plan_cells_read_string(cells, SIM_COLUMN_ARGUMENTS);
    row->shape = sim_plan_cells_read_string(cells, SIM_COLUMN_SHAPE);
    return sim_plan_cells_read_uint(cells, SIM_COLUMN_BYTES, &row->bytes, error) &&
           sim_plan_cells_read_uint(cells, SIM_COLUMN_FLOPS, &row->flops, error) &&
           sim_plan_cells_read_uint(cells, SIM_COLUMN_HBM_BYTES, &row->hbm_bytes, error) &&
           sim_plan_cells_read_duration(cells, &row->duration, error) &&
           sim_plan_cells_read_word(cells, SIM_COLUMN_DTYPE, dtype_word, 1, SIM_DTYPE_COUNT,
                                    &row->dtype, error) &&
           sim_plan_cells_read_word(cells, SIM_COLUMN_CATEGORY, category_word, 1,
                                    SIM_CATEGORY_COUNT, &values->category, error) &&
           sim_plan_cells_read_word(cells, SIM_COLUMN_COLLECTIVE, collective_word, 1,
                                    SIM_COLLECTIVE_COUNT, &row->collective, error) &&
           sim_plan_cells_read_touches(cells, SIM_COLUMN_READS, values->reads, error) &&
           sim_plan_cells_read_touches(cells, SIM_COLUMN_WRITES, values->writes, error);
}

static bool read_copy(const SimPlanCells *cells, SimInstruction *row, GError **error)
{
    const char *text = sim_plan_cells_text(cells, SIM_COLUMN_ARGUMENTS);
    size_t length = strcspn(text, " ");

    if (length != 3 || (strncmp(text, "h2d", 3) != 0 && strncmp(text, "d2h", 3) != 0))
        return sim_error_fail(error, SIM_ERROR_SCHEMA,
                              "copy: expected h2d or d2h first in column 'arguments', found '%s'",
                              text);
    row->is_device_to_host = text[0] == 'd';
    row->arguments = sim_strings_intern(sim_plan_strings(cells->plan),
                                        text + length + strspn(text + length, " "));
    return true;
}

/* Appends the row with its event: `stream:NAME`, or a name. */
static bool append_event_row(const SimPlanCells *cells, SimPlanOp op, uint16_t stream,
                             GError **error)
{
    const char *text = sim_plan_cells_text(cells, SIM_COLUMN_EVENT);

    if (!g_str_has_prefix(text, "stream:")) {
        SimName name = sim_plan_parse_name(cells->plan, text);
        if (op == SIM_PLAN_RECORD)
            sim_plan_record(cells->plan, stream, name);
        else if (op == SIM_PLAN_WAIT)
            sim_plan_wait(cells->plan, stream, sim_plan_event(cells->plan, name));
        else
            sim_plan_host_wait(cells->plan, sim_plan_event(cells->plan, name));
        return true;
    }
    if (op != SIM_PLAN_WAIT)
        return sim_error_fail(error, SIM_ERROR_SCHEMA, "%s: expected an event, found '%s'",
                              sim_plan_op_name(op), text);
    text += strlen("stream:");
    if (*text == '\0' || strchr(text, ' ') != NULL)
        return sim_error_fail(error, SIM_ERROR_SCHEMA, "wait: expected stream:NAME, found '%s'",
                              text);
    sim_plan_wait_stream(cells->plan, stream, sim_plan_stream(cells->plan, text));
    return true;
}

/* Appends the row with its buffer. */
static bool append_buffer_row(const SimPlanCells *cells, SimPlanOp op, uint16_t stream,
                              const RowValues *values, GError **error)
{
    const SimInstruction *row = &values->plain;
    const char *text = sim_plan_cells_text(cells, SIM_COLUMN_BUFFER);
    SimName name = sim_plan_parse_name(cells->plan, text);
    uint32_t buffer;

    if (op == SIM_PLAN_ALLOC) {
        if (strcmp(sim_plan_cells_text(cells, SIM_COLUMN_STREAM), "host") == 0)
            sim_plan_alloc_host(cells->plan, name, row->bytes, (SimCategory)values->category,
                                (SimDtype)row->dtype, row->shape);
        else
            sim_plan_alloc(cells->plan, stream, name, row->bytes, (SimCategory)values->category,
                           (SimDtype)row->dtype, row->shape);
        return true;
    }
    if (op == SIM_PLAN_VIEW) {
        if (values->reads->len != 1)
            return sim_error_fail(error, SIM_ERROR_SCHEMA,
                                  "view: expected one item in column 'reads'");
        SimTouch part = g_array_index(values->reads, SimTouch, 0);
        if (part.buffer >= sim_plan_buffer_count(cells->plan))
            return sim_error_fail(error, SIM_ERROR_SCHEMA,
                                  "view: expected a buffer of an earlier row");
        sim_plan_view_part(cells->plan, name, part, (SimDtype)row->dtype, row->shape);
        return true;
    }
    if (!sim_plan_cells_find_buffer(cells, text, &buffer, error))
        return false;
    if (op == SIM_PLAN_FREE)
        sim_plan_free_buffer(cells->plan, buffer);
    else
        sim_plan_record_stream(cells->plan, buffer, stream);
    return true;
}

static bool fail_unknown_group(const SimPlan *plan, const char *name, GError **error)
{
    g_autoptr(GPtrArray) names = g_ptr_array_new();

    for (uint32_t i = 0; i < sim_plan_group_count(plan); i++)
        g_ptr_array_add(names, (gpointer)sim_plan_group_name(plan, i));
    g_ptr_array_add(names, NULL);
    sim_error_set_unknown(error, "column 'group'", "group", name,
                          (const char *const *)names->pdata);
    return false;
}

/* Puts what any op may have into the row appended last, and its touches behind it. */
static bool complete_row(const SimPlanCells *cells, SimInstruction *row, const RowValues *values,
                         GError **error)
{
    const SimInstruction *plain = &values->plain;

    row->name = plain->name;
    row->operator_name = plain->operator_name;
    row->arguments = plain->arguments;
    row->shape = plain->shape;
    row->bytes = plain->bytes;
    row->flops = plain->flops;
    row->hbm_bytes = plain->hbm_bytes;
    row->duration = plain->duration;
    row->dtype = plain->dtype;
    row->collective = plain->collective;
    row->is_device_to_host = plain->is_device_to_host;
    if (sim_plan_cells_has(cells, SIM_COLUMN_GROUP)) {
        const char *name = sim_plan_cells_text(cells, SIM_COLUMN_GROUP);
        row->group = sim_plan_find_group(cells->plan, name);
        if (row->group == SIM_PLAN_NONE)
            return fail_unknown_group(cells->plan, name, error);
    }
    if (row->op == SIM_PLAN_VIEW)
        return true;
    for (guint i = 0; i < values->reads->len; i++)
        sim_plan_add_read(cells->plan, g_array_index(values->reads, SimTouch, i));
    for (guint i = 0; i < values->writes->len; i++)
        sim_plan_add_write(cells->plan, g_array_index(values->writes, SimTouch, i));
    return true;
}

static bool read_instruction(const SimPlanCells *cells, SimPlanOp op, RowValues *values,
                             GError **error)
{
    const char *stream_name = sim_plan_cells_text(cells, SIM_COLUMN_STREAM);
    bool is_on_host = op == SIM_PLAN_ALLOC && strcmp(stream_name, "host") == 0;
    uint16_t stream = 0;

    if (!check_columns(cells, (int)op, error) || !read_context(cells, error) ||
        !read_values(cells, values, error))
        return false;
    if (*stream_name != '\0' && !is_on_host && !sim_plan_cells_read_stream(cells, &stream, error))
        return false;
    if (op == SIM_PLAN_COPY && !read_copy(cells, &values->plain, error))
        return false;
    if (sim_plan_cells_has(cells, SIM_COLUMN_BUFFER)) {
        if (!append_buffer_row(cells, op, stream, values, error))
            return false;
    } else if (sim_plan_cells_has(cells, SIM_COLUMN_EVENT)) {
        if (!append_event_row(cells, op, stream, error))
            return false;
    } else {
        sim_plan_append(cells->plan, op)->stream = stream;
    }
    if (!complete_row(cells, sim_plan_last(cells->plan), values, error))
        return false;
    size_t index = sim_plan_length(cells->plan) - 1;
    if (cells->dead == NULL)
        return sim_plan_check_row(cells->check, index, error);
    if (op == SIM_PLAN_ALLOC || op == SIM_PLAN_VIEW)
        g_hash_table_insert(cells->dead->born,
                            g_strdup(sim_plan_cells_text(cells, SIM_COLUMN_BUFFER)),
                            GUINT_TO_POINTER(sim_plan_last(cells->plan)->buffer + 1));
    bool is_unsound = cells->dead->is_named;
    cells->dead->is_named = false;
    return is_unsound ? sim_plan_check_unsound_row(cells->check, index, error)
                      : sim_plan_check_row(cells->check, index, error);
}

/* One pass over the rows: the head ones, or the instructions. */
static bool read_rows(SimPlanCells *cells, bool is_head, GError **error)
{
    g_autoptr(GArray) reads = g_array_new(FALSE, FALSE, sizeof(SimTouch));
    g_autoptr(GArray) writes = g_array_new(FALSE, FALSE, sizeof(SimTouch));

    for (cells->row = 0; cells->row < sim_csv_rows(cells->csv); cells->row++) {
        uint8_t op;
        if (!sim_plan_cells_read_word(cells, SIM_COLUMN_OP, op_word, 0, OP_WORDS, &op, error))
            return false;
        if (is_head != (op >= SIM_PLAN_OP_COUNT))
            continue;
        if (is_head) {
            if (!read_head_row(cells, op, error))
                return false;
            continue;
        }
        g_array_set_size(reads, 0);
        g_array_set_size(writes, 0);
        RowValues values = {.reads = reads, .writes = writes};
        if (!read_instruction(cells, (SimPlanOp)op, &values, error))
            return false;
    }
    return true;
}

static SimPlan *load(const char *file, SimPlanDead *dead, GError **error)
{
    g_autoptr(SimCsv) csv = sim_csv_load(file, sim_plan_columns(), error);
    g_autoptr(SimPlan) plan = NULL;
    g_autoptr(SimPlanCheck) check = NULL;
    uint32_t ranks;

    if (csv == NULL)
        return NULL;
    SimPlanCells cells = {.csv = csv, .dead = dead};
    for (int i = 0; i < SIM_COLUMN_COUNT; i++)
        cells.columns[i] = sim_csv_column(csv, sim_plan_columns()[i]);
    if (cells.columns[SIM_COLUMN_OP] < 0) {
        g_set_error(error, SIM_ERROR, SIM_ERROR_SCHEMA, "%s:1: expected a column 'op'", file);
        return NULL;
    }
    if (find_ranks(&cells, &ranks, error)) {
        cells.plan = plan = sim_plan_new(ranks);
        cells.check = check = sim_plan_check_new(plan);
        if (read_rows(&cells, true, error) && read_rows(&cells, false, error)) {
            *sim_plan_context(plan) = (SimPlanContext){.step = -1, .microbatch = -1};
            return g_steal_pointer(&plan);
        }
    }
    g_prefix_error(error, "%s:%u: ", file, sim_csv_line(csv, cells.row));
    return NULL;
}

SimPlan *sim_plan_csv_load(const char *file, GError **error)
{
    return load(file, NULL, error);
}

SimPlan *sim_plan_csv_load_unsound(const char *file, GError **error)
{
    g_autoptr(GHashTable) born = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL);
    SimPlanDead dead = {.born = born};
    SimPlan *plan = load(file, &dead, error);

    g_clear_pointer(&dead.unborn, g_hash_table_unref);
    return plan;
}
