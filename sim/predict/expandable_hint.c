/* SPDX-License-Identifier: Apache-2.0 */
#include "predict/expandable_hint.h"

#include "rank/memory_run.h"

SimExpandableHint sim_expandable_hint_compute(const SimPlan *plan, uint32_t rank,
                                              const SimAllocatorConfig *config,
                                              uint64_t device_bytes)
{
    if (config->expandable_segments) {
        return SIM_EXPANDABLE_NOT_ASKED;
    }
    SimAllocatorConfig expandable = *config;
    expandable.expandable_segments = true;
    SimMemoryOptions options = {.config = &expandable, .device_bytes = device_bytes};
    g_autoptr(SimRankProgram) program = sim_rank_program_new(plan, rank);
    g_autoptr(SimMemoryRun) run = sim_memory_run_new(plan, program, &options, NULL);
    sim_memory_run_play(run);
    return sim_memory_run_history(run)->is_oom ? SIM_EXPANDABLE_FAILS : SIM_EXPANDABLE_FITS;
}

const char *sim_expandable_hint_name(SimExpandableHint hint)
{
    switch (hint) {
    case SIM_EXPANDABLE_FITS:
        return "fits";
    case SIM_EXPANDABLE_FAILS:
        return "fails";
    case SIM_EXPANDABLE_NOT_ASKED:
        break;
    }
    return NULL;
}
