/* SPDX-License-Identifier: Apache-2.0
 *
 * Recorded allocator histories (tests/oracle/allocator/README.md) as operations that can be played.
 * For the replay test and the benchmark; each includes it once, so all functions are static.
 */
#pragma once

#include "base/csv.h"
#include "base/units.h"
#include "hbm/allocator.h"

#include <glib.h>

/* Each recorded segment gets addresses of its own: number n begins at (n + 1) * HISTORY_STRIDE. */
#define HISTORY_STRIDE (UINT64_C(1) << 45)

/* One row of events.csv. */
typedef struct HistoryEvent {
    SimAllocatorAction action;
    uint32_t stream;
    uint32_t segment;
    uint64_t bytes;
    uint64_t offset_bytes;
    unsigned slot; /* ALLOC, FREE_REQUESTED: which allocation of the history */
} HistoryEvent;

typedef struct HistorySegment {
    uint64_t size_bytes; /* when recording began; 0: nothing was mapped, or it came later */
    uint32_t stream;
    bool is_small;
    bool is_present;
    GArray *pieces; /* SimAllocatorPiece, ascending */
} HistorySegment;

typedef struct History {
    bool is_expandable;
    GArray *segments; /* HistorySegment */
    GArray *events;   /* HistoryEvent */
    unsigned n_slots; /* pieces of all segments first, in order */
} History;

static const char *const history_actions[] = {
    "alloc",        "free_requested", "free_completed", "segment_alloc",
    "segment_free", "segment_map",    "segment_unmap",  "oom",
};

static uint64_t history_number(const SimCsv *csv, size_t row, const char *column)
{
    int64_t value = 0;
    const char *cell = sim_csv_cell(csv, row, sim_csv_column(csv, column));

    g_assert_true(sim_units_parse_int64(cell, 0, INT64_MAX, &value, NULL));
    return (uint64_t)value;
}

static SimCsv *history_load_csv(const char *name, const char *file)
{
    g_autoptr(GError) error = NULL;
    g_autofree char *path =
        g_strdup_printf("%s/tests/oracle/allocator/%s/%s.csv.gz", SIM_SOURCE_DIR, name, file);
    SimCsv *csv = sim_csv_load(path, NULL, &error);

    g_assert_no_error(error);
    return csv;
}

static void history_load_segments(History *history, const char *name)
{
    g_autoptr(SimCsv) csv = history_load_csv(name, "segments");
    g_autoptr(SimCsv) initial = history_load_csv(name, "initial");

    for (size_t row = 0; row < sim_csv_rows(csv); row++) {
        const char *pool = sim_csv_cell(csv, row, sim_csv_column(csv, "pool"));
        const HistorySegment segment = {
            .size_bytes = history_number(csv, row, "size_bytes"),
            .stream = (uint32_t)history_number(csv, row, "stream"),
            .is_small = g_str_equal(pool, "small"),
            .is_present = history_number(csv, row, "present_at_start") == 1,
            .pieces = g_array_new(false, false, sizeof(SimAllocatorPiece)),
        };
        g_array_append_val(history->segments, segment);
    }
    for (size_t row = 0; row < sim_csv_rows(initial); row++) {
        const SimAllocatorPiece piece = {history_number(initial, row, "offset_bytes"),
                                         history_number(initial, row, "size_bytes")};
        const unsigned segment = (unsigned)history_number(initial, row, "segment");
        g_array_append_val(g_array_index(history->segments, HistorySegment, segment).pieces, piece);
    }
}

/* The table key of an allocation that lives at OFFSET of SEGMENT. */
static void *history_place(uint32_t segment, uint64_t offset)
{
    return GSIZE_TO_POINTER((segment + 1) * HISTORY_STRIDE + offset);
}

/* Numbers the allocation of each event; SLOTS holds the live ones by place. */
static void history_assign_slot(History *history, GHashTable *slots, HistoryEvent *event)
{
    void *place = history_place(event->segment, event->offset_bytes);

    if (event->action == SIM_ALLOCATOR_ALLOC) {
        event->slot = history->n_slots++;
        g_hash_table_insert(slots, place, GUINT_TO_POINTER(event->slot));
    } else if (event->action == SIM_ALLOCATOR_FREE_REQUESTED) {
        event->slot = GPOINTER_TO_UINT(g_hash_table_lookup(slots, place));
        g_assert_true(g_hash_table_remove(slots, place));
    } else if (event->action == SIM_ALLOCATOR_SEGMENT_MAP) {
        history->is_expandable = true;
        g_array_index(history->segments, HistorySegment, event->segment).size_bytes -= event->bytes;
    }
}

static void history_load_events(History *history, const char *name)
{
    g_autoptr(SimCsv) csv = history_load_csv(name, "events");
    g_autoptr(GHashTable) slots = g_hash_table_new(NULL, NULL);

    for (unsigned i = 0; i < history->segments->len; i++) {
        const GArray *pieces = g_array_index(history->segments, HistorySegment, i).pieces;
        for (unsigned p = 0; p < pieces->len; p++) {
            const SimAllocatorPiece *piece = &g_array_index(pieces, SimAllocatorPiece, p);
            g_hash_table_insert(slots, history_place(i, piece->offset_bytes),
                                GUINT_TO_POINTER(history->n_slots++));
        }
    }
    for (size_t row = 0; row < sim_csv_rows(csv); row++) {
        const char *action = sim_csv_cell(csv, row, sim_csv_column(csv, "action"));
        HistoryEvent event = {
            .stream = (uint32_t)history_number(csv, row, "stream"),
            .segment = (uint32_t)history_number(csv, row, "segment"),
            .bytes = history_number(csv, row, "size_bytes"),
            .offset_bytes = history_number(csv, row, "offset_bytes"),
        };
        while (!g_str_equal(history_actions[event.action], action)) {
            event.action++;
            g_assert_cmpuint(event.action, <, G_N_ELEMENTS(history_actions));
        }
        history_assign_slot(history, slots, &event);
        g_array_append_val(history->events, event);
    }
}

static History *history_load(const char *name)
{
    History *history = g_new0(History, 1);

    history->segments = g_array_new(false, false, sizeof(HistorySegment));
    history->events = g_array_new(false, false, sizeof(HistoryEvent));
    history_load_segments(history, name);
    history_load_events(history, name);
    return history;
}

static void history_free(History *history)
{
    for (unsigned i = 0; i < history->segments->len; i++) {
        g_array_unref(g_array_index(history->segments, HistorySegment, i).pieces);
    }
    g_array_unref(history->segments);
    g_array_unref(history->events);
    g_free(history);
}

/* Sets ALLOCATOR up as it was when recording began. BLOCKS: by slot; returns how many were filled.
 * A segment of which nothing was mapped yet is left for the allocator to make. */
static unsigned history_restore(const History *history, SimAllocator *allocator, SimBlock **blocks)
{
    unsigned n_blocks = 0;

    for (unsigned i = 0; i < history->segments->len; i++) {
        const HistorySegment *segment = &g_array_index(history->segments, HistorySegment, i);
        if (segment->is_present && segment->size_bytes > 0) {
            sim_allocator_restore_segment(allocator, segment->size_bytes, segment->stream,
                                          segment->is_small, history->is_expandable,
                                          (const SimAllocatorPiece *)(void *)segment->pieces->data,
                                          segment->pieces->len, &blocks[n_blocks]);
            n_blocks += segment->pieces->len;
        }
    }
    return n_blocks;
}
