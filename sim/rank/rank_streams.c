/* SPDX-License-Identifier: Apache-2.0 */
#include "rank/rank_streams.h"

#include "engine/clock.h"
#include "rank/result.h"

/* What happens next on a stream; in this order at one moment. */
typedef enum StepKind { STEP_RUN, STEP_END, STEP_ARRIVAL, STEP_NONE } StepKind;

typedef struct Step {
    StepKind kind;
    SimTime time;
    uint32_t stream;
} Step;

/* --- items -------------------------------------------------------------------------------------
 */

/* The item under the cursor, NULL at the end or if it is not issued yet. */
static const SimItem *current_item(const SimRank *rank, const SimRankStream *stream, uint32_t index,
                                   uint32_t issued)
{
    const GArray *items = rank->program->items[index];
    if (stream->cursor >= items->len) {
        return NULL;
    }
    const SimItem *item = &g_array_index(items, SimItem, stream->cursor);
    return item->position <= issued ? item : NULL;
}

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

static void next_item(SimRankStream *stream)
{
    stream->cursor++;
    stream->kernel = 0;
    stream->is_busy = false;
    stream->end = -1;
}

/* --- runs --------------------------------------------------------------------------------------
 */

static SimTime kernel_time(const SimRank *rank, const SimRankWorld *world,
                           const SimRunKernel *kernel)
{
    SimTime duration = sim_run_table_duration(world->runs, kernel, rank->state);
    return sim_pace_apply(world->pace, rank->slowness, rank->number, kernel->position, duration);
}

static bool is_paced(const SimRank *rank, const SimRankWorld *world)
{
    return world->pace->has_jitter || rank->slowness != SIM_PACE_ONE;
}

/* The end of the run from kernel AT on, begun at TIME, kernel by kernel. */
static SimTime walk_run(const SimRank *rank, const SimRankWorld *world, uint32_t run, uint32_t at,
                        SimTime time, SimTime delay)
{
    uint32_t count;
    const SimRunKernel *kernels = sim_run_table_kernels(world->runs, run, &count);
    for (; at < count; at++) {
        time = MAX(time, kernels[at].issued + delay) + kernel_time(rank, world, &kernels[at]);
    }
    return time;
}

static SimTime find_run_end(const SimRank *rank, SimRankWorld *world, SimRankStream *stream,
                            const SimItem *item)
{
    if (stream->end >= 0) {
        return stream->end;
    }
    SimTime delay = find_delay(rank, stream, item);
    SimTime time = stream->ready + (stream->is_busy ? stream->left : 0);
    uint32_t at = stream->kernel + stream->is_busy;
    if (is_paced(rank, world)) {
        stream->end = walk_run(rank, world, item->number, at, time, delay);
    } else if (at == 0 && rank->state == 0) {
        stream->end = MAX(time + item->duration, item->tail + delay);
    } else {
        const SimRunTime *rest = &sim_run_table_rest(world->runs, item->number, rank->state)[at];
        stream->end = MAX(time + rest->duration, rest->tail + delay);
    }
    return stream->end;
}

/* Brings the stream's run up to NOW, in the present state: which kernel is on the GPU, and what is
 * left of it. Returns that kernel, or NULL. */
static const SimRunKernel *settle_run(const SimRank *rank, const SimRankWorld *world,
                                      SimRankStream *stream, const SimItem *item, SimTime now)
{
    uint32_t count;
    const SimRunKernel *kernels = sim_run_table_kernels(world->runs, item->number, &count);
    SimTime delay = find_delay(rank, stream, item);
    while (stream->kernel < count) {
        const SimRunKernel *kernel = &kernels[stream->kernel];
        if (!stream->is_busy) {
            SimTime begin = MAX(stream->ready, kernel->issued + delay);
            if (begin >= now) {
                return NULL;
            }
            stream->is_busy = true;
            stream->ready = begin;
            stream->left = kernel_time(rank, world, kernel);
        }
        if (stream->ready + stream->left > now) {
            stream->left -= now - stream->ready;
            stream->ready = now;
            return kernel;
        }
        stream->ready += stream->left;
        stream->is_busy = false;
        stream->kernel++;
    }
    return NULL;
}

/* From NOW on collectives hold LOAD of the rank. Returns how long a collective that arrives now
 * waits for its SMs. */
static SimTime change_state(SimRank *rank, SimRankWorld *world, SimTime now, SimLoad load)
{
    uint32_t issued = sim_rank_last_issued(rank);
    uint32_t state = sim_run_table_find_state(world->runs, load);
    SimTime rest = 0;
    for (uint32_t i = 0; i < rank->program->streams; i++) {
        SimRankStream *stream = &rank->streams[i];
        const SimItem *item = current_item(rank, stream, i, issued);
        if (item == NULL || item->kind != SIM_ITEM_RUN) {
            continue;
        }
        const SimRunKernel *kernel = settle_run(rank, world, stream, item, now);
        stream->end = -1;
        if (kernel == NULL) {
            continue;
        }
        SimTime whole = sim_run_table_duration(world->runs, kernel, rank->state);
        SimTime elapsed = MAX(whole - stream->left, 0);
        rest = MAX(rest, sim_run_table_wave_rest(world->runs, kernel, rank->state, elapsed));
        stream->left = sim_run_table_rescale(world->runs, kernel, rank->state, state, stream->left);
    }
    rank->state = state;
    rank->load = load;
    if (rank->log != NULL) {
        SimStateChange change = {now, state};
        g_array_append_val(rank->log->changes, change);
    }
    return rest;
}

/* --- collectives -------------------------------------------------------------------------------
 */

static SimMember find_member(const SimRank *rank, const SimPartition *partition,
                             uint32_t communicator)
{
    SimMember self = {rank->entity, 1};
    const SimCommunicator *whole = sim_partition_communicator(partition, communicator);
    const SimMember *members = sim_partition_members(partition, whole);
    for (uint32_t i = 0; i < whole->n_members && whole->n_members < whole->ranks; i++) {
        if (members[i].entity == rank->entity) {
            self = members[i];
        }
    }
    return self;
}

static SimCollective *find_collective(const SimRank *rank, const SimRankWorld *world,
                                      const SimItem *item, uint32_t *communicator)
{
    *communicator =
        world->partition->communicator_of[rank->entity * rank->program->groups + item->group];
    return sim_communicators_get(world->communicators, *communicator, item->number);
}

static void arrive(SimRank *rank, SimRankWorld *world, SimRankStream *stream, const SimItem *item,
                   SimTime time)
{
    uint32_t communicator;
    SimCollective *collective = find_collective(rank, world, item, &communicator);
    uint32_t row = sim_rank_program_row(rank->program, item->position);
    if (collective->arrived == 0) {
        collective->load = world->load(communicator, row, world->user_data);
    }
    SimLoad load = {rank->load.sms + collective->load.sms,
                    rank->load.hbm_gbps + collective->load.hbm_gbps};
    SimTime rest = change_state(rank, world, time, load);
    time += collective->load.sms > 0 ? rest : 0;
    stream->has_arrived = true;
    stream->ready = time;
    rank->in_flight++;
    if (rank->log != NULL) {
        rank->log->arrivals[item->position] = time;
        return;
    }
    if (sim_communicators_arrive(world->communicators, communicator, item->number,
                                 find_member(rank, world->partition, communicator), row, time)) {
        world->start(communicator, world->user_data);
    }
}

static void add_lateness(SimRank *rank, uint32_t group, uint32_t entity, SimTime waited)
{
    if (rank->late == NULL) {
        rank->late = g_array_new(FALSE, FALSE, sizeof(SimLateness));
    }
    for (guint i = 0; i < rank->late->len; i++) {
        SimLateness *late = &g_array_index(rank->late, SimLateness, i);
        if (late->group == group && late->entity == entity) {
            late->waited += waited;
            return;
        }
    }
    SimLateness late = {group, entity, waited};
    g_array_append_val(rank->late, late);
}

/* How long the rank has waited for later members, if it counts. */
static void count_waiting(SimRank *rank, const SimRankWorld *world, const SimItem *item,
                          SimCollective *collective, uint32_t communicator, SimTime arrival)
{
    uint32_t row = sim_rank_program_row(rank->program, item->position);
    SimTime before = item->number == 0 ? 0 : collective[-1].end;
    SimTime waited = collective->start - MAX(arrival, before);
    if (rank->log == NULL && waited > 0 &&
        sim_plan_instruction(world->plan, row)->step == world->last_step) {
        rank->waited += waited;
        add_lateness(rank, item->group, collective->last_entity, waited);
        collective->waited += waited * find_member(rank, world->partition, communicator).count;
    }
}

static void leave(SimRank *rank, SimRankWorld *world, SimRankStream *stream, const SimItem *item,
                  SimTime time)
{
    uint32_t communicator;
    SimCollective *collective = find_collective(rank, world, item, &communicator);
    count_waiting(rank, world, item, collective, communicator, stream->ready);
    SimLoad load = {rank->load.sms - collective->load.sms,
                    rank->load.hbm_gbps - collective->load.hbm_gbps};
    change_state(rank, world, time, load);
    rank->in_flight--;
    stream->has_arrived = false;
    stream->ready = time;
    next_item(stream);
}

/* --- playing -----------------------------------------------------------------------------------
 */

/* Plays what takes no time on a stream; true if that may let others go on: an event happened. */
static bool pass_events(SimRank *rank, SimRankWorld *world, uint32_t index, uint32_t issued)
{
    SimRankStream *stream = &rank->streams[index];
    bool has_set = false;
    for (const SimItem *item; (item = current_item(rank, stream, index, issued)) != NULL;
         next_item(stream)) {
        if (item->kind == SIM_ITEM_WAIT) {
            SimTime time = sim_rank_find_event(rank, world, item->number);
            if (time == SIM_TIME_NEVER) {
                break;
            }
            sim_rank_release_event(rank, world, item->number);
            stream->ready = MAX(stream->ready, time);
        } else if (item->kind == SIM_ITEM_RECORD) {
            SimTime time = MAX(stream->ready, item->offset + find_delay(rank, stream, item));
            sim_rank_set_event(rank, world, item->number, time);
            has_set = true;
        } else if (item->kind == SIM_ITEM_MARK) {
            sim_rank_set_event(rank, world, item->number, stream->ready);
            has_set = true;
        } else if (item->kind == SIM_ITEM_PHASE) {
            if (!world->is_trial) {
                rank->phase_ends[item->number] = stream->ready;
            }
        } else {
            break;
        }
    }
    return has_set;
}

static Step find_stream_step(SimRank *rank, SimRankWorld *world, uint32_t index, uint32_t issued)
{
    SimRankStream *stream = &rank->streams[index];
    Step step = {STEP_NONE, SIM_TIME_NEVER, index};
    const SimItem *item = current_item(rank, stream, index, issued);
    if (item == NULL || (item->kind != SIM_ITEM_RUN && item->kind != SIM_ITEM_COLLECTIVE)) {
        return step;
    }
    if (item->kind == SIM_ITEM_RUN) {
        step.kind = STEP_RUN;
        step.time = find_run_end(rank, world, stream, item);
    } else if (!stream->has_arrived) {
        step.kind = STEP_ARRIVAL;
        step.time = MAX(stream->ready, item->offset + find_delay(rank, stream, item));
    } else {
        uint32_t communicator;
        step.time = find_collective(rank, world, item, &communicator)->end;
        step.kind = step.time == SIM_TIME_NEVER ? STEP_NONE : STEP_END;
    }
    return step;
}

static Step find_step(SimRank *rank, SimRankWorld *world, uint32_t issued)
{
    Step first = {STEP_NONE, SIM_TIME_NEVER, 0};
    for (uint32_t i = 0; i < rank->program->streams; i++) {
        Step step = find_stream_step(rank, world, i, issued);
        if (step.time < first.time || (step.time == first.time && step.kind < first.kind)) {
            first = step;
        }
    }
    return first;
}

static void play_step(SimRank *rank, SimRankWorld *world, const Step *step)
{
    SimRankStream *stream = &rank->streams[step->stream];
    const SimItem *item =
        &g_array_index(rank->program->items[step->stream], SimItem, stream->cursor);
    switch (step->kind) {
    case STEP_RUN:
        stream->ready = step->time;
        next_item(stream);
        return;
    case STEP_END:
        leave(rank, world, stream, item, step->time);
        return;
    case STEP_ARRIVAL:
        arrive(rank, world, stream, item, step->time);
        return;
    case STEP_NONE:
        break;
    }
    g_assert_not_reached();
}

static void pass_all_events(SimRank *rank, SimRankWorld *world)
{
    for (bool has_moved = true; has_moved;) {
        has_moved = sim_rank_advance_host(rank, world);
        uint32_t issued = sim_rank_last_issued(rank);
        for (uint32_t stream = 0; stream < rank->program->streams; stream++) {
            has_moved |= pass_events(rank, world, stream, issued);
        }
    }
}

/* Plays what can be played with certainty. Events have been passed. */
static SimRankPause play_on(SimRank *rank, SimRankWorld *world, SimTime limit, SimTime *time)
{
    for (;;) {
        uint32_t issued = sim_rank_last_issued(rank);
        Step step = find_step(rank, world, issued);
        *time = step.time;
        if (step.kind == STEP_NONE) {
            return SIM_RANK_BLOCKED;
        }
        if (step.kind == STEP_ARRIVAL && world->is_trial) {
            return SIM_RANK_ARRIVAL;
        }
        if (rank->in_flight > 0 && step.time > limit) {
            return SIM_RANK_LIMIT;
        }
        play_step(rank, world, &step);
        if (pass_events(rank, world, step.stream, issued)) {
            pass_all_events(rank, world);
        }
    }
}

SimRankPause sim_rank_streams_play(SimRank *rank, SimRankWorld *world, SimTime limit, SimTime *time)
{
    if (!rank->has_begun) {
        rank->has_begun = true;
        pass_all_events(rank, world);
    }
    SimRankPause pause = play_on(rank, world, limit, time);
    while (!world->is_trial) {
        /* All that can have happened by now has: the host may draw conclusions. */
        world->has_caught_up = true;
        bool has_moved = sim_rank_advance_host(rank, world);
        world->has_caught_up = false;
        if (!has_moved) {
            break;
        }
        pass_all_events(rank, world);
        pause = play_on(rank, world, limit, time);
    }
    return pause;
}
