/* SPDX-License-Identifier: Apache-2.0 */
#include "rank/rank_program.h"

#include <string.h>

#include "base/error.h"
#include "rank/duration_cache.h"
#include "rank/host_cost.h"

/* Kernels of a stream that wait to become one item. */
typedef struct OpenRun {
    uint32_t position;
    SimTime offset, duration, tail;
    GArray *kernels; /* of SimRunKernel */
} OpenRun;

typedef struct Lent {
    uint32_t buffer, stream;
} Lent;

#define KEPT UINT32_MAX /* waits: asked about again and again */

typedef struct Compilation {
    SimRankProgram *program;
    const SimPlan *plan;
    const SimGpu *gpu;
    SimRunTable *table;
    OpenRun *runs; /* [streams] */
    GArray *lent;  /* of Lent: record_streams of live buffers */
    SimDurationCache durations;
    uint32_t position;
    SimTime host; /* since the last stop */
} Compilation;

/* --- rows --------------------------------------------------------------------------------------
 */

static bool is_same_phase(const SimPhaseRange *range, const SimInstruction *instruction)
{
    SimPhase phase = instruction->phase == SIM_PHASE_RECOMPUTE ? SIM_PHASE_BACKWARD
                                                               : (SimPhase)instruction->phase;
    return phase == SIM_PHASE_NONE || (range->phase == phase && range->step == instruction->step &&
                                       range->microbatch == instruction->microbatch);
}

static void add_row(SimRankProgram *program, const SimInstruction *instruction, uint32_t position)
{
    guint n_phases = program->phases->len;
    SimPhaseRange *last =
        n_phases > 0 ? &g_array_index(program->phases, SimPhaseRange, n_phases - 1) : NULL;

    if (instruction->op == SIM_PLAN_RECORD_STREAM) {
        program->is_time_bound = true;
    }
    if (last != NULL && is_same_phase(last, instruction)) {
        last->end = position + 1;
        return;
    }
    SimPhase phase = instruction->phase == SIM_PHASE_RECOMPUTE ? SIM_PHASE_BACKWARD
                                                               : (SimPhase)instruction->phase;
    SimPhaseRange range = {instruction->step, instruction->microbatch, (uint8_t)phase, position,
                           position + 1};
    g_array_append_val(program->phases, range);
}

SimRankProgram *sim_rank_program_new(const SimPlan *plan, uint32_t rank)
{
    SimRankProgram *program = g_new0(SimRankProgram, 1);
    uint32_t sets = sim_plan_rank_set_count(plan);
    g_autofree bool *has = g_new(bool, sets);
    for (uint32_t set = 0; set < sets; set++) {
        has[set] = sim_plan_rank_set_has(plan, set, rank);
    }
    program->rank = rank;
    program->streams = sim_plan_stream_count(plan);
    program->groups = sim_plan_group_count(plan);
    program->rows = g_array_new(FALSE, FALSE, sizeof(uint32_t));
    program->phases = g_array_new(FALSE, FALSE, sizeof(SimPhaseRange));
    /* Sized once: a plan has some 100,000 rows, and appending one at a time costs as much as all
     * the rest. */
    uint32_t length = 0;
    g_array_set_size(program->rows, (guint)sim_plan_length(plan));
    for (uint32_t i = 0; i < sim_plan_length(plan); i++) {
        const SimInstruction *instruction = sim_plan_instruction(plan, i);
        if (has[instruction->rank_set]) {
            g_array_index(program->rows, uint32_t, length) = i;
            add_row(program, instruction, length++);
        }
    }
    g_array_set_size(program->rows, length);
    program->length = length;
    return program;
}

static void free_arrays(GArray **arrays, uint32_t count)
{
    for (uint32_t i = 0; arrays != NULL && i < count; i++) {
        g_array_unref(arrays[i]);
    }
    g_free(arrays);
}

void sim_rank_program_free(SimRankProgram *program)
{
    if (program == NULL) {
        return;
    }
    free_arrays(program->items, program->streams);
    free_arrays(program->collectives, program->groups);
    g_clear_pointer(&program->lent_frees, g_array_unref);
    g_clear_pointer(&program->stops, g_array_unref);
    g_clear_pointer(&program->kernels, g_array_unref);
    g_clear_pointer(&program->waits, g_array_unref);
    g_array_unref(program->phases);
    g_array_unref(program->rows);
    g_free(program);
}

/* --- items -------------------------------------------------------------------------------------
 */

static void close_run(Compilation *compilation, uint32_t stream)
{
    OpenRun *run = &compilation->runs[stream];
    if (run->kernels->len > 0) {
        uint32_t number = sim_run_table_add_run(compilation->table,
                                                (const SimRunKernel *)(void *)run->kernels->data,
                                                run->kernels->len);
        SimItem item = {.kind = SIM_ITEM_RUN,
                        .position = run->position,
                        .number = number,
                        .offset = run->offset,
                        .duration = run->duration,
                        .tail = run->tail};
        g_array_append_val(compilation->program->items[stream], item);
        g_array_set_size(run->kernels, 0);
        *run = (OpenRun){.kernels = run->kernels};
    }
}

static void close_runs(Compilation *compilation)
{
    for (uint32_t stream = 0; stream < compilation->program->streams; stream++) {
        close_run(compilation, stream);
    }
}

static void add_item(Compilation *compilation, uint32_t stream, SimItemKind kind, uint32_t number)
{
    close_run(compilation, stream);
    SimItem item = {.kind = (uint8_t)kind,
                    .position = compilation->position,
                    .number = number,
                    .offset = compilation->host};
    g_array_append_val(compilation->program->items[stream], item);
}

/* An event made here, that is waited for WAITS times. */
static uint32_t add_event(Compilation *compilation, uint32_t stream, SimItemKind kind,
                          uint32_t waits)
{
    uint32_t event = compilation->program->events++;
    g_array_append_val(compilation->program->waits, waits);
    add_item(compilation, stream, kind, event);
    return event;
}

/* Kernel and copy. */
static void add_work(Compilation *compilation, uint32_t stream, const SimRunKernel *kernel)
{
    OpenRun *run = &compilation->runs[stream];
    g_array_append_val(run->kernels, *kernel);
    run->position = compilation->position;
    run->offset = compilation->host;
    run->duration += kernel->duration;
    run->tail = MAX(run->tail, compilation->host) + kernel->duration;
}

static void add_stop(Compilation *compilation, SimStopKind kind, uint32_t event)
{
    close_runs(compilation);
    SimStop stop = {(uint8_t)kind, compilation->position, event, compilation->host};
    g_array_append_val(compilation->program->stops, stop);
}

static void add_wait(Compilation *compilation, const SimInstruction *instruction)
{
    uint32_t event = instruction->event;
    if (instruction->is_event_of_stream) {
        if (instruction->event == instruction->stream) {
            return;
        }
        event = add_event(compilation, instruction->event, SIM_ITEM_RECORD, 1);
    } else {
        g_array_index(compilation->program->waits, uint32_t, event)++;
    }
    add_item(compilation, instruction->stream, SIM_ITEM_WAIT, event);
}

static bool add_collective(Compilation *compilation, const SimInstruction *instruction,
                           GError **error)
{
    SimRankProgram *program = compilation->program;
    uint32_t group = instruction->group, list, place, members;
    if (!sim_plan_group_of_rank(compilation->plan, group, program->rank, &list, &place, &members)) {
        g_set_error(error, SIM_ERROR, SIM_ERROR_MISMATCH,
                    "plan row %u: rank %u plays a collective of group '%s' but is in none of its "
                    "rank lists",
                    sim_rank_program_row(program, compilation->position) + 1, program->rank,
                    sim_plan_group_name(compilation->plan, group));
        return false;
    }
    add_item(compilation, instruction->stream, SIM_ITEM_COLLECTIVE,
             program->collectives[group]->len);
    GArray *items = program->items[instruction->stream];
    g_array_index(items, SimItem, items->len - 1).group = group;
    g_array_append_val(program->collectives[group], compilation->position);
    return true;
}

/* The host waits for everything the device has been given. */
static void add_sync(Compilation *compilation)
{
    for (uint32_t stream = 0; stream < compilation->program->streams; stream++) {
        uint32_t event = add_event(compilation, stream, SIM_ITEM_MARK, 1);
        add_stop(compilation, SIM_STOP_EVENT, event);
    }
}

/* Memory whose fate depends on time: every allocator call is a stop, and a free of a lent buffer
 * notes how far the borrowing streams have come. */
static void add_memory(Compilation *compilation, const SimInstruction *instruction)
{
    GArray *lent = compilation->lent;
    if (instruction->op == SIM_PLAN_RECORD_STREAM) {
        Lent use = {sim_plan_root_buffer(compilation->plan, instruction->buffer),
                    instruction->stream};
        g_array_append_val(lent, use);
    }
    for (guint i = lent->len; i-- > 0 && instruction->op == SIM_PLAN_FREE;) {
        Lent use = g_array_index(lent, Lent, i);
        if (use.buffer == instruction->buffer) {
            SimLentFree lent_free = {compilation->position, use.stream,
                                     add_event(compilation, use.stream, SIM_ITEM_MARK, KEPT)};
            g_array_append_val(compilation->program->lent_frees, lent_free);
            g_array_remove_index(lent, i);
        }
    }
    add_stop(compilation, SIM_STOP_MEMORY, SIM_PLAN_NONE);
}

static bool add_instruction(Compilation *compilation, const SimInstruction *instruction,
                            GError **error)
{
    SimRunKernel kernel = {.duration = -1, .position = compilation->position};
    compilation->host += sim_host_cost_compute(compilation->gpu, instruction);
    switch ((SimPlanOp)instruction->op) {
    case SIM_PLAN_KERNEL:
    case SIM_PLAN_COPY:
        kernel.issued = compilation->host;
        kernel.duration =
            sim_duration_cache_find(&compilation->durations, compilation->plan, compilation->gpu,
                                    compilation->table, instruction, &kernel.class_);
        add_work(compilation, instruction->stream, &kernel);
        break;
    case SIM_PLAN_COLLECTIVE:
        if (!add_collective(compilation, instruction, error)) {
            return false;
        }
        break;
    case SIM_PLAN_RECORD:
        add_item(compilation, instruction->stream, SIM_ITEM_RECORD, instruction->event);
        break;
    case SIM_PLAN_WAIT:
        add_wait(compilation, instruction);
        break;
    case SIM_PLAN_HOST_WAIT:
        g_array_index(compilation->program->waits, uint32_t, instruction->event)++;
        add_stop(compilation, SIM_STOP_EVENT, instruction->event);
        break;
    case SIM_PLAN_ALLOC:
    case SIM_PLAN_FREE:
    case SIM_PLAN_RECORD_STREAM:
        if (compilation->program->is_time_bound) {
            add_memory(compilation, instruction);
        }
        break;
    default:
        break;
    }
    g_array_index(compilation->program->kernels, SimRunKernel, compilation->position) = kernel;
    return true;
}

static void start_compilation(SimRankProgram *program, const SimPlan *plan, uint32_t length)
{
    program->length = length;
    program->events = (uint32_t)sim_plan_event_count(plan);
    program->waits = g_array_new(FALSE, TRUE, sizeof(uint32_t));
    g_array_set_size(program->waits, program->events);
    program->kernels = g_array_sized_new(FALSE, FALSE, sizeof(SimRunKernel), length);
    g_array_set_size(program->kernels, length);
    program->stops = g_array_new(FALSE, FALSE, sizeof(SimStop));
    program->lent_frees = g_array_new(FALSE, FALSE, sizeof(SimLentFree));
    program->items = g_new(GArray *, program->streams);
    for (uint32_t stream = 0; stream < program->streams; stream++) {
        program->items[stream] = g_array_new(FALSE, FALSE, sizeof(SimItem));
    }
    program->collectives = g_new(GArray *, program->groups);
    for (uint32_t group = 0; group < program->groups; group++) {
        program->collectives[group] = g_array_new(FALSE, FALSE, sizeof(uint32_t));
    }
}

static OpenRun *new_runs(uint32_t streams)
{
    OpenRun *runs = g_new0(OpenRun, streams);
    for (uint32_t stream = 0; stream < streams; stream++) {
        runs[stream].kernels = g_array_new(FALSE, FALSE, sizeof(SimRunKernel));
    }
    return runs;
}

static void free_runs(OpenRun *runs, uint32_t streams)
{
    for (uint32_t stream = 0; stream < streams; stream++) {
        g_array_unref(runs[stream].kernels);
    }
    g_free(runs);
}

static bool add_all(Compilation *compilation, uint32_t length, const GArray *syncs, GError **error)
{
    const SimRankProgram *program = compilation->program;
    guint phase = 0, sync = 0;
    for (uint32_t position = 0; position < length; position++) {
        compilation->position = position;
        if (sync < syncs->len && g_array_index(syncs, uint32_t, sync) == position) {
            add_sync(compilation);
            sync++;
        }
        uint32_t row = sim_rank_program_row(program, position);
        if (!add_instruction(compilation, sim_plan_instruction(compilation->plan, row), error)) {
            return false;
        }
        if (g_array_index(program->phases, SimPhaseRange, phase).end == position + 1) {
            add_item(compilation, 0, SIM_ITEM_PHASE, phase);
            phase++;
        }
    }
    close_runs(compilation);
    return true;
}

bool sim_rank_program_compile(SimRankProgram *program, const SimPlan *plan, const SimGpu *gpu,
                              SimRunTable *runs, uint32_t length, const GArray *syncs,
                              GError **error)
{
    g_autoptr(GArray) lent = g_array_new(FALSE, FALSE, sizeof(Lent));
    Compilation compilation = {.program = program,
                               .plan = plan,
                               .gpu = gpu,
                               .table = runs,
                               .runs = new_runs(program->streams),
                               .lent = lent};
    start_compilation(program, plan, length);
    bool is_good = add_all(&compilation, length, syncs, error);
    free_runs(compilation.runs, program->streams);
    return is_good;
}
