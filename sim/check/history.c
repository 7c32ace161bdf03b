/* SPDX-License-Identifier: Apache-2.0 */
#include "check/history.h"

#define NONE UINT32_MAX

typedef struct Piece {
    uint64_t begin, end;
    SimEpoch write; /* lane SIM_CLOCKS_NO_LANE: not written yet */
    uint32_t reads; /* first of its list */
    uint32_t next;
} Piece;

typedef struct Read {
    SimEpoch epoch;
    uint32_t next;
} Read;

struct SimHistory {
    uint32_t *first; /* by buffer */
    GArray *pieces;  /* of Piece */
    GArray *reads;   /* of Read */
    uint32_t free_piece, free_read;
};

SimHistory *sim_history_new(size_t buffers)
{
    SimHistory *history = g_new0(SimHistory, 1);
    history->first = g_new(uint32_t, MAX(buffers, 1));
    for (size_t i = 0; i < buffers; i++)
        history->first[i] = NONE;
    history->pieces = g_array_new(FALSE, FALSE, sizeof(Piece));
    history->reads = g_array_new(FALSE, FALSE, sizeof(Read));
    history->free_piece = history->free_read = NONE;
    return history;
}

void sim_history_free(SimHistory *history)
{
    if (history == NULL)
        return;
    g_free(history->first);
    g_array_unref(history->pieces);
    g_array_unref(history->reads);
    g_free(history);
}

static Piece *piece_at(const SimHistory *history, uint32_t piece)
{
    return &g_array_index(history->pieces, Piece, piece);
}

static Read *read_at(const SimHistory *history, uint32_t read)
{
    return &g_array_index(history->reads, Read, read);
}

static uint32_t new_piece(SimHistory *history, Piece value)
{
    uint32_t piece = history->free_piece;
    if (piece == NONE) {
        g_array_append_val(history->pieces, value);
        return history->pieces->len - 1;
    }
    history->free_piece = piece_at(history, piece)->next;
    *piece_at(history, piece) = value;
    return piece;
}

static uint32_t new_read(SimHistory *history, SimEpoch epoch, uint32_t next)
{
    uint32_t read = history->free_read;
    Read value = {.epoch = epoch, .next = next};
    if (read == NONE) {
        g_array_append_val(history->reads, value);
        return history->reads->len - 1;
    }
    history->free_read = read_at(history, read)->next;
    *read_at(history, read) = value;
    return read;
}

static void clear_reads(SimHistory *history, uint32_t piece)
{
    uint32_t read = piece_at(history, piece)->reads;
    while (read != NONE) {
        uint32_t next = read_at(history, read)->next;
        read_at(history, read)->next = history->free_read;
        history->free_read = read;
        read = next;
    }
    piece_at(history, piece)->reads = NONE;
}

static void free_piece(SimHistory *history, uint32_t piece)
{
    clear_reads(history, piece);
    piece_at(history, piece)->next = history->free_piece;
    history->free_piece = piece;
}

void sim_history_start(SimHistory *history, uint32_t buffer, uint64_t bytes)
{
    g_assert(history->first[buffer] == NONE);
    Piece whole = {.begin = 0,
                   .end = bytes,
                   .write = {.lane = SIM_CLOCKS_NO_LANE},
                   .reads = NONE,
                   .next = NONE};
    history->first[buffer] = new_piece(history, whole);
}

void sim_history_finish(SimHistory *history, uint32_t buffer)
{
    uint32_t piece = history->first[buffer];
    while (piece != NONE) {
        uint32_t next = piece_at(history, piece)->next;
        free_piece(history, piece);
        piece = next;
    }
    history->first[buffer] = NONE;
}

/* Cuts PIECE at AT, strictly inside it; both parts keep its accesses. */
static void split(SimHistory *history, uint32_t piece, uint64_t at)
{
    Piece upper = *piece_at(history, piece);
    upper.begin = at;
    upper.reads = NONE;
    for (uint32_t r = piece_at(history, piece)->reads; r != NONE; r = read_at(history, r)->next)
        upper.reads = new_read(history, read_at(history, r)->epoch, upper.reads);
    uint32_t second = new_piece(history, upper);
    piece_at(history, piece)->end = at;
    piece_at(history, piece)->next = second;
}

/* The first piece that begins at BEGIN, after cuts at BEGIN and END; in *BEFORE the piece before
 * it, or NONE. */
static uint32_t cut(SimHistory *history, uint32_t buffer, uint64_t begin, uint64_t end,
                    uint32_t *before)
{
    uint32_t piece = history->first[buffer];
    *before = NONE;
    while (piece_at(history, piece)->end <= begin) {
        *before = piece;
        piece = piece_at(history, piece)->next;
    }
    if (piece_at(history, piece)->begin < begin) {
        split(history, piece, begin);
        *before = piece;
        piece = piece_at(history, piece)->next;
    }
    uint32_t last = piece;
    while (piece_at(history, last)->end < end)
        last = piece_at(history, last)->next;
    if (piece_at(history, last)->end > end)
        split(history, last, end);
    return piece;
}

static bool check_write(const SimClocks *clocks, const Piece *piece, SimConflict *conflict,
                        SimHistoryConflictFunc func, void *user_data)
{
    if (piece->write.lane == SIM_CLOCKS_NO_LANE)
        return false;
    if (!sim_clocks_is_before(clocks, piece->write, conflict->later.lane)) {
        conflict->earlier = piece->write;
        conflict->earlier_writes = true;
        conflict->begin = piece->begin;
        conflict->end = piece->end;
        func(conflict, user_data);
    }
    return true;
}

/* Puts the read on PIECE's list in the place of all that come before it anyway. */
static void note_read(SimHistory *history, const SimClocks *clocks, uint32_t piece, SimEpoch epoch)
{
    uint32_t kept = NONE;
    uint32_t read = piece_at(history, piece)->reads;
    while (read != NONE) {
        uint32_t next = read_at(history, read)->next;
        bool is_implied = sim_clocks_is_before(clocks, read_at(history, read)->epoch, epoch.lane);
        read_at(history, read)->next = is_implied ? history->free_read : kept;
        if (is_implied)
            history->free_read = read;
        else
            kept = read;
        read = next;
    }
    uint32_t first = new_read(history, epoch, kept);
    piece_at(history, piece)->reads = first;
}

uint64_t sim_history_read(SimHistory *history, const SimClocks *clocks, uint32_t buffer,
                          uint64_t begin, uint64_t end, SimEpoch epoch, SimHistoryConflictFunc func,
                          void *user_data)
{
    if (begin >= end)
        return 0;
    SimConflict conflict = {.later = epoch, .later_writes = false};
    uint64_t unwritten = 0;
    uint32_t before;
    uint32_t piece = cut(history, buffer, begin, end, &before);
    while (piece != NONE && piece_at(history, piece)->begin < end) {
        const Piece *p = piece_at(history, piece);
        if (!check_write(clocks, p, &conflict, func, user_data))
            unwritten += p->end - p->begin;
        note_read(history, clocks, piece, epoch);
        piece = piece_at(history, piece)->next;
    }
    return unwritten;
}

void sim_history_write(SimHistory *history, const SimClocks *clocks, uint32_t buffer,
                       uint64_t begin, uint64_t end, SimEpoch epoch, SimHistoryConflictFunc func,
                       void *user_data)
{
    if (begin >= end)
        return;
    SimConflict conflict = {.later = epoch, .later_writes = true};
    uint32_t before;
    uint32_t first = cut(history, buffer, begin, end, &before);
    uint32_t piece = first;
    while (piece != NONE && piece_at(history, piece)->begin < end) {
        check_write(clocks, piece_at(history, piece), &conflict, func, user_data);
        for (uint32_t r = piece_at(history, piece)->reads; r != NONE;
             r = read_at(history, r)->next) {
            if (sim_clocks_is_before(clocks, read_at(history, r)->epoch, epoch.lane))
                continue;
            conflict.earlier = read_at(history, r)->epoch;
            conflict.earlier_writes = false;
            conflict.begin = piece_at(history, piece)->begin;
            conflict.end = piece_at(history, piece)->end;
            func(&conflict, user_data);
        }
        uint32_t next = piece_at(history, piece)->next;
        if (piece != first)
            free_piece(history, piece);
        piece = next;
    }
    clear_reads(history, first);
    Piece *written = piece_at(history, first);
    written->end = end;
    written->write = epoch;
    written->next = piece;
}

void sim_history_each_last(const SimHistory *history, uint32_t buffer, SimHistoryAccessFunc func,
                           void *user_data)
{
    for (uint32_t piece = history->first[buffer]; piece != NONE;
         piece = piece_at(history, piece)->next) {
        const Piece *p = piece_at(history, piece);
        if (p->reads == NONE && p->write.lane != SIM_CLOCKS_NO_LANE)
            func(p->write, user_data);
        /* A read comes after the write it reads, or the race was reported. */
        for (uint32_t r = p->reads; r != NONE; r = read_at(history, r)->next)
            func(read_at(history, r)->epoch, user_data);
    }
}
