/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/chrome_trace.h"

#include <inttypes.h>

#include "trace/dependencies.h"
#include "trace/json_text.h"
#include "trace/kineto_names.h"

#define STEPS_THREAD 1
#define HOST_THREAD 2
#define FIRST_STREAM_THREAD 7

typedef struct Writer {
    SimOutputFile *file;
    const SimPlan *plan;
    const SimTrack *track;
    GArray *span_of_row;   /* of uint32_t: index into the track's spans, or SIM_PLAN_NONE */
    GArray *launch_of_row; /* of uint32_t: the same of launches */
    GString *line;
    bool has_event;
    uint64_t flows;
} Writer;

static int64_t nanoseconds(SimTime time)
{
    return time / SIM_NANOSECOND;
}

/* "key":12.345 microseconds. */
static void append_time(GString *line, const char *key, int64_t ns)
{
    g_string_append_printf(line, ",\"%s\":%" PRId64 ".%03" PRId64, key, ns / 1000, ns % 1000);
}

static void append_text(GString *line, const char *key, const char *value)
{
    g_string_append_printf(line, ",\"%s\":\"", key);
    sim_json_text_append(line, value);
    g_string_append_c(line, '"');
}

static void begin_event(Writer *writer, char kind, uint32_t thread)
{
    g_string_append_printf(writer->line, "%s{\"ph\":\"%c\",\"pid\":%u,\"tid\":%u",
                           writer->has_event ? ",\n" : "", kind, writer->track->rank, thread);
    writer->has_event = true;
}

static void end_event(Writer *writer)
{
    g_string_append_c(writer->line, '}');
    sim_output_file_write(writer->file, writer->line->str, writer->line->len);
    g_string_truncate(writer->line, 0);
}

static uint32_t thread_of(const SimSpan *span)
{
    return span->stream == SIM_PLAN_NONE ? HOST_THREAD : FIRST_STREAM_THREAD + span->stream;
}

static const SimSpan *find_span(const Writer *writer, uint32_t row)
{
    uint32_t index = g_array_index(writer->span_of_row, uint32_t, row);
    return index == SIM_PLAN_NONE ? NULL : &g_array_index(writer->track->spans, SimSpan, index);
}

static const SimLaunch *find_launch(const Writer *writer, uint32_t row)
{
    uint32_t index = g_array_index(writer->launch_of_row, uint32_t, row);
    return index == SIM_PLAN_NONE ? NULL
                                  : &g_array_index(writer->track->launches, SimLaunch, index);
}

/* --- names -------------------------------------------------------------------------------------
 */

static void write_name(Writer *writer, const char *what, uint32_t thread, const char *name,
                       uint32_t place)
{
    begin_event(writer, 'M', thread);
    append_text(writer->line, "name", what);
    g_string_append(writer->line, ",\"args\":{\"name\":\"");
    sim_json_text_append(writer->line, name);
    g_string_append(writer->line, "\"}");
    end_event(writer);
    begin_event(writer, 'M', thread);
    g_string_append_printf(writer->line, ",\"name\":\"%s_sort_index\",\"args\":{\"sort_index\":%u}",
                           g_str_has_prefix(what, "process") ? "process" : "thread", place);
    end_event(writer);
}

static void write_names(Writer *writer)
{
    g_autofree char *process = g_strdup_printf("rank %u", writer->track->rank);
    write_name(writer, "process_name", 0, process, writer->track->rank);
    write_name(writer, "thread_name", STEPS_THREAD, "steps and phases", STEPS_THREAD);
    write_name(writer, "thread_name", HOST_THREAD, "host", HOST_THREAD);
    for (uint32_t i = 0; i < sim_plan_stream_count(writer->plan); i++) {
        uint32_t thread = FIRST_STREAM_THREAD + i;
        g_autofree char *name =
            g_strdup_printf("stream %u %s", thread, sim_plan_stream_name(writer->plan, i));
        write_name(writer, "thread_name", thread, name, thread);
    }
}

/* --- steps and phases --------------------------------------------------------------------------
 */

/* The present annotation: rows of one step, or of one phase of it. */
typedef struct Annotation {
    int32_t step;
    uint8_t phase;
    SimTime begin, end;
} Annotation;

static void write_annotation(Writer *writer, const Annotation *annotation, bool is_step)
{
    int64_t begin = nanoseconds(annotation->begin);
    begin_event(writer, 'X', STEPS_THREAD);
    if (is_step) {
        g_string_append_printf(writer->line, ",\"name\":\"ProfilerStep#%d\"", annotation->step);
    } else {
        append_text(writer->line, "name", sim_plan_phase_name((SimPhase)annotation->phase));
    }
    append_text(writer->line, "cat", "user_annotation");
    append_time(writer->line, "ts", begin);
    append_time(writer->line, "dur", nanoseconds(annotation->end) - begin);
    end_event(writer);
}

/* Steps first, then the phases in them: of two that begin together the outer must come first. The
 * time is the host's, as with record_function. */
static void write_annotations(Writer *writer, bool is_step)
{
    Annotation open = {.step = -1};
    bool is_open = false;
    const GArray *launches = writer->track->launches;
    for (guint i = 0; i < launches->len; i++) {
        const SimLaunch *launch = &g_array_index(launches, SimLaunch, i);
        const SimInstruction *instruction = sim_plan_instruction(writer->plan, launch->instruction);
        bool is_same = is_open && open.step == instruction->step &&
                       (is_step || open.phase == instruction->phase);
        if (!is_same) {
            if (is_open) {
                write_annotation(writer, &open, is_step);
            }
            open = (Annotation){instruction->step, instruction->phase, launch->begin, launch->end};
        }
        open.end = launch->end;
        is_open = is_step ? open.step >= 0 : open.phase != SIM_PHASE_NONE;
    }
    if (is_open) {
        write_annotation(writer, &open, is_step);
    }
}

/* --- items -------------------------------------------------------------------------------------
 */

static void append_collective(Writer *writer, const SimInstruction *instruction,
                              const SimSpan *span)
{
    SimCollectiveKind kind = (SimCollectiveKind)instruction->collective;
    uint32_t list, place, members;
    GString *line = writer->line;
    if (!sim_plan_group_of_rank(writer->plan, instruction->group, writer->track->rank, &list,
                                &place, &members)) {
        return;
    }
    SimKinetoElements elements = sim_kineto_names_elements(kind, instruction, members);
    append_text(line, "Collective name", sim_kineto_names_collective(kind));
    g_string_append_printf(line, ",\"In msg nelems\":%" PRIu64 ",\"Out msg nelems\":%" PRIu64,
                           elements.in, elements.out);
    append_text(line, "dtype", sim_kineto_names_dtype((SimDtype)instruction->dtype));
    g_string_append_printf(line, ",\"Group size\":%u", members);
    append_text(line, "Process Group Name", sim_plan_group_name(writer->plan, instruction->group));
    append_text(line, "Process Group Description",
                sim_plan_group_name(writer->plan, instruction->group));
    g_string_append_printf(line, ",\"Rank\":%u,\"wire bytes\":%" PRIu64, place, span->wire_bytes);
    append_time(line, "waiting_us", nanoseconds(span->start) - nanoseconds(span->arrival));
}

static void append_item_name(Writer *writer, const SimInstruction *instruction)
{
    const char *name = sim_plan_string(writer->plan, instruction->name);
    switch ((SimPlanOp)instruction->op) {
    case SIM_PLAN_COLLECTIVE:
        name = sim_kineto_names_kernel((SimCollectiveKind)instruction->collective);
        break;
    case SIM_PLAN_COPY:
        name = instruction->is_device_to_host ? "Memcpy DtoH (Device -> Pinned)"
                                              : "Memcpy HtoD (Pinned -> Device)";
        break;
    case SIM_PLAN_HOST_WAIT:
        name = "cudaEventSynchronize";
        break;
    default:
        break;
    }
    append_text(writer->line, "name", name);
}

static const char *category_of(const SimInstruction *instruction)
{
    switch ((SimPlanOp)instruction->op) {
    case SIM_PLAN_COPY:
        return "gpu_memcpy";
    case SIM_PLAN_HOST_WAIT:
        return "cuda_runtime";
    default:
        return "kernel";
    }
}

static void append_place(Writer *writer, const SimInstruction *instruction)
{
    if (instruction->step >= 0) {
        g_string_append_printf(writer->line, ",\"step\":%d", instruction->step);
    }
    append_text(writer->line, "phase", sim_plan_phase_name((SimPhase)instruction->phase));
    append_text(writer->line, "unit", sim_plan_string(writer->plan, instruction->unit));
}

static void write_item(Writer *writer, uint32_t row, const SimSpan *span)
{
    const SimInstruction *instruction = sim_plan_instruction(writer->plan, row);
    int64_t begin = nanoseconds(span->arrival);
    begin_event(writer, 'X', thread_of(span));
    append_item_name(writer, instruction);
    append_text(writer->line, "cat", category_of(instruction));
    append_time(writer->line, "ts", begin);
    append_time(writer->line, "dur", nanoseconds(span->end) - begin);
    g_string_append_printf(writer->line, ",\"args\":{\"correlation\":%u,\"External id\":%u",
                           row + 1, row + 1);
    if (span->stream != SIM_PLAN_NONE) {
        g_string_append_printf(writer->line, ",\"device\":%u,\"stream\":%u", writer->track->rank,
                               thread_of(span));
    }
    append_place(writer, instruction);
    if (instruction->op == SIM_PLAN_COLLECTIVE) {
        append_collective(writer, instruction, span);
    } else if (instruction->op == SIM_PLAN_KERNEL) {
        g_string_append_printf(writer->line, ",\"flops\":%" PRIu64 ",\"hbm_bytes\":%" PRIu64,
                               instruction->flops, instruction->hbm_bytes);
    } else {
        g_string_append_printf(writer->line, ",\"bytes\":%" PRIu64, instruction->bytes);
    }
    g_string_append_c(writer->line, '}');
    end_event(writer);
}

static void write_launch(Writer *writer, uint32_t row, const SimLaunch *launch)
{
    int64_t begin = nanoseconds(launch->begin);
    begin_event(writer, 'X', HOST_THREAD);
    bool is_copy = sim_plan_instruction(writer->plan, row)->op == SIM_PLAN_COPY;
    append_text(writer->line, "name", is_copy ? "cudaMemcpyAsync" : "cudaLaunchKernel");
    append_text(writer->line, "cat", "cuda_runtime");
    append_time(writer->line, "ts", begin);
    append_time(writer->line, "dur", nanoseconds(launch->end) - begin);
    g_string_append_printf(writer->line, ",\"args\":{\"correlation\":%u,\"External id\":%u}",
                           row + 1, row + 1);
    end_event(writer);
}

/* --- flows -------------------------------------------------------------------------------------
 * Either end lies in a slice of its thread: a nanosecond before the end of where it comes from, at
 * the beginning of where it goes.
 */

static void write_flow(Writer *writer, const char *category, uint32_t from_thread, int64_t from_ns,
                       const SimSpan *to)
{
    writer->flows++;
    begin_event(writer, 's', from_thread);
    g_string_append_printf(writer->line, ",\"id\":%" PRIu64, writer->flows);
    append_text(writer->line, "name", category);
    append_text(writer->line, "cat", category);
    append_time(writer->line, "ts", from_ns);
    end_event(writer);
    begin_event(writer, 'f', thread_of(to));
    g_string_append_printf(writer->line, ",\"id\":%" PRIu64 ",\"bp\":\"e\"", writer->flows);
    append_text(writer->line, "name", category);
    append_text(writer->line, "cat", category);
    append_time(writer->line, "ts", nanoseconds(to->arrival));
    end_event(writer);
}

static void write_event_flow(Writer *writer, uint32_t row, const SimSpan *to)
{
    const SimSpan *from = find_span(writer, row);
    if (from != NULL && from->stream != to->stream) {
        int64_t begin = nanoseconds(from->arrival);
        write_flow(writer, "event", thread_of(from), MAX(begin, nanoseconds(from->end) - 1), to);
    }
}

static void write_items(Writer *writer)
{
    SimDependencies order;
    sim_dependencies_init(&order, writer->plan, writer->track->rank);
    while (sim_dependencies_next(&order)) {
        const SimSpan *span = find_span(writer, order.row);
        const SimLaunch *launch = find_launch(writer, order.row);
        if (launch != NULL) {
            write_launch(writer, order.row, launch);
        }
        if (span == NULL) {
            continue;
        }
        write_item(writer, order.row, span);
        if (launch != NULL) {
            write_flow(writer, "ac2g", HOST_THREAD, nanoseconds(launch->begin), span);
        }
        for (guint i = 0; i < order.waits->len; i++) {
            write_event_flow(writer, g_array_index(order.waits, uint32_t, i), span);
        }
    }
    sim_dependencies_done(&order);
}

/* --- memory ------------------------------------------------------------------------------------
 */

static void write_counters(Writer *writer)
{
    const SimTrack *track = writer->track;
    guint count = track->memory_events != NULL ? track->memory_events->len : 0;
    const SimMemoryEvent *before = NULL;
    for (guint i = 0; i < count; i++) {
        const SimMemoryEvent *event = &g_array_index(track->memory_events, SimMemoryEvent, i);
        if (before != NULL && before->allocated_bytes == event->allocated_bytes &&
            before->active_bytes == event->active_bytes &&
            before->reserved_bytes == event->reserved_bytes) {
            continue;
        }
        begin_event(writer, 'C', 0);
        append_text(writer->line, "name", "memory");
        append_time(writer->line, "ts",
                    nanoseconds(g_array_index(track->memory_times, SimTime, i)));
        g_string_append_printf(writer->line,
                               ",\"args\":{\"allocated\":%" PRIu64 ",\"active\":%" PRIu64
                               ",\"reserved\":%" PRIu64 "}",
                               event->allocated_bytes, event->active_bytes, event->reserved_bytes);
        end_event(writer);
        before = event;
    }
}

/* --- the file ----------------------------------------------------------------------------------
 */

static GArray *new_index(size_t rows)
{
    GArray *index = g_array_sized_new(FALSE, FALSE, sizeof(uint32_t), (guint)rows);
    g_array_set_size(index, (guint)rows);
    for (size_t row = 0; row < rows; row++) {
        g_array_index(index, uint32_t, row) = SIM_PLAN_NONE;
    }
    return index;
}

static void write_track(Writer *writer)
{
    const SimTrack *track = writer->track;
    writer->span_of_row = new_index(sim_plan_length(writer->plan));
    writer->launch_of_row = new_index(sim_plan_length(writer->plan));
    for (guint i = 0; i < track->spans->len; i++) {
        uint32_t row = g_array_index(track->spans, SimSpan, i).instruction;
        g_array_index(writer->span_of_row, uint32_t, row) = i;
    }
    for (guint i = 0; i < track->launches->len; i++) {
        uint32_t row = g_array_index(track->launches, SimLaunch, i).instruction;
        g_array_index(writer->launch_of_row, uint32_t, row) = i;
    }
    write_names(writer);
    write_annotations(writer, true);
    write_annotations(writer, false);
    write_items(writer);
    write_counters(writer);
    g_array_unref(writer->span_of_row);
    g_array_unref(writer->launch_of_row);
}

/* The communicators, as Kineto's distributedInfo has them. */
static void write_head(const SimRecorder *recorder, SimOutputFile *file)
{
    const SimPlan *plan = sim_recorder_plan(recorder);
    g_autoptr(GString) text = g_string_new("{\"schemaVersion\":1,\"displayTimeUnit\":\"ms\","
                                           "\"baseTimeNanoseconds\":0,\"distributedInfo\":{"
                                           "\"backend\":\"nccl\"");
    uint32_t rank = sim_recorder_count(recorder) > 0 ? sim_recorder_track(recorder, 0)->rank : 0;
    uint32_t groups = sim_plan_group_count(plan);
    g_string_append_printf(text, ",\"rank\":%u,\"world_size\":%u,\"pg_count\":%u,\"pg_config\":[",
                           rank, sim_plan_ranks(plan), groups);
    for (uint32_t group = 0; group < groups; group++) {
        uint32_t list, place, members;
        if (!sim_plan_group_of_rank(plan, group, rank, &list, &place, &members)) {
            members = 0;
        }
        g_string_append(text, group > 0 ? ",{\"pg_name\":\"" : "{\"pg_name\":\"");
        sim_json_text_append(text, sim_plan_group_name(plan, group));
        g_string_append(text, "\",\"pg_desc\":\"");
        sim_json_text_append(text, sim_plan_group_name(plan, group));
        g_string_append_printf(text, "\",\"pg_size\":%u}", members);
    }
    g_string_append(text, "]},\n\"traceEvents\":[\n");
    sim_output_file_write(file, text->str, text->len);
}

void sim_chrome_trace_save(const SimRecorder *recorder, SimOutputFile *file)
{
    g_autoptr(GString) line = g_string_new(NULL);
    Writer writer = {.file = file, .plan = sim_recorder_plan(recorder), .line = line};
    write_head(recorder, file);
    for (size_t t = 0; t < sim_recorder_count(recorder); t++) {
        writer.track = sim_recorder_track(recorder, t);
        write_track(&writer);
    }
    sim_output_file_puts(file, "\n],\"traceName\":\"fsdpsim\"}\n");
}
