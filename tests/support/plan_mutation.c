/* SPDX-License-Identifier: Apache-2.0 */
#include "plan_mutation.h"

#include <string.h>

const char *plan_mutation_name(PlanMutation mutation)
{
    static const char *const names[PLAN_MUTATION_COUNT] = {
        [PLAN_MUTATION_DROP_WAIT] = "drop a wait",
        [PLAN_MUTATION_DROP_RECORD] = "drop a record",
        [PLAN_MUTATION_DROP_HOST_WAIT] = "drop a host wait",
        [PLAN_MUTATION_DROP_RECORD_STREAM] = "drop a record_stream",
        [PLAN_MUTATION_DROP_FREE] = "drop a free",
        [PLAN_MUTATION_FREE_EARLIER] = "free earlier",
        [PLAN_MUTATION_FREE_LATER] = "free later",
        [PLAN_MUTATION_SECOND_UPDATE] = "second optimizer write",
        [PLAN_MUTATION_SWAP_COLLECTIVES] = "swap collectives",
        [PLAN_MUTATION_DROP_COLLECTIVE] = "drop a collective",
        [PLAN_MUTATION_CHANGE_SIZE] = "change a size",
        [PLAN_MUTATION_CHANGE_DTYPE] = "change a dtype",
    };
    return names[mutation];
}

/* The rows of a copy, to be changed in place. */
static SimInstruction *rows_of(SimPlan *copy)
{
    return (SimInstruction *)sim_plan_instruction(copy, 0);
}

static void erase(SimInstruction *row)
{
    row->op = SIM_PLAN_MARK;
    row->buffer = row->event = row->group = SIM_PLAN_NONE;
    row->n_reads = row->n_writes = 0;
}

static void drop_each(const SimPlan *plan, PlanMutation mutation, SimPlanOp op,
                      PlanMutationFunc func, void *user_data)
{
    for (size_t i = 0; i < sim_plan_length(plan); i++) {
        if (sim_plan_instruction(plan, i)->op != op)
            continue;
        g_autoptr(SimPlan) mutant = sim_plan_copy(plan);
        erase(&rows_of(mutant)[i]);
        func(mutant, mutation, i, user_data);
    }
}

/* The row at FROM comes to stand at TO; those in between move up or down. */
static void move_row(SimInstruction *rows, size_t from, size_t to)
{
    SimInstruction moved = rows[from];
    if (to < from)
        memmove(&rows[to + 1], &rows[to], (from - to) * sizeof *rows);
    else
        memmove(&rows[from], &rows[from + 1], (to - from) * sizeof *rows);
    rows[to] = moved;
}

static void move_frees(const SimPlan *plan, PlanMutation mutation, int32_t step,
                       PlanMutationFunc func, void *user_data)
{
    static const size_t distances[] = {1, 2, 3, 5, 8, 12, 40};
    bool is_earlier = mutation == PLAN_MUTATION_FREE_EARLIER;
    for (size_t i = 0; i < sim_plan_length(plan); i++) {
        const SimInstruction *row = sim_plan_instruction(plan, i);
        if (row->op != SIM_PLAN_FREE || row->step != step)
            continue;
        for (size_t d = 0; d < G_N_ELEMENTS(distances); d++) {
            if (is_earlier ? distances[d] > i : i + distances[d] >= sim_plan_length(plan))
                continue;
            size_t to = is_earlier ? i - distances[d] : i + distances[d];
            g_autoptr(SimPlan) mutant = sim_plan_copy(plan);
            move_row(rows_of(mutant), i, to);
            func(mutant, mutation, to, user_data);
        }
    }
}

/* An update is written over the next one, so one shard is updated twice. */
static void repeat_updates(const SimPlan *plan, PlanMutationFunc func, void *user_data)
{
    for (size_t i = 0; i + 1 < sim_plan_length(plan); i++) {
        const SimInstruction *row = sim_plan_instruction(plan, i);
        const SimInstruction *next = sim_plan_instruction(plan, i + 1);
        if (row->op != SIM_PLAN_KERNEL || next->op != SIM_PLAN_KERNEL ||
            row->phase != SIM_PHASE_OPTIMIZER || row->operator_name != next->operator_name)
            continue;
        g_autoptr(SimPlan) mutant = sim_plan_copy(plan);
        rows_of(mutant)[i + 1] = *row;
        func(mutant, PLAN_MUTATION_SECOND_UPDATE, i + 1, user_data);
    }
}

static void change_collective(SimPlan *mutant, PlanMutation mutation, size_t row, size_t next)
{
    SimInstruction *rows = rows_of(mutant);
    SimInstruction first = rows[row];
    switch (mutation) {
    case PLAN_MUTATION_SWAP_COLLECTIVES:
        rows[row] = rows[next];
        rows[next] = first;
        break;
    case PLAN_MUTATION_DROP_COLLECTIVE:
        erase(&rows[row]);
        break;
    case PLAN_MUTATION_CHANGE_SIZE:
        rows[row].bytes += 1024;
        break;
    default:
        rows[row].dtype = first.dtype == SIM_DTYPE_F32 ? SIM_DTYPE_BF16 : SIM_DTYPE_F32;
        break;
    }
}

static void change_collectives(const SimPlan *plan, PlanMutation mutation, PlanMutationFunc func,
                               void *user_data)
{
    size_t last = SIZE_MAX;
    for (size_t i = sim_plan_length(plan); i > 0; i--) {
        if (sim_plan_instruction(plan, i - 1)->op != SIM_PLAN_COLLECTIVE)
            continue;
        size_t next = last;
        last = i - 1;
        if (mutation == PLAN_MUTATION_SWAP_COLLECTIVES && next == SIZE_MAX)
            continue;
        g_autoptr(SimPlan) mutant = sim_plan_copy(plan);
        change_collective(mutant, mutation, i - 1, next);
        func(mutant, mutation, i - 1, user_data);
    }
}

void plan_mutation_each(const SimPlan *plan, PlanMutation mutation, int32_t step,
                        PlanMutationFunc func, void *user_data)
{
    static const SimPlanOp dropped[] = {
        [PLAN_MUTATION_DROP_WAIT] = SIM_PLAN_WAIT,
        [PLAN_MUTATION_DROP_RECORD] = SIM_PLAN_RECORD,
        [PLAN_MUTATION_DROP_HOST_WAIT] = SIM_PLAN_HOST_WAIT,
        [PLAN_MUTATION_DROP_RECORD_STREAM] = SIM_PLAN_RECORD_STREAM,
        [PLAN_MUTATION_DROP_FREE] = SIM_PLAN_FREE,
    };
    if (mutation <= PLAN_MUTATION_DROP_FREE)
        drop_each(plan, mutation, dropped[mutation], func, user_data);
    else if (mutation <= PLAN_MUTATION_FREE_LATER)
        move_frees(plan, mutation, step, func, user_data);
    else if (mutation == PLAN_MUTATION_SECOND_UPDATE)
        repeat_updates(plan, func, user_data);
    else
        change_collectives(plan, mutation, func, user_data);
}
