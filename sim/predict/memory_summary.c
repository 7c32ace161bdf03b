/* SPDX-License-Identifier: Apache-2.0 */
#include "predict/memory_summary.h"

typedef struct Peak {
    uint64_t reserved_bytes;
    uint32_t ranks;
} Peak;

static int compare_peaks(const void *a, const void *b)
{
    const Peak *x = a;
    const Peak *y = b;
    return x->reserved_bytes < y->reserved_bytes ? -1 : x->reserved_bytes > y->reserved_bytes;
}

/* Minimum, median (the lower of two) and maximum over all ranks. */
static void compute_spread(SimMemorySummary *memory, const SimResult *result)
{
    g_autoptr(GArray) peaks = g_array_new(FALSE, FALSE, sizeof(Peak));
    for (guint i = 0; i < result->classes->len; i++) {
        const SimClassResult *class_ = &g_array_index(result->classes, SimClassResult, i);
        Peak peak = {class_->memory->peaks.reserved_bytes, class_->count};
        g_array_append_val(peaks, peak);
    }
    g_array_sort(peaks, compare_peaks);
    uint64_t below = 0, middle = (result->ranks - 1) / 2;
    for (guint i = 0; i < peaks->len; i++) {
        const Peak *peak = &g_array_index(peaks, Peak, i);
        if (middle >= below && middle < below + peak->ranks) {
            memory->median_reserved_bytes = peak->reserved_bytes;
        }
        below += peak->ranks;
    }
    memory->min_reserved_bytes = g_array_index(peaks, Peak, 0).reserved_bytes;
    memory->max_reserved_bytes = g_array_index(peaks, Peak, peaks->len - 1).reserved_bytes;
}

/* A rank that ran out of memory comes before all others. */
static bool is_higher(const SimMemoryHistory *a, const SimMemoryHistory *b)
{
    if (a->is_oom != b->is_oom) {
        return a->is_oom;
    }
    if (a->peaks.reserved_bytes != b->peaks.reserved_bytes) {
        return a->peaks.reserved_bytes > b->peaks.reserved_bytes;
    }
    return a->peaks.allocated_bytes > b->peaks.allocated_bytes;
}

static const SimClassResult *find_highest(const SimResult *result)
{
    const SimClassResult *highest = &g_array_index(result->classes, SimClassResult, 0);
    for (guint i = 1; i < result->classes->len; i++) {
        const SimClassResult *class_ = &g_array_index(result->classes, SimClassResult, i);
        if (is_higher(class_->memory, highest->memory)) {
            highest = class_;
        }
    }
    return highest;
}

static SimMoment find_moment(const SimPlan *plan, uint32_t row)
{
    if (row == SIM_PLAN_NONE) {
        return (SimMoment){-1, "", ""};
    }
    const SimInstruction *instruction = sim_plan_instruction(plan, row);
    return (SimMoment){instruction->step, sim_plan_phase_name((SimPhase)instruction->phase),
                       sim_plan_string(plan, instruction->unit)};
}

SimMemorySummary sim_memory_summary_compute(const SimPlan *plan, const SimCluster *cluster,
                                            const SimResult *result, uint64_t hbm_bytes)
{
    const SimClassResult *highest = find_highest(result);
    const SimMemoryHistory *history = highest->memory;
    uint32_t communicators = sim_summary_communicators(plan);
    SimMemorySummary memory = {
        .rank = highest->rank,
        .peaks = history->peaks,
        .context_bytes = cluster->gpu->context_bytes,
        .communicator_bytes = communicators * sim_cluster_communicator_bytes(cluster),
        .capacity_bytes = cluster->gpu->memory_bytes,
        .peak = find_moment(plan, history->peak_instruction),
        .oom_at = find_moment(plan, history->is_oom ? history->oom_instruction : SIM_PLAN_NONE),
        .history = history,
        .program = highest->program,
    };
    uint64_t besides = memory.context_bytes + memory.communicator_bytes;
    memory.device_peak_bytes = memory.peaks.reserved_bytes + besides;
    if (hbm_bytes != UINT64_MAX) {
        memory.capacity_bytes = hbm_bytes + besides;
    }
    memory.fits = !history->is_oom && memory.device_peak_bytes <= memory.capacity_bytes;
    compute_spread(&memory, result);
    return memory;
}
