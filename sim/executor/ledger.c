/* SPDX-License-Identifier: Apache-2.0 */
#include "executor/ledger.h"

#include <inttypes.h>
#include <string.h>

#define PIECE UINT64_C(512) /* the allocator's smallest block */

/* Signalling NaNs, as f32 and in each half as bf16; arithmetic makes only quiet ones. */
#define NEVER_WRITTEN UINT32_C(0x7fa17fa1)
#define FREED UINT32_C(0x7fad7fad)

typedef enum PieceState { CLEAN, USED, DEAD } PieceState;

typedef struct Touch {
    uint32_t row, buffer;
    uint64_t address, bytes;
    bool is_write;
} Touch;

struct SimLedger {
    GMutex lock;
    const SimPlan *plan;
    unsigned char *base;
    uint64_t pieces;
    uint32_t *given;       /* [pieces] buffer + 1, as the host sees it; 0 = nobody */
    uint32_t *owners;      /* [pieces] the same as work sees it */
    bool *is_shared;       /* [buffers] more than its own stream touches it */
    bool *is_claimed;      /* [buffers] has taken its memory over */
    unsigned char *states; /* [pieces] PieceState */
    SimLedgerLife *lives;  /* [buffers] */
    GArray *touches;       /* of Touch, going on now */
};

/* Which buffers are touched by other streams than their own. */
static bool *find_shared(const SimPlan *plan)
{
    bool *is_shared = g_new0(bool, sim_plan_buffer_count(plan) + 1);
    for (size_t i = 0; i < sim_plan_length(plan); i++) {
        const SimInstruction *row = sim_plan_instruction(plan, i);
        const SimTouch *touches = sim_plan_touches(plan, row);
        bool is_collective = row->op == SIM_PLAN_COLLECTIVE;
        for (uint32_t j = 0; j < (uint32_t)row->n_reads + row->n_writes; j++) {
            uint32_t root = sim_plan_root_buffer(plan, touches[j].buffer);
            if (is_collective || row->stream != sim_plan_buffer(plan, root)->stream)
                is_shared[root] = true;
        }
    }
    return is_shared;
}

SimLedger *sim_ledger_new(const SimPlan *plan, void *base, uint64_t bytes)
{
    SimLedger *ledger = g_new0(SimLedger, 1);
    g_mutex_init(&ledger->lock);
    ledger->plan = plan;
    ledger->base = base;
    ledger->pieces = bytes / PIECE;
    ledger->given = g_new0(uint32_t, ledger->pieces);
    ledger->owners = g_new0(uint32_t, ledger->pieces);
    ledger->is_shared = find_shared(plan);
    ledger->is_claimed = g_new0(bool, sim_plan_buffer_count(plan) + 1);
    ledger->states = g_new0(unsigned char, ledger->pieces);
    size_t buffers = sim_plan_buffer_count(plan);
    ledger->lives = g_new(SimLedgerLife, buffers + 1);
    for (size_t i = 0; i < buffers; i++)
        ledger->lives[i] =
            (SimLedgerLife){SIM_PLAN_NONE, SIM_PLAN_NONE, SIM_PLAN_NONE, SIM_PLAN_NONE, 0, 0};
    ledger->touches = g_array_new(FALSE, FALSE, sizeof(Touch));
    return ledger;
}

void sim_ledger_free(SimLedger *ledger)
{
    if (ledger == NULL)
        return;
    g_array_unref(ledger->touches);
    g_free(ledger->given);
    g_free(ledger->owners);
    g_free(ledger->is_shared);
    g_free(ledger->is_claimed);
    g_free(ledger->states);
    g_free(ledger->lives);
    g_mutex_clear(&ledger->lock);
    g_free(ledger);
}

static uint64_t piece_of(const SimLedger *ledger, uint64_t address)
{
    uint64_t piece = (address - (uint64_t)(uintptr_t)ledger->base) / PIECE;
    g_assert(piece < ledger->pieces);
    return piece;
}

static void paint(const SimLedger *ledger, uint64_t piece, uint32_t pattern)
{
    uint32_t words[PIECE / sizeof(uint32_t)];
    for (size_t i = 0; i < G_N_ELEMENTS(words); i++)
        words[i] = pattern;
    memcpy(ledger->base + piece * PIECE, words, sizeof words);
}

static bool is_painted(const SimLedger *ledger, uint64_t piece, uint32_t pattern)
{
    const unsigned char *at = ledger->base + piece * PIECE;
    for (uint64_t i = 0; i < PIECE; i += sizeof pattern)
        if (memcmp(at + i, &pattern, sizeof pattern) != 0)
            return false;
    return true;
}

static char *name_of(const SimLedger *ledger, uint32_t buffer)
{
    return sim_plan_print_name(ledger->plan, sim_plan_buffer(ledger->plan, buffer)->name);
}

void sim_ledger_cover(SimLedger *ledger, uint64_t address, uint64_t bytes)
{
    uint64_t first = piece_of(ledger, address), end = first + bytes / PIECE;
    for (uint64_t piece = first; piece < end; piece++)
        paint(ledger, piece, NEVER_WRITTEN);
}

char *sim_ledger_give(SimLedger *ledger, uint32_t buffer, uint32_t row, uint64_t address,
                      uint64_t bytes)
{
    char *problem = NULL;
    g_mutex_lock(&ledger->lock);
    SimLedgerLife *life = &ledger->lives[buffer];
    life->birth = row;
    life->address = address;
    life->bytes = bytes;
    uint64_t first = bytes > 0 ? piece_of(ledger, address) : 0;
    for (uint64_t piece = first; piece < first + bytes / PIECE; piece++) {
        if (ledger->given[piece] != 0 && problem == NULL) {
            g_autofree char *own = name_of(ledger, buffer);
            g_autofree char *other = name_of(ledger, ledger->given[piece] - 1);
            problem = g_strdup_printf("%s is given memory in which %s lives", own, other);
        }
        ledger->given[piece] = buffer + 1;
    }
    g_mutex_unlock(&ledger->lock);
    return problem;
}

void sim_ledger_take(SimLedger *ledger, uint32_t buffer, uint32_t row)
{
    g_mutex_lock(&ledger->lock);
    SimLedgerLife *life = &ledger->lives[buffer];
    life->death = row;
    uint64_t first = life->bytes > 0 ? piece_of(ledger, life->address) : 0;
    for (uint64_t piece = first; piece < first + life->bytes / PIECE; piece++)
        if (ledger->given[piece] == buffer + 1)
            ledger->given[piece] = 0;
    g_mutex_unlock(&ledger->lock);
}

/* BUFFER takes its memory over. */
static char *claim(SimLedger *ledger, uint32_t buffer)
{
    char *problem = NULL;
    const SimLedgerLife *life = &ledger->lives[buffer];
    uint64_t first = life->bytes > 0 ? piece_of(ledger, life->address) : 0;
    ledger->is_claimed[buffer] = true;
    for (uint64_t piece = first; piece < first + life->bytes / PIECE; piece++) {
        ledger->owners[piece] = buffer + 1;
        if (ledger->states[piece] == CLEAN)
            continue;
        if (ledger->states[piece] == DEAD && !is_painted(ledger, piece, FREED) && problem == NULL) {
            g_autofree char *own = name_of(ledger, buffer);
            problem =
                g_strdup_printf("memory of %s was written after a free and before its birth", own);
        }
        paint(ledger, piece, NEVER_WRITTEN);
        ledger->states[piece] = CLEAN;
    }
    return problem;
}

char *sim_ledger_birth(SimLedger *ledger, uint32_t buffer)
{
    g_mutex_lock(&ledger->lock);
    bool is_due = !ledger->is_shared[buffer] && !ledger->is_claimed[buffer];
    char *problem = is_due ? claim(ledger, buffer) : NULL;
    g_mutex_unlock(&ledger->lock);
    return problem;
}

void sim_ledger_death(SimLedger *ledger, uint32_t buffer)
{
    if (ledger->is_shared[buffer])
        return;
    g_mutex_lock(&ledger->lock);
    const SimLedgerLife *life = &ledger->lives[buffer];
    uint64_t first = life->bytes > 0 ? piece_of(ledger, life->address) : 0;
    for (uint64_t piece = first; piece < first + life->bytes / PIECE; piece++) {
        if (ledger->owners[piece] != buffer + 1)
            continue;
        ledger->owners[piece] = 0;
        if (ledger->states[piece] == USED) {
            paint(ledger, piece, FREED);
            ledger->states[piece] = DEAD;
        }
    }
    g_mutex_unlock(&ledger->lock);
}

/* A block has one owner at a time, so its first and last piece tell. */
static char *check_owner(const SimLedger *ledger, uint32_t buffer, uint64_t first, uint64_t last,
                         bool is_write)
{
    for (int i = 0; i < 2; i++) {
        uint32_t owner = ledger->owners[i == 0 ? first : last];
        if (owner == buffer + 1)
            continue;
        g_autofree char *own = name_of(ledger, buffer);
        g_autofree char *other = owner != 0 ? name_of(ledger, owner - 1) : NULL;
        return g_strdup_printf("%s %s, %s%s", is_write ? "writes" : "reads", own,
                               other != NULL ? "whose memory belongs by now to "
                                             : "which has been freed",
                               other != NULL ? other : "");
    }
    return NULL;
}

static char *check_race(const SimLedger *ledger, const Touch *touch)
{
    for (guint i = 0; i < ledger->touches->len; i++) {
        const Touch *other = &g_array_index(ledger->touches, Touch, i);
        if (other->row == touch->row || (!other->is_write && !touch->is_write) ||
            other->address + other->bytes <= touch->address ||
            touch->address + touch->bytes <= other->address)
            continue;
        g_autofree char *name = name_of(ledger, touch->buffer);
        return g_strdup_printf("%s %s while row %u %s it", touch->is_write ? "writes" : "reads",
                               name, other->row + 1, other->is_write ? "writes" : "reads");
    }
    return NULL;
}

/* The first word that is a pattern. */
static char *check_pattern(const SimLedger *ledger, const Touch *touch)
{
    const unsigned char *data = (const unsigned char *)(uintptr_t)touch->address;
    uint64_t words = touch->bytes / sizeof(uint32_t);
    for (uint64_t i = 0; i < words; i++) {
        uint32_t word;
        memcpy(&word, data + i * sizeof word, sizeof word);
        if (word != NEVER_WRITTEN && word != FREED)
            continue;
        g_autofree char *name = name_of(ledger, touch->buffer);
        return g_strdup_printf("reads %s, of which byte %" PRIu64 " %s", name, i * sizeof word,
                               word == FREED ? "was freed" : "was never written");
    }
    return NULL;
}

static void note(SimLedger *ledger, const Touch *touch, uint64_t first, uint64_t last)
{
    SimLedgerLife *life = &ledger->lives[touch->buffer];
    life->last_use = touch->row;
    if (!touch->is_write)
        return;
    if (life->first_write == SIM_PLAN_NONE)
        life->first_write = touch->row;
    memset(ledger->states + first, USED, last - first + 1);
}

char *sim_ledger_start(SimLedger *ledger, uint32_t row, uint32_t buffer, uint64_t address,
                       uint64_t bytes, bool is_write)
{
    if (bytes == 0)
        return NULL;
    Touch touch = {row, buffer, address, bytes, is_write};
    uint64_t first = piece_of(ledger, address), last = piece_of(ledger, address + bytes - 1);
    g_mutex_lock(&ledger->lock);
    char *problem = ledger->is_claimed[buffer] ? NULL : claim(ledger, buffer);
    if (problem == NULL)
        problem = check_owner(ledger, buffer, first, last, is_write);
    if (problem == NULL)
        problem = check_race(ledger, &touch);
    g_array_append_val(ledger->touches, touch);
    if (problem == NULL)
        note(ledger, &touch, first, last);
    g_mutex_unlock(&ledger->lock);
    if (problem == NULL && !is_write)
        problem = check_pattern(ledger, &touch);
    return problem;
}

void sim_ledger_finish(SimLedger *ledger, uint32_t row)
{
    g_mutex_lock(&ledger->lock);
    for (guint i = ledger->touches->len; i-- > 0;)
        if (g_array_index(ledger->touches, Touch, i).row == row)
            g_array_remove_index_fast(ledger->touches, i);
    g_mutex_unlock(&ledger->lock);
}

const SimLedgerLife *sim_ledger_life(const SimLedger *ledger, uint32_t buffer)
{
    return &ledger->lives[buffer];
}
