/* SPDX-License-Identifier: Apache-2.0 */
#include "rank/deadlock.h"

#include "engine/clock.h"
#include "rank/world.h"

#define HOST SIM_PLAN_NONE

/* A stream or the host of an entity. */
typedef struct Place {
    uint32_t entity, stream;
} Place;

void sim_deadlock_free_blocked(void *data)
{
    SimBlocked *blocked = data;
    g_free(blocked->waits_for);
    g_free(blocked);
}

static const SimStop *stop_of(const SimRank *rank)
{
    return rank->stop < rank->program->stops->len
               ? &g_array_index(rank->program->stops, SimStop, rank->stop)
               : NULL;
}

static const SimItem *item_of(const SimRank *rank, uint32_t stream)
{
    const GArray *items = rank->program->items[stream];
    uint32_t cursor = rank->streams[stream].cursor;
    return cursor < items->len ? &g_array_index(items, SimItem, cursor) : NULL;
}

/* The stream of RANK on which EVENT is recorded, or NONE. */
static uint32_t find_record(const SimRankProgram *program, uint32_t event)
{
    for (uint32_t stream = 0; stream < program->streams; stream++) {
        for (guint i = 0; i < program->items[stream]->len; i++) {
            const SimItem *item = &g_array_index(program->items[stream], SimItem, i);
            if ((item->kind == SIM_ITEM_RECORD || item->kind == SIM_ITEM_MARK) &&
                item->number == event) {
                return stream;
            }
        }
    }
    return SIM_PLAN_NONE;
}

/* Where RANK issues collective NUMBER of GROUP: its stream, NONE if nowhere. *HAS_ARRIVED: it is
 * there. */
static uint32_t find_collective(const SimRank *rank, uint32_t group, uint32_t number,
                                bool *has_arrived)
{
    const SimRankProgram *program = rank->program;
    for (uint32_t stream = 0; stream < program->streams; stream++) {
        for (guint i = 0; i < program->items[stream]->len; i++) {
            const SimItem *item = &g_array_index(program->items[stream], SimItem, i);
            if (item->kind == SIM_ITEM_COLLECTIVE && item->group == group &&
                item->number == number) {
                const SimRankStream *at = &rank->streams[stream];
                *has_arrived = at->cursor > i || (at->cursor == i && at->has_arrived);
                return stream;
            }
        }
    }
    *has_arrived = false;
    return SIM_PLAN_NONE;
}

static bool find_stuck(const SimSimulation *simulation, Place *place)
{
    for (uint32_t i = 0; i < simulation->partition->entities->len; i++) {
        const SimRank *rank = &simulation->ranks[i];
        for (uint32_t stream = 0; stream < rank->program->streams; stream++) {
            if (item_of(rank, stream) != NULL) {
                *place = (Place){i, stream};
                return true;
            }
        }
        if (stop_of(rank) != NULL) {
            *place = (Place){i, HOST};
            return true;
        }
    }
    return false;
}

static char *print_event(const SimSimulation *simulation, uint32_t event)
{
    if (event >= sim_plan_event_count(simulation->plan)) {
        return g_strdup("all work given to a stream");
    }
    g_autofree char *name =
        sim_plan_print_name(simulation->plan, sim_plan_event_name(simulation->plan, event));
    return g_strdup_printf("event %s", name);
}

/* Follows a wait for EVENT; false if no row records it. */
static bool follow_event(const SimSimulation *simulation, Place *place, uint32_t event,
                         SimBlocked *blocked)
{
    g_autofree char *name = print_event(simulation, event);
    uint32_t stream = find_record(simulation->ranks[place->entity].program, event);
    if (stream == SIM_PLAN_NONE) {
        blocked->waits_for = g_strdup_printf("%s, which is never recorded", name);
        return false;
    }
    blocked->waits_for = g_strdup_printf("%s, recorded on stream %s", name,
                                         sim_plan_stream_name(simulation->plan, stream));
    place->stream = stream;
    return true;
}

/* Follows a collective to the first member that is not there; false if it never comes. */
static bool follow_collective(const SimSimulation *simulation, Place *place, uint32_t group,
                              SimBlocked *blocked)
{
    const SimPartition *partition = simulation->partition;
    uint32_t communicator = partition->communicator_of[place->entity * partition->groups + group];
    uint32_t current = sim_communicators_current(simulation->communicators, communicator);
    const SimCollective *collective =
        sim_communicators_get(simulation->communicators, communicator, current);
    const SimCommunicator *whole = sim_partition_communicator(partition, communicator);
    const SimMember *members = sim_partition_members(partition, whole);
    const char *name = sim_plan_group_name(simulation->plan, group);
    if (collective->is_mismatched) {
        blocked->waits_for = g_strdup_printf(
            "collective %u of group %s, in which ranks bring different operations or sizes",
            current + 1, name);
        return false;
    }
    for (uint32_t i = 0; i < whole->n_members; i++) {
        bool has_arrived;
        const SimRank *member = &simulation->ranks[members[i].entity];
        uint32_t stream = find_collective(member, group, current, &has_arrived);
        if (!has_arrived) {
            blocked->waits_for = g_strdup_printf(
                "rank %u in collective %u of group %s%s",
                sim_partition_entity(partition, members[i].entity)->rank, current + 1, name,
                stream == SIM_PLAN_NONE ? ", which it never issues" : "");
            *place = (Place){members[i].entity, stream};
            return stream != SIM_PLAN_NONE;
        }
    }
    g_assert_not_reached();
}

/* Notes why PLACE is stuck and moves on to what it waits for; false at the end of the chain. */
static bool follow(const SimSimulation *simulation, Place *place, SimBlocked *blocked)
{
    const SimRank *rank = &simulation->ranks[place->entity];
    const SimStop *stop = stop_of(rank);
    const SimItem *item = place->stream == HOST ? NULL : item_of(rank, place->stream);
    blocked->rank = sim_partition_entity(simulation->partition, place->entity)->rank;
    blocked->stream = place->stream;
    if (item == NULL) {
        g_assert(stop != NULL);
        blocked->instruction = sim_rank_program_row(rank->program, stop->position);
        return follow_event(simulation, place, stop->event, blocked);
    }
    blocked->instruction = sim_rank_program_row(rank->program, item->position);
    if (stop != NULL && item->position > stop->position) {
        blocked->waits_for = g_strdup("the host, which has not issued it");
        place->stream = HOST;
        return true;
    }
    if (item->kind == SIM_ITEM_WAIT) {
        return follow_event(simulation, place, item->number, blocked);
    }
    return follow_collective(simulation, place, item->group, blocked);
}

/* Everything before the cycle begins is of no interest. */
static void drop_lead_in(GPtrArray *blocked, uint32_t rank, uint32_t stream)
{
    for (guint i = 0; i < blocked->len; i++) {
        const SimBlocked *first = g_ptr_array_index(blocked, i);
        if (first->rank == rank && first->stream == stream) {
            g_ptr_array_remove_range(blocked, 0, i);
            return;
        }
    }
}

void sim_deadlock_find(const SimSimulation *simulation, GPtrArray *blocked)
{
    Place place;
    if (!find_stuck(simulation, &place)) {
        return;
    }
    uint32_t entities = simulation->partition->entities->len;
    uint32_t places = sim_plan_stream_count(simulation->plan) + 1;
    g_autofree bool *is_seen = g_new0(bool, (size_t)entities *places);
    bool goes_on = true;
    while (goes_on) {
        size_t key =
            (size_t)place.entity * places + (place.stream == HOST ? places - 1 : place.stream);
        if (is_seen[key]) {
            drop_lead_in(blocked, sim_partition_entity(simulation->partition, place.entity)->rank,
                         place.stream);
            return;
        }
        is_seen[key] = true;
        SimBlocked *link = g_new0(SimBlocked, 1);
        g_ptr_array_add(blocked, link);
        goes_on = follow(simulation, &place, link);
    }
}
