/* SPDX-License-Identifier: Apache-2.0
 *
 * The rows of one rank once more, in host order, with the times of collectives and events as the
 * run found them: the single kernels that compiling had put together.
 */
#include "rank/simulation.h"

#include "engine/clock.h"
#include "rank/host_cost.h"
#include "rank/rank_streams.h"
#include "rank/world.h"

/* A stream while it is being played again. */
typedef struct Lane {
    SimTime ready;
    uint8_t delay; /* SimDelay: what set `ready`, until an item uses it */
    uint32_t delayed_by;
    bool is_stuck; /* the run ended before what it waits for */
    guint change;  /* of state, to come */
} Lane;

typedef struct Replay {
    const SimSimulation *simulation;
    const SimRank *rank;  /* played again, with a log */
    uint32_t number;      /* of the rank itself: its entity may stand for others */
    Lane *lanes;          /* [streams] */
    uint32_t *collective; /* [groups] how many it has joined */
    SimTrack *track;
    bool is_paced;
    SimTime host; /* of one that never waits */
    SimTime delay;
    guint shift;
} Replay;

static void add_span(Replay *replay, uint32_t row, uint32_t stream, SimSpan span)
{
    span.instruction = row;
    span.stream = stream;
    g_array_append_val(replay->track->spans, span);
}

/* Of the row that the host has just issued. */
static void add_launch(Replay *replay, uint32_t row)
{
    const SimInstruction *instruction = sim_plan_instruction(replay->simulation->plan, row);
    SimLaunch launch = {.instruction = row, .end = replay->host + replay->delay};
    launch.begin =
        launch.end - sim_host_cost_compute(replay->simulation->cluster->gpu, instruction);
    g_array_append_val(replay->track->launches, launch);
}

/* When an item can begin on LANE, and what held it back. */
static SimTime begin_item(Replay *replay, Lane *lane, SimSpan *span)
{
    SimTime issued = replay->host + replay->delay;
    span->delay = lane->delay;
    span->delayed_by = lane->delayed_by;
    if (issued > lane->ready) {
        span->delay = SIM_DELAY_HOST;
        span->delayed_by = SIM_PLAN_NONE;
        lane->ready = issued;
    }
    lane->delay = SIM_DELAY_NONE;
    lane->delayed_by = SIM_PLAN_NONE;
    return lane->ready;
}

/* When KERNEL ends that begins at BEGIN, through all changes of state on the way. */
static SimTime end_of_kernel(const Replay *replay, Lane *lane, const SimRunKernel *kernel,
                             SimTime begin)
{
    const SimRunTable *runs = replay->simulation->runs;
    const SimRank *rank = replay->rank;
    const GArray *changes = rank->log->changes;
    while (lane->change < changes->len &&
           g_array_index(changes, SimStateChange, lane->change).time <= begin) {
        lane->change++;
    }
    uint32_t state =
        lane->change > 0 ? g_array_index(changes, SimStateChange, lane->change - 1).state : 0;
    SimTime left = state == 0 ? kernel->duration : sim_run_table_duration(runs, kernel, state);
    if (replay->is_paced) {
        left = sim_pace_apply(&replay->simulation->pace, rank->slowness, rank->number,
                              kernel->position, left);
    }
    for (guint i = lane->change; i < changes->len; i++) {
        const SimStateChange *change = &g_array_index(changes, SimStateChange, i);
        if (change->time >= begin + left) {
            break;
        }
        left = sim_run_table_rescale(runs, kernel, state, change->state,
                                     left - (change->time - begin));
        begin = change->time;
        state = change->state;
    }
    return begin + left;
}

static void play_work(Replay *replay, uint32_t row, uint32_t stream, const SimRunKernel *kernel)
{
    Lane *lane = &replay->lanes[stream];
    if (lane->is_stuck) {
        return;
    }
    SimSpan span = {0};
    span.arrival = span.start = begin_item(replay, lane, &span);
    span.end = lane->ready = end_of_kernel(replay, lane, kernel, span.start);
    add_span(replay, row, stream, span);
    add_launch(replay, row);
}

/* What STREAM waits for, DELAY and BY, happened at TIME. */
static void play_wait(Replay *replay, uint32_t stream, SimTime time, SimDelay delay, uint32_t by)
{
    Lane *lane = &replay->lanes[stream];
    if (time == SIM_TIME_NEVER) {
        lane->is_stuck = true;
    } else if (time > lane->ready) {
        lane->ready = time;
        lane->delay = (uint8_t)delay;
        lane->delayed_by = by;
    }
}

uint32_t sim_simulation_late_rank(const SimSimulation *simulation, uint32_t rank, uint32_t group,
                                  uint32_t entity)
{
    const SimPlan *plan = simulation->plan;
    uint32_t list, place, members, n_ranges;
    sim_plan_group_of_rank(plan, group, rank, &list, &place, &members);
    const SimRange *ranges = sim_plan_group_ranges(plan, group, list, &n_ranges);
    for (uint32_t i = 0; i < n_ranges; i++) {
        for (uint32_t late = ranges[i].first; late <= ranges[i].last; late++) {
            if (simulation->partition->entity_of_rank[late] == entity) {
                return late;
            }
        }
    }
    return SIM_PLAN_NONE;
}

static void play_collective(Replay *replay, uint32_t row, const SimInstruction *instruction,
                            uint32_t position)
{
    const SimSimulation *simulation = replay->simulation;
    const SimPartition *partition = simulation->partition;
    uint32_t group = instruction->group;
    uint32_t communicator =
        partition->communicator_of[replay->rank->entity * partition->groups + group];
    uint32_t number = replay->collective[group]++;
    const SimCollective *collective =
        sim_communicators_get(simulation->communicators, communicator, number);
    SimTime before = number == 0 ? 0 : collective[-1].end;
    Lane *lane = &replay->lanes[instruction->stream];
    lane->is_stuck |= collective->end == SIM_TIME_NEVER;
    if (lane->is_stuck) {
        return;
    }
    SimSpan span = {
        .start = collective->start, .end = collective->end, .wire_bytes = collective->wire_bytes};
    begin_item(replay, lane, &span);
    span.arrival = MAX(replay->rank->log->arrivals[position], before);
    if (span.arrival < span.start) {
        span.delay = SIM_DELAY_RANK;
        span.delayed_by =
            sim_simulation_late_rank(simulation, replay->number, group, collective->last_entity);
    }
    lane->ready = span.end;
    add_span(replay, row, instruction->stream, span);
    add_launch(replay, row);
}

/* False if the host waits for ever. */
static bool play_host_wait(Replay *replay, uint32_t row, const SimInstruction *instruction)
{
    SimTime from = replay->host + replay->delay;
    SimTime time = sim_event_times_find(&replay->rank->events, instruction->event);
    SimSpan span = {.arrival = from,
                    .start = from,
                    .end = MAX(from, time),
                    .delay = SIM_DELAY_EVENT,
                    .delayed_by = instruction->event};
    if (time == SIM_TIME_NEVER) {
        return false;
    }
    add_span(replay, row, SIM_PLAN_NONE, span);
    return true;
}

/* The time of "all that STREAM has been given so far": what the replay itself has come to. */
static SimTime time_of_stream(const Replay *replay, uint32_t stream)
{
    if (replay->lanes[stream].is_stuck) {
        return SIM_TIME_NEVER;
    }
    return MAX(replay->lanes[stream].ready, replay->host + replay->delay);
}

/* Plays one row; false at the place where the run ended on this rank. */
static bool play_row(Replay *replay, uint32_t position)
{
    uint32_t row = sim_rank_program_row(replay->rank->program, position);
    const SimInstruction *instruction = sim_plan_instruction(replay->simulation->plan, row);
    replay->host += sim_host_cost_compute(replay->simulation->cluster->gpu, instruction);
    switch ((SimPlanOp)instruction->op) {
    case SIM_PLAN_KERNEL:
    case SIM_PLAN_COPY:
        play_work(replay, row, instruction->stream,
                  &g_array_index(replay->rank->program->kernels, SimRunKernel, position));
        return true;
    case SIM_PLAN_COLLECTIVE:
        play_collective(replay, row, instruction, position);
        return true;
    case SIM_PLAN_WAIT:
        if (instruction->is_event_of_stream) {
            play_wait(replay, instruction->stream, time_of_stream(replay, instruction->event),
                      SIM_DELAY_STREAM, instruction->event);
        } else {
            play_wait(replay, instruction->stream,
                      sim_event_times_find(&replay->rank->events, instruction->event),
                      SIM_DELAY_EVENT, instruction->event);
        }
        return true;
    case SIM_PLAN_HOST_WAIT:
        return play_host_wait(replay, row, instruction);
    default:
        return true;
    }
}

/* The host's delay for the row at POSITION. */
static void follow_shifts(Replay *replay, uint32_t position)
{
    const GArray *shifts = replay->rank->shifts;
    while (shifts != NULL && replay->shift < shifts->len) {
        const SimShift *shift = &g_array_index(shifts, SimShift, replay->shift);
        if (shift->position >= position) {
            return;
        }
        replay->delay = shift->delay;
        replay->shift++;
    }
}

static void add_memory_time(Replay *replay, guint *next, uint32_t position)
{
    const GArray *events = replay->track->memory_events;
    uint32_t row = sim_rank_program_row(replay->rank->program, position);
    SimTime time = replay->host + replay->delay;
    while (*next < events->len && g_array_index(events, SimMemoryEvent, *next).instruction == row) {
        g_array_append_val(replay->track->memory_times, time);
        (*next)++;
    }
}

/* RANK once more, with its host's delays and the ends of collectives as the run found them: what
 * the run did not keep comes out the same. */
static void play_again(const SimSimulation *simulation, const SimRank *rank, SimRank *again,
                       SimRankLog *log)
{
    SimTime time;
    SimRankWorld world = simulation->world;
    sim_rank_init(again, rank->program, rank->entity, rank->number, rank->slowness);
    again->stop = rank->stop;
    again->is_out_of_memory = rank->is_out_of_memory;
    again->shifts = rank->shifts != NULL ? g_array_ref(rank->shifts) : NULL;
    log->changes = g_array_new(FALSE, FALSE, sizeof(SimStateChange));
    log->arrivals = g_new0(SimTime, rank->program->length);
    again->log = log;
    sim_rank_streams_play(again, &world, SIM_TIME_NEVER, &time);
}

static void play_rows(Replay *replay)
{
    guint next = 0;
    bool is_running = true;
    const SimRankProgram *program = replay->rank->program;
    for (uint32_t position = 0; position < program->rows->len; position++) {
        follow_shifts(replay, position);
        is_running = is_running && position < program->length && play_row(replay, position);
        add_memory_time(replay, &next, position);
    }
}

SimTrack *sim_simulation_record(const SimSimulation *simulation, uint32_t number,
                                SimRecorder *recorder)
{
    uint32_t entity = simulation->partition->entity_of_rank[number];
    const SimClassResult *class_ =
        &g_array_index(simulation->result.classes, SimClassResult, entity);
    SimRank rank;
    SimRankLog log;
    play_again(simulation, &simulation->ranks[entity], &rank, &log);
    g_autofree Lane *lanes = g_new0(Lane, rank.program->streams);
    g_autofree uint32_t *collective = g_new0(uint32_t, rank.program->groups);
    Replay replay = {.simulation = simulation,
                     .rank = &rank,
                     .number = number,
                     .lanes = lanes,
                     .collective = collective,
                     .track = sim_recorder_add(recorder, number),
                     .is_paced = simulation->pace.has_jitter || rank.slowness != SIM_PACE_ONE};
    g_array_set_size(replay.track->spans, rank.program->length);
    g_array_set_size(replay.track->spans, 0);

    replay.track->memory_events = class_->memory->events;
    play_rows(&replay);
    sim_rank_done(&rank);
    g_free(log.arrivals);
    g_array_unref(log.changes);
    return replay.track;
}
