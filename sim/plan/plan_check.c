/* SPDX-License-Identifier: Apache-2.0 */
#include "plan/plan_check.h"

#include <string.h>

#include "base/error.h"
#include "plan/name_table.h"

struct SimPlanCheck {
    const SimPlan *plan;
    SimNameTable *buffers; /* covers: where it lives */
    GArray *views;         /* of uint32_t, by buffer: the next view of the same root, or NONE.
                            * Views die with the buffer that holds them */
    SimNameTable *events;  /* covers: who has recorded it */
};

SimPlanCheck *sim_plan_check_new(const SimPlan *plan)
{
    SimPlanCheck *check = g_new0(SimPlanCheck, 1);

    check->plan = plan;
    check->buffers = sim_name_table_new();
    check->views = g_array_new(FALSE, FALSE, sizeof(uint32_t));
    check->events = sim_name_table_new();
    return check;
}

void sim_plan_check_free(SimPlanCheck *check)
{
    if (check == NULL)
        return;
    sim_name_table_free(check->buffers);
    g_array_unref(check->views);
    sim_name_table_free(check->events);
    g_free(check);
}

/* The living buffer whose name comes nearest; for the message only. */
static char *find_nearest_name(const SimPlanCheck *check, const char *text)
{
    g_autoptr(GPtrArray) names = g_ptr_array_new_with_free_func(g_free);

    for (uint32_t i = 0; i < sim_name_table_count(check->buffers); i++) {
        const SimNameEntry *entry = sim_name_table_entry(check->buffers, i);
        if (!sim_rank_cover_is_empty(&entry->cover))
            g_ptr_array_add(names, sim_plan_print_name(check->plan, entry->name));
    }
    g_ptr_array_add(names, NULL);
    return g_strdup(sim_error_nearest(text, (const char *const *)names->pdata));
}

static bool fail_dead(const SimPlanCheck *check, SimName name, GError **error)
{
    g_autofree char *text = sim_plan_print_name(check->plan, name);
    bool is_known;

    sim_name_table_youngest(check->buffers, name, &is_known);
    if (is_known)
        return sim_error_fail(error, SIM_ERROR_SCHEMA,
                              "buffer '%s' does not live here: it was freed, or "
                              "belongs to other ranks",
                              text);
    g_autofree char *nearest = find_nearest_name(check, text);
    if (nearest == NULL)
        return sim_error_fail(error, SIM_ERROR_SCHEMA, "unknown buffer '%s': no buffer lives here",
                              text);
    return sim_error_fail(error, SIM_ERROR_SCHEMA, "unknown buffer '%s'; did you mean '%s'?", text,
                          nearest);
}

bool sim_plan_check_find_buffer(const SimPlanCheck *check, SimName name, uint32_t rank_set,
                                uint32_t *buffer, GError **error)
{
    uint32_t found = sim_name_table_find(check->buffers, check->plan, name, rank_set);

    if (found == SIM_PLAN_NONE)
        return fail_dead(check, name, error);
    const SimNameEntry *entry = sim_name_table_entry(check->buffers, found);
    if (!sim_rank_cover_has(&entry->cover, check->plan, rank_set)) {
        g_autofree char *text = sim_plan_print_name(check->plan, name);
        return sim_error_fail(
            error, SIM_ERROR_SCHEMA,
            "buffer '%s' lives on some of the row's ranks only; expected a row for those", text);
    }
    *buffer = found;
    return true;
}

/* True if BUFFER lives on the row's ranks, and its name leads to it. */
static bool check_lives(const SimPlanCheck *check, const SimInstruction *row, uint32_t buffer,
                        GError **error)
{
    if (buffer >= sim_plan_buffer_count(check->plan))
        return sim_error_fail(error, SIM_ERROR_SCHEMA, "expected a buffer, found number %u of %zu",
                              buffer, sim_plan_buffer_count(check->plan));
    SimName name = sim_plan_buffer(check->plan, buffer)->name;
    uint32_t found;
    if (buffer >= sim_name_table_count(check->buffers) ||
        sim_rank_cover_is_empty(&sim_name_table_entry(check->buffers, buffer)->cover))
        return fail_dead(check, name, error);
    if (!sim_plan_check_find_buffer(check, name, row->rank_set, &found, error))
        return false;
    if (found == buffer)
        return true;
    g_autofree char *text = sim_plan_print_name(check->plan, name);
    return sim_error_fail(error, SIM_ERROR_SCHEMA, "'%s' is another buffer on these ranks", text);
}

/* --- names ---------------------------------------------------------------------------------------
 */

/* True if NAME, printed, is read back as the same parts. */
static bool check_name(const SimPlan *plan, SimName name, const char *what, GError **error)
{
    const char *stem = sim_plan_string(plan, name.stem);

    if (*stem == '\0')
        return sim_error_fail(error, SIM_ERROR_SCHEMA, "expected a name for the %s", what);
    if (name.serial < 0 && name.tail != 0)
        return sim_error_fail(error, SIM_ERROR_SCHEMA, "%s '%s' has a tail but no serial", what,
                              stem);
    for (const char *mark = strchr(stem, '#'); mark != NULL; mark = strchr(mark + 1, '#')) {
        size_t digits = strspn(mark + 1, "0123456789");
        if (digits > 0 && (mark[1 + digits] == ':' || mark[1 + digits] == '\0'))
            return sim_error_fail(error, SIM_ERROR_SCHEMA, "%s '%s' has a serial in its stem", what,
                                  stem);
    }
    return true;
}

/* Buffers stand in lists, and in front of brackets. */
static bool check_list_item(const SimPlan *plan, SimName name, GError **error)
{
    if (strpbrk(sim_plan_string(plan, name.stem), " []") == NULL &&
        strpbrk(sim_plan_string(plan, name.tail), " []") == NULL)
        return true;
    g_autofree char *text = sim_plan_print_name(plan, name);
    return sim_error_fail(error, SIM_ERROR_SCHEMA,
                          "a buffer's name holds no space or bracket: '%s'", text);
}

/* --- touches -------------------------------------------------------------------------------------
 */

/* The highest place that a rank of the set has in one of the group's lists; false if a rank of the
 * set is in none. */
static bool find_highest_place(const SimPlan *plan, uint32_t group, uint32_t rank_set,
                               uint32_t *highest)
{
    uint32_t n_set, wanted = 0, found = 0;
    const SimRange *set = sim_plan_rank_set_ranges(plan, rank_set, &n_set);

    *highest = 0;
    for (uint32_t i = 0; i < n_set; i++)
        wanted += set[i].last - set[i].first + 1;
    for (uint32_t list = 0; list < sim_plan_group_lists(plan, group); list++) {
        uint32_t n_ranges, before = 0;
        const SimRange *ranges = sim_plan_group_ranges(plan, group, list, &n_ranges);
        for (uint32_t i = 0; i < n_ranges; i++) {
            for (uint32_t j = 0; j < n_set; j++) {
                uint32_t first = MAX(ranges[i].first, set[j].first);
                uint32_t last = MIN(ranges[i].last, set[j].last);
                if (first > last)
                    continue;
                found += last - first + 1;
                *highest = MAX(*highest, before + last - ranges[i].first);
            }
            before += ranges[i].last - ranges[i].first + 1;
        }
    }
    return found == wanted;
}

static bool fail_outside(const SimPlan *plan, const SimTouch *touch, GError **error)
{
    const SimBuffer *buffer = sim_plan_buffer(plan, touch->buffer);
    g_autofree char *text = sim_plan_print_name(plan, buffer->name);

    return sim_error_fail(error, SIM_ERROR_RANGE,
                          "part [%s%" G_GUINT64_FORMAT ":%" G_GUINT64_FORMAT
                          "] is outside buffer '%s' of %" G_GUINT64_FORMAT " bytes",
                          touch->times_rank ? "R*" : "", touch->offset, touch->bytes, text,
                          buffer->bytes);
}

static bool check_part(const SimPlanCheck *check, const SimInstruction *row, const SimTouch *touch,
                       GError **error)
{
    const SimPlan *plan = check->plan;
    const SimBuffer *buffer = sim_plan_buffer(plan, touch->buffer);
    uint64_t offset = touch->offset;

    if (touch->bytes == 0) {
        if (offset == 0 && !touch->times_rank)
            return true;
        return fail_outside(plan, touch, error);
    }
    if (touch->times_rank) {
        uint32_t group =
            row->group != SIM_PLAN_NONE ? row->group : sim_plan_find_group(plan, "shard");
        uint32_t place;
        if (group == SIM_PLAN_NONE)
            return sim_error_fail(error, SIM_ERROR_SCHEMA,
                                  "offset R* needs a group in the row, or a group 'shard'");
        if (!find_highest_place(plan, group, row->rank_set, &place))
            return sim_error_fail(error, SIM_ERROR_SCHEMA,
                                  "offset R*: not all ranks of the row are in "
                                  "group '%s'",
                                  sim_plan_group_name(plan, group));
        if (place > 0 && offset > buffer->bytes / place)
            return fail_outside(plan, touch, error);
        offset *= place;
    }
    if (offset > buffer->bytes || touch->bytes > buffer->bytes - offset)
        return fail_outside(plan, touch, error);
    return true;
}

static bool check_touches(const SimPlanCheck *check, const SimInstruction *row, GError **error)
{
    size_t n = (size_t)row->n_reads + row->n_writes;
    const SimTouch *touches = sim_plan_touches(check->plan, row);

    for (size_t i = 0; i < n; i++) {
        if (!check_lives(check, row, touches[i].buffer, error) ||
            !check_part(check, row, &touches[i], error)) {
            g_prefix_error(error, "%s: ", i < row->n_reads ? "reads" : "writes");
            return false;
        }
    }
    return true;
}

/* --- buffers and events --------------------------------------------------------------------------
 */

static bool check_birth(SimPlanCheck *check, const SimInstruction *row, GError **error)
{
    uint32_t next = sim_name_table_count(check->buffers);

    if (row->buffer != next || next >= sim_plan_buffer_count(check->plan))
        return sim_error_fail(error, SIM_ERROR_SCHEMA,
                              "buffers are numbered in the order of their birth: "
                              "expected %u, found %u",
                              next, row->buffer);
    const SimBuffer *buffer = sim_plan_buffer(check->plan, row->buffer);
    if (!check_name(check->plan, buffer->name, "buffer", error) ||
        !check_list_item(check->plan, buffer->name, error))
        return false;
    if (sim_name_table_find(check->buffers, check->plan, buffer->name, row->rank_set) !=
        SIM_PLAN_NONE) {
        g_autofree char *text = sim_plan_print_name(check->plan, buffer->name);
        return sim_error_fail(error, SIM_ERROR_SCHEMA, "buffer '%s' lives already", text);
    }
    uint32_t root = sim_plan_root_buffer(check->plan, row->buffer);
    uint32_t link = SIM_PLAN_NONE;
    if (row->op == SIM_PLAN_VIEW) {
        if (row->n_reads != 1 || row->n_writes != 0)
            return sim_error_fail(error, SIM_ERROR_SCHEMA, "view: expected one item in reads");
        link = g_array_index(check->views, uint32_t, root);
        g_array_index(check->views, uint32_t, root) = row->buffer;
    } else if (root != row->buffer) {
        return sim_error_fail(error, SIM_ERROR_SCHEMA, "alloc of a view");
    }
    g_array_append_val(check->views, link);
    sim_name_table_add(check->buffers, buffer->name);
    sim_rank_cover_add(&sim_name_table_entry(check->buffers, row->buffer)->cover, check->plan,
                       row->rank_set);
    return true;
}

/* BUFFER and its views live no longer on the row's ranks. */
static void end_lives(SimPlanCheck *check, uint32_t buffer, uint32_t rank_set)
{
    while (buffer != SIM_PLAN_NONE) {
        SimNameEntry *entry = sim_name_table_entry(check->buffers, buffer);
        if (!sim_rank_cover_is_empty(&entry->cover)) {
            sim_rank_cover_remove(&entry->cover, check->plan, rank_set);
            if (sim_rank_cover_is_empty(&entry->cover))
                sim_name_table_unlist(check->buffers, buffer);
        }
        buffer = g_array_index(check->views, uint32_t, buffer);
    }
}

static bool check_free(SimPlanCheck *check, const SimInstruction *row, GError **error)
{
    if (!check_lives(check, row, row->buffer, error))
        return false;
    const SimBuffer *buffer = sim_plan_buffer(check->plan, row->buffer);
    if (buffer->parent != SIM_PLAN_NONE) {
        g_autofree char *text = sim_plan_print_name(check->plan, buffer->name);
        return sim_error_fail(error, SIM_ERROR_SCHEMA,
                              "'%s' is a view: expected the buffer that holds it", text);
    }
    end_lives(check, row->buffer, row->rank_set);
    return true;
}

/* True if the row's event is the one that its name means here, by the rules of sim_plan_record and
 * sim_plan_event. */
static bool check_event(SimPlanCheck *check, const SimInstruction *row, GError **error)
{
    uint32_t n_known = sim_name_table_count(check->events);

    if (row->event >= sim_plan_event_count(check->plan) || row->event > n_known)
        return sim_error_fail(error, SIM_ERROR_SCHEMA,
                              "events are numbered in the order of their use: "
                              "expected at most %u, found %u",
                              n_known, row->event);
    SimName name = sim_plan_event_name(check->plan, row->event);
    if (!check_name(check->plan, name, "event", error))
        return false;
    if (g_str_has_prefix(sim_plan_string(check->plan, name.stem), "stream:"))
        return sim_error_fail(error, SIM_ERROR_SCHEMA,
                              "an event's name does not begin with 'stream:'");
    uint32_t youngest = sim_name_table_youngest(check->events, name, NULL);
    uint32_t expected = youngest;
    if (row->op == SIM_PLAN_RECORD) {
        if (youngest != SIM_PLAN_NONE &&
            sim_rank_cover_meets(&sim_name_table_entry(check->events, youngest)->cover, check->plan,
                                 row->rank_set))
            expected = SIM_PLAN_NONE;
    } else {
        uint32_t recorded = sim_name_table_find(check->events, check->plan, name, row->rank_set);
        expected = recorded != SIM_PLAN_NONE ? recorded : youngest;
    }
    if (row->event == n_known && expected == SIM_PLAN_NONE)
        sim_name_table_add(check->events, name);
    else if (row->event != expected) {
        g_autofree char *text = sim_plan_print_name(check->plan, name);
        return sim_error_fail(error, SIM_ERROR_SCHEMA,
                              "event '%s' was recorded again in between; expected "
                              "a name of its own for each record that is waited for",
                              text);
    }
    if (row->op == SIM_PLAN_RECORD)
        sim_rank_cover_add(&sim_name_table_entry(check->events, row->event)->cover, check->plan,
                           row->rank_set);
    return true;
}

/* --- rows ----------------------------------------------------------------------------------------
 */

static bool check_ids(const SimPlan *plan, const SimInstruction *row, GError **error)
{
    if (row->op >= SIM_PLAN_OP_COUNT || row->phase >= SIM_PHASE_COUNT ||
        row->dtype >= SIM_DTYPE_COUNT || row->collective >= SIM_COLLECTIVE_COUNT)
        return sim_error_fail(error, SIM_ERROR_SCHEMA,
                              "op, phase, dtype or collective out of range");
    if (row->rank_set >= sim_plan_rank_set_count(plan))
        return sim_error_fail(error, SIM_ERROR_SCHEMA, "rank set %u out of range", row->rank_set);
    if (row->stream >= sim_plan_stream_count(plan))
        return sim_error_fail(error, SIM_ERROR_SCHEMA, "stream %u out of range", row->stream);
    if (row->is_event_of_stream && row->event >= sim_plan_stream_count(plan))
        return sim_error_fail(error, SIM_ERROR_SCHEMA, "stream %u out of range", row->event);
    if (row->group != SIM_PLAN_NONE && row->group >= sim_plan_group_count(plan))
        return sim_error_fail(error, SIM_ERROR_SCHEMA, "group %u out of range", row->group);
    if (row->step < -1 || row->microbatch < -1 || row->duration < -1)
        return sim_error_fail(error, SIM_ERROR_RANGE, "step, microbatch or duration below zero");
    return true;
}

static bool fail_missing(const SimInstruction *row, const char *column, GError **error)
{
    return sim_error_fail(error, SIM_ERROR_SCHEMA, "%s: expected a value in column '%s'",
                          sim_plan_op_name((SimPlanOp)row->op), column);
}

static bool check_collective(const SimPlan *plan, const SimInstruction *row, GError **error)
{
    uint32_t place;

    if (row->group == SIM_PLAN_NONE)
        return fail_missing(row, "group", error);
    if (row->collective == SIM_COLLECTIVE_NONE)
        return fail_missing(row, "collective", error);
    if (row->bytes == 0 && row->duration < 0)
        return fail_missing(row, "bytes", error);
    if (!find_highest_place(plan, row->group, row->rank_set, &place))
        return sim_error_fail(error, SIM_ERROR_SCHEMA, "not all ranks of the row are in group '%s'",
                              sim_plan_group_name(plan, row->group));
    return true;
}

static bool check_op(SimPlanCheck *check, const SimInstruction *row, GError **error)
{
    switch ((SimPlanOp)row->op) {
    case SIM_PLAN_ALLOC:
    case SIM_PLAN_VIEW:
        return check_birth(check, row, error);
    case SIM_PLAN_FREE:
        return check_free(check, row, error);
    case SIM_PLAN_RECORD_STREAM:
        return check_lives(check, row, row->buffer, error);
    case SIM_PLAN_COLLECTIVE:
        return check_collective(check->plan, row, error);
    case SIM_PLAN_COPY:
        if (row->bytes == 0 && row->duration < 0)
            return fail_missing(row, "bytes", error);
        return true;
    case SIM_PLAN_RECORD:
    case SIM_PLAN_HOST_WAIT:
        return check_event(check, row, error);
    case SIM_PLAN_WAIT:
        return row->is_event_of_stream || check_event(check, row, error);
    case SIM_PLAN_HOST:
        return row->duration >= 0 || fail_missing(row, "duration", error);
    case SIM_PLAN_MARK:
        return row->name != 0 || fail_missing(row, "name", error);
    case SIM_PLAN_KERNEL:
    case SIM_PLAN_OP_COUNT:
        break;
    }
    return true;
}

bool sim_plan_check_row(SimPlanCheck *check, size_t index, GError **error)
{
    const SimInstruction *row = sim_plan_instruction(check->plan, index);

    return check_ids(check->plan, row, error) && check_touches(check, row, error) &&
           check_op(check, row, error);
}

bool sim_plan_check_unsound_row(SimPlanCheck *check, size_t index, GError **error)
{
    const SimInstruction *row = sim_plan_instruction(check->plan, index);

    if (!check_ids(check->plan, row, error))
        return false;
    if (row->op == SIM_PLAN_FREE || row->op == SIM_PLAN_RECORD_STREAM)
        return true;
    if (!check_op(check, row, error))
        return false;
    if (row->op == SIM_PLAN_VIEW) /* of what is freed: it never lives */
        end_lives(check, row->buffer, row->rank_set);
    return true;
}

bool sim_plan_check(const SimPlan *plan, GError **error)
{
    g_autoptr(SimPlanCheck) check = sim_plan_check_new(plan);

    for (size_t i = 0; i < sim_plan_length(plan); i++) {
        if (!sim_plan_check_row(check, i, error)) {
            g_prefix_error(error, "row %zu (%s): ", i + 1,
                           sim_plan_instruction(plan, i)->op < SIM_PLAN_OP_COUNT
                               ? sim_plan_op_name((SimPlanOp)sim_plan_instruction(plan, i)->op)
                               : "?");
            return false;
        }
    }
    return true;
}
