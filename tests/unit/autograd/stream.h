/* SPDX-License-Identifier: Apache-2.0
 *
 * A step's allocations and frees against PyTorch's recording of them (data/README.md).
 */
#pragma once

#include <stdlib.h>

#include "recording.h"

/* Compares row by row from STEP's first row; ordinal of a buffer = its number among the step's.
 * MOVED: buffer + 1 whose free is compared as to whether, not when; 0 = none. */
static inline void compare_stream(const Step *step, const SimCsv *ops, const char *net,
                                  const char *setting, uint32_t moved)
{
    size_t at = step->first_row, compared = 0;
    for (size_t row = 0; row < sim_csv_rows(ops); row++) {
        if (strcmp(cell(ops, row, "model"), net) != 0 ||
            strcmp(cell(ops, row, "setting"), setting) != 0 ||
            strcmp(cell(ops, row, "event"), "begin") == 0)
            continue;
        guint64 buffer = g_ascii_strtoull(cell(ops, row, "buffer"), NULL, 10);
        bool is_alloc = strcmp(cell(ops, row, "event"), "alloc") == 0;
        if (!is_alloc && buffer + 1 == moved)
            continue;
        const SimInstruction *found = NULL;
        for (; at < sim_plan_length(step->plan); at++) {
            found = sim_plan_instruction(step->plan, at);
            bool is_moved =
                found->op == SIM_PLAN_FREE && found->buffer - step->first_buffer + 1 == moved;
            if ((found->op == SIM_PLAN_ALLOC || found->op == SIM_PLAN_FREE) && !is_moved)
                break;
        }
        ck_assert_msg(at < sim_plan_length(step->plan), "%s %s: the stream ends after %zu events",
                      net, setting, compared);
        at++;
        guint64 bytes = g_ascii_strtoull(cell(ops, row, "bytes"), NULL, 10);
        const SimBuffer *ours = sim_plan_buffer(step->plan, found->buffer);
        g_autofree char *name = sim_plan_print_name(step->plan, ours->name);
        ck_assert_msg(is_alloc == (found->op == SIM_PLAN_ALLOC) && bytes == ours->bytes &&
                          buffer == found->buffer - step->first_buffer,
                      "%s %s, event %zu (%s %s): expected %s of buffer %" G_GUINT64_FORMAT
                      ", %" G_GUINT64_FORMAT " B (%s); found %s of %u, %" G_GUINT64_FORMAT
                      " B (%s)",
                      net, setting, compared, cell(ops, row, "phase"), cell(ops, row, "part"),
                      is_alloc ? "alloc" : "free", buffer, bytes, cell(ops, row, "op"),
                      found->op == SIM_PLAN_ALLOC ? "alloc" : "free",
                      found->buffer - step->first_buffer, ours->bytes, name);
        compared++;
    }
    ck_assert_uint_gt(compared, 100);
    for (; at < sim_plan_length(step->plan); at++) {
        const SimInstruction *more = sim_plan_instruction(step->plan, at);
        ck_assert_msg(more->op != SIM_PLAN_ALLOC && more->op != SIM_PLAN_FREE,
                      "%s %s: more events than the %zu recorded", net, setting, compared);
    }
}

typedef struct StreamEvent {
    bool is_alloc;
    guint64 buffer, bytes;
} StreamEvent;

static inline gint compare_buffers(gconstpointer a, gconstpointer b)
{
    guint64 x = ((const StreamEvent *)a)->buffer, y = ((const StreamEvent *)b)->buffer;
    return x < y ? -1 : x > y;
}

/* Frees that follow each other: what the allocator has then does not depend on their order. */
static inline void sort_frees(GArray *events)
{
    StreamEvent *all = (StreamEvent *)(void *)events->data;
    for (guint first = 0, end; first < events->len; first = MAX(end, first + 1)) {
        for (end = first; end < events->len && !all[end].is_alloc;)
            end++;
        qsort(&all[first], end - first, sizeof *all, compare_buffers);
    }
}

static inline GArray *recorded_events(const SimCsv *ops, const char *net, const char *setting)
{
    GArray *events = g_array_new(FALSE, TRUE, sizeof(StreamEvent));
    for (size_t row = 0; row < sim_csv_rows(ops); row++) {
        if (strcmp(cell(ops, row, "model"), net) != 0 ||
            strcmp(cell(ops, row, "setting"), setting) != 0 ||
            strcmp(cell(ops, row, "event"), "begin") == 0)
            continue;
        StreamEvent event = {strcmp(cell(ops, row, "event"), "alloc") == 0,
                             g_ascii_strtoull(cell(ops, row, "buffer"), NULL, 10),
                             g_ascii_strtoull(cell(ops, row, "bytes"), NULL, 10)};
        g_array_append_val(events, event);
    }
    return events;
}

static inline GArray *planned_events(const Step *step)
{
    GArray *events = g_array_new(FALSE, TRUE, sizeof(StreamEvent));
    for (size_t row = step->first_row; row < sim_plan_length(step->plan); row++) {
        const SimInstruction *found = sim_plan_instruction(step->plan, row);
        if (found->op != SIM_PLAN_ALLOC && found->op != SIM_PLAN_FREE)
            continue;
        StreamEvent event = {found->op == SIM_PLAN_ALLOC, found->buffer - step->first_buffer,
                             sim_plan_buffer(step->plan, found->buffer)->bytes};
        g_array_append_val(events, event);
    }
    return events;
}

/* The same but for the order of frees that follow each other. */
static inline void compare_stream_loosely(const Step *step, const SimCsv *ops, const char *net,
                                          const char *setting)
{
    g_autoptr(GArray) recorded = recorded_events(ops, net, setting);
    g_autoptr(GArray) planned = planned_events(step);
    sort_frees(recorded);
    sort_frees(planned);
    ck_assert_uint_gt(recorded->len, 100);
    for (guint i = 0; i < MIN(recorded->len, planned->len); i++) {
        const StreamEvent *a = &g_array_index(recorded, StreamEvent, i);
        const StreamEvent *b = &g_array_index(planned, StreamEvent, i);
        ck_assert_msg(a->is_alloc == b->is_alloc && a->buffer == b->buffer && a->bytes == b->bytes,
                      "%s %s, event %u: expected %s of buffer %" G_GUINT64_FORMAT
                      ", %" G_GUINT64_FORMAT " B; found %s of %" G_GUINT64_FORMAT
                      ", %" G_GUINT64_FORMAT " B",
                      net, setting, i, a->is_alloc ? "alloc" : "free", a->buffer, a->bytes,
                      b->is_alloc ? "alloc" : "free", b->buffer, b->bytes);
    }
    ck_assert_uint_eq(recorded->len, planned->len);
}
