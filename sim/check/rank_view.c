/* SPDX-License-Identifier: Apache-2.0 */
#include "check/rank_view.h"

#include <string.h>

struct SimRankView {
    const SimPlan *plan;
    uint32_t source, rank;
    bool *has_set;     /* by rank set */
    uint32_t *place;   /* by group */
    uint32_t *members; /* by group; 1 = alone or in none */
    uint32_t shard;    /* group named so, or SIM_PLAN_NONE */
    uint32_t host;     /* stream named so, or SIM_PLAN_NONE */
};

static uint32_t find_host_stream(const SimPlan *plan)
{
    for (uint32_t stream = 0; stream < sim_plan_stream_count(plan); stream++)
        if (strcmp(sim_plan_stream_name(plan, stream), "host") == 0)
            return stream;
    return SIM_PLAN_NONE;
}

SimRankView *sim_rank_view_new(const SimPlan *plan, uint32_t source, uint32_t rank)
{
    SimRankView *view = g_new0(SimRankView, 1);
    view->plan = plan;
    view->source = source;
    view->rank = rank;
    uint32_t sets = sim_plan_rank_set_count(plan);
    view->has_set = g_new0(bool, MAX(sets, 1));
    view->has_set[0] = true;
    for (uint32_t set = 1; set < sets; set++)
        view->has_set[set] = sim_plan_rank_set_has(plan, set, rank);
    uint32_t groups = sim_plan_group_count(plan);
    view->place = g_new0(uint32_t, MAX(groups, 1));
    view->members = g_new0(uint32_t, MAX(groups, 1));
    for (uint32_t group = 0; group < groups; group++) {
        uint32_t list, place, members;
        bool is_in = sim_plan_group_of_rank(plan, group, rank, &list, &place, &members);
        view->place[group] = is_in ? place : 0;
        view->members[group] = is_in ? members : 1;
    }
    view->shard = sim_plan_find_group(plan, "shard");
    view->host = find_host_stream(plan);
    return view;
}

void sim_rank_view_free(SimRankView *view)
{
    if (view == NULL)
        return;
    g_free(view->has_set);
    g_free(view->place);
    g_free(view->members);
    g_free(view);
}

const SimPlan *sim_rank_view_plan(const SimRankView *view)
{
    return view->plan;
}

uint32_t sim_rank_view_rank(const SimRankView *view)
{
    return view->rank;
}

uint32_t sim_rank_view_source(const SimRankView *view)
{
    return view->source;
}

uint32_t sim_rank_view_lanes(const SimRankView *view)
{
    return sim_plan_stream_count(view->plan) + 1;
}

const char *sim_rank_view_lane_name(const SimRankView *view, uint32_t lane)
{
    return lane == SIM_CLOCKS_HOST ? "host" : sim_plan_stream_name(view->plan, lane - 1);
}

bool sim_rank_view_has(const SimRankView *view, const SimInstruction *row)
{
    return view->has_set[row->rank_set];
}

uint32_t sim_rank_view_lane_of_stream(const SimRankView *view, uint32_t stream)
{
    return stream == view->host || stream == SIM_PLAN_NONE ? SIM_CLOCKS_HOST : stream + 1;
}

uint32_t sim_rank_view_lane(const SimRankView *view, const SimInstruction *row)
{
    switch (row->op) {
    case SIM_PLAN_KERNEL:
    case SIM_PLAN_COPY:
    case SIM_PLAN_COLLECTIVE:
        return sim_rank_view_lane_of_stream(view, row->stream);
    case SIM_PLAN_HOST:
        return row->n_reads + row->n_writes > 0 ? SIM_CLOCKS_HOST : SIM_CLOCKS_NO_LANE;
    default:
        return SIM_CLOCKS_NO_LANE;
    }
}

uint32_t sim_rank_view_members(const SimRankView *view, uint32_t group)
{
    return group == SIM_PLAN_NONE ? 1 : view->members[group];
}

SimByteRange sim_rank_view_resolve(const SimRankView *view, const SimInstruction *row,
                                   SimTouch touch)
{
    const SimBuffer *buffer = sim_plan_buffer(view->plan, touch.buffer);
    uint32_t group = row->group != SIM_PLAN_NONE ? row->group : view->shard;
    uint64_t place = group != SIM_PLAN_NONE ? view->place[group] : view->rank;
    uint64_t offset = touch.times_rank ? touch.offset * place : touch.offset;
    uint64_t bytes = touch.bytes;
    if (bytes == 0)
        bytes = buffer->bytes > offset ? buffer->bytes - offset : 0;
    bool is_outside = offset > buffer->bytes || bytes > buffer->bytes - offset;
    uint32_t root = touch.buffer;
    while (buffer->parent != SIM_PLAN_NONE) {
        offset += buffer->offset;
        root = buffer->parent;
        buffer = sim_plan_buffer(view->plan, root);
    }
    uint64_t begin = MIN(offset, buffer->bytes);
    uint64_t end = begin + MIN(bytes, buffer->bytes - begin);
    return (SimByteRange){.buffer = root,
                          .begin = begin,
                          .end = end,
                          .is_outside = is_outside || end - begin < bytes};
}

char *sim_rank_view_buffer_name(const SimRankView *view, uint32_t buffer)
{
    return sim_plan_print_name(view->plan, sim_plan_buffer(view->plan, buffer)->name);
}

char *sim_rank_view_describe(const SimRankView *view, uint32_t index)
{
    const SimPlan *plan = view->plan;
    const SimInstruction *row = sim_plan_instruction(plan, index);
    const char *what = row->op == SIM_PLAN_COLLECTIVE ? sim_plan_collective_name(row->collective)
                                                      : sim_plan_op_name(row->op);
    if (row->op == SIM_PLAN_KERNEL && row->operator_name != 0)
        what = sim_plan_string(plan, row->operator_name);
    const char *of = row->unit != 0 ? sim_plan_string(plan, row->unit) : NULL;
    if (of == NULL && row->name != 0)
        of = sim_plan_string(plan, row->name);
    GString *text = g_string_new(what);
    if (of != NULL && strcmp(of, what) != 0)
        g_string_append_printf(text, " of %s", of);
    uint32_t lane = sim_rank_view_lane(view, row);
    if (lane != SIM_CLOCKS_NO_LANE)
        g_string_append_printf(text, " on %s", sim_rank_view_lane_name(view, lane));
    return g_string_free(text, FALSE);
}

SimFindingPlace sim_rank_view_place(const SimRankView *view, uint32_t row, const char *role)
{
    return (SimFindingPlace){.source = view->source,
                             .rank = view->rank,
                             .row = row,
                             .role = role,
                             .text = sim_rank_view_describe(view, row)};
}

void sim_rank_view_situate(const SimRankView *view, uint32_t row, SimFinding *finding)
{
    const SimInstruction *instruction = sim_plan_instruction(view->plan, row);
    finding->step = instruction->step;
    finding->phase = sim_plan_phase_name(instruction->phase);
    g_free(finding->unit);
    finding->unit = g_strdup(sim_plan_string(view->plan, instruction->unit));
}
