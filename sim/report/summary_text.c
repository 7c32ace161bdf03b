/* SPDX-License-Identifier: Apache-2.0 */
#include "report/summary_text.h"

#include "predict/communication.h"

#define MOST_OWNERS 6

typedef struct Owner {
    SimCategory category;
    uint64_t bytes;
} Owner;

static void append_model(GString *text, const SimSummary *summary, const SimCluster *cluster)
{
    const cJSON *name = cJSON_GetObjectItemCaseSensitive(summary->model, "name");
    const cJSON *parameters = cJSON_GetObjectItemCaseSensitive(summary->model, "parameters");
    const cJSON *units = cJSON_GetObjectItemCaseSensitive(summary->model, "units");
    if (cJSON_IsString(name) && cJSON_IsNumber(parameters) && cJSON_IsNumber(units)) {
        g_string_append_printf(text, "%s: %.2f billion parameters in %d units\n", name->valuestring,
                               parameters->valuedouble / 1e9, units->valueint);
    }
    g_string_append_printf(text, "%u x %s\n\n", cluster->gpus, cluster->gpu->title);
}

static void append_bytes(GString *text, const char *label, uint64_t bytes)
{
    g_autofree char *size = sim_units_print_bytes(bytes);
    g_string_append_printf(text, "  %-16s %11s", label, size);
}

static uint32_t count_steps(const SimMemorySummary *memory)
{
    int32_t last = -1;
    for (guint i = 0; i < memory->program->phases->len; i++) {
        last = MAX(last, g_array_index(memory->program->phases, SimPhaseRange, i).step);
    }
    return (uint32_t)(last + 1);
}

/* "step 1 of 4, backward, layers.31", as far as the plan says. */
static void append_moment(GString *text, const SimMoment *moment, uint32_t steps)
{
    const char *comma = "";
    if (moment->step >= 0) {
        g_string_append_printf(text, "step %d of %u", moment->step + 1, steps);
        comma = ", ";
    }
    if (moment->phase[0] != '\0') {
        g_string_append_printf(text, "%s%s", comma, moment->phase);
        comma = ", ";
    }
    if (moment->unit[0] != '\0') {
        g_string_append_printf(text, "%s%s", comma, moment->unit);
    }
}

static int compare_owners(const void *a, const void *b)
{
    const Owner *x = a;
    const Owner *y = b;
    if (x->bytes != y->bytes) {
        return x->bytes > y->bytes ? -1 : 1;
    }
    return x->category < y->category ? -1 : x->category > y->category;
}

/* Who holds the allocated peak, the largest first, two a line. */
static void append_owners(GString *text, const SimMemorySummary *memory)
{
    g_autoptr(GArray) owners = g_array_new(FALSE, FALSE, sizeof(Owner));
    uint64_t rest = memory->peaks.allocated_bytes;
    for (int category = 0; category < SIM_CATEGORY_COUNT; category++) {
        Owner owner = {(SimCategory)category, memory->history->by_category[category]};
        if (owner.bytes > 0) {
            g_array_append_val(owners, owner);
        }
    }
    g_array_sort(owners, compare_owners);
    for (guint i = 0; i < MIN(owners->len, MOST_OWNERS); i++) {
        const Owner *owner = &g_array_index(owners, Owner, i);
        g_autofree char *size = sim_units_print_bytes(owner->bytes);
        g_string_append_printf(text, "%s%-22s %11s", i % 2 == 0 ? "    " : "     ",
                               sim_plan_category_name(owner->category), size);
        g_string_append(text, i % 2 == 1 || i + 1 == MIN(owners->len, MOST_OWNERS) ? "\n" : "");
        rest -= owner->bytes;
    }
    if (rest > 0) {
        g_autofree char *size = sim_units_print_bytes(rest);
        g_string_append_printf(text, "    %-22s %11s\n", "everything else", size);
    }
}

static void append_oom(GString *text, const SimMemorySummary *memory)
{
    const SimAllocatorOom *oom = &memory->history->oom;
    g_autofree char *requested = sim_units_print_bytes(oom->segment_bytes);
    g_autofree char *largest = sim_units_print_bytes(oom->largest_free_block_bytes);
    g_autofree char *reserved = sim_units_print_bytes(oom->reserved_bytes);
    g_string_append_printf(text, "  out of memory at ");
    append_moment(text, &memory->oom_at, count_steps(memory));
    g_string_append_printf(text, "\n    asked for %s with %s reserved; largest free block %s\n",
                           requested, reserved, largest);
    if (memory->expandable_hint != SIM_EXPANDABLE_NOT_ASKED) {
        g_string_append(text, memory->expandable_hint == SIM_EXPANDABLE_FITS
                                  ? "    --allocator expandable_segments:True would fit\n"
                                  : "    expandable segments would not fit either\n");
    }
}

static void append_memory(GString *text, const SimSummary *summary)
{
    const SimMemorySummary *memory = &summary->memory;
    g_autofree char *capacity = sim_units_print_bytes(memory->capacity_bytes);
    g_autofree char *context = sim_units_print_bytes(memory->context_bytes);
    g_autofree char *communicators = sim_units_print_bytes(memory->communicator_bytes);
    g_string_append_printf(text, "Memory of rank %u: %s\n", memory->rank,
                           memory->fits ? "fits" : "DOES NOT FIT");
    if (memory->history->is_oom) {
        append_oom(text, memory);
    }
    append_bytes(text, "peak allocated", memory->peaks.allocated_bytes);
    g_string_append(text, "  ");
    append_moment(text, &memory->peak, count_steps(memory));
    g_string_append(text, "\n");
    append_owners(text, memory);
    append_bytes(text, "peak reserved", memory->peaks.reserved_bytes);
    if (memory->history->alloc_retries > 0) {
        g_string_append_printf(text, "  %" G_GUINT64_FORMAT " allocator retries",
                               memory->history->alloc_retries);
    }
    g_string_append(text, "\n");
    append_bytes(text, "device", memory->device_peak_bytes);
    g_string_append_printf(text, " of %s (CUDA %s, NCCL %s)\n\n", capacity, context, communicators);
}

static void append_share(GString *text, const char *label, SimTime time, SimTime whole)
{
    g_autofree char *duration = sim_units_print_duration(time);
    g_string_append_printf(text, "%s %s (%.0f %%)", label, duration,
                           whole > 0 ? 100 * (double)time / (double)whole : 0);
}

static void append_ranks(GString *text, const SimWaitingLine *line)
{
    g_string_append_printf(text, "  rank %u", line->rank);
    if (line->ranks > 1) {
        g_string_append_printf(text, " and %u like it", line->ranks - 1);
    }
}

/* Who waits for whom; nothing where all ranks are alike. */
static void append_waiting(GString *text, const SimWaiting *waiting)
{
    for (guint i = 0; i < MIN(waiting->waiters->len, 3); i++) {
        const SimWaitingLine *line = &g_array_index(waiting->waiters, SimWaitingLine, i);
        g_autofree char *waited = sim_units_print_duration(line->waited);
        append_ranks(text, line);
        g_string_append_printf(text, ": waits %s", waited);
        if (line->n_causes > 0) {
            g_autofree char *most = sim_units_print_duration(line->causes[0].time);
            g_string_append_printf(text, ", %s of it for rank %u", most, line->causes[0].rank);
        }
        g_string_append(text, "\n");
    }
    for (guint i = 0; i < MIN(waiting->causers->len, 3); i++) {
        const SimWaitingLine *line = &g_array_index(waiting->causers, SimWaitingLine, i);
        g_autofree char *caused = sim_units_print_duration(line->caused);
        append_ranks(text, line);
        g_string_append_printf(text, ": others wait for it, %s in all\n", caused);
    }
}

static void append_time(GString *text, const SimSummary *summary)
{
    const SimTimeSummary *time = &summary->time;
    const SimTimeSplit *split = &time->split;
    g_autofree char *step = sim_units_print_duration(split->step);
    if (time->step < 0) {
        g_string_append_printf(text, "Time: %s\n", step);
    } else {
        g_autofree char *forward = sim_units_print_duration(time->forward);
        g_autofree char *backward = sim_units_print_duration(time->backward);
        g_autofree char *optimizer = sim_units_print_duration(time->optimizer);
        g_string_append_printf(text, "Time of step %d: %s\n", time->step + 1, step);
        g_string_append_printf(text, "  forward %s, backward %s, optimizer %s\n", forward, backward,
                               optimizer);
    }
    append_share(text, "  compute", split->compute, split->step);
    append_share(text, ", exposed communication", split->exposed_communication, split->step);
    append_share(text, ",\n  waiting for ranks", split->waiting, split->step);
    append_share(text, ", for the host", split->host_bound, split->step);
    g_string_append(text, "\n");
    append_waiting(text, summary->waiting);
    for (guint i = 0; i < summary->communication->len; i++) {
        const SimCommunicationLine *line =
            &g_array_index(summary->communication, SimCommunicationLine, i);
        g_autofree char *bytes = sim_units_print_bytes(line->bytes);
        g_autofree char *all = sim_units_print_duration(line->time);
        g_autofree char *exposed = sim_units_print_duration(line->exposed);
        g_string_append_printf(
            text, "  %3" G_GUINT64_FORMAT " %-14s %-9s %-9s %10s %10s, exposed %s\n", line->count,
            sim_plan_collective_name((SimCollectiveKind)line->collective),
            sim_plan_group_name(summary->plan, line->group),
            sim_plan_phase_name((SimPhase)line->phase), bytes, all, exposed);
    }
    g_string_append(text, "\n");
}

static void append_deadlock(GString *text, const SimSummary *summary)
{
    const GPtrArray *blocked = summary->result->blocked;
    g_string_append(text, "Deadlock:\n");
    for (guint i = 0; i < blocked->len; i++) {
        const SimBlocked *link = g_ptr_array_index(blocked, i);
        g_string_append_printf(text, "  rank %u, %s, waits for %s\n", link->rank,
                               link->stream == SIM_PLAN_NONE
                                   ? "host"
                                   : sim_plan_stream_name(summary->plan, link->stream),
                               link->waits_for);
    }
    g_string_append(text, "\n");
}

char *sim_summary_text_print(const SimSummary *summary, const SimCluster *cluster)
{
    GString *text = g_string_new(NULL);
    append_model(text, summary, cluster);
    append_memory(text, summary);
    if (summary->has_time) {
        append_time(text, summary);
    }
    if (summary->result->blocked->len > 0) {
        append_deadlock(text, summary);
    }
    if (summary->has_throughput) {
        const SimThroughput *throughput = &summary->throughput;
        g_string_append_printf(text,
                               "%.0f tokens/s a GPU, %.0f in all; MFU %.1f %%; %.1f GPU hours a "
                               "billion tokens\n",
                               throughput->tokens_per_second_per_gpu, throughput->tokens_per_second,
                               100 * throughput->model_flops_utilization,
                               throughput->gpu_hours_per_billion_tokens);
    }
    g_string_append_printf(text, "Memory by %s\nTime %s\n", summary->memory_basis,
                           summary->time_basis);
    for (guint i = 0; i < summary->warnings->len; i++) {
        g_string_append_printf(text, "Note: %s\n",
                               (const char *)g_ptr_array_index(summary->warnings, i));
    }
    return g_string_free(text, FALSE);
}
