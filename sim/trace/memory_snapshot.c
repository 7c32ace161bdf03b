/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/memory_snapshot.h"

#include "hbm/allocator.h"
#include "trace/action_name.h"
#include "trace/device_layout.h"
#include "trace/pickle_writer.h"

typedef struct Writer {
    SimPickleWriter pickle;
    const SimPlan *plan;
    uint64_t device_bytes;
    GArray *frames; /* [buffers of the plan] of uint32_t: their place in the memo + 1, or 0 */
} Writer;

static void write_uint(Writer *writer, const char *key, uint64_t value)
{
    sim_pickle_writer_text(&writer->pickle, key);
    sim_pickle_writer_uint(&writer->pickle, value);
}

static void write_text(Writer *writer, const char *key, const char *value)
{
    sim_pickle_writer_text(&writer->pickle, key);
    sim_pickle_writer_text(&writer->pickle, value);
}

static void write_frame(Writer *writer, const char *file, uint64_t line, const char *name)
{
    sim_pickle_writer_begin_dict(&writer->pickle);
    write_text(writer, "filename", file);
    write_uint(writer, "line", line);
    write_text(writer, "name", name);
    sim_pickle_writer_end_dict(&writer->pickle);
}

/* Whose the memory is. Blocks of one buffer share their frames. */
static void write_frames(Writer *writer, uint32_t buffer, uint32_t row)
{
    sim_pickle_writer_text(&writer->pickle, "frames");
    if (buffer == SIM_PLAN_NONE) {
        sim_pickle_writer_begin_list(&writer->pickle);
        sim_pickle_writer_end_list(&writer->pickle);
        return;
    }
    uint32_t *place = &g_array_index(writer->frames, uint32_t, buffer);
    if (*place > 0) {
        sim_pickle_writer_get(&writer->pickle, *place - 1);
        return;
    }
    const SimBuffer *entry = sim_plan_buffer(writer->plan, buffer);
    const SimInstruction *instruction = sim_plan_instruction(writer->plan, row);
    const char *unit = sim_plan_string(writer->plan, instruction->unit);
    g_autofree char *name = sim_plan_print_name(writer->plan, entry->name);
    sim_pickle_writer_begin_list(&writer->pickle);
    write_frame(writer, sim_plan_category_name((SimCategory)entry->category), (uint64_t)row + 1,
                name);
    write_frame(writer, sim_plan_phase_name((SimPhase)instruction->phase),
                (uint64_t)MAX(0, instruction->step), unit[0] != '\0' ? unit : "(no unit)");
    sim_pickle_writer_end_list(&writer->pickle);
    *place = sim_pickle_writer_memoize(&writer->pickle) + 1;
}

static void write_block(Writer *writer, uint64_t address, uint64_t bytes,
                        const SimLayoutBlock *block)
{
    const char *state = "inactive";
    if (block != NULL) {
        state = block->is_allocated ? "active_allocated" : "active_pending_free";
    }
    sim_pickle_writer_begin_dict(&writer->pickle);
    write_uint(writer, "address", address);
    write_uint(writer, "size", bytes);
    write_uint(writer, "requested_size", block != NULL ? block->requested_bytes : 0);
    write_text(writer, "state", state);
    write_frames(writer, block != NULL ? block->buffer : SIM_PLAN_NONE,
                 block != NULL ? block->instruction : 0);
    sim_pickle_writer_end_dict(&writer->pickle);
}

/* Blocks in the order of addresses, with the free ones between them. */
static void write_blocks(Writer *writer, const SimDeviceLayout *layout,
                         const SimLayoutSegment *segment)
{
    uint64_t end = segment->address + segment->bytes;
    uint64_t at = segment->address;
    sim_pickle_writer_text(&writer->pickle, "blocks");
    sim_pickle_writer_begin_list(&writer->pickle);
    while (at < end) {
        const SimLayoutBlock *block = sim_device_layout_find(layout, at);
        uint64_t next = block != NULL && block->address < end ? block->address : end;
        if (next > at) {
            write_block(writer, at, next - at, NULL);
        }
        at = next;
        if (at < end) {
            write_block(writer, at, block->bytes, block);
            at += block->bytes;
        }
    }
    sim_pickle_writer_end_list(&writer->pickle);
}

static void write_sums(Writer *writer, const SimDeviceLayout *layout,
                       const SimLayoutSegment *segment)
{
    uint64_t allocated = 0, active = 0, requested = 0;
    const SimLayoutBlock *block = sim_device_layout_find(layout, segment->address);
    while (block != NULL && block->address < segment->address + segment->bytes) {
        active += block->bytes;
        allocated += block->is_allocated ? block->bytes : 0;
        requested += block->requested_bytes;
        block = sim_device_layout_find(layout, block->address + 1);
    }
    write_uint(writer, "allocated_size", allocated);
    write_uint(writer, "active_size", active);
    write_uint(writer, "requested_size", requested);
}

static void write_segment(Writer *writer, uint64_t device, const SimDeviceLayout *layout,
                          const SimLayoutSegment *segment)
{
    sim_pickle_writer_begin_dict(&writer->pickle);
    write_uint(writer, "device", device);
    write_uint(writer, "address", segment->address);
    write_uint(writer, "total_size", segment->bytes);
    write_sums(writer, layout, segment);
    write_uint(writer, "stream", segment->stream);
    write_text(writer, "segment_type", segment->is_small ? "small" : "large");
    sim_pickle_writer_text(&writer->pickle, "segment_pool_id");
    sim_pickle_writer_pair(&writer->pickle, 0, 0);
    sim_pickle_writer_text(&writer->pickle, "is_expandable");
    sim_pickle_writer_bool(&writer->pickle, segment->is_expandable);
    write_frames(writer, SIM_PLAN_NONE, 0);
    write_blocks(writer, layout, segment);
    sim_pickle_writer_end_dict(&writer->pickle);
}

static void write_segments(Writer *writer, const SimRecorder *recorder)
{
    sim_pickle_writer_text(&writer->pickle, "segments");
    sim_pickle_writer_begin_list(&writer->pickle);
    for (size_t t = 0; t < sim_recorder_count(recorder); t++) {
        const GArray *events = sim_recorder_track(recorder, t)->memory_events;
        SimDeviceLayout layout;
        sim_device_layout_init(&layout);
        for (guint i = 0; events != NULL && i < events->len; i++) {
            sim_device_layout_apply(&layout, &g_array_index(events, SimMemoryEvent, i));
        }
        for (guint i = 0; i < layout.segments->len; i++) {
            write_segment(writer, t, &layout, &g_array_index(layout.segments, SimLayoutSegment, i));
        }
        sim_device_layout_done(&layout);
    }
    sim_pickle_writer_end_list(&writer->pickle);
}

static void write_event(Writer *writer, const SimMemoryEvent *event, SimTime time)
{
    sim_pickle_writer_begin_dict(&writer->pickle);
    write_text(writer, "action", sim_action_name_get((SimAllocatorAction)event->action));
    if (event->action == SIM_ALLOCATOR_OOM) {
        uint64_t left = writer->device_bytes - MIN(writer->device_bytes, event->reserved_bytes);
        write_uint(writer, "device_free", left);
    } else {
        write_uint(writer, "addr", event->address);
    }
    write_uint(writer, "size", event->bytes);
    write_uint(writer, "stream", event->stream);
    write_uint(writer, "time_us", (uint64_t)(time / SIM_MICROSECOND));
    write_frames(writer, event->buffer, event->instruction);
    sim_pickle_writer_end_dict(&writer->pickle);
}

static void write_histories(Writer *writer, const SimRecorder *recorder)
{
    sim_pickle_writer_text(&writer->pickle, "device_traces");
    sim_pickle_writer_begin_list(&writer->pickle);
    for (size_t t = 0; t < sim_recorder_count(recorder); t++) {
        const SimTrack *track = sim_recorder_track(recorder, t);
        sim_pickle_writer_begin_list(&writer->pickle);
        for (guint i = 0; track->memory_events != NULL && i < track->memory_events->len; i++) {
            write_event(writer, &g_array_index(track->memory_events, SimMemoryEvent, i),
                        g_array_index(track->memory_times, SimTime, i));
        }
        sim_pickle_writer_end_list(&writer->pickle);
    }
    sim_pickle_writer_end_list(&writer->pickle);
}

void sim_memory_snapshot_save(const SimRecorder *recorder, uint64_t device_bytes,
                              const char *allocator_settings, SimOutputFile *file)
{
    Writer writer = {.plan = sim_recorder_plan(recorder), .device_bytes = device_bytes};
    writer.frames = g_array_new(FALSE, TRUE, sizeof(uint32_t));
    g_array_set_size(writer.frames, (guint)sim_plan_buffer_count(writer.plan));
    sim_pickle_writer_init(&writer.pickle, file);
    sim_pickle_writer_begin_dict(&writer.pickle);
    write_histories(&writer, recorder);
    write_segments(&writer, recorder);
    sim_pickle_writer_text(&writer.pickle, "allocator_settings");
    sim_pickle_writer_begin_dict(&writer.pickle);
    write_text(&writer, "PYTORCH_CUDA_ALLOC_CONF", allocator_settings);
    sim_pickle_writer_end_dict(&writer.pickle);
    sim_pickle_writer_text(&writer.pickle, "external_annotations");
    sim_pickle_writer_begin_list(&writer.pickle);
    sim_pickle_writer_end_list(&writer.pickle);
    sim_pickle_writer_end_dict(&writer.pickle);
    sim_pickle_writer_done(&writer.pickle);
    g_array_unref(writer.frames);
}
