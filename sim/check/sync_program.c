/* SPDX-License-Identifier: Apache-2.0 */
#include "check/sync_program.h"

static void append_collective(SimSyncProgram *program, const SimRankView *view, uint32_t index,
                              const SimInstruction *row, const uint32_t *groups,
                              SimStrings *strings)
{
    const SimPlan *plan = sim_rank_view_plan(view);
    uint32_t group = groups[row->group];
    GArray *same = g_ptr_array_index(program->by_group, group);
    SimSyncCollective collective = {
        .bytes = row->bytes,
        .step_index = program->steps->len,
        .row = index,
        .group = group,
        .ordinal = same->len,
        .unit = sim_strings_intern(strings,
                                   sim_plan_string(plan, row->unit != 0 ? row->unit : row->name)),
        .step = row->step,
        .kind = row->collective,
        .dtype = row->dtype,
        .phase = row->phase,
        .lane = (uint16_t)sim_rank_view_lane(view, row)};
    SimSyncStep step = {.row = index,
                        .target = program->collectives->len,
                        .lane = collective.lane,
                        .op = SIM_SYNC_COLLECTIVE};
    g_array_append_val(same, step.target);
    g_array_append_val(program->collectives, collective);
    g_array_append_val(program->steps, step);
}

static void append_event(SimSyncProgram *program, const SimRankView *view, uint32_t index,
                         const SimInstruction *row, SimStrings *strings)
{
    const SimPlan *plan = sim_rank_view_plan(view);
    SimSyncStep step = {.row = index, .target = row->event, .op = SIM_SYNC_WAIT};
    step.lane =
        (uint16_t)(row->op == SIM_PLAN_HOST_WAIT ? SIM_CLOCKS_HOST
                                                 : sim_rank_view_lane_of_stream(view, row->stream));
    if (row->is_event_of_stream) {
        step.op = SIM_SYNC_WAIT_LANE;
        step.target = sim_rank_view_lane_of_stream(view, row->event);
        if (step.target == step.lane)
            return;
    } else {
        SimName name = sim_plan_event_name(plan, row->event);
        step.label = sim_strings_intern(strings, sim_plan_string(plan, name.stem));
        if (row->op == SIM_PLAN_RECORD)
            step.op = SIM_SYNC_RECORD;
    }
    g_array_append_val(program->steps, step);
}

static void unref_array(gpointer array)
{
    g_array_unref(array);
}

SimSyncProgram *sim_sync_program_new(const SimRankView *view, const uint32_t *groups,
                                     uint32_t n_groups, SimStrings *strings)
{
    const SimPlan *plan = sim_rank_view_plan(view);
    SimSyncProgram *program = g_new0(SimSyncProgram, 1);
    program->source = sim_rank_view_source(view);
    program->rank = sim_rank_view_rank(view);
    program->n_lanes = sim_rank_view_lanes(view);
    program->n_events = sim_plan_event_count(plan);
    program->steps = g_array_new(FALSE, FALSE, sizeof(SimSyncStep));
    program->collectives = g_array_new(FALSE, FALSE, sizeof(SimSyncCollective));
    program->by_group = g_ptr_array_new_with_free_func(unref_array);
    for (uint32_t i = 0; i < n_groups; i++)
        g_ptr_array_add(program->by_group, g_array_new(FALSE, FALSE, sizeof(uint32_t)));
    program->lanes = g_new(SimStringId, program->n_lanes);
    for (uint32_t lane = 0; lane < program->n_lanes; lane++)
        program->lanes[lane] = sim_strings_intern(strings, sim_rank_view_lane_name(view, lane));
    for (size_t i = 0; i < sim_plan_length(plan); i++) {
        const SimInstruction *row = sim_plan_instruction(plan, i);
        if (!sim_rank_view_has(view, row))
            continue;
        if (row->op == SIM_PLAN_COLLECTIVE && row->group != SIM_PLAN_NONE)
            append_collective(program, view, (uint32_t)i, row, groups, strings);
        else if ((row->op == SIM_PLAN_RECORD || row->op == SIM_PLAN_WAIT ||
                  row->op == SIM_PLAN_HOST_WAIT) &&
                 row->event != SIM_PLAN_NONE)
            append_event(program, view, (uint32_t)i, row, strings);
    }
    return program;
}

void sim_sync_program_free(SimSyncProgram *program)
{
    if (program == NULL)
        return;
    g_array_unref(program->steps);
    g_array_unref(program->collectives);
    g_ptr_array_unref(program->by_group);
    g_free(program->lanes);
    g_free(program);
}

const GArray *sim_sync_program_of_group(const SimSyncProgram *program, uint32_t group)
{
    return group < program->by_group->len ? g_ptr_array_index(program->by_group, group) : NULL;
}

const SimSyncCollective *sim_sync_program_collective(const SimSyncProgram *program, uint32_t index)
{
    return &g_array_index(program->collectives, SimSyncCollective, index);
}

const SimSyncStep *sim_sync_program_step(const SimSyncProgram *program, uint32_t index)
{
    return &g_array_index(program->steps, SimSyncStep, index);
}
