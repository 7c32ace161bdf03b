/* SPDX-License-Identifier: Apache-2.0 */
#include "rank/memory_run.h"

#include <string.h>

#include "trace/memory_event.h"

struct SimMemoryRun {
    const SimPlan *plan;
    const SimRankProgram *program;
    SimAllocator *allocator;
    SimBlock **blocks; /* [buffers]; NULL while not alive, and for host memory */
    SimMemoryHistory history;
    uint64_t live[SIM_CATEGORY_COUNT];
    uint64_t host_live;
    uint32_t phase;         /* the program's, begun last */
    uint64_t phase_retries; /* as it began */
    uint32_t instruction;   /* being played */
    uint32_t buffer;        /* being allocated */
};

static const SimPoolStatistics *statistics(const SimMemoryRun *run)
{
    return &sim_allocator_statistics(run->allocator)->pools[SIM_POOL_ALL];
}

/* Keeps the event, with the counters as they are after it (the allocator tells of ALLOC and FREE_*
 * before it counts them). */
static void observe(const SimAllocatorEvent *event, void *user_data)
{
    SimMemoryRun *run = user_data;
    const SimPoolStatistics *now = statistics(run);
    SimMemoryEvent kept = {
        .instruction = run->instruction,
        .buffer = SIM_PLAN_NONE,
        .stream = event->stream,
        .action = (uint8_t)event->action,
        .bytes = event->bytes,
        .address = event->address,
        .allocated_bytes = now->allocated_bytes.current,
        .active_bytes = now->active_bytes.current,
        .reserved_bytes = now->reserved_bytes.current,
    };
    switch (event->action) {
    case SIM_ALLOCATOR_ALLOC:
        kept.buffer = run->buffer;
        kept.allocated_bytes += sim_block_size(event->block);
        kept.active_bytes += sim_block_size(event->block);
        break;
    case SIM_ALLOCATOR_FREE_REQUESTED:
        kept.buffer = (uint32_t)sim_block_tag(event->block);
        kept.allocated_bytes -= sim_block_size(event->block);
        break;
    case SIM_ALLOCATOR_FREE_COMPLETED:
        kept.buffer = (uint32_t)sim_block_tag(event->block);
        kept.active_bytes -= sim_block_size(event->block);
        break;
    case SIM_ALLOCATOR_OOM:
        kept.buffer = run->buffer;
        break;
    default:
        break;
    }
    g_array_append_val(run->history.events, kept);
}

SimMemoryRun *sim_memory_run_new(const SimPlan *plan, const SimRankProgram *program,
                                 const SimMemoryOptions *options, const SimAllocatorDevice *device)
{
    SimMemoryRun *run = g_new0(SimMemoryRun, 1);
    run->plan = plan;
    run->program = program;
    run->allocator = sim_allocator_new(options->config, options->device_bytes, device);
    run->blocks = g_new0(SimBlock *, sim_plan_buffer_count(plan));
    run->history.events = g_array_new(FALSE, FALSE, sizeof(SimMemoryEvent));
    run->history.phases = g_array_new(FALSE, FALSE, sizeof(SimMemoryPhase));
    run->history.syncs = g_array_new(FALSE, FALSE, sizeof(uint32_t));
    run->history.peak_instruction = SIM_PLAN_NONE;
    if (options->keep_events) {
        sim_allocator_set_observer(run->allocator, observe, run);
    }
    return run;
}

void sim_memory_run_free(SimMemoryRun *run)
{
    if (run == NULL) {
        return;
    }
    sim_allocator_destroy(run->allocator);
    g_array_unref(run->history.syncs);
    g_array_unref(run->history.phases);
    g_array_unref(run->history.events);
    g_free(run->blocks);
    g_free(run);
}

/* A script that measures itself gives back what building the model left in the cache, as torchtitan
 * does (tools/utils.py, device_memory_monitor: empty_cache before the first step). */
static void give_back(SimMemoryRun *run)
{
    const GArray *phases = run->program->phases;
    if (run->phase < phases->len &&
        g_array_index(phases, SimPhaseRange, run->phase).phase == SIM_PHASE_INIT) {
        sim_allocator_empty_cache(run->allocator);
    }
}

static void end_phase(SimMemoryRun *run)
{
    give_back(run);
    const SimPoolStatistics *now = statistics(run);
    SimMemoryPeaks peaks = {now->allocated_bytes.peak, now->active_bytes.peak,
                            now->reserved_bytes.peak};
    SimMemoryPeaks *all = &run->history.peaks;
    SimMemoryPhase phase = {
        .peaks = peaks,
        .allocated_bytes = now->allocated_bytes.current,
        .reserved_bytes = now->reserved_bytes.current,
        .alloc_retries = run->history.alloc_retries - run->phase_retries,
    };
    g_array_append_val(run->history.phases, phase);
    all->allocated_bytes = MAX(all->allocated_bytes, peaks.allocated_bytes);
    all->active_bytes = MAX(all->active_bytes, peaks.active_bytes);
    all->reserved_bytes = MAX(all->reserved_bytes, peaks.reserved_bytes);
    run->phase++;
    run->phase_retries = run->history.alloc_retries;
    sim_allocator_reset_peaks(run->allocator);
}

static void note_peak(SimMemoryRun *run, uint64_t allocated_bytes)
{
    SimMemoryHistory *history = &run->history;
    if (allocated_bytes > history->peaks.allocated_bytes) {
        history->peaks.allocated_bytes = allocated_bytes;
        history->peak_instruction = run->instruction;
        memcpy(history->by_category, run->live, sizeof run->live);
    }
}

static void note_oom(SimMemoryRun *run, uint32_t position)
{
    run->history.is_oom = true;
    run->history.oom = *sim_allocator_get_oom(run->allocator);
    run->history.oom_position = position;
    run->history.oom_instruction = run->instruction;
}

static bool allocate(SimMemoryRun *run, const SimInstruction *instruction, uint32_t position)
{
    const SimBuffer *buffer = sim_plan_buffer(run->plan, instruction->buffer);
    if (buffer->is_host) {
        run->host_live += buffer->bytes;
        run->history.host_bytes = MAX(run->history.host_bytes, run->host_live);
        return true;
    }
    run->buffer = instruction->buffer;
    SimBlock *block = sim_allocator_malloc(run->allocator, buffer->bytes, buffer->stream);
    uint64_t retries = sim_allocator_statistics(run->allocator)->num_alloc_retries;
    if (retries != run->history.alloc_retries) {
        run->history.alloc_retries = retries;
        g_array_append_val(run->history.syncs, position);
    }
    if (block == NULL) {
        note_oom(run, position);
        return false;
    }
    sim_block_set_tag(block, instruction->buffer);
    run->blocks[instruction->buffer] = block;
    run->live[buffer->category] += sim_block_size(block);
    note_peak(run, statistics(run)->allocated_bytes.current);
    return true;
}

static void free_buffer(SimMemoryRun *run, uint32_t index)
{
    const SimBuffer *buffer = sim_plan_buffer(run->plan, index);
    if (buffer->is_host) {
        run->host_live -= buffer->bytes;
        return;
    }
    SimBlock *block = run->blocks[index];
    if (block != NULL) {
        run->live[buffer->category] -= sim_block_size(block);
        run->blocks[index] = NULL;
        sim_allocator_free(run->allocator, block);
    }
}

bool sim_memory_run_step(SimMemoryRun *run, uint32_t position)
{
    const GArray *phases = run->program->phases;
    while (position >= g_array_index(phases, SimPhaseRange, run->phase).end) {
        end_phase(run);
    }
    run->instruction = sim_rank_program_row(run->program, position);
    const SimInstruction *instruction = sim_plan_instruction(run->plan, run->instruction);
    switch ((SimPlanOp)instruction->op) {
    case SIM_PLAN_ALLOC:
        return allocate(run, instruction, position);
    case SIM_PLAN_FREE:
        free_buffer(run, instruction->buffer);
        return true;
    case SIM_PLAN_RECORD_STREAM: {
        SimBlock *block = run->blocks[sim_plan_root_buffer(run->plan, instruction->buffer)];
        if (block != NULL) {
            sim_allocator_record_stream(run->allocator, block, instruction->stream);
        }
        return true;
    }
    default:
        return true;
    }
}

void sim_memory_run_finish(SimMemoryRun *run)
{
    guint begun = run->history.is_oom ? run->phase + 1 : run->program->phases->len;
    while (run->phase < begun) {
        end_phase(run);
    }
}

void sim_memory_run_play(SimMemoryRun *run)
{
    for (uint32_t position = 0; position < run->program->length; position++) {
        if (!sim_memory_run_step(run, position)) {
            break;
        }
    }
    sim_memory_run_finish(run);
}

const SimMemoryHistory *sim_memory_run_history(const SimMemoryRun *run)
{
    return &run->history;
}
