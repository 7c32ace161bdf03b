/* SPDX-License-Identifier: Apache-2.0 */
#include "rank/simulation.h"

#include "base/error.h"
#include "rank/collective_load.h"
#include "rank/deadlock.h"
#include "rank/world.h"

/* Phases of an instant: what ends (the flows) comes before all of them. */
enum { PHASE_START, PHASE_WAKE };

#define PROGRESS_INTERVAL 1024

/* --- building ----------------------------------------------------------------------------------
 */

/* An entity that plays each program. */
static uint32_t *find_players(const SimPartition *partition)
{
    uint32_t *players = g_new(uint32_t, partition->programs);
    for (guint i = partition->entities->len; i-- > 0;) {
        const SimEntity *entity = sim_partition_entity(partition, i);
        players[entity->program] = entity->rank;
    }
    return players;
}

static bool build_program(SimSimulation *simulation, uint32_t index, uint32_t rank, GError **error)
{
    const SimMemoryOptions memory = {simulation->options.allocator, simulation->options.hbm_bytes,
                                     simulation->options.keep_memory_events};
    SimRankProgram *program = sim_rank_program_new(simulation->plan, rank);
    simulation->programs[index] = program;
    g_autoptr(GArray) no_syncs = g_array_new(FALSE, FALSE, sizeof(uint32_t));
    const GArray *syncs = no_syncs;
    uint32_t length = program->length;
    if (!program->is_time_bound) {
        SimMemoryRun *run = sim_memory_run_new(simulation->plan, program, &memory, NULL);
        simulation->memory_runs[index] = run;
        sim_memory_run_play(run);
        const SimMemoryHistory *history = sim_memory_run_history(run);
        syncs = history->syncs;
        length = history->is_oom ? history->oom_position : length;
    }
    return sim_rank_program_compile(program, simulation->plan, simulation->cluster->gpu,
                                    simulation->runs, length, syncs, error);
}

static void append_ranks(GArray *ranks, const SimPlan *plan, uint32_t group, uint32_t list)
{
    uint32_t n_ranges;
    const SimRange *ranges = sim_plan_group_ranges(plan, group, list, &n_ranges);
    for (uint32_t i = 0; i < n_ranges; i++) {
        for (uint32_t rank = ranges[i].first; rank <= ranges[i].last; rank++) {
            g_array_append_val(ranks, rank);
        }
    }
}

/* All rank lists, each with the communicator that stands for it: what the links must carry. */
static void build_links(SimSimulation *simulation)
{
    const SimPartition *partition = simulation->partition;
    g_autoptr(GArray) ranks = g_array_new(FALSE, FALSE, sizeof(uint32_t));
    g_autoptr(GArray) groups = g_array_new(FALSE, FALSE, sizeof(SimLinkGroup));
    for (uint32_t group = 0; group < partition->groups; group++) {
        for (uint32_t list = 0; list < sim_plan_group_lists(simulation->plan, group); list++) {
            SimLinkGroup link = {NULL, ranks->len, partition->communicator_of_list[group][list]};
            append_ranks(ranks, simulation->plan, group, list);
            link.count = ranks->len - link.count;
            g_array_append_val(groups, link);
        }
    }
    const uint32_t *at = (const uint32_t *)(void *)ranks->data;
    simulation->shapes = g_new0(SimGroupShape, partition->communicators->len);
    for (guint i = 0; i < groups->len; i++) {
        SimLinkGroup *link = &g_array_index(groups, SimLinkGroup, i);
        link->ranks = at;
        at += link->count;
        if (simulation->shapes[link->flow].ranks == 0) {
            simulation->shapes[link->flow] =
                sim_group_shape_compute(simulation->cluster, link->ranks, link->count);
        }
    }
    simulation->costs = sim_collective_cache_new(simulation->cluster);
    simulation->links =
        sim_links_new(simulation->cluster, (const SimLinkGroup *)(void *)groups->data, groups->len,
                      partition->communicators->len);
    simulation->flows =
        sim_flows_new(sim_links_capacities(simulation->links), sim_links_count(simulation->links));
}

static void push_start(uint32_t communicator, void *user_data)
{
    SimSimulation *simulation = user_data;
    uint32_t number = sim_communicators_current(simulation->communicators, communicator);
    const SimCollective *collective =
        sim_communicators_get(simulation->communicators, communicator, number);
    sim_event_queue_push(simulation->queue,
                         (SimEvent){collective->start, PHASE_START, communicator, number});
}

static void push_wake(uint32_t entity, SimTime time, uint32_t sequence, void *user_data)
{
    SimSimulation *simulation = user_data;
    sim_event_queue_push(simulation->queue, (SimEvent){time, PHASE_WAKE, entity, sequence});
}

/* FSDP's all-gather reads the part of its output that it owns; nothing then moves locally. Without
 * buffers named, an all-gather and an all-reduce are in place and a reduce-scatter as well. */
static bool is_in_place(const SimPlan *plan, const SimInstruction *instruction)
{
    if (instruction->n_reads == 0 || instruction->n_writes == 0) {
        return true;
    }
    const SimTouch *touches = sim_plan_touches(plan, instruction);
    return sim_plan_root_buffer(plan, touches[0].buffer) ==
           sim_plan_root_buffer(plan, touches[instruction->n_reads].buffer);
}

static SimCommOperation operation_of(const SimInstruction *instruction)
{
    switch ((SimCollectiveKind)instruction->collective) {
    case SIM_COLLECTIVE_ALL_GATHER:
        return SIM_COMM_ALL_GATHER;
    case SIM_COLLECTIVE_REDUCE_SCATTER:
        return SIM_COMM_REDUCE_SCATTER;
    case SIM_COLLECTIVE_ALL_REDUCE:
        return SIM_COMM_ALL_REDUCE;
    default:
        return SIM_COMM_BROADCAST;
    }
}

static SimCollectiveRequest request_of(const SimSimulation *simulation, uint32_t communicator,
                                       const SimInstruction *instruction)
{
    return (SimCollectiveRequest){.operation = operation_of(instruction),
                                  .bytes = instruction->bytes,
                                  .in_place = is_in_place(simulation->plan, instruction),
                                  .shape = simulation->shapes[communicator]};
}

static SimLoad find_load(uint32_t communicator, uint32_t row, void *user_data)
{
    const SimSimulation *simulation = user_data;
    const SimInstruction *instruction = sim_plan_instruction(simulation->plan, row);
    if (instruction->duration >= 0) {
        return (SimLoad){0};
    }
    SimCollectiveRequest request = request_of(simulation, communicator, instruction);
    SimCollectiveCost cost = sim_collective_cache_compute(simulation->costs, &request);
    return sim_collective_load_compute(&request, &cost);
}

static void build_ranks(SimSimulation *simulation)
{
    const SimPartition *partition = simulation->partition;
    const SimMemoryOptions memory = {simulation->options.allocator, simulation->options.hbm_bytes,
                                     simulation->options.keep_memory_events};
    simulation->communicators =
        sim_communicators_new(simulation->plan, partition, simulation->programs);
    for (uint32_t i = 0; i < partition->communicators->len; i++) {
        simulation->total += sim_communicators_count(simulation->communicators, i);
    }
    simulation->ranks = g_new0(SimRank, partition->entities->len);
    for (uint32_t i = 0; i < partition->entities->len; i++) {
        const SimEntity *entity = sim_partition_entity(partition, i);
        const SimRankProgram *program = simulation->programs[entity->program];
        uint64_t slowness =
            simulation->slowness != NULL ? simulation->slowness[entity->rank] : SIM_PACE_ONE;
        sim_rank_init(&simulation->ranks[i], program, i, entity->rank, slowness);
        if (program->is_time_bound) {
            sim_rank_start_memory(&simulation->ranks[i], simulation->plan, &memory);
        }
    }
}

static int32_t find_last_step(const SimSimulation *simulation)
{
    int32_t last = -1;
    for (uint32_t i = 0; i < simulation->partition->programs; i++) {
        const GArray *phases = simulation->programs[i]->phases;
        for (guint phase = 0; phase < phases->len; phase++) {
            last = MAX(last, g_array_index(phases, SimPhaseRange, phase).step);
        }
    }
    return last;
}

static void build_world(SimSimulation *simulation)
{
    uint32_t streams = sim_plan_stream_count(simulation->plan);
    sim_run_table_find_state(simulation->runs, (SimLoad){0});
    simulation->world = (SimRankWorld){.plan = simulation->plan,
                                       .partition = simulation->partition,
                                       .communicators = simulation->communicators,
                                       .runs = simulation->runs,
                                       .pace = &simulation->pace,
                                       .start = push_start,
                                       .wake = push_wake,
                                       .load = find_load,
                                       .last_step = find_last_step(simulation),
                                       .user_data = simulation,
                                       .trial = g_array_new(FALSE, FALSE, sizeof(SimTrialEvent)),
                                       .saved = g_new(SimRankStream, streams),
                                       .stop_time = SIM_TIME_NEVER};
}

/* *SLOWNESS [ranks], owned by the caller; NULL if all ranks are alike. */
static bool read_slow_ranks(const SimPlan *plan, const GArray *slow_ranks, uint64_t **slowness,
                            GError **error)
{
    uint32_t ranks = sim_plan_ranks(plan);
    if (slow_ranks == NULL || slow_ranks->len == 0) {
        return true;
    }
    g_autofree uint64_t *found = g_new(uint64_t, ranks);
    for (uint32_t rank = 0; rank < ranks; rank++) {
        found[rank] = SIM_PACE_ONE;
    }
    for (guint i = 0; i < slow_ranks->len; i++) {
        const SimSlowRank *slow = &g_array_index(slow_ranks, SimSlowRank, i);
        if (slow->rank >= ranks) {
            g_set_error(error, SIM_ERROR, SIM_ERROR_RANGE,
                        "slow rank %u: expected a rank from 0 to %u", slow->rank, ranks - 1);
            return false;
        }
        found[slow->rank] = sim_pace_factor(slow->factor);
    }
    *slowness = g_steal_pointer(&found);
    return true;
}

SimSimulation *sim_simulation_new(const SimPlan *plan, const SimCluster *cluster,
                                  const SimSimulationOptions *options, GError **error)
{
    if (sim_plan_ranks(plan) != cluster->gpus) {
        g_set_error(error, SIM_ERROR, SIM_ERROR_MISMATCH,
                    "the plan is for %u ranks, but the cluster '%s' uses %u GPUs",
                    sim_plan_ranks(plan), cluster->name, cluster->gpus);
        return NULL;
    }
    g_autofree uint64_t *slowness = NULL;
    if (!read_slow_ranks(plan, options->slow_ranks, &slowness, error)) {
        return NULL;
    }
    g_autoptr(SimSimulation) simulation = g_new0(SimSimulation, 1);
    simulation->plan = plan;
    simulation->cluster = cluster;
    simulation->options = *options;
    sim_pace_init(&simulation->pace, options->jitter, options->seed);
    simulation->slowness = g_steal_pointer(&slowness);
    simulation->partition = sim_partition_new(plan, cluster, simulation->slowness,
                                              simulation->pace.has_jitter, options->fold);
    simulation->programs = g_new0(SimRankProgram *, simulation->partition->programs);
    simulation->memory_runs = g_new0(SimMemoryRun *, simulation->partition->programs);
    simulation->runs = sim_run_table_new(cluster->gpu);
    simulation->queue = sim_event_queue_new();
    simulation->result.classes = g_array_new(FALSE, FALSE, sizeof(SimClassResult));
    simulation->result.blocked = g_ptr_array_new_with_free_func(sim_deadlock_free_blocked);
    sim_clock_init(&simulation->clock);

    g_autofree uint32_t *players = find_players(simulation->partition);
    for (uint32_t i = 0; i < simulation->partition->programs; i++) {
        if (!build_program(simulation, i, players[i], error)) {
            return NULL;
        }
    }
    build_links(simulation);
    build_ranks(simulation);
    build_world(simulation);
    return g_steal_pointer(&simulation);
}

void sim_simulation_free(SimSimulation *simulation)
{
    if (simulation == NULL) {
        return;
    }
    for (uint32_t i = 0; simulation->ranks != NULL && i < simulation->partition->entities->len;
         i++) {
        sim_rank_done(&simulation->ranks[i]);
    }
    for (uint32_t i = 0; i < simulation->partition->programs; i++) {
        sim_memory_run_free(simulation->memory_runs[i]);
        sim_rank_program_free(simulation->programs[i]);
    }
    g_free(simulation->ranks);
    g_free(simulation->memory_runs);
    g_free(simulation->programs);
    g_clear_pointer(&simulation->world.trial, g_array_unref);
    g_free(simulation->world.saved);
    sim_run_table_free(simulation->runs);
    sim_communicators_free(simulation->communicators);
    g_free(simulation->shapes);
    g_free(simulation->slowness);
    sim_flows_free(simulation->flows);
    sim_collective_cache_free(simulation->costs);
    sim_links_free(simulation->links);
    sim_event_queue_free(simulation->queue);
    g_ptr_array_unref(simulation->result.blocked);
    g_array_unref(simulation->result.classes);
    sim_partition_free(simulation->partition);
    g_free(simulation);
}

/* --- running -----------------------------------------------------------------------------------
 */

static SimCollectiveCost compute_cost(const SimSimulation *simulation, uint32_t communicator,
                                      const SimInstruction *instruction)
{
    if (instruction->duration >= 0) {
        return (SimCollectiveCost){.latency = instruction->duration, .rate = 1};
    }
    SimCollectiveRequest request = request_of(simulation, communicator, instruction);
    return sim_collective_cache_compute(simulation->costs, &request);
}

static void start_collective(SimSimulation *simulation, uint32_t communicator, uint32_t number)
{
    SimCollective *collective =
        sim_communicators_get(simulation->communicators, communicator, number);
    SimCollectiveCost cost = compute_cost(
        simulation, communicator, sim_plan_instruction(simulation->plan, collective->instruction));
    collective->wire_bytes = cost.wire_bytes;
    sim_flows_start(simulation->flows, simulation->clock.now, communicator, &cost,
                    sim_links_route(simulation->links, communicator));
}

/* A communicator has one collective at a time, so its number is that of the flow. */
static void finish_collective(SimSimulation *simulation, uint32_t communicator)
{
    uint32_t number = sim_communicators_current(simulation->communicators, communicator);
    if (sim_communicators_finish(simulation->communicators, communicator, number,
                                 simulation->clock.now)) {
        push_start(communicator, simulation);
    }
    const SimCommunicator *whole = sim_partition_communicator(simulation->partition, communicator);
    const SimMember *members = sim_partition_members(simulation->partition, whole);
    for (uint32_t i = 0; i < whole->n_members; i++) {
        sim_rank_advance(&simulation->ranks[members[i].entity], &simulation->world);
    }
    simulation->done++;
    if (simulation->options.progress != NULL && simulation->done % PROGRESS_INTERVAL == 0) {
        simulation->options.progress(simulation->done, simulation->total,
                                     simulation->options.user_data);
    }
}

/* Everything of the next instant that has one; false if there is none. What ends comes first, so
 * that what starts finds the links as they are. */
static bool play_instant(SimSimulation *simulation)
{
    SimEvent event = {.time = SIM_TIME_NEVER};
    bool has_event = sim_event_queue_peek(simulation->queue, &event);
    SimTime flow_time = sim_flows_next_time(simulation->flows);
    if (!has_event && flow_time == SIM_TIME_NEVER) {
        return false;
    }
    if (flow_time <= event.time) {
        uint32_t communicator;
        sim_clock_advance(&simulation->clock, flow_time);
        simulation->world.now = flow_time;
        while (sim_flows_finish(simulation->flows, flow_time, &communicator)) {
            finish_collective(simulation, communicator);
        }
        return true;
    }
    sim_event_queue_pop(simulation->queue, &event);
    sim_clock_advance(&simulation->clock, event.time);
    simulation->world.now = event.time;
    if (event.phase == PHASE_START) {
        start_collective(simulation, event.entity, event.sequence);
    } else if (event.sequence == simulation->ranks[event.entity].wakes) {
        sim_rank_advance(&simulation->ranks[event.entity], &simulation->world);
    }
    return true;
}

/* Whose late arrivals made others wait. */
static void add_causes(SimSimulation *simulation)
{
    for (uint32_t i = 0; i < simulation->partition->communicators->len; i++) {
        uint32_t lists = sim_partition_communicator(simulation->partition, i)->lists;
        for (uint32_t k = 0; k < sim_communicators_count(simulation->communicators, i); k++) {
            const SimCollective *collective =
                sim_communicators_get(simulation->communicators, i, k);
            if (collective->waited > 0) {
                g_array_index(simulation->result.classes, SimClassResult, collective->last_entity)
                    .caused += collective->waited * lists;
            }
        }
    }
}

static void collect_result(SimSimulation *simulation)
{
    SimResult *result = &simulation->result;
    result->ranks = simulation->partition->ranks;
    result->simulated_ranks = simulation->partition->entities->len;
    result->events = simulation->clock.events;
    for (uint32_t i = 0; i < result->simulated_ranks; i++) {
        const SimEntity *entity = sim_partition_entity(simulation->partition, i);
        SimRank *rank = &simulation->ranks[i];
        SimMemoryRun *memory =
            rank->memory != NULL ? rank->memory : simulation->memory_runs[entity->program];
        if (rank->memory != NULL) {
            sim_memory_run_finish(memory);
        }
        SimClassResult class_ = {.rank = entity->rank,
                                 .count = entity->count,
                                 .program = rank->program,
                                 .memory = sim_memory_run_history(memory),
                                 .phase_ends = rank->phase_ends,
                                 .waited = rank->waited,
                                 .late = rank->late};
        result->is_oom |= class_.memory->is_oom;
        g_array_append_val(result->classes, class_);
    }
    add_causes(simulation);
}

const SimResult *sim_simulation_run(SimSimulation *simulation)
{
    uint32_t entities = simulation->partition->entities->len;
    for (uint32_t i = 0; i < entities; i++) {
        sim_rank_advance(&simulation->ranks[i], &simulation->world);
    }
    while (play_instant(simulation)) {
    }
    /* Collectives that are still in flight never end: what does not need them goes on. */
    simulation->world.now = SIM_TIME_NEVER;
    for (uint32_t i = 0; i < entities; i++) {
        sim_rank_advance(&simulation->ranks[i], &simulation->world);
    }
    collect_result(simulation);
    if (!simulation->result.is_oom) {
        sim_deadlock_find(simulation, simulation->result.blocked);
    }
    return &simulation->result;
}

uint32_t sim_simulation_classes(const SimSimulation *simulation)
{
    return simulation->partition->classes;
}

uint32_t sim_simulation_class_of_rank(const SimSimulation *simulation, uint32_t rank)
{
    return simulation->partition->class_of_rank[rank];
}

uint32_t sim_simulation_class_rank(const SimSimulation *simulation, uint32_t class_)
{
    for (uint32_t rank = 0; rank < simulation->partition->ranks; rank++) {
        if (simulation->partition->class_of_rank[rank] == class_) {
            return rank;
        }
    }
    g_assert_not_reached();
}
