/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/memory_csv.h"

#include "base/csv.h"
#include "trace/action_name.h"

static void write_event(SimCsvWriter *writer, const SimPlan *plan, const SimMemoryEvent *event)
{
    const SimInstruction *instruction = sim_plan_instruction(plan, event->instruction);
    sim_csv_writer_text(writer, sim_action_name_get((SimAllocatorAction)event->action));
    if (event->buffer == SIM_PLAN_NONE) {
        sim_csv_writer_empty(writer);
        sim_csv_writer_empty(writer);
    } else {
        const SimBuffer *buffer = sim_plan_buffer(plan, event->buffer);
        g_autofree char *name = sim_plan_print_name(plan, buffer->name);
        sim_csv_writer_text(writer, name);
        sim_csv_writer_text(writer, sim_plan_category_name((SimCategory)buffer->category));
    }
    sim_csv_writer_text(writer, sim_plan_stream_name(plan, event->stream));
    sim_csv_writer_uint(writer, event->bytes);
    if (instruction->step < 0) {
        sim_csv_writer_empty(writer);
    } else {
        sim_csv_writer_int(writer, instruction->step);
    }
    sim_csv_writer_text(writer, sim_plan_phase_name((SimPhase)instruction->phase));
    sim_csv_writer_text(writer, sim_plan_string(plan, instruction->unit));
    sim_csv_writer_uint(writer, event->allocated_bytes);
    sim_csv_writer_uint(writer, event->active_bytes);
    sim_csv_writer_uint(writer, event->reserved_bytes);
}

static void write_track(SimCsvWriter *writer, const SimPlan *plan, const SimTrack *track)
{
    guint count = track->memory_events != NULL ? track->memory_events->len : 0;
    for (guint i = 0; i < count; i++) {
        sim_csv_writer_uint(writer, track->rank);
        sim_csv_writer_uint(writer, i);
        sim_csv_writer_int(writer, g_array_index(track->memory_times, SimTime, i) / SIM_NANOSECOND);
        write_event(writer, plan, &g_array_index(track->memory_events, SimMemoryEvent, i));
        sim_csv_writer_end_row(writer);
    }
}

void sim_memory_csv_save(const SimRecorder *recorder, SimOutputFile *file)
{
    SimCsvWriter writer;
    sim_csv_writer_init(&writer, file);
    sim_output_file_puts(file, "rank,index,time_ns,action,buffer,category,stream,bytes,step,phase,"
                               "unit,allocated_bytes,active_bytes,reserved_bytes\n");
    for (size_t t = 0; t < sim_recorder_count(recorder); t++) {
        write_track(&writer, sim_recorder_plan(recorder), sim_recorder_track(recorder, t));
    }
}
