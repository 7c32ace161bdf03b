/* SPDX-License-Identifier: Apache-2.0 */
#include "rank/rank.h"

#include <string.h>

#include "engine/clock.h"
#include "rank/rank_streams.h"

#define KEPT UINT32_MAX

void sim_rank_init(SimRank *rank, const SimRankProgram *program, uint32_t entity, uint32_t number,
                   uint64_t slowness)
{
    *rank = (SimRank){.program = program,
                      .entity = entity,
                      .number = number,
                      .slowness = slowness,
                      .wake = SIM_TIME_NEVER};
    rank->streams = g_new0(SimRankStream, program->streams);
    for (uint32_t stream = 0; stream < program->streams; stream++) {
        rank->streams[stream].end = -1;
    }
    rank->phase_ends = g_new(SimTime, program->phases->len);
    for (guint phase = 0; phase < program->phases->len; phase++) {
        rank->phase_ends[phase] = SIM_TIME_NEVER;
    }
}

void sim_rank_done(SimRank *rank)
{
    sim_memory_run_free(rank->memory);
    g_clear_pointer(&rank->shifts, g_array_unref);
    g_clear_pointer(&rank->late, g_array_unref);
    sim_event_times_done(&rank->events);
    g_free(rank->phase_ends);
    g_free(rank->streams);
}

/* --- events ------------------------------------------------------------------------------------
 */

SimTime sim_rank_find_event(const SimRank *rank, const SimRankWorld *world, uint32_t event)
{
    for (guint i = world->is_trial ? world->trial->len : 0; i-- > 0;) {
        const SimTrialEvent *tried = &g_array_index(world->trial, SimTrialEvent, i);
        if (tried->event == event) {
            return tried->time;
        }
    }
    return sim_event_times_find(&rank->events, event);
}

void sim_rank_set_event(SimRank *rank, SimRankWorld *world, uint32_t event, SimTime time)
{
    if (world->is_trial) {
        SimTrialEvent tried = {event, time};
        g_array_append_val(world->trial, tried);
        return;
    }
    uint32_t waits =
        rank->log != NULL ? KEPT : g_array_index(rank->program->waits, uint32_t, event);
    sim_event_times_set(&rank->events, event, waits, time);
}

void sim_rank_release_event(SimRank *rank, const SimRankWorld *world, uint32_t event)
{
    if (!world->is_trial) {
        sim_event_times_release(&rank->events, event);
    }
}

/* --- host --------------------------------------------------------------------------------------
 */

static SimTime last_delay(const SimRank *rank)
{
    if (rank->shifts == NULL || rank->shifts->len == 0) {
        return 0;
    }
    return g_array_index(rank->shifts, SimShift, rank->shifts->len - 1).delay;
}

/* The host waits at STOP until TIME. */
static void delay_host(SimRank *rank, const SimStop *stop, SimTime time)
{
    SimShift shift = {stop->position, time - stop->offset};
    if (shift.delay <= last_delay(rank)) {
        return;
    }
    if (rank->shifts == NULL) {
        rank->shifts = g_array_new(FALSE, FALSE, sizeof(SimShift));
    }
    g_array_append_val(rank->shifts, shift);
}

static const SimStop *next_stop(const SimRank *rank)
{
    return rank->stop < rank->program->stops->len
               ? &g_array_index(rank->program->stops, SimStop, rank->stop)
               : NULL;
}

/* An allocation asks whether the blocks lent to other streams are back. That is known once each of
 * their events is, or once it is too late for one that is not to have happened by then, if the
 * streams have been played up to now. */
static bool is_memory_known(SimRank *rank, SimRankWorld *world, const SimStop *stop)
{
    const GArray *lent = rank->program->lent_frees;
    for (; rank->known_frees < lent->len; rank->known_frees++) {
        const SimLentFree *lent_free = &g_array_index(lent, SimLentFree, rank->known_frees);
        if (lent_free->position >= stop->position) {
            return true;
        }
        if (sim_event_times_find(&rank->events, lent_free->event) == SIM_TIME_NEVER) {
            bool is_too_late =
                world->has_caught_up && world->now >= stop->offset + last_delay(rank);
            world->has_caught_up = false;
            return is_too_late;
        }
    }
    return true;
}

static bool pass_memory(SimRank *rank, SimRankWorld *world, const SimStop *stop)
{
    uint32_t row = sim_rank_program_row(rank->program, stop->position);
    bool is_alloc = sim_plan_instruction(world->plan, row)->op == SIM_PLAN_ALLOC;
    if (world->is_trial || (is_alloc && !is_memory_known(rank, world, stop))) {
        world->stop_time = stop->offset + last_delay(rank);
        return false;
    }
    rank->is_out_of_memory = !sim_memory_run_step(rank->memory, stop->position);
    return true;
}

static bool pass_stop(SimRank *rank, SimRankWorld *world, const SimStop *stop)
{
    if (stop->kind == SIM_STOP_MEMORY) {
        return pass_memory(rank, world, stop);
    }
    SimTime time = sim_rank_find_event(rank, world, stop->event);
    if (time == SIM_TIME_NEVER) {
        return false;
    }
    sim_rank_release_event(rank, world, stop->event);
    delay_host(rank, stop, time);
    return true;
}

bool sim_rank_advance_host(SimRank *rank, SimRankWorld *world)
{
    bool has_moved = false;
    if (rank->log != NULL) {
        return false;
    }
    world->stop_time = SIM_TIME_NEVER;
    for (const SimStop *stop = next_stop(rank); stop != NULL && !rank->is_out_of_memory;
         stop = next_stop(rank)) {
        if (!pass_stop(rank, world, stop)) {
            break;
        }
        rank->stop++;
        has_moved = true;
    }
    return has_moved;
}

/* Rows up to here are issued. */
uint32_t sim_rank_last_issued(const SimRank *rank)
{
    const SimStop *stop = next_stop(rank);
    if (rank->is_out_of_memory) {
        return g_array_index(rank->program->stops, SimStop, rank->stop - 1).position;
    }
    return stop != NULL ? stop->position : UINT32_MAX;
}

/* --- memory that depends on time ---------------------------------------------------------------
 */

static const SimStop *memory_stop(const SimRank *rank)
{
    return &g_array_index(rank->program->stops, SimStop, rank->stop);
}

static uint64_t record_event(uint32_t stream, void *user_data)
{
    const SimRank *rank = user_data;
    const GArray *lent = rank->program->lent_frees;
    uint32_t position = memory_stop(rank)->position;
    for (guint i = rank->known_frees; i < lent->len; i++) {
        const SimLentFree *lent_free = &g_array_index(lent, SimLentFree, i);
        if (lent_free->position == position && lent_free->stream == stream) {
            return lent_free->event;
        }
    }
    g_assert_not_reached();
}

static bool is_complete(uint64_t event, void *user_data)
{
    const SimRank *rank = user_data;
    return sim_event_times_find(&rank->events, (uint32_t)event) <=
           memory_stop(rank)->offset + last_delay(rank);
}

/* Limitation: of an event whose time is not known yet (the allocator gave all memory back while a
 * collective was on its way) the wait is left out. */
static void synchronize(uint64_t event, void *user_data)
{
    SimRank *rank = user_data;
    SimTime time = sim_event_times_find(&rank->events, (uint32_t)event);
    if (time != SIM_TIME_NEVER) {
        delay_host(rank, memory_stop(rank), time);
    }
}

void sim_rank_start_memory(SimRank *rank, const SimPlan *plan, const SimMemoryOptions *options)
{
    SimAllocatorDevice device = {record_event, is_complete, synchronize, NULL, rank};
    rank->memory = sim_memory_run_new(plan, rank->program, options, &device);
}

/* --- playing -----------------------------------------------------------------------------------
 */

/* When the rank next arrives at a collective, or its host at a place where it needs the streams, if
 * none of its collectives ends before: plays on trial. */
static SimTime try_ahead(SimRank *rank, SimRankWorld *world)
{
    size_t bytes = rank->program->streams * sizeof *rank->streams;
    uint32_t stop = rank->stop;
    guint shifts = rank->shifts != NULL ? rank->shifts->len : 0;
    SimTime time;

    memcpy(world->saved, rank->streams, bytes);
    world->is_trial = true;
    SimRankPause pause = sim_rank_streams_play(rank, world, SIM_TIME_NEVER, &time);
    g_assert(pause != SIM_RANK_LIMIT);
    world->is_trial = false;
    g_array_set_size(world->trial, 0);
    memcpy(rank->streams, world->saved, bytes);
    rank->stop = stop;
    if (rank->shifts != NULL) {
        g_array_set_size(rank->shifts, shifts);
    }
    return MIN(pause == SIM_RANK_ARRIVAL ? time : SIM_TIME_NEVER, world->stop_time);
}

static void ask_wake(SimRank *rank, const SimRankWorld *world, SimTime time)
{
    if (time == rank->wake) {
        return;
    }
    rank->wake = time;
    rank->wakes++;
    if (time != SIM_TIME_NEVER) {
        world->wake(rank->entity, time, rank->wakes, world->user_data);
    }
}

void sim_rank_advance(SimRank *rank, SimRankWorld *world)
{
    SimTime time;
    SimRankPause pause = sim_rank_streams_play(rank, world, world->now, &time);
    time = world->stop_time;
    if (pause == SIM_RANK_LIMIT) {
        time = MIN(time, try_ahead(rank, world));
    }
    ask_wake(rank, world, time);
}
