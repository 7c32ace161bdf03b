/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/device_layout.h"

#include "hbm/allocator.h"

static int compare_addresses(const void *a, const void *b, void *user_data)
{
    uint64_t x = *(const uint64_t *)a;
    uint64_t y = *(const uint64_t *)b;
    (void)user_data;
    return x < y ? -1 : x > y;
}

void sim_device_layout_init(SimDeviceLayout *layout)
{
    layout->segments = g_array_new(FALSE, FALSE, sizeof(SimLayoutSegment));
    layout->blocks = g_tree_new_full(compare_addresses, NULL, NULL, g_free);
    layout->allocated_bytes = 0;
}

void sim_device_layout_done(SimDeviceLayout *layout)
{
    g_array_unref(layout->segments);
    g_tree_unref(layout->blocks);
}

static SimLayoutSegment *get_segment(const SimDeviceLayout *layout, guint index)
{
    return &g_array_index(layout->segments, SimLayoutSegment, index);
}

/* The first segment that ends above ADDRESS, or their number. */
static guint find_segment(const SimDeviceLayout *layout, uint64_t address)
{
    guint index = 0;
    while (index < layout->segments->len &&
           get_segment(layout, index)->address + get_segment(layout, index)->bytes <= address) {
        index++;
    }
    return index;
}

static void add_segment(SimDeviceLayout *layout, const SimMemoryEvent *event)
{
    SimLayoutSegment segment = {.address = event->address,
                                .bytes = event->bytes,
                                .stream = event->stream,
                                .is_expandable = event->action == SIM_ALLOCATOR_SEGMENT_MAP,
                                .is_small = event->bytes <= 2 * SIM_MIB};
    guint index = find_segment(layout, event->address);
    if (segment.is_expandable && index > 0 &&
        get_segment(layout, index - 1)->address + get_segment(layout, index - 1)->bytes ==
            event->address) {
        SimLayoutSegment *before = get_segment(layout, index - 1);
        segment.address = before->address;
        segment.bytes += before->bytes;
        segment.is_small = before->is_small;
        g_array_remove_index(layout->segments, --index);
    }
    if (segment.is_expandable && index < layout->segments->len &&
        get_segment(layout, index)->address == segment.address + segment.bytes) {
        segment.bytes += get_segment(layout, index)->bytes;
        g_array_remove_index(layout->segments, index);
    }
    g_array_insert_val(layout->segments, index, segment);
}

/* Takes the range of EVENT out; what was before and behind it stays. */
static void remove_range(SimDeviceLayout *layout, const SimMemoryEvent *event)
{
    guint index = find_segment(layout, event->address);
    g_assert(index < layout->segments->len);
    SimLayoutSegment before = *get_segment(layout, index);
    SimLayoutSegment behind = before;
    g_array_remove_index(layout->segments, index);
    behind.address = event->address + event->bytes;
    behind.bytes = before.address + before.bytes - behind.address;
    before.bytes = event->address - before.address;
    if (behind.bytes > 0) {
        g_array_insert_val(layout->segments, index, behind);
    }
    if (before.bytes > 0) {
        g_array_insert_val(layout->segments, index, before);
    }
}

static void add_block(SimDeviceLayout *layout, const SimMemoryEvent *event)
{
    SimLayoutBlock *block = g_new(SimLayoutBlock, 1);
    *block = (SimLayoutBlock){.address = event->address,
                              .bytes = event->allocated_bytes - layout->allocated_bytes,
                              .requested_bytes = event->bytes,
                              .buffer = event->buffer,
                              .instruction = event->instruction,
                              .is_allocated = true};
    g_tree_replace(layout->blocks, &block->address, block);
}

void sim_device_layout_apply(SimDeviceLayout *layout, const SimMemoryEvent *event)
{
    SimLayoutBlock *block = NULL;
    switch ((SimAllocatorAction)event->action) {
    case SIM_ALLOCATOR_ALLOC:
        add_block(layout, event);
        break;
    case SIM_ALLOCATOR_FREE_REQUESTED:
        block = g_tree_lookup(layout->blocks, &event->address);
        g_assert(block != NULL);
        block->is_allocated = false;
        break;
    case SIM_ALLOCATOR_FREE_COMPLETED:
        g_tree_remove(layout->blocks, &event->address);
        break;
    case SIM_ALLOCATOR_SEGMENT_ALLOC:
    case SIM_ALLOCATOR_SEGMENT_MAP:
        add_segment(layout, event);
        break;
    case SIM_ALLOCATOR_SEGMENT_FREE:
    case SIM_ALLOCATOR_SEGMENT_UNMAP:
        remove_range(layout, event);
        break;
    case SIM_ALLOCATOR_OOM:
        break;
    }
    layout->allocated_bytes = event->allocated_bytes;
}

const SimLayoutBlock *sim_device_layout_find(const SimDeviceLayout *layout, uint64_t address)
{
    GTreeNode *node = g_tree_lower_bound(layout->blocks, &address);
    return node != NULL ? g_tree_node_value(node) : NULL;
}
