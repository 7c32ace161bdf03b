/* SPDX-License-Identifier: Apache-2.0 */
#include "predict/steady_steps.h"

#include "rank/memory_run.h"

static void include(SimMemoryPeaks *peaks, const SimMemoryPeaks *other)
{
    peaks->allocated_bytes = MAX(peaks->allocated_bytes, other->allocated_bytes);
    peaks->active_bytes = MAX(peaks->active_bytes, other->active_bytes);
    peaks->reserved_bytes = MAX(peaks->reserved_bytes, other->reserved_bytes);
}

/* The peaks of each step, of SimMemoryPeaks. */
static GArray *collect_steps(const SimRankProgram *program, const SimMemoryHistory *history)
{
    GArray *steps = g_array_new(FALSE, TRUE, sizeof(SimMemoryPeaks));
    for (guint i = 0; i < history->phases->len; i++) {
        int32_t step = g_array_index(program->phases, SimPhaseRange, i).step;
        if (step < 0) {
            continue;
        }
        if ((guint)step >= steps->len) {
            g_array_set_size(steps, (guint)step + 1);
        }
        include(&g_array_index(steps, SimMemoryPeaks, step),
                &g_array_index(history->phases, SimMemoryPhase, i).peaks);
    }
    return steps;
}

static bool is_same(const SimMemoryPeaks *a, const SimMemoryPeaks *b)
{
    return a->allocated_bytes == b->allocated_bytes && a->active_bytes == b->active_bytes &&
           a->reserved_bytes == b->reserved_bytes;
}

uint32_t sim_steady_steps_count(const SimPlan *plan, const SimAllocatorConfig *config,
                                uint64_t device_bytes)
{
    SimMemoryOptions options = {.config = config, .device_bytes = device_bytes};
    g_autoptr(SimRankProgram) program = sim_rank_program_new(plan, 0);
    g_autoptr(SimMemoryRun) run = sim_memory_run_new(plan, program, &options, NULL);
    sim_memory_run_play(run);
    const SimMemoryHistory *history = sim_memory_run_history(run);
    g_autoptr(GArray) steps = collect_steps(program, history);
    for (guint i = 1; i < steps->len && !history->is_oom; i++) {
        if (is_same(&g_array_index(steps, SimMemoryPeaks, i),
                    &g_array_index(steps, SimMemoryPeaks, i - 1))) {
            return i + 1;
        }
    }
    return steps->len;
}
