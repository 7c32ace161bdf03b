/* SPDX-License-Identifier: Apache-2.0 */
#include "fabric/flows.h"

#include <stdlib.h>
#include <string.h>

#include "engine/clock.h"
#include "engine/event_queue.h"
#include "fabric/maxmin.h"

/* Phases of an instant, in the queue of what happens inside the fabric. */
enum { PHASE_COMPLETION, PHASE_LATENCY_END };

typedef enum FlowState {
    FLOW_IDLE,
    FLOW_LATENCY,
    FLOW_MOVING,
} FlowState;

/* A flow crosses a link; `slot` is where the link's list names it. */
typedef struct FlowLink {
    uint32_t link;
    uint32_t weight;
    uint32_t slot;
} FlowLink;

typedef struct Flow {
    FlowState state;
    uint32_t sequence; /* of its own events: older ones are void */
    SimVolume left;    /* at `since` */
    SimTime since;
    uint64_t rate; /* since then */
    uint64_t bound;
    bool is_collected;
    FlowLink *links; /* [n_links] */
    uint32_t n_links;
    uint32_t room;
} Flow;

/* One of the flows that move over a link: its id, and which of its links this is. */
typedef struct LinkFlow {
    uint32_t flow;
    uint32_t index;
} LinkFlow;

typedef struct Link {
    uint64_t capacity;
    LinkFlow *flows; /* [n_flows] */
    uint32_t n_flows;
    uint32_t room;
    uint32_t local;
    bool is_collected;
} Link;

struct SimFlows {
    GArray *flows; /* Flow, by id */
    Link *links;
    size_t n_links;
    size_t running;
    SimEventQueue *queue;
    SimTime changed; /* when flows last came or went */
    GArray *dirty;   /* uint32_t: links whose flows have changed since the last solve */
    SimMaxmin *maxmin;
    /* The problem of one solve. */
    GArray *component_links; /* uint32_t */
    GArray *component_flows; /* uint32_t */
    GArray *capacity, *bound, *first, *link, *weight, *rate;
};

SimFlows *sim_flows_new(const uint64_t *capacities, size_t links)
{
    SimFlows *flows = g_new0(SimFlows, 1);
    flows->flows = g_array_new(FALSE, TRUE, sizeof(Flow));
    flows->links = g_new0(Link, links + 1);
    flows->n_links = links;
    for (size_t l = 0; l < links; l++)
        flows->links[l].capacity = capacities[l];
    flows->queue = sim_event_queue_new();
    flows->dirty = g_array_new(FALSE, FALSE, sizeof(uint32_t));
    flows->maxmin = sim_maxmin_new();
    flows->component_links = g_array_new(FALSE, FALSE, sizeof(uint32_t));
    flows->component_flows = g_array_new(FALSE, FALSE, sizeof(uint32_t));
    flows->capacity = g_array_new(FALSE, FALSE, sizeof(uint64_t));
    flows->bound = g_array_new(FALSE, FALSE, sizeof(uint64_t));
    flows->first = g_array_new(FALSE, FALSE, sizeof(uint32_t));
    flows->link = g_array_new(FALSE, FALSE, sizeof(uint32_t));
    flows->weight = g_array_new(FALSE, FALSE, sizeof(uint32_t));
    flows->rate = g_array_new(FALSE, FALSE, sizeof(uint64_t));
    return flows;
}

void sim_flows_free(SimFlows *flows)
{
    if (!flows)
        return;
    for (guint i = 0; i < flows->flows->len; i++)
        g_free(g_array_index(flows->flows, Flow, i).links);
    for (size_t l = 0; l < flows->n_links; l++)
        g_free(flows->links[l].flows);
    GArray *arrays[] = {
        flows->flows,    flows->dirty, flows->component_links, flows->component_flows,
        flows->capacity, flows->bound, flows->first,           flows->link,
        flows->weight,   flows->rate};
    for (size_t i = 0; i < G_N_ELEMENTS(arrays); i++)
        g_array_unref(arrays[i]);
    g_free(flows->links);
    sim_event_queue_free(flows->queue);
    sim_maxmin_free(flows->maxmin);
    g_free(flows);
}

static Flow *get_flow(SimFlows *flows, uint32_t id)
{
    return &g_array_index(flows->flows, Flow, id);
}

/* The id's next event; those pushed before are void. */
static void push_event(SimFlows *flows, uint32_t id, uint32_t phase, SimTime time)
{
    Flow *flow = get_flow(flows, id);
    flow->sequence++;
    sim_event_queue_push(
        flows->queue,
        (SimEvent){.time = time, .phase = phase, .entity = id, .sequence = flow->sequence});
}

static void push_completion(SimFlows *flows, uint32_t id)
{
    const Flow *flow = get_flow(flows, id);
    SimTime time = flow->since + sim_volume_time(flow->left, flow->rate);
    push_event(flows, id, PHASE_COMPLETION, time);
}

/* Lists a flow that begins to move with its links. */
static void enter_links(SimFlows *flows, uint32_t id)
{
    Flow *flow = get_flow(flows, id);
    for (uint32_t i = 0; i < flow->n_links; i++) {
        FlowLink *crossing = &flow->links[i];
        Link *link = &flows->links[crossing->link];
        if (link->n_flows == link->room) {
            link->room = MAX(4, 2 * link->room);
            link->flows = g_renew(LinkFlow, link->flows, link->room);
        }
        crossing->slot = link->n_flows;
        link->flows[link->n_flows++] = (LinkFlow){id, i};
        g_array_append_val(flows->dirty, crossing->link);
    }
}

static void leave_links(SimFlows *flows, uint32_t id)
{
    Flow *flow = get_flow(flows, id);
    for (uint32_t i = 0; i < flow->n_links; i++) {
        FlowLink *crossing = &flow->links[i];
        Link *link = &flows->links[crossing->link];
        LinkFlow last = link->flows[--link->n_flows];
        link->flows[crossing->slot] = last;
        get_flow(flows, last.flow)->links[last.index].slot = crossing->slot;
        g_array_append_val(flows->dirty, crossing->link);
    }
}

static void collect_link(SimFlows *flows, uint32_t l)
{
    if (flows->links[l].is_collected)
        return;
    flows->links[l].is_collected = true;
    g_array_append_val(flows->component_links, l);
}

static int compare_ids(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

/* All flows and links that the changed links reach, in ascending order. */
static void collect_component(SimFlows *flows)
{
    g_array_set_size(flows->component_links, 0);
    g_array_set_size(flows->component_flows, 0);
    for (guint i = 0; i < flows->dirty->len; i++)
        collect_link(flows, g_array_index(flows->dirty, uint32_t, i));
    for (guint i = 0; i < flows->component_links->len; i++) {
        const Link *link = &flows->links[g_array_index(flows->component_links, uint32_t, i)];
        for (uint32_t j = 0; j < link->n_flows; j++) {
            Flow *flow = get_flow(flows, link->flows[j].flow);
            if (flow->is_collected)
                continue;
            flow->is_collected = true;
            g_array_append_val(flows->component_flows, link->flows[j].flow);
            for (uint32_t k = 0; k < flow->n_links; k++)
                collect_link(flows, flow->links[k].link);
        }
    }
    g_array_set_size(flows->dirty, 0);
    g_array_sort(flows->component_links, compare_ids);
    g_array_sort(flows->component_flows, compare_ids);
}

/* Numbers the component's links and flows and writes them down for the solver. */
static SimMaxminProblem build_problem(SimFlows *flows)
{
    GArray *arrays[] = {flows->capacity, flows->bound, flows->first, flows->link, flows->weight};
    for (size_t i = 0; i < G_N_ELEMENTS(arrays); i++)
        g_array_set_size(arrays[i], 0);
    for (guint i = 0; i < flows->component_links->len; i++) {
        Link *link = &flows->links[g_array_index(flows->component_links, uint32_t, i)];
        link->local = i;
        link->is_collected = false;
        g_array_append_val(flows->capacity, link->capacity);
    }
    for (guint i = 0; i < flows->component_flows->len; i++) {
        Flow *flow = get_flow(flows, g_array_index(flows->component_flows, uint32_t, i));
        flow->is_collected = false;
        g_array_append_val(flows->first, flows->link->len);
        g_array_append_val(flows->bound, flow->bound);
        for (uint32_t k = 0; k < flow->n_links; k++) {
            g_array_append_val(flows->link, flows->links[flow->links[k].link].local);
            g_array_append_val(flows->weight, flow->links[k].weight);
        }
    }
    g_array_append_val(flows->first, flows->link->len);
    g_array_set_size(flows->rate, flows->component_flows->len);
    return (SimMaxminProblem){
        .flows = flows->component_flows->len,
        .links = flows->component_links->len,
        .capacity = (const uint64_t *)(const void *)flows->capacity->data,
        .bound = (const uint64_t *)(const void *)flows->bound->data,
        .first = (const uint32_t *)(const void *)flows->first->data,
        .link = (const uint32_t *)(const void *)flows->link->data,
        .weight = (const uint32_t *)(const void *)flows->weight->data,
    };
}

static void change_rate(SimFlows *flows, uint32_t id, SimTime now, uint64_t rate)
{
    Flow *flow = get_flow(flows, id);
    if (flow->rate == rate)
        return;
    flow->left = sim_volume_after(flow->left, flow->rate, now - flow->since);
    flow->since = now;
    flow->rate = rate;
    push_completion(flows, id);
}

/* Shares the links anew as of the last change. */
static void solve(SimFlows *flows)
{
    if (flows->dirty->len == 0)
        return;
    collect_component(flows);
    SimMaxminProblem problem = build_problem(flows);
    uint64_t *rate = (uint64_t *)(void *)flows->rate->data;
    sim_maxmin_compute(flows->maxmin, &problem, rate);
    for (guint i = 0; i < flows->component_flows->len; i++)
        change_rate(flows, g_array_index(flows->component_flows, uint32_t, i), flows->changed,
                    rate[i]);
}

/* Time passes to NOW: what changed before must be shared out by then. */
static void advance(SimFlows *flows, SimTime now)
{
    g_assert(now >= flows->changed);
    if (now > flows->changed)
        solve(flows);
    flows->changed = now;
}

static void copy_route(Flow *flow, SimRoute route)
{
    if (route.count > flow->room) {
        flow->room = route.count;
        flow->links = g_renew(FlowLink, flow->links, flow->room);
    }
    flow->n_links = route.count;
    for (uint32_t i = 0; i < route.count; i++)
        flow->links[i] = (FlowLink){.link = route.link[i], .weight = route.weight[i]};
}

void sim_flows_start(SimFlows *flows, SimTime now, uint32_t id, const SimCollectiveCost *cost,
                     SimRoute route)
{
    advance(flows, now);
    if (id >= flows->flows->len)
        g_array_set_size(flows->flows, id + 1);
    Flow *flow = get_flow(flows, id);
    g_assert(flow->state == FLOW_IDLE);
    flow->state = FLOW_LATENCY;
    flow->left = cost->volume;
    flow->bound = cost->rate;
    flow->rate = 0;
    copy_route(flow, route);
    flows->running++;
    bool is_only_latency = sim_volume_is_empty(cost->volume);
    push_event(flows, id, is_only_latency ? PHASE_COMPLETION : PHASE_LATENCY_END,
               now + cost->latency);
}

static void end_latency(SimFlows *flows, uint32_t id, SimTime now)
{
    advance(flows, now);
    Flow *flow = get_flow(flows, id);
    flow->state = FLOW_MOVING;
    flow->since = now;
    if (flow->n_links > 0) {
        enter_links(flows, id);
        return;
    }
    flow->rate = flow->bound;
    push_completion(flows, id);
}

static void end_flow(SimFlows *flows, uint32_t id, SimTime now)
{
    advance(flows, now);
    Flow *flow = get_flow(flows, id);
    if (flow->state == FLOW_MOVING)
        leave_links(flows, id);
    flow->state = FLOW_IDLE;
    flow->rate = 0;
    flow->sequence++;
    flows->running--;
}

/* The first event that still counts; drops those before it that do not. */
static bool peek_event(SimFlows *flows, SimEvent *event)
{
    while (sim_event_queue_peek(flows->queue, event)) {
        const Flow *flow = get_flow(flows, event->entity);
        if (flow->state != FLOW_IDLE && flow->sequence == event->sequence)
            return true;
        sim_event_queue_pop(flows->queue, event);
    }
    return false;
}

SimTime sim_flows_next_time(SimFlows *flows)
{
    solve(flows);
    SimEvent event;
    return peek_event(flows, &event) ? event.time : SIM_TIME_NEVER;
}

bool sim_flows_finish(SimFlows *flows, SimTime now, uint32_t *id)
{
    SimEvent event;
    if (flows->changed < now)
        solve(flows);
    /* Nothing that ends at NOW makes another flow end at NOW, so the rates can wait until all that
     * happens at NOW has happened. */
    while (peek_event(flows, &event) && event.time <= now) {
        g_assert(event.time == now);
        sim_event_queue_pop(flows->queue, &event);
        if (event.phase == PHASE_COMPLETION) {
            end_flow(flows, event.entity, now);
            *id = event.entity;
            return true;
        }
        end_latency(flows, event.entity, now);
    }
    return false;
}

size_t sim_flows_count(const SimFlows *flows)
{
    return flows->running;
}

uint64_t sim_flows_rate(SimFlows *flows, uint32_t id)
{
    solve(flows);
    return id < flows->flows->len ? get_flow(flows, id)->rate : 0;
}

/* All links are as good as changed, so the component is everything that moves. */
bool sim_flows_check(SimFlows *flows)
{
    solve(flows);
    for (uint32_t l = 0; l < flows->n_links; l++)
        g_array_append_val(flows->dirty, l);
    collect_component(flows);
    SimMaxminProblem problem = build_problem(flows);
    uint64_t *rate = (uint64_t *)(void *)flows->rate->data;
    for (guint i = 0; i < flows->component_flows->len; i++)
        rate[i] = get_flow(flows, g_array_index(flows->component_flows, uint32_t, i))->rate;
    return sim_maxmin_check(&problem, rate);
}
