/* SPDX-License-Identifier: Apache-2.0 */
#include "rank/rank.h"

#include "engine/clock.h"

void sim_rank_init(SimRank *rank, const SimRankProgram *program, uint32_t entity)
{
    *rank = (SimRank){.program = program, .entity = entity};
    rank->streams = g_new0(SimRankStream, program->streams);
    rank->events = g_new(SimTime, program->events);
    for (uint32_t event = 0; event < program->events; event++) {
        rank->events[event] = SIM_TIME_NEVER;
    }
}

void sim_rank_done(SimRank *rank)
{
    sim_memory_run_free(rank->memory);
    g_clear_pointer(&rank->shifts, g_array_unref);
    g_free(rank->events);
    g_free(rank->streams);
}

/* --- host --------------------------------------------------------------------------------------
 */

static SimTime last_delay(const SimRank *rank)
{
    if (rank->shifts == NULL) {
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
 * their events is, or once it is too late for one that is not to have happened by then. */
static bool is_memory_known(SimRank *rank, const SimRankWorld *world, const SimStop *stop)
{
    const GArray *lent = rank->program->lent_frees;
    for (; rank->known_frees < lent->len; rank->known_frees++) {
        const SimLentFree *lent_free = &g_array_index(lent, SimLentFree, rank->known_frees);
        if (lent_free->position >= stop->position) {
            return true;
        }
        if (rank->events[lent_free->event] == SIM_TIME_NEVER) {
            return world->now >= stop->offset + last_delay(rank);
        }
    }
    return true;
}

static bool pass_memory(SimRank *rank, const SimRankWorld *world, const SimStop *stop)
{
    uint32_t row = sim_rank_program_row(rank->program, stop->position);
    bool is_alloc = sim_plan_instruction(world->plan, row)->op == SIM_PLAN_ALLOC;
    if (is_alloc && !is_memory_known(rank, world, stop)) {
        if (rank->woken_stop != rank->stop + 1) {
            rank->woken_stop = rank->stop + 1;
            world->wake(rank->entity, stop->offset + last_delay(rank), world->user_data);
        }
        return false;
    }
    rank->is_out_of_memory = !sim_memory_run_step(rank->memory, stop->position);
    return true;
}

static bool pass_stop(SimRank *rank, const SimRankWorld *world, const SimStop *stop)
{
    if (stop->kind == SIM_STOP_MEMORY) {
        return pass_memory(rank, world, stop);
    }
    if (rank->events[stop->event] == SIM_TIME_NEVER) {
        return false;
    }
    delay_host(rank, stop, rank->events[stop->event]);
    return true;
}

static bool advance_host(SimRank *rank, const SimRankWorld *world)
{
    bool has_moved = false;
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
static uint32_t last_issued(const SimRank *rank)
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
    return rank->events[event] <= memory_stop(rank)->offset + last_delay(rank);
}

/* Limitation: of an event whose time is not known yet (the allocator gave all memory back while a
 * collective was on its way) the wait is left out. */
static void synchronize(uint64_t event, void *user_data)
{
    SimRank *rank = user_data;
    if (rank->events[event] != SIM_TIME_NEVER) {
        delay_host(rank, memory_stop(rank), rank->events[event]);
    }
}

void sim_rank_start_memory(SimRank *rank, const SimPlan *plan, const SimMemoryOptions *options)
{
    SimAllocatorDevice device = {record_event, is_complete, synchronize, NULL, rank};
    rank->memory = sim_memory_run_new(plan, rank->program, options, &device);
}

/* --- streams -----------------------------------------------------------------------------------
 */

/* The host's delay for ITEM; a stream's items come in host order, so its place among the shifts
 * only moves on. */
static SimTime find_delay(const SimRank *rank, SimRankStream *stream, const SimItem *item)
{
    if (rank->shifts == NULL) {
        return 0;
    }
    while (stream->shift < rank->shifts->len &&
           g_array_index(rank->shifts, SimShift, stream->shift).position < item->position) {
        stream->shift++;
    }
    return stream->shift > 0 ? g_array_index(rank->shifts, SimShift, stream->shift - 1).delay : 0;
}

static bool join_collective(SimRank *rank, const SimRankWorld *world, SimRankStream *stream,
                            const SimItem *item, SimTime delay)
{
    const SimPartition *partition = world->partition;
    uint32_t communicator =
        partition->communicator_of[rank->entity * partition->groups + item->group];
    if (!stream->has_arrived) {
        SimTime time = MAX(stream->ready, item->offset + delay);
        uint32_t row = sim_rank_program_row(rank->program, item->position);
        SimMember self = {rank->entity, 1};
        const SimCommunicator *whole = sim_partition_communicator(partition, communicator);
        const SimMember *members = sim_partition_members(partition, whole);
        for (uint32_t i = 0; i < whole->n_members && whole->n_members < whole->ranks; i++) {
            if (members[i].entity == rank->entity) {
                self = members[i];
            }
        }
        stream->has_arrived = true;
        if (sim_communicators_arrive(world->communicators, communicator, item->number, self, row,
                                     time)) {
            world->start(communicator, world->user_data);
        }
    }
    SimTime end = sim_communicators_get(world->communicators, communicator, item->number)->end;
    if (end == SIM_TIME_NEVER) {
        return false;
    }
    stream->has_arrived = false;
    stream->ready = end;
    return true;
}

/* Plays one item; false if it has to wait. */
static bool play_item(SimRank *rank, const SimRankWorld *world, SimRankStream *stream,
                      const SimItem *item)
{
    SimTime delay = find_delay(rank, stream, item);
    switch ((SimItemKind)item->kind) {
    case SIM_ITEM_RUN:
        stream->ready = MAX(stream->ready + item->duration, item->tail + delay);
        return true;
    case SIM_ITEM_WAIT:
        if (rank->events[item->number] == SIM_TIME_NEVER) {
            return false;
        }
        stream->ready = MAX(stream->ready, rank->events[item->number]);
        return true;
    case SIM_ITEM_RECORD:
        rank->events[item->number] = MAX(stream->ready, item->offset + delay);
        return true;
    case SIM_ITEM_MARK:
        rank->events[item->number] = stream->ready;
        return true;
    case SIM_ITEM_COLLECTIVE:
        return join_collective(rank, world, stream, item, delay);
    }
    g_assert_not_reached();
}

static bool advance_stream(SimRank *rank, const SimRankWorld *world, uint32_t index)
{
    SimRankStream *stream = &rank->streams[index];
    const GArray *items = rank->program->items[index];
    uint32_t begin = stream->cursor;
    uint32_t issued = last_issued(rank);
    while (stream->cursor < items->len) {
        const SimItem *item = &g_array_index(items, SimItem, stream->cursor);
        if (item->position > issued || !play_item(rank, world, stream, item)) {
            break;
        }
        stream->cursor++;
    }
    return stream->cursor != begin;
}

void sim_rank_advance(SimRank *rank, const SimRankWorld *world)
{
    bool has_moved = true;
    while (has_moved) {
        has_moved = advance_host(rank, world);
        for (uint32_t stream = 0; stream < rank->program->streams; stream++) {
            has_moved |= advance_stream(rank, world, stream);
        }
    }
}
