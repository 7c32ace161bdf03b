/* SPDX-License-Identifier: Apache-2.0 */
#include "report/unit_table.h"

typedef struct Walk {
    const SimPlan *plan;
    int32_t step;
    GArray *lines;      /* of SimUnitLine */
    GHashTable *places; /* unit -> 1 + index of its line; for lookup only */
    GArray *owner;      /* [buffers] of SimStringId: the unit that allocated it */
} Walk;

static SimUnitLine *get_line(Walk *walk, SimStringId unit)
{
    guint place = GPOINTER_TO_UINT(g_hash_table_lookup(walk->places, GUINT_TO_POINTER(unit)));
    if (place == 0) {
        SimUnitLine line = {.unit = unit};
        g_array_append_val(walk->lines, line);
        place = walk->lines->len;
        g_hash_table_insert(walk->places, GUINT_TO_POINTER(unit), GUINT_TO_POINTER(place));
    }
    return &g_array_index(walk->lines, SimUnitLine, place - 1);
}

static void count_alloc(Walk *walk, const SimInstruction *row)
{
    const SimBuffer *buffer = sim_plan_buffer(walk->plan, row->buffer);
    g_array_index(walk->owner, SimStringId, row->buffer) = row->unit;
    if (row->unit == 0) {
        return;
    }
    SimUnitLine *line = get_line(walk, row->unit);
    if (buffer->category == SIM_CATEGORY_PARAMETER_SHARD && row->phase == SIM_PHASE_INIT) {
        line->shard_bytes += buffer->bytes;
    } else if (row->step == walk->step && row->phase == SIM_PHASE_FORWARD) {
        line->full_bytes +=
            buffer->category == SIM_CATEGORY_UNSHARDED_PARAMETER ? buffer->bytes : 0;
        line->activation_bytes += buffer->category == SIM_CATEGORY_ACTIVATION ? buffer->bytes : 0;
    }
}

static void count_free(Walk *walk, const SimInstruction *row)
{
    const SimBuffer *buffer = sim_plan_buffer(walk->plan, row->buffer);
    SimStringId unit = g_array_index(walk->owner, SimStringId, row->buffer);
    if (row->step != walk->step || unit == 0) {
        return;
    }
    SimUnitLine *line = get_line(walk, unit);
    bool is_forward = row->phase == SIM_PHASE_FORWARD;
    if (buffer->category == SIM_CATEGORY_UNSHARDED_PARAMETER) {
        *(is_forward ? &line->forward_free_bytes : &line->backward_free_bytes) += buffer->bytes;
    } else if (buffer->category == SIM_CATEGORY_ACTIVATION && is_forward) {
        line->activation_bytes -= MIN(line->activation_bytes, buffer->bytes);
    }
}

static void count_collective(Walk *walk, const SimInstruction *row)
{
    if (row->step != walk->step || row->unit == 0) {
        return;
    }
    SimUnitLine *line = get_line(walk, row->unit);
    switch ((SimCollectiveKind)row->collective) {
    case SIM_COLLECTIVE_ALL_GATHER:
        *(row->phase == SIM_PHASE_FORWARD ? &line->forward_gather_bytes
                                          : &line->backward_gather_bytes) += row->bytes;
        break;
    case SIM_COLLECTIVE_REDUCE_SCATTER:
        line->reduce_bytes += row->bytes;
        break;
    case SIM_COLLECTIVE_ALL_REDUCE:
        line->all_reduce_bytes += row->bytes;
        break;
    case SIM_COLLECTIVE_NONE:
    case SIM_COLLECTIVE_BROADCAST:
    case SIM_COLLECTIVE_COUNT:
        break;
    }
}

static void drop_units_without_parameters(GArray *lines)
{
    for (guint i = lines->len; i > 0; i--) {
        const SimUnitLine *line = &g_array_index(lines, SimUnitLine, i - 1);
        if (line->shard_bytes == 0 && line->forward_gather_bytes == 0) {
            g_array_remove_index(lines, i - 1);
        }
    }
}

GArray *sim_unit_table_compute(const SimPlan *plan, uint32_t rank, int32_t step)
{
    Walk walk = {.plan = plan, .step = step};
    walk.lines = g_array_new(FALSE, FALSE, sizeof(SimUnitLine));
    walk.places = g_hash_table_new(g_direct_hash, g_direct_equal);
    walk.owner = g_array_new(FALSE, TRUE, sizeof(SimStringId));
    g_array_set_size(walk.owner, (guint)sim_plan_buffer_count(plan));
    for (size_t i = 0; i < sim_plan_length(plan); i++) {
        const SimInstruction *row = sim_plan_instruction(plan, i);
        if (!sim_plan_rank_set_has(plan, row->rank_set, rank)) {
            continue;
        }
        if (row->op == SIM_PLAN_ALLOC) {
            count_alloc(&walk, row);
        } else if (row->op == SIM_PLAN_FREE) {
            count_free(&walk, row);
        } else if (row->op == SIM_PLAN_COLLECTIVE) {
            count_collective(&walk, row);
        }
    }
    drop_units_without_parameters(walk.lines);
    g_hash_table_unref(walk.places);
    g_array_unref(walk.owner);
    return walk.lines;
}
