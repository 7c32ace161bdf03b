/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/event_queue.h"

/* An event in 16 bytes: its time, and phase, entity and sequence in one number that orders like
 * the three of them. */
typedef struct Entry {
    uint64_t time;
    uint64_t order;
} Entry;

#define SEQUENCE_BITS 32
#define PHASE_SHIFT 60

/* The root stands at ROOT, the children of i from 4i - 8 on: so the four children of every node
 * begin at a multiple of 4 entries, a cache line of 64 bytes. */
#define ARITY 4
#define ROOT 3
#define CACHE_LINE 64

struct SimEventQueue {
    Entry *entries; /* [capacity], aligned to a cache line; entries 0 .. ROOT-1 are not used */
    size_t end;     /* one past the last entry */
    size_t capacity;
};

static size_t first_child(size_t i)
{
    return ARITY * i - (ARITY * ROOT - ROOT - 1);
}

static size_t parent(size_t i)
{
    return (i + ARITY * ROOT - ROOT - 1) / ARITY;
}

/* Without a branch on the times: in a simulation they are as good as random. */
static bool before(Entry a, Entry b)
{
    return (a.time < b.time) | ((a.time == b.time) & (a.order < b.order));
}

static Entry *new_entries(size_t capacity)
{
    return g_aligned_alloc(capacity, sizeof(Entry), CACHE_LINE);
}

SimEventQueue *sim_event_queue_new(void)
{
    SimEventQueue *queue = g_new(SimEventQueue, 1);
    queue->capacity = 256;
    queue->entries = new_entries(queue->capacity);
    queue->end = ROOT;
    return queue;
}

void sim_event_queue_free(SimEventQueue *queue)
{
    if (!queue)
        return;
    g_aligned_free(queue->entries);
    g_free(queue);
}

static void grow(SimEventQueue *queue)
{
    Entry *entries = new_entries(2 * queue->capacity);
    for (size_t i = ROOT; i < queue->end; i++)
        entries[i] = queue->entries[i];
    g_aligned_free(queue->entries);
    queue->entries = entries;
    queue->capacity *= 2;
}

/* Puts ENTRY at HOLE or at an ancestor of it whose parent is earlier. */
static void sift_up(Entry *entries, size_t hole, Entry entry)
{
    while (hole > ROOT) {
        size_t above = parent(hole);
        if (!before(entry, entries[above]))
            break;
        entries[hole] = entries[above];
        hole = above;
    }
    entries[hole] = entry;
}

void sim_event_queue_push(SimEventQueue *queue, SimEvent event)
{
    g_assert(event.time >= 0 && event.phase <= SIM_EVENT_MAX_PHASE &&
             event.entity <= SIM_EVENT_MAX_ENTITY);
    if (queue->end == queue->capacity)
        grow(queue);
    Entry entry = {
        .time = (uint64_t)event.time,
        .order = (uint64_t)event.phase << PHASE_SHIFT | (uint64_t)event.entity << SEQUENCE_BITS |
                 event.sequence,
    };
    sift_up(queue->entries, queue->end++, entry);
}

static size_t earliest_of_four(const Entry *entries, size_t child)
{
    size_t left = child + (size_t)before(entries[child + 1], entries[child]);
    size_t right = child + 2 + (size_t)before(entries[child + 3], entries[child + 2]);
    return before(entries[right], entries[left]) ? right : left;
}

/* Takes the root away: the hole goes down to a leaf along the earliest children, and the last entry
 * goes up from there. It nearly always stays near the bottom, so this compares less than going down
 * with it. */
static void remove_root(SimEventQueue *queue)
{
    Entry *entries = queue->entries;
    Entry last = entries[--queue->end];
    size_t end = queue->end;
    size_t hole = ROOT;
    size_t child = first_child(hole);
    while (child + ARITY <= end) {
        size_t next = earliest_of_four(entries, child);
        entries[hole] = entries[next];
        hole = next;
        child = first_child(hole);
    }
    if (child < end) {
        size_t next = child;
        for (size_t i = child + 1; i < end; i++) {
            if (before(entries[i], entries[next]))
                next = i;
        }
        entries[hole] = entries[next];
        hole = next;
    }
    if (end > ROOT)
        sift_up(entries, hole, last);
}

bool sim_event_queue_peek(const SimEventQueue *queue, SimEvent *event)
{
    if (queue->end == ROOT)
        return false;
    Entry entry = queue->entries[ROOT];
    *event = (SimEvent){
        .time = (SimTime)entry.time,
        .phase = (uint32_t)(entry.order >> PHASE_SHIFT),
        .entity = (uint32_t)(entry.order >> SEQUENCE_BITS) & SIM_EVENT_MAX_ENTITY,
        .sequence = (uint32_t)entry.order,
    };
    return true;
}

bool sim_event_queue_pop(SimEventQueue *queue, SimEvent *event)
{
    if (!sim_event_queue_peek(queue, event))
        return false;
    remove_root(queue);
    return true;
}

size_t sim_event_queue_size(const SimEventQueue *queue)
{
    return queue->end - ROOT;
}

void sim_event_queue_clear(SimEventQueue *queue)
{
    queue->end = ROOT;
}

bool sim_event_queue_check(const SimEventQueue *queue)
{
    for (size_t i = ROOT + 1; i < queue->end; i++) {
        if (before(queue->entries[i], queue->entries[parent(i)]))
            return false;
    }
    return true;
}
