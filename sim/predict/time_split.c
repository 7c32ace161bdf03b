/* SPDX-License-Identifier: Apache-2.0 */
#include "predict/time_split.h"

/* In order of precedence. */
typedef enum Activity {
    ACTIVITY_COMPUTE,
    ACTIVITY_COMMUNICATION,
    ACTIVITY_SIDE_WORK,
    ACTIVITY_WAITING,
    ACTIVITY_COUNT
} Activity;

typedef struct Edge {
    SimTime time;
    int8_t change; /* +1 begins, -1 ends */
    uint8_t activity;
} Edge;

static int compare_edges(const void *a, const void *b)
{
    const Edge *x = a;
    const Edge *y = b;
    if (x->time != y->time) {
        return x->time < y->time ? -1 : 1;
    }
    if (x->activity != y->activity) {
        return x->activity < y->activity ? -1 : 1;
    }
    return x->change - y->change;
}

static void add_edges(GArray *edges, Activity activity, SimTime from, SimTime to)
{
    if (from < to) {
        Edge both[] = {{from, 1, (uint8_t)activity}, {to, -1, (uint8_t)activity}};
        g_array_append_vals(edges, both, 2);
    }
}

static GArray *collect_edges(const SimPlan *plan, const SimTrack *track, SimTime begin, SimTime end)
{
    GArray *edges = g_array_new(FALSE, FALSE, sizeof(Edge));
    for (guint i = 0; i < track->spans->len; i++) {
        const SimSpan *span = &g_array_index(track->spans, SimSpan, i);
        if (span->end <= begin || span->arrival >= end || span->stream == SIM_PLAN_NONE) {
            continue;
        }
        SimTime arrival = CLAMP(span->arrival, begin, end);
        SimTime start = CLAMP(span->start, begin, end);
        SimTime stop = MIN(span->end, end);
        SimPlanOp op = (SimPlanOp)sim_plan_instruction(plan, span->instruction)->op;
        if (op == SIM_PLAN_COLLECTIVE) {
            add_edges(edges, ACTIVITY_WAITING, arrival, start);
            add_edges(edges, ACTIVITY_COMMUNICATION, start, stop);
        } else if (op == SIM_PLAN_KERNEL && span->stream == 0) {
            add_edges(edges, ACTIVITY_COMPUTE, start, stop);
        } else {
            add_edges(edges, ACTIVITY_SIDE_WORK, start, stop);
        }
    }
    g_array_sort(edges, compare_edges);
    return edges;
}

/* Adds the stretch to what it belongs to, given how many of each activity go on. */
static void count_stretch(SimTimeSplit *split, const int *active, SimTime length)
{
    if (active[ACTIVITY_COMMUNICATION] > 0) {
        split->communication += length;
    }
    if (active[ACTIVITY_COMPUTE] > 0) {
        split->compute += length;
    } else if (active[ACTIVITY_COMMUNICATION] > 0) {
        split->exposed_communication += length;
    } else if (active[ACTIVITY_SIDE_WORK] > 0) {
        split->compute += length;
    } else if (active[ACTIVITY_WAITING] > 0) {
        split->waiting += length;
    } else {
        split->host_bound += length;
    }
}

SimTimeSplit sim_time_split_compute(const SimPlan *plan, const SimTrack *track, SimTime begin,
                                    SimTime end)
{
    g_autoptr(GArray) edges = collect_edges(plan, track, begin, end);
    SimTimeSplit split = {.step = end - begin};
    int active[ACTIVITY_COUNT] = {0};
    SimTime now = begin;
    for (guint i = 0; i < edges->len; i++) {
        const Edge *edge = &g_array_index(edges, Edge, i);
        count_stretch(&split, active, edge->time - now);
        active[edge->activity] += edge->change;
        now = edge->time;
    }
    count_stretch(&split, active, end - now);
    return split;
}
