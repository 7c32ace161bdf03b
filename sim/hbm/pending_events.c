/* SPDX-License-Identifier: Apache-2.0 */
#include "hbm/pending_events.h"

#include "hbm/allocator_private.h"
#include "hbm/free_block.h"

typedef struct Entry {
    uint64_t event;
    SimBlock *block;
} Entry;

static void free_queue(void *data)
{
    if (data != NULL) {
        g_queue_free_full(data, g_free);
    }
}

void sim_pending_events_init(SimPendingEvents *pending)
{
    pending->queues = g_ptr_array_new_with_free_func(free_queue);
    pending->count = 0;
}

void sim_pending_events_done(SimPendingEvents *pending)
{
    g_ptr_array_unref(pending->queues);
}

static GQueue *get_queue(SimPendingEvents *pending, uint32_t stream)
{
    if (stream >= pending->queues->len) {
        g_assert(stream < G_MAXINT);
        g_ptr_array_set_size(pending->queues, (int)stream + 1);
    }
    if (g_ptr_array_index(pending->queues, stream) == NULL) {
        g_ptr_array_index(pending->queues, stream) = g_queue_new();
    }
    return g_ptr_array_index(pending->queues, stream);
}

void sim_pending_events_push(SimAllocator *allocator, SimBlock *block)
{
    const SimAllocatorDevice *device = &allocator->device;
    g_autoptr(GArray) streams = g_steal_pointer(&block->stream_uses);

    for (unsigned i = 0; i < streams->len; i++) {
        const uint32_t stream = g_array_index(streams, uint32_t, i);
        Entry *entry = g_new(Entry, 1);
        entry->event =
            device->record_event == NULL ? 0 : device->record_event(stream, device->user_data);
        entry->block = block;
        g_queue_push_tail(get_queue(&allocator->pending, stream), entry);
    }
    block->n_pending_events = streams->len;
    allocator->pending.count += streams->len;
}

static void pop_head(SimAllocator *allocator, GQueue *queue)
{
    g_autofree Entry *entry = g_queue_pop_head(queue);

    allocator->pending.count--;
    entry->block->n_pending_events--;
    if (entry->block->n_pending_events == 0) {
        sim_free_block(allocator, entry->block);
    }
}

static bool is_head_complete(const SimAllocator *allocator, GQueue *queue)
{
    const Entry *entry = g_queue_peek_head(queue);
    const SimAllocatorDevice *device = &allocator->device;

    return device->record_event == NULL || device->is_complete(entry->event, device->user_data);
}

void sim_pending_events_poll(SimAllocator *allocator)
{
    const SimPendingEvents *pending = &allocator->pending;

    for (unsigned i = 0; pending->count > 0 && i < pending->queues->len; i++) {
        GQueue *queue = g_ptr_array_index(pending->queues, i);
        while (queue != NULL && !g_queue_is_empty(queue) && is_head_complete(allocator, queue)) {
            pop_head(allocator, queue);
        }
    }
}

void sim_pending_events_synchronize(SimAllocator *allocator)
{
    const SimPendingEvents *pending = &allocator->pending;
    const SimAllocatorDevice *device = &allocator->device;

    allocator->statistics.num_sync_all_streams++;
    for (unsigned i = 0; pending->count > 0 && i < pending->queues->len; i++) {
        GQueue *queue = g_ptr_array_index(pending->queues, i);
        while (queue != NULL && !g_queue_is_empty(queue)) {
            const Entry *entry = g_queue_peek_head(queue);
            if (device->record_event != NULL) {
                device->synchronize(entry->event, device->user_data);
            }
            pop_head(allocator, queue);
        }
    }
}

size_t sim_pending_events_count(const SimPendingEvents *pending, const SimBlock *block)
{
    size_t n = 0;

    for (unsigned i = 0; i < pending->queues->len; i++) {
        const GQueue *queue = g_ptr_array_index(pending->queues, i);
        for (const GList *link = queue == NULL ? NULL : queue->head; link != NULL;
             link = link->next) {
            n += ((const Entry *)link->data)->block == block;
        }
    }
    return n;
}
