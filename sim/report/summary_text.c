/* SPDX-License-Identifier: Apache-2.0 */
#include "report/summary_text.h"

#include <string.h>

#include "predict/communication.h"

#define COLUMNS 80
#define MOST_LINES 23 /* of a screen of 24, whose last holds the prompt */
#define MOST_OWNERS 6
#define MOST_WAITERS 1
#define MOST_CAUSERS 1
#define LEAST_WAITING 1000 /* of a step: a shorter wait is not worth a line */

typedef struct Owner {
    SimCategory category;
    uint64_t bytes;
} Owner;

/* A word after what stands in the text's last line, or in the next one, indented, if it would pass
 * the last column. */
static void append_word(GString *text, const char *word)
{
    const char *line = strrchr(text->str, '\n');
    line = line != NULL ? line + 1 : text->str;
    size_t used = strlen(line);
    if (used > 0 && used + 1 + strlen(word) > COLUMNS) {
        g_string_append_printf(text, "\n   ");
    }
    g_string_append_printf(text, "%s%s", used > 0 ? " " : "", word);
}

static void append_wrapped(GString *text, const char *sentence)
{
    g_auto(GStrv) words = g_strsplit(sentence, " ", -1);
    for (size_t i = 0; words[i] != NULL; i++) {
        append_word(text, words[i]);
    }
    g_string_append_c(text, '\n');
}

/* The value of a setting, if the plan says it and it is not one of those that need no words. */
static const char *find_setting(const SimSummary *summary, const char *key, const char *silent)
{
    const cJSON *value = cJSON_GetObjectItemCaseSensitive(summary->config, key);
    if (!cJSON_IsString(value) || g_strcmp0(value->valuestring, silent) == 0) {
        return NULL;
    }
    return value->valuestring;
}

static void append_parameters(GString *text, const SimSummary *summary)
{
    const cJSON *name = cJSON_GetObjectItemCaseSensitive(summary->model, "name");
    const cJSON *parameters = cJSON_GetObjectItemCaseSensitive(summary->model, "parameters");
    const cJSON *units = cJSON_GetObjectItemCaseSensitive(summary->model, "units");
    if (!cJSON_IsString(name) || !cJSON_IsNumber(parameters) || !cJSON_IsNumber(units)) {
        return;
    }
    double count = parameters->valuedouble;
    g_string_append_printf(text, "%s: %.2f %s parameters in %d unit%s", name->valuestring,
                           count < 1e9 ? count / 1e6 : count / 1e9,
                           count < 1e9 ? "million" : "billion", units->valueint,
                           units->valueint == 1 ? "" : "s");
    const char *code = find_setting(summary, "code", NULL);
    if (code != NULL) {
        g_string_append_printf(text, ", %s code", code);
    }
    g_string_append_c(text, '\n');
}

/* "1 x 8192 tokens a GPU, 2 microbatches a step, ...": what decides most. A job file says the rest
 * in its own way. */
static void append_job(GString *text, const SimSummary *summary)
{
    const cJSON *seq = cJSON_GetObjectItemCaseSensitive(summary->config, "seq");
    const cJSON *batch = cJSON_GetObjectItemCaseSensitive(summary->config, "batch");
    const cJSON *microbatches = cJSON_GetObjectItemCaseSensitive(summary->config, "accumulate");
    if (!cJSON_IsNumber(seq) || !cJSON_IsNumber(batch) || !cJSON_IsNumber(microbatches)) {
        return;
    }
    g_autoptr(GString) job = g_string_new(NULL);
    g_string_append_printf(job, "%d x %d tokens a GPU", batch->valueint, seq->valueint);
    if (microbatches->valueint > 1) {
        g_string_append_printf(job, ", %d microbatches a step", microbatches->valueint);
    }
    if (find_setting(summary, "job", NULL) == NULL) {
        const char *checkpoint = find_setting(summary, "checkpoint", "none");
        const char *parameters = find_setting(summary, "param_dtype", NULL);
        const char *optimizer = find_setting(summary, "optimizer", NULL);
        g_string_append_printf(job, ", %s%s", checkpoint != NULL ? "checkpoint " : "no checkpoint",
                               checkpoint != NULL ? checkpoint : "");
        g_string_append_printf(job, ", %s, %s", parameters != NULL ? parameters : "",
                               optimizer != NULL ? optimizer : "");
        if (find_setting(summary, "offload", "none") != NULL) {
            g_string_append(job, ", offload");
        }
    }
    append_wrapped(text, job->str);
}

static void append_model(GString *text, const SimSummary *summary, const SimCluster *cluster)
{
    append_parameters(text, summary);
    append_job(text, summary);
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

static void append_owner(GString *text, guint i, const char *name, uint64_t bytes)
{
    g_autofree char *size = sim_units_print_bytes(bytes);
    g_string_append_printf(text, "%s%-22s %11s%s", i % 2 == 0 ? "    " : "     ", name, size,
                           i % 2 == 0 ? "" : "\n");
}

/* Who holds the allocated peak, the largest first, two a line; the last one sums up the rest. */
static void append_owners(GString *text, const SimMemorySummary *memory)
{
    g_autoptr(GArray) owners = g_array_new(FALSE, FALSE, sizeof(Owner));
    uint64_t rest = memory->peaks.allocated_bytes;
    guint count = 0;
    for (int category = 0; category < SIM_CATEGORY_COUNT; category++) {
        Owner owner = {(SimCategory)category, memory->history->by_category[category]};
        if (owner.bytes > 0) {
            g_array_append_val(owners, owner);
        }
    }
    g_array_sort(owners, compare_owners);
    while (count < owners->len && count < MOST_OWNERS - (owners->len > MOST_OWNERS ? 1 : 0)) {
        const Owner *owner = &g_array_index(owners, Owner, count);
        append_owner(text, count++, sim_plan_category_name(owner->category), owner->bytes);
        rest -= owner->bytes;
    }
    if (rest > 0) {
        append_owner(text, count++, "everything else", rest);
    }
    if (count % 2 == 1) {
        g_string_append_c(text, '\n');
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
        g_string_append_printf(text, "  %" G_GUINT64_FORMAT " allocator retr%s",
                               memory->history->alloc_retries,
                               memory->history->alloc_retries == 1 ? "y" : "ies");
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

/* Who waits for whom, for longer than a thousandth of a STEP; nothing where all ranks are alike. */
static void append_waiting(GString *text, const SimWaiting *waiting, SimTime step)
{
    for (guint i = 0; i < MIN(waiting->waiters->len, MOST_WAITERS); i++) {
        const SimWaitingLine *line = &g_array_index(waiting->waiters, SimWaitingLine, i);
        if (line->waited < step / LEAST_WAITING) {
            return;
        }
        g_autofree char *waited = sim_units_print_duration(line->waited);
        append_ranks(text, line);
        g_string_append_printf(text, ": waits %s", waited);
        if (line->n_causes > 0) {
            g_autofree char *most = sim_units_print_duration(line->causes[0].time);
            g_string_append_printf(text, ", %s of it for rank %u", most, line->causes[0].rank);
        }
        g_string_append(text, "\n");
    }
    for (guint i = 0; i < MIN(waiting->causers->len, MOST_CAUSERS); i++) {
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
    append_waiting(text, summary->waiting, split->step);
}

static void append_collectives(GString *text, const SimSummary *summary,
                               const SimCommunicationLine *line)
{
    g_autofree char *bytes = sim_units_print_bytes(line->bytes);
    g_autofree char *all = sim_units_print_duration(line->time);
    g_autofree char *exposed = sim_units_print_duration(line->exposed);
    g_autofree char *place =
        g_strdup_printf("%s %s", sim_plan_group_name(summary->plan, line->group),
                        sim_plan_phase_name((SimPhase)line->phase));
    g_string_append_printf(
        text, "%4" G_GUINT64_FORMAT " %-14s %-18s %10s %10s, exposed %s\n", line->count,
        sim_plan_collective_name((SimCollectiveKind)line->collective), place, bytes, all, exposed);
}

/* One line a kind of collective, group and phase, at most LINES of them (at least 1). */
static void append_communication(GString *text, const SimSummary *summary, guint lines)
{
    const GArray *kinds = summary->communication;
    guint shown = kinds->len <= lines ? kinds->len : lines - 1;
    SimTime exposed = 0;
    for (guint i = 0; i < kinds->len; i++) {
        const SimCommunicationLine *line = &g_array_index(kinds, SimCommunicationLine, i);
        if (i < shown) {
            append_collectives(text, summary, line);
        } else {
            exposed += line->exposed;
        }
    }
    if (shown < kinds->len) {
        g_autofree char *sum = sim_units_print_duration(exposed);
        g_string_append_printf(text, " %s%u kinds%s (--json has all), exposed %s\n",
                               shown > 0 ? "and " : "", kinds->len - shown,
                               shown > 0 ? " more" : " of collectives", sum);
    }
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

static void append_basis(GString *text, const SimSummary *summary, const SimCluster *cluster)
{
    g_string_append_printf(text, "Memory: %s\n", summary->memory_basis);
    g_autofree char *time =
        g_strdup_printf("Time: kernels %s %s, collectives %s %s, eager mode", cluster->gpu->name,
                        sim_basis_name(cluster->gpu->basis), cluster->comm->name,
                        sim_basis_name(cluster->comm->basis));
    append_wrapped(text, time);
    for (guint i = 0; i < summary->warnings->len; i++) {
        g_autofree char *note =
            g_strconcat("Note: ", g_ptr_array_index(summary->warnings, i), NULL);
        append_wrapped(text, note);
    }
}

/* What stands below the collectives. */
static char *print_end(const SimSummary *summary, const SimCluster *cluster)
{
    GString *text = g_string_new(NULL);
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
    append_basis(text, summary, cluster);
    return g_string_free(text, FALSE);
}

static guint count_lines(const char *text)
{
    guint lines = 0;
    for (; *text != '\0'; text++) {
        lines += *text == '\n';
    }
    return lines;
}

char *sim_summary_text_print(const SimSummary *summary, const SimCluster *cluster)
{
    GString *text = g_string_new(NULL);
    g_autofree char *end = print_end(summary, cluster);
    append_model(text, summary, cluster);
    append_memory(text, summary);
    if (summary->has_time) {
        append_time(text, summary);
        guint used = count_lines(text->str) + count_lines(end);
        append_communication(text, summary, used < MOST_LINES ? MOST_LINES - used : 1);
    }
    g_string_append(text, end);
    return g_string_free(text, FALSE);
}
