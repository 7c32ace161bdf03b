/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/timeline_csv.h"

#include "base/csv.h"

static const char *category_of(const SimInstruction *instruction)
{
    switch ((SimPlanOp)instruction->op) {
    case SIM_PLAN_COLLECTIVE:
        return sim_plan_collective_name((SimCollectiveKind)instruction->collective);
    case SIM_PLAN_COPY:
        return "copy";
    case SIM_PLAN_HOST_WAIT:
        return "host_wait";
    default:
        return "kernel";
    }
}

static void write_delay(SimCsvWriter *writer, const SimPlan *plan, const SimSpan *span)
{
    g_autofree char *text = NULL;
    switch ((SimDelay)span->delay) {
    case SIM_DELAY_NONE:
        sim_csv_writer_empty(writer);
        return;
    case SIM_DELAY_HOST:
        sim_csv_writer_text(writer, "host");
        return;
    case SIM_DELAY_EVENT:
        text = sim_plan_print_name(plan, sim_plan_event_name(plan, span->delayed_by));
        break;
    case SIM_DELAY_STREAM:
        text = g_strdup_printf("stream:%s", sim_plan_stream_name(plan, span->delayed_by));
        break;
    case SIM_DELAY_RANK:
        text = g_strdup_printf("rank %u", span->delayed_by);
        break;
    }
    sim_csv_writer_text(writer, text);
}

static void write_span(SimCsvWriter *writer, const SimPlan *plan, uint32_t rank,
                       const SimSpan *span)
{
    const SimInstruction *instruction = sim_plan_instruction(plan, span->instruction);
    int64_t start_ns = span->arrival / SIM_NANOSECOND;
    int64_t end_ns = span->end / SIM_NANOSECOND;

    sim_csv_writer_uint(writer, rank);
    sim_csv_writer_text(
        writer, span->stream == SIM_PLAN_NONE ? "host" : sim_plan_stream_name(plan, span->stream));
    sim_csv_writer_text(writer, sim_plan_string(plan, instruction->name));
    sim_csv_writer_text(writer, category_of(instruction));
    if (instruction->step < 0) {
        sim_csv_writer_empty(writer);
    } else {
        sim_csv_writer_int(writer, instruction->step);
    }
    sim_csv_writer_text(writer, sim_plan_phase_name((SimPhase)instruction->phase));
    sim_csv_writer_text(writer, sim_plan_string(plan, instruction->unit));
    sim_csv_writer_int(writer, start_ns);
    sim_csv_writer_int(writer, end_ns);
    sim_csv_writer_int(writer, end_ns - start_ns);
    sim_csv_writer_uint(writer,
                        instruction->bytes > 0 ? instruction->bytes : instruction->hbm_bytes);
    sim_csv_writer_uint(writer, instruction->flops);
    write_delay(writer, plan, span);
    sim_csv_writer_end_row(writer);
}

void sim_timeline_csv_save(const SimRecorder *recorder, SimOutputFile *file)
{
    SimCsvWriter writer;
    sim_csv_writer_init(&writer, file);
    sim_output_file_puts(file, "rank,stream,name,category,step,phase,unit,start_ns,end_ns,"
                               "duration_ns,bytes,flops,waited_for\n");
    for (size_t t = 0; t < sim_recorder_count(recorder); t++) {
        const SimTrack *track = sim_recorder_track(recorder, t);
        for (guint i = 0; i < track->spans->len; i++) {
            write_span(&writer, sim_recorder_plan(recorder), track->rank,
                       &g_array_index(track->spans, SimSpan, i));
        }
    }
}
