/* SPDX-License-Identifier: Apache-2.0 */
#include "predict/summary_json.h"

#include "predict/communication.h"
#include "predict/json_writer.h"

static void write_seconds(SimJsonWriter *writer, const char *key, SimTime time)
{
    sim_json_writer_double(writer, key, sim_units_seconds(time));
}

static void write_index(SimJsonWriter *writer, const char *key, int32_t index)
{
    if (index < 0) {
        sim_json_writer_null(writer, key);
    } else {
        sim_json_writer_int(writer, key, index);
    }
}

static void write_moment(SimJsonWriter *writer, const SimMoment *moment)
{
    write_index(writer, "step", moment->step);
    sim_json_writer_text(writer, "phase", moment->phase);
    sim_json_writer_text(writer, "unit", moment->unit);
}

static void write_peaks(SimJsonWriter *writer, const SimMemoryPeaks *peaks)
{
    sim_json_writer_uint(writer, "peak_allocated_bytes", peaks->allocated_bytes);
    sim_json_writer_uint(writer, "peak_active_bytes", peaks->active_bytes);
    sim_json_writer_uint(writer, "peak_reserved_bytes", peaks->reserved_bytes);
}

static void write_model(SimJsonWriter *writer, const cJSON *model)
{
    static const char *const keys[] = {"name", "parameters", "trained_parameters", "units",
                                       "padding_fraction"};
    sim_json_writer_begin_object(writer, "model");
    for (size_t i = 0; i < G_N_ELEMENTS(keys); i++) {
        sim_json_writer_tree(writer, keys[i], cJSON_GetObjectItemCaseSensitive(model, keys[i]));
    }
    sim_json_writer_end_object(writer);
}

static void write_oom(SimJsonWriter *writer, const SimMemorySummary *memory)
{
    const SimAllocatorOom *oom = &memory->history->oom;
    if (!memory->history->is_oom) {
        sim_json_writer_null(writer, "oom");
        return;
    }
    sim_json_writer_begin_object(writer, "oom");
    write_moment(writer, &memory->oom_at);
    /* as in PyTorch's message: the segment that the device refused */
    sim_json_writer_uint(writer, "requested_bytes", oom->segment_bytes);
    sim_json_writer_uint(writer, "allocated_bytes", oom->allocated_bytes);
    sim_json_writer_uint(writer, "active_bytes", oom->active_bytes);
    sim_json_writer_uint(writer, "reserved_bytes", oom->reserved_bytes);
    sim_json_writer_uint(writer, "largest_free_block_bytes", oom->largest_free_block_bytes);
    sim_json_writer_uint(writer, "device_free_bytes", oom->device_free_bytes);
    const char *hint = sim_expandable_hint_name(memory->expandable_hint);
    if (hint != NULL) {
        sim_json_writer_text(writer, "with_expandable_segments", hint);
    }
    sim_json_writer_end_object(writer);
}

static void write_peak_owners(SimJsonWriter *writer, const SimMemorySummary *memory)
{
    sim_json_writer_begin_object(writer, "peak");
    write_moment(writer, &memory->peak);
    sim_json_writer_begin_object(writer, "by_category");
    for (int category = 0; category < SIM_CATEGORY_COUNT; category++) {
        if (memory->history->by_category[category] > 0) {
            sim_json_writer_uint(writer, sim_plan_category_name((SimCategory)category),
                                 memory->history->by_category[category]);
        }
    }
    sim_json_writer_end_object(writer);
    sim_json_writer_end_object(writer);
}

static void raise_peaks(SimMemoryPeaks *peaks, const SimMemoryPeaks *more)
{
    peaks->allocated_bytes = MAX(peaks->allocated_bytes, more->allocated_bytes);
    peaks->active_bytes = MAX(peaks->active_bytes, more->active_bytes);
    peaks->reserved_bytes = MAX(peaks->reserved_bytes, more->reserved_bytes);
}

/* A step's peaks are the highest of its phases'. */
static void write_steps(SimJsonWriter *writer, const SimMemorySummary *memory)
{
    const GArray *phases = memory->history->phases;
    sim_json_writer_begin_array(writer, "steps");
    for (guint i = 0; i < phases->len;) {
        int32_t step = g_array_index(memory->program->phases, SimPhaseRange, i).step;
        SimMemoryPeaks peaks = {0};
        for (; i < phases->len &&
               g_array_index(memory->program->phases, SimPhaseRange, i).step == step;
             i++) {
            raise_peaks(&peaks, &g_array_index(phases, SimMemoryPhase, i).peaks);
        }
        if (step >= 0) {
            sim_json_writer_begin_object(writer, NULL);
            write_peaks(writer, &peaks);
            sim_json_writer_end_object(writer);
        }
    }
    sim_json_writer_end_array(writer);
}

static void write_phases(SimJsonWriter *writer, const SimMemorySummary *memory)
{
    const GArray *phases = memory->history->phases;
    sim_json_writer_begin_array(writer, "phases");
    for (guint i = 0; i < phases->len; i++) {
        const SimMemoryPhase *phase = &g_array_index(phases, SimMemoryPhase, i);
        const SimPhaseRange *range = &g_array_index(memory->program->phases, SimPhaseRange, i);
        sim_json_writer_begin_object(writer, NULL);
        write_index(writer, "step", range->step);
        sim_json_writer_text(writer, "phase", sim_plan_phase_name((SimPhase)range->phase));
        write_index(writer, "microbatch", range->microbatch);
        sim_json_writer_uint(writer, "allocated_bytes", phase->allocated_bytes);
        sim_json_writer_uint(writer, "reserved_bytes", phase->reserved_bytes);
        write_peaks(writer, &phase->peaks);
        sim_json_writer_uint(writer, "alloc_retries", phase->alloc_retries);
        sim_json_writer_end_object(writer);
    }
    sim_json_writer_end_array(writer);
}

static void write_memory(SimJsonWriter *writer, const SimMemorySummary *memory)
{
    sim_json_writer_begin_object(writer, "memory");
    sim_json_writer_uint(writer, "rank", memory->rank);
    sim_json_writer_begin_object(writer, "ranks");
    sim_json_writer_uint(writer, "min", memory->min_reserved_bytes);
    sim_json_writer_uint(writer, "median", memory->median_reserved_bytes);
    sim_json_writer_uint(writer, "max", memory->max_reserved_bytes);
    sim_json_writer_end_object(writer);
    write_peaks(writer, &memory->peaks);
    sim_json_writer_uint(writer, "device_peak_bytes", memory->device_peak_bytes);
    sim_json_writer_uint(writer, "capacity_bytes", memory->capacity_bytes);
    sim_json_writer_bool(writer, "fits", memory->fits);
    sim_json_writer_uint(writer, "alloc_retries", memory->history->alloc_retries);
    write_oom(writer, memory);
    write_peak_owners(writer, memory);
    write_steps(writer, memory);
    write_phases(writer, memory);
    sim_json_writer_uint(writer, "host_bytes", memory->history->host_bytes);
    sim_json_writer_end_object(writer);
}

static void write_blocked(SimJsonWriter *writer, const SimSummary *summary)
{
    const GPtrArray *blocked = summary->result->blocked;
    if (blocked->len == 0) {
        sim_json_writer_null(writer, "deadlock");
        return;
    }
    sim_json_writer_begin_array(writer, "deadlock");
    for (guint i = 0; i < blocked->len; i++) {
        const SimBlocked *link = g_ptr_array_index(blocked, i);
        const SimInstruction *instruction = sim_plan_instruction(summary->plan, link->instruction);
        sim_json_writer_begin_object(writer, NULL);
        sim_json_writer_uint(writer, "rank", link->rank);
        sim_json_writer_text(writer, "stream",
                             link->stream == SIM_PLAN_NONE
                                 ? "host"
                                 : sim_plan_stream_name(summary->plan, link->stream));
        sim_json_writer_text(writer, "op", sim_plan_op_name((SimPlanOp)instruction->op));
        write_index(writer, "step", instruction->step);
        sim_json_writer_text(writer, "phase", sim_plan_phase_name((SimPhase)instruction->phase));
        sim_json_writer_text(writer, "unit", sim_plan_string(summary->plan, instruction->unit));
        sim_json_writer_text(writer, "waits_for", link->waits_for);
        sim_json_writer_end_object(writer);
    }
    sim_json_writer_end_array(writer);
}

static void write_time(SimJsonWriter *writer, const SimSummary *summary)
{
    const SimTimeSummary *time = &summary->time;
    if (!summary->has_time) {
        sim_json_writer_null(writer, "time");
        return;
    }
    sim_json_writer_begin_object(writer, "time");
    write_seconds(writer, "step", time->split.step);
    write_seconds(writer, "forward", time->forward);
    write_seconds(writer, "backward", time->backward);
    write_seconds(writer, "optimizer", time->optimizer);
    write_seconds(writer, "compute", time->split.compute);
    write_seconds(writer, "communication", time->split.communication);
    write_seconds(writer, "exposed_communication", time->split.exposed_communication);
    write_seconds(writer, "waiting", time->split.waiting);
    write_seconds(writer, "host_bound", time->split.host_bound);
    sim_json_writer_end_object(writer);
}

static void write_waiting_line(SimJsonWriter *writer, const SimWaitingLine *line, SimTime time)
{
    sim_json_writer_begin_object(writer, NULL);
    sim_json_writer_uint(writer, "rank", line->rank);
    sim_json_writer_uint(writer, "ranks", line->ranks);
    write_seconds(writer, "seconds", time);
}

static void write_waiters(SimJsonWriter *writer, const SimWaiting *waiting)
{
    sim_json_writer_begin_array(writer, "longest");
    for (guint i = 0; i < waiting->waiters->len; i++) {
        const SimWaitingLine *line = &g_array_index(waiting->waiters, SimWaitingLine, i);
        write_waiting_line(writer, line, line->waited);
        sim_json_writer_begin_array(writer, "for");
        for (uint32_t cause = 0; cause < line->n_causes; cause++) {
            sim_json_writer_begin_object(writer, NULL);
            sim_json_writer_uint(writer, "rank", line->causes[cause].rank);
            write_seconds(writer, "seconds", line->causes[cause].time);
            sim_json_writer_end_object(writer);
        }
        sim_json_writer_end_array(writer);
        sim_json_writer_end_object(writer);
    }
    sim_json_writer_end_array(writer);
}

static void write_waiting(SimJsonWriter *writer, const SimWaiting *waiting)
{
    if (waiting == NULL) {
        sim_json_writer_null(writer, "waiting");
        return;
    }
    sim_json_writer_begin_object(writer, "waiting");
    write_seconds(writer, "min", waiting->min);
    write_seconds(writer, "median", waiting->median);
    write_seconds(writer, "max", waiting->max);
    write_waiters(writer, waiting);
    sim_json_writer_begin_array(writer, "caused");
    for (guint i = 0; i < waiting->causers->len; i++) {
        const SimWaitingLine *line = &g_array_index(waiting->causers, SimWaitingLine, i);
        write_waiting_line(writer, line, line->caused);
        sim_json_writer_end_object(writer);
    }
    sim_json_writer_end_array(writer);
    sim_json_writer_end_object(writer);
}

static void write_throughput(SimJsonWriter *writer, const SimSummary *summary)
{
    const SimThroughput *throughput = &summary->throughput;
    if (!summary->has_throughput) {
        sim_json_writer_null(writer, "throughput");
        return;
    }
    sim_json_writer_begin_object(writer, "throughput");
    sim_json_writer_double(writer, "tokens_per_second_per_gpu",
                           throughput->tokens_per_second_per_gpu);
    sim_json_writer_double(writer, "tokens_per_second", throughput->tokens_per_second);
    sim_json_writer_double(writer, "model_flops_utilization", throughput->model_flops_utilization);
    sim_json_writer_double(writer, "gpu_hours_per_billion_tokens",
                           throughput->gpu_hours_per_billion_tokens);
    sim_json_writer_end_object(writer);
}

static void write_communication(SimJsonWriter *writer, const SimSummary *summary)
{
    sim_json_writer_begin_array(writer, "communication");
    for (guint i = 0; i < summary->communication->len; i++) {
        const SimCommunicationLine *line =
            &g_array_index(summary->communication, SimCommunicationLine, i);
        sim_json_writer_begin_object(writer, NULL);
        sim_json_writer_text(writer, "group", sim_plan_group_name(summary->plan, line->group));
        sim_json_writer_text(writer, "collective",
                             sim_plan_collective_name((SimCollectiveKind)line->collective));
        sim_json_writer_text(writer, "phase", sim_plan_phase_name((SimPhase)line->phase));
        sim_json_writer_uint(writer, "count", line->count);
        sim_json_writer_uint(writer, "bytes", line->bytes);
        sim_json_writer_uint(writer, "wire_bytes_per_rank", line->wire_bytes);
        write_seconds(writer, "seconds", line->time);
        write_seconds(writer, "exposed_seconds", line->exposed);
        sim_json_writer_end_object(writer);
    }
    sim_json_writer_end_array(writer);
}

static void write_rest(SimJsonWriter *writer, const SimSummary *summary)
{
    sim_json_writer_begin_object(writer, "basis");
    sim_json_writer_text(writer, "memory", summary->memory_basis);
    sim_json_writer_text(writer, "time", summary->time_basis);
    sim_json_writer_end_object(writer);
    sim_json_writer_begin_array(writer, "warnings");
    for (guint i = 0; i < summary->warnings->len; i++) {
        sim_json_writer_text(writer, NULL, g_ptr_array_index(summary->warnings, i));
    }
    sim_json_writer_end_array(writer);
    sim_json_writer_begin_object(writer, "simulation");
    sim_json_writer_uint(writer, "ranks", summary->result->ranks);
    sim_json_writer_uint(writer, "simulated_ranks", summary->result->simulated_ranks);
    sim_json_writer_uint(writer, "events", summary->result->events);
    sim_json_writer_end_object(writer);
}

void sim_summary_json_save(const SimSummary *summary, SimOutputFile *file)
{
    g_autoptr(GString) text = g_string_new(NULL);
    SimJsonWriter writer;
    sim_json_writer_init(&writer, text, false);
    sim_json_writer_begin_object(&writer, NULL);
    sim_json_writer_text(&writer, "schema", "fsdpsim.summary/1");
    sim_json_writer_text(&writer, "version", FSDPSIM_VERSION);
    sim_json_writer_tree(&writer, "config", summary->config);
    write_model(&writer, summary->model);
    write_memory(&writer, &summary->memory);
    write_time(&writer, summary);
    write_blocked(&writer, summary);
    write_waiting(&writer, summary->waiting);
    write_throughput(&writer, summary);
    write_communication(&writer, summary);
    write_rest(&writer, summary);
    sim_json_writer_end_object(&writer);
    g_string_append_c(text, '\n');
    sim_output_file_write(file, text->str, text->len);
}
