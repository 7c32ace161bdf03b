/* SPDX-License-Identifier: Apache-2.0
 *
 * Short words for plans written by hand in tests. Rows get the context that the writer sets.
 */
#pragma once

#include "plan/plan.h"

#include <glib.h>
#include <string.h>

#define NOBODY SIM_PLAN_NONE

static inline SimPlan *write_plan(uint32_t ranks, const char *shard)
{
    SimPlan *plan = sim_plan_new(ranks);
    if (shard != NULL) {
        bool is_added = sim_plan_add_group(plan, "shard", shard, NULL);
        g_assert(is_added);
    }
    return plan;
}

static inline void set_phase(SimPlan *plan, int32_t step, SimPhase phase, int32_t microbatch,
                             const char *unit)
{
    SimPlanContext *context = sim_plan_context(plan);
    context->step = step;
    context->phase = phase;
    context->microbatch = microbatch;
    context->unit = sim_strings_intern(sim_plan_strings(plan), unit);
}

static inline uint32_t write_alloc(SimPlan *plan, const char *stream, const char *name,
                                   uint64_t bytes, SimCategory category)
{
    return sim_plan_alloc(plan, sim_plan_stream(plan, stream), sim_plan_parse_name(plan, name),
                          bytes, category, SIM_DTYPE_F32, 0);
}

/* READS and WRITES: NOBODY = none. */
static inline SimInstruction *write_kernel(SimPlan *plan, const char *stream, const char *word,
                                           uint32_t reads, uint32_t writes)
{
    SimStringId id = sim_strings_intern(sim_plan_strings(plan), word);
    sim_plan_kernel(plan, sim_plan_stream(plan, stream), id, id, SIM_DTYPE_F32);
    if (reads != NOBODY)
        sim_plan_add_read(plan, SIM_TOUCH_WHOLE(reads));
    if (writes != NOBODY)
        sim_plan_add_write(plan, SIM_TOUCH_WHOLE(writes));
    return sim_plan_last(plan);
}

static inline SimInstruction *write_collective(SimPlan *plan, const char *stream,
                                               SimCollectiveKind kind, const char *group,
                                               uint64_t bytes, uint32_t reads, uint32_t writes)
{
    uint32_t number = sim_plan_find_group(plan, group);
    g_assert(number != NOBODY);
    sim_plan_collective(plan, sim_plan_stream(plan, stream), 0, kind, number, bytes, SIM_DTYPE_F32);
    if (reads != NOBODY)
        sim_plan_add_read(plan, SIM_TOUCH_WHOLE(reads));
    if (writes != NOBODY)
        sim_plan_add_write(plan, SIM_TOUCH_WHOLE(writes));
    SimInstruction *row = sim_plan_last(plan);
    row->arguments = sim_strings_intern(sim_plan_strings(plan), "reduction=avg");
    return row;
}

static inline void write_record(SimPlan *plan, const char *stream, const char *event)
{
    sim_plan_record(plan, sim_plan_stream(plan, stream), sim_plan_parse_name(plan, event));
}

static inline void write_wait(SimPlan *plan, const char *stream, const char *event)
{
    sim_plan_wait(plan, sim_plan_stream(plan, stream),
                  sim_plan_event(plan, sim_plan_parse_name(plan, event)));
}

static inline void write_wait_stream(SimPlan *plan, const char *stream, const char *other)
{
    sim_plan_wait_stream(plan, sim_plan_stream(plan, stream), sim_plan_stream(plan, other));
}
