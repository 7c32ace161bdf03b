/* SPDX-License-Identifier: Apache-2.0 */
#include "report/weights_held.h"

static void apply_row(const SimPlan *plan, const SimInstruction *row, SimWeightsHeld *held)
{
    if (row->op != SIM_PLAN_ALLOC && row->op != SIM_PLAN_FREE) {
        return;
    }
    const SimBuffer *buffer = sim_plan_buffer(plan, row->buffer);
    /* Unsigned arithmetic: a free adds the negative. */
    uint64_t change = row->op == SIM_PLAN_ALLOC ? buffer->bytes : -buffer->bytes;
    switch ((SimCategory)buffer->category) {
    case SIM_CATEGORY_PARAMETER_SHARD:
        held->shard_bytes += change;
        break;
    case SIM_CATEGORY_ALL_GATHER_OUTPUT:
    case SIM_CATEGORY_UNSHARDED_PARAMETER:
        held->full_bytes += change;
        break;
    default:
        break;
    }
}

static guint count_rows(const SimPlan *plan, uint32_t rank, int32_t step)
{
    guint rows = 0;
    for (size_t i = 0; i < sim_plan_length(plan); i++) {
        const SimInstruction *row = sim_plan_instruction(plan, i);
        rows += row->step == step && sim_plan_rank_set_has(plan, row->rank_set, rank);
    }
    return rows;
}

GArray *sim_weights_held_compute(const SimPlan *plan, uint32_t rank, int32_t step, guint count)
{
    GArray *samples = g_array_new(FALSE, FALSE, sizeof(SimWeightsHeld));
    guint rows = MAX(1, count_rows(plan, rank, step)), seen = 0;
    SimWeightsHeld held = {0};
    guint stretch = G_MAXUINT;
    for (size_t i = 0; i < sim_plan_length(plan); i++) {
        const SimInstruction *row = sim_plan_instruction(plan, i);
        if (!sim_plan_rank_set_has(plan, row->rank_set, rank)) {
            continue;
        }
        apply_row(plan, row, &held);
        if (row->step != step) {
            continue;
        }
        guint now = (guint)((uint64_t)seen++ * count / rows);
        if (now != stretch) {
            g_array_append_val(samples, held);
            stretch = now;
        } else {
            SimWeightsHeld *last = &g_array_index(samples, SimWeightsHeld, samples->len - 1);
            last->shard_bytes = MIN(last->shard_bytes, held.shard_bytes);
            last->full_bytes = MAX(last->full_bytes, held.full_bytes);
        }
    }
    return samples;
}
