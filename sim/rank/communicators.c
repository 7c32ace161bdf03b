/* SPDX-License-Identifier: Apache-2.0 */
#include "rank/communicators.h"

#include "engine/clock.h"

struct SimCommunicators {
    const SimPlan *plan;
    const SimPartition *partition;
    SimCollective *collectives; /* of all communicators, one after the other */
    uint32_t *first;            /* [communicators + 1] in `collectives` */
    uint32_t *current;          /* [communicators] the first that has not ended */
};

static uint32_t count_collectives(const SimPartition *partition, SimRankProgram *const *programs,
                                  const SimCommunicator *communicator)
{
    const SimMember *members = sim_partition_members(partition, communicator);
    uint32_t count = 0;
    for (uint32_t i = 0; i < communicator->n_members; i++) {
        uint32_t program = sim_partition_entity(partition, members[i].entity)->program;
        count = MAX(count, programs[program]->collectives[communicator->group]->len);
    }
    return count;
}

SimCommunicators *sim_communicators_new(const SimPlan *plan, const SimPartition *partition,
                                        SimRankProgram *const *programs)
{
    SimCommunicators *communicators = g_new0(SimCommunicators, 1);
    uint32_t count = partition->communicators->len;
    communicators->plan = plan;
    communicators->partition = partition;
    communicators->first = g_new0(uint32_t, count + 1);
    communicators->current = g_new0(uint32_t, count);
    for (uint32_t i = 0; i < count; i++) {
        communicators->first[i + 1] =
            communicators->first[i] +
            count_collectives(partition, programs, sim_partition_communicator(partition, i));
    }
    communicators->collectives = g_new(SimCollective, communicators->first[count]);
    for (uint32_t i = 0; i < communicators->first[count]; i++) {
        communicators->collectives[i] = (SimCollective){
            .start = SIM_TIME_NEVER, .end = SIM_TIME_NEVER, .instruction = SIM_PLAN_NONE};
    }
    return communicators;
}

void sim_communicators_free(SimCommunicators *communicators)
{
    if (communicators == NULL) {
        return;
    }
    g_free(communicators->collectives);
    g_free(communicators->current);
    g_free(communicators->first);
    g_free(communicators);
}

static uint32_t count_of(const SimCommunicators *communicators, uint32_t communicator)
{
    return communicators->first[communicator + 1] - communicators->first[communicator];
}

uint32_t sim_communicators_count(const SimCommunicators *communicators, uint32_t communicator)
{
    return count_of(communicators, communicator);
}

SimCollective *sim_communicators_get(const SimCommunicators *communicators, uint32_t communicator,
                                     uint32_t number)
{
    g_assert(number < count_of(communicators, communicator));
    return &communicators->collectives[communicators->first[communicator] + number];
}

uint32_t sim_communicators_current(const SimCommunicators *communicators, uint32_t communicator)
{
    return communicators->current[communicator];
}

/* Sets the start of the current collective if all are there. */
static bool start_current(SimCommunicators *communicators, uint32_t communicator,
                          SimTime not_before)
{
    uint32_t current = communicators->current[communicator];
    if (current == sim_communicators_count(communicators, communicator)) {
        return false;
    }
    SimCollective *collective = sim_communicators_get(communicators, communicator, current);
    const SimCommunicator *whole =
        sim_partition_communicator(communicators->partition, communicator);
    if (collective->arrived < whole->ranks || collective->is_mismatched) {
        return false;
    }
    collective->start = MAX(collective->last_arrival, not_before);
    return true;
}

/* Among those that arrive together the first class, and in it the first rank, is the last one: the
 * same folded and unfolded. */
static bool is_before(const SimPartition *partition, uint32_t entity, uint32_t other)
{
    uint32_t class_ = sim_partition_entity(partition, entity)->class_;
    uint32_t other_class = sim_partition_entity(partition, other)->class_;
    return class_ != other_class ? class_ < other_class : entity < other;
}

bool sim_communicators_arrive(SimCommunicators *communicators, uint32_t communicator,
                              uint32_t number, SimMember member, uint32_t instruction, SimTime time)
{
    SimCollective *collective = sim_communicators_get(communicators, communicator, number);
    if (collective->arrived == 0) {
        collective->instruction = instruction;
    } else if (collective->instruction != instruction) {
        const SimInstruction *first =
            sim_plan_instruction(communicators->plan, collective->instruction);
        const SimInstruction *own = sim_plan_instruction(communicators->plan, instruction);
        collective->is_mismatched |=
            first->collective != own->collective || first->bytes != own->bytes;
    }
    if (collective->arrived == 0 || time > collective->last_arrival ||
        (time == collective->last_arrival &&
         is_before(communicators->partition, member.entity, collective->last_entity))) {
        collective->last_arrival = time;
        collective->last_entity = member.entity;
    }
    collective->arrived += member.count;
    if (number != communicators->current[communicator]) {
        return false;
    }
    SimTime before = number == 0 ? 0 : collective[-1].end;
    return start_current(communicators, communicator, before);
}

bool sim_communicators_finish(SimCommunicators *communicators, uint32_t communicator,
                              uint32_t number, SimTime time)
{
    g_assert(number == communicators->current[communicator]);
    sim_communicators_get(communicators, communicator, number)->end = time;
    communicators->current[communicator]++;
    return start_current(communicators, communicator, time);
}
