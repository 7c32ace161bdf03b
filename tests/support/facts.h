/* SPDX-License-Identifier: Apache-2.0
 *
 * What FSDP does, as lines of text, from a plan and from a recording of PyTorch, so that the two
 * can be compared line by line: work (copies, collectives, casts of shards), events, and the birth
 * and death of FSDP's buffers with the live bytes after each. Of a plan, what rank 0 does.
 *
 * Neighbouring births (deaths) of buffers of one category, unit, type and pool are one line with
 * their sum. Left out, because a recording does not have them: activations, the widening of
 * gradients (a cast on the compute stream and the narrow gradient before it), casts that one rank
 * alone makes parameter by parameter (no collective was called with them), AdamW's `step` numbers,
 * `fill`.
 */
#pragma once

#include "base/csv.h"
#include "plan/plan.h"

#include <glib.h>
#include <stdbool.h>
#include <string.h>

typedef struct Facts {
    GPtrArray *lines; /* of char * */
    uint64_t live;
    bool sums_memory; /* no births and deaths: instead live bytes stand at every other line */
    /* the births or deaths that are being summed */
    char *pending; /* all of the line that must be equal; NULL = none */
    char *pending_name;
    uint64_t pending_bytes;
} Facts;

static inline Facts *facts_new(bool sums_memory)
{
    Facts *facts = g_new0(Facts, 1);
    facts->sums_memory = sums_memory;
    facts->lines = g_ptr_array_new_with_free_func(g_free);
    return facts;
}

static inline void facts_free(Facts *facts)
{
    g_ptr_array_unref(facts->lines);
    g_free(facts->pending);
    g_free(facts->pending_name);
    g_free(facts);
}

static inline void facts_flush(Facts *facts)
{
    if (facts->pending == NULL)
        return;
    g_ptr_array_add(facts->lines,
                    g_strdup_printf("%s %s %" G_GUINT64_FORMAT " live=%" G_GUINT64_FORMAT,
                                    facts->pending, facts->pending_name, facts->pending_bytes,
                                    facts->live));
    g_clear_pointer(&facts->pending, g_free);
    g_clear_pointer(&facts->pending_name, g_free);
}

static inline void facts_add(Facts *facts, char *line)
{
    facts_flush(facts);
    if (facts->sums_memory) {
        g_autofree char *bare = line;
        line = g_strdup_printf("%s live=%" G_GUINT64_FORMAT, bare, facts->live);
    }
    g_ptr_array_add(facts->lines, line);
}

/* NAME is compared too where one buffer is one line in recordings, so only for single buffers. */
static inline void facts_add_buffer(Facts *facts, bool is_alloc, const char *category,
                                    const char *unit, const char *dtype, const char *pool,
                                    const char *name, uint64_t bytes)
{
    if (facts->sums_memory) {
        facts->live += is_alloc ? bytes : -bytes;
        return;
    }
    g_autofree char *line = g_strdup_printf("%s %s %s %s on %s", is_alloc ? "alloc" : "free",
                                            category, unit, dtype, pool);
    if (facts->pending == NULL || strcmp(facts->pending, line) != 0 ||
        strcmp(facts->pending_name, name) != 0) {
        facts_flush(facts);
        facts->pending = g_steal_pointer(&line);
        facts->pending_name = g_strdup(name);
        facts->pending_bytes = 0;
    }
    facts->pending_bytes += bytes;
    facts->live += is_alloc ? bytes : -bytes;
}

/* Of a buffer's name, what both sides count alike: nothing for what is one alloc a parameter. */
static inline char *facts_cut_name(const char *name)
{
    static const char *const ONE_A_PARAMETER = "PUGFS";
    if (name[0] == '\0' || strchr(ONE_A_PARAMETER, name[0]) != NULL)
        return g_strndup(name, 1);
    return g_strdup(name);
}

/* --- a recording -------------------------------------------------------------------------------
 */

static inline bool facts_is_work(const char *op)
{
    static const char *const WORK[] = {"cast",       "copy_in", "all_gather", "copy_out",
                                       "chunk_cat",  "div",     "accumulate", "reduce_scatter",
                                       "all_reduce", NULL};
    return g_strv_contains(WORK, op);
}

typedef struct FactsColumns {
    int op, unit, bytes, dtype, group, stream, category, buffer, event, live;
} FactsColumns;

static inline void facts_read_row(Facts *facts, const SimCsv *csv, size_t row,
                                  const FactsColumns *columns)
{
    const char *op = sim_csv_cell(csv, row, columns->op);
    const char *unit = sim_csv_cell(csv, row, columns->unit);
    const char *stream = sim_csv_cell(csv, row, columns->stream);
    const char *dtype = sim_csv_cell(csv, row, columns->dtype);
    const char *event = sim_csv_cell(csv, row, columns->event);
    const char *bytes = sim_csv_cell(csv, row, columns->bytes);
    if (strcmp(op, "alloc") == 0 || strcmp(op, "free") == 0) {
        g_autofree char *name = facts_cut_name(sim_csv_cell(csv, row, columns->buffer));
        facts_add_buffer(facts, op[0] == 'a', sim_csv_cell(csv, row, columns->category), unit,
                         dtype, stream, name, g_ascii_strtoull(bytes, NULL, 10));
    } else if (facts_is_work(op)) {
        bool has_bytes =
            strcmp(op, "cast") != 0 && strcmp(op, "accumulate") != 0 && strcmp(op, "div") != 0;
        facts_add(facts, g_strdup_printf("%s %s %s %s %s on %s", op, unit, has_bytes ? bytes : "",
                                         dtype, sim_csv_cell(csv, row, columns->group), stream));
    } else if (strcmp(op, "record") == 0) {
        facts_add(facts, g_strdup_printf("record %s on %s", event, stream));
    } else if (strcmp(op, "wait") == 0 || strcmp(op, "wait_rs_state") == 0) {
        facts_add(facts, g_strdup_printf("wait %s on %s", event, stream));
    }
}

static inline Facts *facts_read_recording(const char *file, bool sums_memory, GError **error)
{
    g_autoptr(SimCsv) csv = sim_csv_load(file, NULL, error);
    if (csv == NULL)
        return NULL;
    FactsColumns columns = {
        .op = sim_csv_column(csv, "op"),
        .unit = sim_csv_column(csv, "unit"),
        .bytes = sim_csv_column(csv, "bytes"),
        .dtype = sim_csv_column(csv, "dtype"),
        .group = sim_csv_column(csv, "group"),
        .stream = sim_csv_column(csv, "stream"),
        .category = sim_csv_column(csv, "category"),
        .buffer = sim_csv_column(csv, "buffer"),
        .event = sim_csv_column(csv, "event"),
        .live = sim_csv_column(csv, "live_bytes"),
    };
    Facts *facts = facts_new(sums_memory);
    for (size_t row = 0; row < sim_csv_rows(csv); row++)
        facts_read_row(facts, csv, row, &columns);
    facts_flush(facts);
    return facts;
}

/* --- a plan ------------------------------------------------------------------------------------
 */

/* Of whole gradients, the unit whose chunk_cat reads them; 0: none does, it is a narrow one that
 * was widened. */
static inline SimStringId *facts_find_reduced(const SimPlan *plan)
{
    SimStringId *units = g_new0(SimStringId, sim_plan_buffer_count(plan) + 1);
    for (size_t i = 0; i < sim_plan_length(plan); i++) {
        const SimInstruction *row = sim_plan_instruction(plan, i);
        const char *operator_name = sim_plan_string(plan, row->operator_name);
        if (row->op != SIM_PLAN_KERNEL ||
            (strcmp(operator_name, "chunk_cat") != 0 && strcmp(operator_name, "chunk") != 0))
            continue;
        const SimTouch *touches = sim_plan_touches(plan, row);
        for (uint16_t t = 0; t < row->n_reads; t++)
            units[touches[t].buffer] = row->unit;
    }
    return units;
}

/* A unit's shards in one buffer: a cast of one parameter's shard bears the parameter's name. */
static inline bool facts_is_cast_unit(const SimPlan *plan, const SimBuffer *buffer)
{
    return g_str_has_prefix(sim_plan_string(plan, buffer->name.stem), "T:") &&
           buffer->name.tail == 0;
}

static inline bool facts_is_fsdp(const SimPlan *plan, const SimBuffer *buffer)
{
    switch ((SimCategory)buffer->category) {
    case SIM_CATEGORY_PARAMETER_SHARD:
    case SIM_CATEGORY_ALL_GATHER_OUTPUT:
    case SIM_CATEGORY_UNSHARDED_PARAMETER:
    case SIM_CATEGORY_UNSHARDED_GRADIENT:
    case SIM_CATEGORY_REDUCE_SCATTER_INPUT:
    case SIM_CATEGORY_REDUCE_SCATTER_OUTPUT:
    case SIM_CATEGORY_SHARDED_GRADIENT:
    case SIM_CATEGORY_PARTIAL_REDUCE_OUTPUT:
    case SIM_CATEGORY_POST_FORWARD_SHARD:
        return true;
    case SIM_CATEGORY_OPTIMIZER_STATE:
        return !g_str_has_suffix(sim_plan_string(plan, buffer->name.tail), ".step");
    case SIM_CATEGORY_TEMPORARY:
        return facts_is_cast_unit(plan, buffer);
    default:
        return false;
    }
}

static inline void facts_read_buffer(Facts *facts, const SimPlan *plan, const SimInstruction *row,
                                     SimStringId unit)
{
    const SimBuffer *buffer = sim_plan_buffer(plan, row->buffer);
    g_autofree char *full = sim_plan_print_name(plan, buffer->name);
    g_autofree char *name =
        buffer->category == SIM_CATEGORY_UNSHARDED_GRADIENT ? g_strdup("G") : facts_cut_name(full);
    bool is_state = buffer->category == SIM_CATEGORY_OPTIMIZER_STATE;
    facts_add_buffer(
        facts, row->op == SIM_PLAN_ALLOC, sim_plan_category_name((SimCategory)buffer->category),
        is_state ? "" : sim_plan_string(plan, unit), sim_dtype_name((SimDtype)buffer->dtype),
        sim_plan_stream_name(plan, buffer->stream), name, buffer->bytes);
}

/* On the compute stream only casts of units' shards are recorded. */
static inline bool facts_is_unrecorded(const SimPlan *plan, const SimInstruction *row)
{
    const char *name = sim_plan_string(plan, row->name);
    if (row->stream != 0 || (strcmp(name, "cast") != 0 && strcmp(name, "accumulate") != 0))
        return false;
    const SimTouch *written = sim_plan_touches(plan, row) + row->n_reads;
    return !facts_is_cast_unit(plan, sim_plan_buffer(plan, written->buffer));
}

static inline void facts_read_kernel(Facts *facts, const SimPlan *plan, const SimInstruction *row)
{
    const char *name = sim_plan_string(plan, row->name);
    const char *op = strcmp(name, "divide") == 0 ? "div" : name;
    if (!facts_is_work(op) || facts_is_unrecorded(plan, row))
        return;
    g_autofree char *bytes =
        row->bytes == 0 ? g_strdup("") : g_strdup_printf("%" G_GUINT64_FORMAT, row->bytes);
    const char *group = row->op == SIM_PLAN_COLLECTIVE ? sim_plan_group_name(plan, row->group) : "";
    facts_add(facts, g_strdup_printf("%s %s %s %s %s on %s", op, sim_plan_string(plan, row->unit),
                                     bytes, sim_dtype_name((SimDtype)row->dtype), group,
                                     sim_plan_stream_name(plan, row->stream)));
}

static inline void facts_read_event(Facts *facts, const SimPlan *plan, const SimInstruction *row)
{
    const char *verb = row->op == SIM_PLAN_RECORD ? "record" : "wait";
    g_autofree char *event =
        row->is_event_of_stream
            ? g_strdup_printf("stream:%s", sim_plan_stream_name(plan, row->event))
            : sim_plan_print_name(plan, sim_plan_event_name(plan, row->event));
    if (g_str_has_prefix(event, "post_optim#")) { /* the script's own */
        g_autofree char *named = g_steal_pointer(&event);
        event = g_strdup_printf("user:%s", strchr(named, '#'));
    }
    facts_add(facts,
              g_strdup_printf("%s %s on %s", verb, event, sim_plan_stream_name(plan, row->stream)));
}

static inline Facts *facts_read_plan(const SimPlan *plan, bool sums_memory)
{
    Facts *facts = facts_new(sums_memory);
    g_autofree SimStringId *units = facts_find_reduced(plan);
    for (size_t i = 0; i < sim_plan_length(plan); i++) {
        const SimInstruction *row = sim_plan_instruction(plan, i);
        if (!sim_plan_rank_set_has(plan, row->rank_set, 0))
            continue;
        if (row->op == SIM_PLAN_ALLOC || row->op == SIM_PLAN_FREE) {
            const SimBuffer *buffer = sim_plan_buffer(plan, row->buffer);
            bool is_gradient = buffer->category == SIM_CATEGORY_UNSHARDED_GRADIENT;
            if (row->op == SIM_PLAN_ALLOC && !is_gradient)
                units[row->buffer] = row->unit;
            if (facts_is_fsdp(plan, buffer) && (!is_gradient || units[row->buffer] != 0))
                facts_read_buffer(facts, plan, row, units[row->buffer]);
        } else if (row->op == SIM_PLAN_KERNEL || row->op == SIM_PLAN_COLLECTIVE) {
            facts_read_kernel(facts, plan, row);
        } else if (row->op == SIM_PLAN_RECORD || row->op == SIM_PLAN_WAIT) {
            facts_read_event(facts, plan, row);
        }
    }
    facts_flush(facts);
    return facts;
}

/* NULL if equal, else the first difference with the lines before it. Owned by the caller. */
static inline char *facts_compare(const Facts *recorded, const Facts *planned)
{
    size_t count = MAX(recorded->lines->len, planned->lines->len);
    for (size_t i = 0; i < count; i++) {
        const char *left =
            i < recorded->lines->len ? g_ptr_array_index(recorded->lines, i) : "(end)";
        const char *right =
            i < planned->lines->len ? g_ptr_array_index(planned->lines, i) : "(end)";
        if (strcmp(left, right) == 0)
            continue;
        GString *text = g_string_new(NULL);
        g_string_append_printf(text, "line %zu of %u\n", i, recorded->lines->len);
        for (size_t j = i < 6 ? 0 : i - 6; j < i; j++)
            g_string_append_printf(text, "    %s\n",
                                   (const char *)g_ptr_array_index(recorded->lines, j));
        g_string_append_printf(text, "  recorded: %s\n  planned:  %s\n", left, right);
        return g_string_free(text, FALSE);
    }
    return NULL;
}
