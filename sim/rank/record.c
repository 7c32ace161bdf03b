/* SPDX-License-Identifier: Apache-2.0
 *
 * The rows of one rank once more, in host order, with the times of collectives and events as the
 * run found them: the single kernels that compiling had put together.
 */
#include "rank/simulation.h"

#include "engine/clock.h"
#include "rank/world.h"

/* A stream while it is being played again. */
typedef struct Lane {
    SimTime ready;
    uint8_t delay; /* SimDelay: what set `ready`, until an item uses it */
    uint32_t delayed_by;
    bool is_stuck; /* the run ended before what it waits for */
} Lane;

typedef struct Replay {
    const SimSimulation *simulation;
    const SimRank *rank;
    uint32_t number;      /* of the rank itself: its entity may stand for others */
    Lane *lanes;          /* [streams] */
    uint32_t *collective; /* [groups] how many it has joined */
    SimTrack *track;
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

static void play_work(Replay *replay, uint32_t row, uint32_t stream, SimTime duration)
{
    Lane *lane = &replay->lanes[stream];
    if (lane->is_stuck) {
        return;
    }
    SimSpan span = {0};
    span.arrival = span.start = begin_item(replay, lane, &span);
    span.end = lane->ready = span.start + duration;
    add_span(replay, row, stream, span);
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

/* The lowest rank of this rank's own communicator among those that CLASS stands for. */
static uint32_t find_late_rank(const Replay *replay, uint32_t group, uint32_t entity)
{
    const SimPlan *plan = replay->simulation->plan;
    uint32_t list, place, members, n_ranges;
    sim_plan_group_of_rank(plan, group, replay->number, &list, &place, &members);
    const SimRange *ranges = sim_plan_group_ranges(plan, group, list, &n_ranges);
    for (uint32_t i = 0; i < n_ranges; i++) {
        for (uint32_t rank = ranges[i].first; rank <= ranges[i].last; rank++) {
            if (replay->simulation->partition->entity_of_rank[rank] == entity) {
                return rank;
            }
        }
    }
    return SIM_PLAN_NONE;
}

static void play_collective(Replay *replay, uint32_t row, const SimInstruction *instruction)
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
    span.arrival = MAX(begin_item(replay, lane, &span), before);
    if (span.arrival < span.start) {
        span.delay = SIM_DELAY_RANK;
        span.delayed_by = find_late_rank(replay, group, collective->last_entity);
    }
    lane->ready = span.end;
    add_span(replay, row, instruction->stream, span);
}

/* False if the host waits for ever. */
static bool play_host_wait(Replay *replay, uint32_t row, const SimInstruction *instruction)
{
    SimTime from = replay->host + replay->delay;
    SimTime time = replay->rank->events[instruction->event];
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
    replay->host += sim_rank_program_host_time(replay->simulation->cluster->gpu, instruction);
    switch ((SimPlanOp)instruction->op) {
    case SIM_PLAN_KERNEL:
    case SIM_PLAN_COPY:
        play_work(replay, row, instruction->stream,
                  g_array_index(replay->rank->program->durations, SimTime, position));
        return true;
    case SIM_PLAN_COLLECTIVE:
        play_collective(replay, row, instruction);
        return true;
    case SIM_PLAN_WAIT:
        if (instruction->is_event_of_stream) {
            play_wait(replay, instruction->stream, time_of_stream(replay, instruction->event),
                      SIM_DELAY_STREAM, instruction->event);
        } else {
            play_wait(replay, instruction->stream, replay->rank->events[instruction->event],
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

SimTrack *sim_simulation_record(const SimSimulation *simulation, uint32_t number,
                                SimRecorder *recorder)
{
    uint32_t entity = simulation->partition->entity_of_rank[number];
    const SimRank *rank = &simulation->ranks[entity];
    const SimClassResult *class_ =
        &g_array_index(simulation->result.classes, SimClassResult, entity);
    g_autofree Lane *lanes = g_new0(Lane, rank->program->streams);
    g_autofree uint32_t *collective = g_new0(uint32_t, rank->program->groups);
    Replay replay = {.simulation = simulation,
                     .rank = rank,
                     .number = number,
                     .lanes = lanes,
                     .collective = collective,
                     .track = sim_recorder_add(recorder, number)};
    guint next = 0;
    bool is_running = true;

    replay.track->memory_events = class_->memory->events;
    for (uint32_t position = 0; position < rank->program->rows->len; position++) {
        follow_shifts(&replay, position);
        is_running = is_running && position < rank->program->length && play_row(&replay, position);
        add_memory_time(&replay, &next, position);
    }
    return replay.track;
}
