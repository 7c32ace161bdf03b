/* SPDX-License-Identifier: Apache-2.0
 *
 * Pop-push pairs a second with so many events pending (the hold model: each popped event is pushed
 * again a random time later), beside GLib's GSequence used as a sorted queue.
 */
#include <glib.h>
#include <stdio.h>
#include <time.h>

#include "engine/event_queue.h"

#define MEAN_GAP (10 * SIM_MICROSECOND)

/* Of this process on the CPU, so that other programs on the machine count for less. */
static double seconds_since(clock_t start)
{
    return (double)(clock() - start) / CLOCKS_PER_SEC;
}

/* Cheap and the same for both: what is measured is the queue. xorshift64 (Marsaglia 2003). */
static uint64_t draw(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

static SimTime gap(uint64_t *state)
{
    return (SimTime)(draw(state) % (2 * MEAN_GAP));
}

static double measure_heap(uint32_t pending, uint32_t pairs)
{
    g_autoptr(SimEventQueue) queue = sim_event_queue_new();
    uint64_t state = 88172645463325252U;
    for (uint32_t i = 0; i < pending; i++)
        sim_event_queue_push(queue, (SimEvent){.time = gap(&state), .entity = i});
    clock_t start = clock();
    for (uint32_t i = 0; i < pairs; i++) {
        SimEvent event;
        sim_event_queue_pop(queue, &event);
        event.time += gap(&state);
        event.sequence++;
        sim_event_queue_push(queue, event);
    }
    return pairs / seconds_since(start);
}

static gint compare(gconstpointer a, gconstpointer b, gpointer user_data)
{
    (void)user_data;
    const SimEvent *x = a, *y = b;
    if (x->time != y->time)
        return x->time < y->time ? -1 : 1;
    if (x->phase != y->phase)
        return x->phase < y->phase ? -1 : 1;
    if (x->entity != y->entity)
        return x->entity < y->entity ? -1 : 1;
    return (x->sequence > y->sequence) - (x->sequence < y->sequence);
}

static double measure_sequence(uint32_t pending, uint32_t pairs)
{
    g_autofree SimEvent *events = g_new0(SimEvent, pending);
    g_autoptr(GSequence) queue = g_sequence_new(NULL);
    uint64_t state = 88172645463325252U;
    for (uint32_t i = 0; i < pending; i++) {
        events[i] = (SimEvent){.time = gap(&state), .entity = i};
        g_sequence_insert_sorted(queue, &events[i], compare, NULL);
    }
    clock_t start = clock();
    for (uint32_t i = 0; i < pairs; i++) {
        GSequenceIter *first = g_sequence_get_begin_iter(queue);
        SimEvent *event = g_sequence_get(first);
        g_sequence_remove(first);
        event->time += gap(&state);
        event->sequence++;
        g_sequence_insert_sorted(queue, event, compare, NULL);
    }
    return pairs / seconds_since(start);
}

int main(void)
{
    const uint32_t pending[] = {1024, 16384, 100000};
    printf("event queue, pop-push pairs\n%10s %20s %20s %8s\n", "pending", "4-ary heap, M/s",
           "GSequence, M/s", "ratio");
    for (size_t i = 0; i < G_N_ELEMENTS(pending); i++) {
        double heap = measure_heap(pending[i], 8000000);
        double sequence = measure_sequence(pending[i], 800000);
        printf("%10u %20.2f %20.2f %8.1f\n", pending[i], heap / 1e6, sequence / 1e6,
               heap / sequence);
    }
    return 0;
}
