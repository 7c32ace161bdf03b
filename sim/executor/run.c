/* SPDX-License-Identifier: Apache-2.0 */
#include "executor/run.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "executor/arguments.h"
#include "executor/run_private.h"

/* Paced work has nominal times from 0 on: by then every rank is ready. */
#define PACED_LEAD (100 * SIM_MILLISECOND)

/* --- the allocator's device --------------------------------------------------------------------
 */

static uint64_t record_event(uint32_t stream, void *user_data)
{
    SimRun *run = user_data;
    g_ptr_array_add(run->allocator_events,
                    sim_stream_mark(g_ptr_array_index(run->streams, stream)));
    return run->allocator_events->len - 1;
}

static bool is_complete(uint64_t event, void *user_data)
{
    SimRun *run = user_data;
    return sim_markers_is_fired(run->markers, g_ptr_array_index(run->allocator_events, event));
}

static void synchronize(uint64_t event, void *user_data)
{
    SimRun *run = user_data;
    sim_markers_wait(run->markers, g_ptr_array_index(run->allocator_events, event));
}

static void cover_segment(uint64_t address, uint64_t bytes, void *user_data)
{
    SimRun *run = user_data;
    if (run->ledger != NULL)
        sim_ledger_cover(run->ledger, address, bytes);
}

static void bury(uint64_t tag, uint32_t stream, void *user_data)
{
    sim_run_launch_death(user_data, (uint32_t)(tag - 1), stream);
}

/* --- setting up --------------------------------------------------------------------------------
 */

/* Every operator that this rank will meet. */
static bool check_operators(const SimRun *run, GError **error)
{
    for (size_t i = 0; i < sim_plan_length(run->plan); i++) {
        const SimInstruction *instruction = sim_plan_instruction(run->plan, i);
        const char *name = sim_plan_string(run->plan, instruction->operator_name);
        if (instruction->op != SIM_PLAN_KERNEL || run->options.is_paced ||
            !sim_plan_rank_set_has(run->plan, instruction->rank_set, run->rank) ||
            sim_compute_find(name) != NULL)
            continue;
        g_autofree char *where = g_strdup_printf("row %" G_GSIZE_FORMAT, i + 1);
        sim_error_set_unknown(error, where, "operator", name, sim_compute_names());
        return false;
    }
    return true;
}

static void make_groups(SimRun *run)
{
    uint32_t groups = sim_plan_group_count(run->plan);
    run->places = g_new0(uint32_t, groups + 1);
    run->members = g_new0(uint32_t, groups + 1);
    run->shard_group = sim_plan_find_group(run->plan, "shard");
    run->communicators = g_ptr_array_new();
    run->workers = g_ptr_array_new();
    for (uint32_t i = 0; i < groups; i++) {
        uint32_t list = 0;
        bool is_member = sim_plan_group_of_rank(run->plan, i, run->rank, &list, &run->places[i],
                                                &run->members[i]);
        const char *name = sim_plan_group_name(run->plan, i);
        g_ptr_array_add(
            run->communicators,
            sim_communicator_new(run->world, name, is_member ? (int)list : -1, run->places[i]));
        g_ptr_array_add(run->workers, sim_stream_new(name, run->markers, run->begin));
    }
}

/* What the fills of phase init say about the buffers that live from then on. */
static void find_values(SimRun *run)
{
    for (size_t i = 0; i < sim_plan_length(run->plan); i++) {
        const SimInstruction *instruction = sim_plan_instruction(run->plan, i);
        run->last_step = MAX(run->last_step, instruction->step);
        if (instruction->op != SIM_PLAN_KERNEL || instruction->phase != SIM_PHASE_INIT ||
            !sim_plan_rank_set_has(run->plan, instruction->rank_set, run->rank) ||
            strcmp(sim_plan_string(run->plan, instruction->operator_name), "fill") != 0 ||
            instruction->n_writes != 1)
            continue;
        const char *arguments = sim_plan_string(run->plan, instruction->arguments);
        uint32_t buffer = sim_plan_touches(run->plan, instruction)[instruction->n_reads].buffer;
        char *name = sim_arguments_text(arguments, "name");
        SimRunInput input = {(uint32_t)i, buffer};
        if (sim_arguments_number(arguments, "below", 0) > 0) {
            g_array_append_val(run->inputs, input);
        } else if (name != NULL) {
            const SimBuffer *shard = sim_plan_buffer(run->plan, buffer);
            uint64_t place = run->shard_group != SIM_PLAN_NONE ? run->places[run->shard_group] : 0;
            run->shards[buffer] = (SimRunShard){
                g_steal_pointer(&name), sim_arguments_text(arguments, "parts"),
                place * shard->bytes / MAX(sim_dtype_bytes((SimDtype)shard->dtype), 1)};
        }
        g_free(name);
    }
}

static void make_tables(SimRun *run)
{
    size_t buffers = sim_plan_buffer_count(run->plan);
    run->blocks = g_new0(SimBlock *, buffers + 1);
    run->data = g_new0(unsigned char *, buffers + 1);
    run->shards = g_new0(SimRunShard, buffers + 1);
    run->events = g_new0(SimMarker *, sim_plan_event_count(run->plan) + 1);
    run->inputs = g_array_new(FALSE, FALSE, sizeof(SimRunInput));
    run->input_step = run->input_microbatch = -2;
    run->memory = g_array_new(FALSE, FALSE, sizeof(SimRunMemory));
    run->spans = g_array_new(FALSE, FALSE, sizeof(SimSpan));
    run->allocator_events = g_ptr_array_new();
    g_mutex_init(&run->spans_lock);
    run->streams = g_ptr_array_new();
    for (uint32_t i = 0; i < sim_plan_stream_count(run->plan); i++)
        g_ptr_array_add(run->streams, sim_stream_new(sim_plan_stream_name(run->plan, i),
                                                     run->markers, run->begin));
    make_groups(run);
    find_values(run);
    run->step_begins = g_array_new(FALSE, TRUE, sizeof(SimTime));
    run->step_ends = g_array_new(FALSE, TRUE, sizeof(SimTime));
    g_array_set_size(run->step_begins, (guint)(run->last_step + 1));
    g_array_set_size(run->step_ends, (guint)(run->last_step + 1));
}

SimRun *sim_run_new(const SimPlan *plan, const SimRunOptions *options, MPI_Comm world,
                    GError **error)
{
    int rank, ranks;
    MPI_Comm_rank(world, &rank);
    MPI_Comm_size(world, &ranks);
    if ((uint32_t)ranks != sim_plan_ranks(plan)) {
        g_set_error(error, SIM_ERROR, SIM_ERROR_MISMATCH,
                    "the plan is for %u ranks, but MPI has started %d", sim_plan_ranks(plan),
                    ranks);
        return NULL;
    }
    g_autoptr(SimRun) run = g_new0(SimRun, 1);
    run->plan = plan;
    run->options = *options;
    run->world = world;
    run->rank = (uint32_t)rank;
    run->ranks = (uint32_t)ranks;
    if (!check_operators(run, error))
        return NULL;
    const SimArenaDevice device = {record_event,  is_complete, synchronize,
                                   cover_segment, bury,        run};
    run->arena = sim_arena_new(options->allocator, options->device_bytes, &device, error);
    if (run->arena == NULL)
        return NULL;
    if (options->is_checked && !options->is_paced)
        run->ledger = sim_ledger_new(plan, sim_arena_base(run->arena), sim_arena_bytes(run->arena));
    run->faults = sim_faults_new(run->rank);
    run->values = sim_values_new();
    run->markers = sim_markers_new();
    /* All ranks of a machine begin together. */
    MPI_Barrier(world);
    run->begin = sim_stream_clock() + (options->is_paced ? PACED_LEAD : 0);
    PMPI_Bcast(&run->begin, 1, MPI_INT64_T, 0, world);
    make_tables(run);
    return g_steal_pointer(&run);
}

static void free_streams(GPtrArray *streams)
{
    for (guint i = 0; streams != NULL && i < streams->len; i++)
        sim_stream_free(g_ptr_array_index(streams, i));
    if (streams != NULL)
        g_ptr_array_unref(streams);
}

static void free_shard(SimRunShard *shard)
{
    g_free(shard->name);
    g_free(shard->parts);
}

void sim_run_free(SimRun *run)
{
    if (run == NULL)
        return;
    free_streams(run->streams);
    free_streams(run->workers);
    for (guint i = 0; run->communicators != NULL && i < run->communicators->len; i++)
        sim_communicator_free(g_ptr_array_index(run->communicators, i));
    g_clear_pointer(&run->communicators, g_ptr_array_unref);
    for (size_t i = 0; run->shards != NULL && i < sim_plan_buffer_count(run->plan); i++)
        free_shard(&run->shards[i]);
    g_clear_pointer(&run->allocator_events, g_ptr_array_unref);
    g_clear_pointer(&run->inputs, g_array_unref);
    g_clear_pointer(&run->memory, g_array_unref);
    g_clear_pointer(&run->spans, g_array_unref);
    g_clear_pointer(&run->step_begins, g_array_unref);
    g_clear_pointer(&run->step_ends, g_array_unref);
    g_free(run->blocks);
    g_free(run->data);
    g_free(run->shards);
    g_free(run->events);
    g_free(run->places);
    g_free(run->members);
    sim_ledger_free(run->ledger);
    sim_arena_free(run->arena);
    sim_markers_free(run->markers);
    sim_values_free(run->values);
    sim_faults_free(run->faults);
    g_free(run);
}

/* --- playing -----------------------------------------------------------------------------------
 */

void sim_run_give_up(SimRun *run, const char *why)
{
    g_autofree char *faults = sim_faults_print(run->faults);
    fprintf(stderr, "fsdpsim-exec: rank %u: %s; the host is at row %u\n%s", run->rank, why,
            run->row + 1, faults);
    fflush(stderr);
    /* Others may be about to say the same: leave them a moment. */
    g_usleep(200000);
    MPI_Abort(run->world, 1);
    abort();
}

static SimMarker *event_of(SimRun *run, uint32_t event)
{
    if (run->events[event] == NULL)
        run->events[event] = sim_markers_add(run->markers);
    return run->events[event];
}

static void note_memory(SimRun *run, uint32_t buffer, bool is_alloc)
{
    const SimPoolStatistics *pool = &sim_arena_statistics(run->arena)->pools[SIM_POOL_ALL];
    SimRunMemory memory = {run->row,
                           buffer,
                           is_alloc,
                           pool->allocated_bytes.current,
                           pool->reserved_bytes.current,
                           run->live_bytes};
    g_array_append_val(run->memory, memory);
}

static bool allocate(SimRun *run, const SimInstruction *instruction)
{
    uint32_t index = instruction->buffer;
    const SimBuffer *buffer = sim_plan_buffer(run->plan, index);
    if (buffer->is_host) {
        run->data[index] = g_malloc0(buffer->bytes + 1);
        return true;
    }
    SimBlock *block =
        sim_arena_malloc(run->arena, buffer->bytes, buffer->stream, index + UINT64_C(1));
    if (block == NULL) {
        g_autofree char *name = sim_plan_print_name(run->plan, buffer->name);
        sim_faults_push(
            run->faults, run->row,
            g_strdup_printf("out of memory for %s, %" G_GUINT64_FORMAT " B", name, buffer->bytes));
        return false;
    }
    run->blocks[index] = block;
    run->data[index] = (unsigned char *)(uintptr_t)sim_block_address(block);
    run->live_bytes += sim_block_size(block);
    note_memory(run, index, true);
    char *problem = run->ledger != NULL
                        ? sim_ledger_give(run->ledger, index, run->row, sim_block_address(block),
                                          sim_block_size(block))
                        : NULL;
    if (problem != NULL)
        sim_faults_push(run->faults, run->row, problem);
    if (buffer->bytes > 0)
        sim_run_launch_birth(run, index);
    return true;
}

static void release(SimRun *run, uint32_t index)
{
    if (sim_plan_buffer(run->plan, index)->is_host)
        return; /* the device may still read it: it goes with the process */
    run->live_bytes -= sim_block_size(run->blocks[index]);
    if (run->ledger != NULL)
        sim_ledger_take(run->ledger, index, run->row);
    sim_arena_release(run->arena, run->blocks[index]);
    run->blocks[index] = NULL;
    note_memory(run, index, false);
}

static void view(SimRun *run, const SimInstruction *instruction)
{
    uint64_t bytes;
    const SimTouch *touches = sim_plan_touches(run->plan, instruction);
    run->data[instruction->buffer] = sim_run_locate(run, instruction, touches[0], &bytes);
}

static void wait(SimRun *run, const SimInstruction *instruction)
{
    SimStream *stream = g_ptr_array_index(run->streams, instruction->stream);
    SimMarker *marker = instruction->is_event_of_stream
                            ? sim_stream_mark(g_ptr_array_index(run->streams, instruction->event))
                            : event_of(run, instruction->event);
    sim_stream_wait(stream, marker);
}

static void wait_on_host(SimRun *run, const SimInstruction *instruction)
{
    SimTime nominal = sim_markers_wait(run->markers, event_of(run, instruction->event));
    run->host_nominal = MAX(run->host_nominal, nominal);
}

static void be_busy(SimRun *run, const SimInstruction *instruction)
{
    if (!run->options.is_paced || instruction->duration <= 0)
        return;
    run->host_nominal += instruction->duration;
    sim_stream_sleep_until(g_ptr_array_index(run->streams, 0), run->host_nominal);
}

static void renew_inputs(SimRun *run, const SimInstruction *instruction)
{
    bool is_forward = instruction->phase == SIM_PHASE_FORWARD;
    if (!is_forward || run->options.is_paced ||
        (instruction->step == run->input_step && instruction->microbatch == run->input_microbatch))
        return;
    run->input_step = instruction->step;
    run->input_microbatch = instruction->microbatch;
    for (guint i = 0; i < run->inputs->len; i++)
        sim_run_launch_input(run, g_array_index(run->inputs, SimRunInput, i).row, instruction->step,
                             instruction->microbatch);
}

static bool play_row(SimRun *run, const SimInstruction *instruction)
{
    switch ((SimPlanOp)instruction->op) {
    case SIM_PLAN_ALLOC:
        return allocate(run, instruction);
    case SIM_PLAN_FREE:
        release(run, instruction->buffer);
        return true;
    case SIM_PLAN_VIEW:
        view(run, instruction);
        return true;
    case SIM_PLAN_RECORD_STREAM: {
        uint32_t root = sim_plan_root_buffer(run->plan, instruction->buffer);
        if (run->blocks[root] != NULL)
            sim_arena_record_stream(run->arena, run->blocks[root], instruction->stream);
        return true;
    }
    case SIM_PLAN_KERNEL:
    case SIM_PLAN_COPY:
        sim_run_launch_kernel(run, run->row);
        return true;
    case SIM_PLAN_COLLECTIVE:
        sim_run_launch_collective(run, run->row);
        return true;
    case SIM_PLAN_RECORD:
        sim_stream_fire(g_ptr_array_index(run->streams, instruction->stream),
                        event_of(run, instruction->event));
        return true;
    case SIM_PLAN_WAIT:
        wait(run, instruction);
        return true;
    case SIM_PLAN_HOST_WAIT:
        wait_on_host(run, instruction);
        return true;
    case SIM_PLAN_HOST:
        be_busy(run, instruction);
        return true;
    default:
        return true;
    }
}

typedef struct Watch {
    SimRun *run;
    SimMarker *end;
} Watch;

/* Gives the run up when nothing has happened for too long. */
static void *watch(void *data)
{
    const Watch *own = data;
    SimRun *run = own->run;
    uint64_t seen = 0;
    SimTime since = sim_stream_clock();
    while (!sim_markers_is_fired(run->markers, own->end)) {
        g_usleep(50000);
        uint64_t progress = sim_markers_progress(run->markers);
        if (progress != seen) {
            seen = progress;
            since = sim_stream_clock();
        } else if (sim_stream_clock() - since > run->options.limit) {
            sim_run_give_up(run, "nothing has happened for too long");
        }
    }
    return NULL;
}

static void drain(SimRun *run)
{
    for (guint i = 0; i < run->streams->len; i++)
        sim_markers_wait(run->markers, sim_stream_mark(g_ptr_array_index(run->streams, i)));
    for (guint i = 0; i < run->workers->len; i++)
        sim_markers_wait(run->markers, sim_stream_mark(g_ptr_array_index(run->workers, i)));
}

void sim_run_note_elements(SimRun *run, const SimRunShard *shard, const char *kind, uint64_t offset,
                           uint64_t n, const float *elements)
{
    uint64_t first = shard->first + offset;
    if (shard->parts == NULL) {
        sim_values_push(run->values, kind, shard->name, first, n, elements);
        return;
    }
    g_auto(GStrv) parts = g_strsplit(shard->parts, ";", -1);
    for (uint32_t i = 0; parts[i] != NULL; i++) {
        SimComputePart part;
        if (!sim_compute_parse_part(parts[i], &part))
            continue;
        uint64_t begin = MAX(first, part.offset), end = MIN(first + n, part.offset + part.elements);
        if (begin < end)
            sim_values_push(run->values, kind, parts[i], begin - part.offset, end - begin,
                            elements + (begin - first));
    }
}

static void note_parameters(SimRun *run)
{
    for (size_t i = 0; i < sim_plan_buffer_count(run->plan); i++) {
        const SimBuffer *buffer = sim_plan_buffer(run->plan, (uint32_t)i);
        if (run->shards[i].name == NULL || run->blocks[i] == NULL)
            continue;
        uint64_t n = buffer->bytes / sim_dtype_bytes((SimDtype)buffer->dtype);
        g_autofree float *elements = g_new(float, n + 1);
        sim_operand_widen(run->data[i], (SimDtype)buffer->dtype, n, elements);
        sim_run_note_elements(run, &run->shards[i], "parameter", 0, n, elements);
    }
}

bool sim_run_play(SimRun *run)
{
    Watch own = {run, sim_markers_add(run->markers)};
    GThread *watcher = g_thread_new("watch", watch, &own);
    int32_t step = -1;
    bool is_done = true;
    if (run->options.is_paced)
        sim_stream_sleep_until(g_ptr_array_index(run->streams, 0), 0);
    for (size_t i = 0; is_done && i < sim_plan_length(run->plan); i++) {
        const SimInstruction *instruction = sim_plan_instruction(run->plan, i);
        if (!sim_plan_rank_set_has(run->plan, instruction->rank_set, run->rank))
            continue;
        run->row = (uint32_t)i;
        if (instruction->step > step) {
            step = instruction->step;
            g_array_index(run->step_begins, SimTime, (guint)step) = sim_stream_clock() - run->begin;
        }
        renew_inputs(run, instruction);
        is_done = play_row(run, instruction);
    }
    if (!is_done)
        sim_run_give_up(run, "out of memory");
    drain(run);
    sim_markers_fire(run->markers, own.end, 0);
    g_thread_join(watcher);
    if (!run->options.is_paced)
        note_parameters(run);
    return is_done;
}

SimFaults *sim_run_faults(SimRun *run)
{
    return run->faults;
}

const SimValues *sim_run_values(const SimRun *run)
{
    return run->values;
}

const SimLedger *sim_run_ledger(const SimRun *run)
{
    return run->ledger;
}

const GArray *sim_run_memory(const SimRun *run)
{
    return run->memory;
}

const GArray *sim_run_spans(const SimRun *run)
{
    return run->spans;
}

SimTime sim_run_step_time(const SimRun *run, int32_t step)
{
    if (step < 0 || (guint)step >= run->step_ends->len)
        return 0;
    SimTime begin = step > 0 ? g_array_index(run->step_ends, SimTime, (guint)step - 1)
                             : g_array_index(run->step_begins, SimTime, (guint)step);
    return g_array_index(run->step_ends, SimTime, (guint)step) - begin;
}
