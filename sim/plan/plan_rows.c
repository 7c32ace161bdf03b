/* SPDX-License-Identifier: Apache-2.0
 *
 * Writing rows. A builder appends some hundred thousand, so each costs a clear, a few stores and,
 * for events, one look-up by name.
 */
#include "plan/plan.h"

#include "plan/plan_private.h"

/* Room for one more element of SIZE bytes. */
static void *grow(void *elements, size_t *capacity, size_t size)
{
    *capacity = MAX(256, *capacity * 2);
    return g_realloc_n(elements, *capacity, size);
}

SimInstruction *sim_plan_append(SimPlan *plan, SimPlanOp op)
{
    const SimPlanContext *context = &plan->context;

    if (plan->n_rows == plan->rows_capacity)
        plan->rows = grow(plan->rows, &plan->rows_capacity, sizeof *plan->rows);
    SimInstruction *row = &plan->rows[plan->n_rows++];
    *row = (SimInstruction){
        .op = (uint8_t)op,
        .phase = (uint8_t)context->phase,
        .rank_set = context->rank_set,
        .step = context->step,
        .microbatch = context->microbatch,
        .unit = context->unit,
        .buffer = SIM_PLAN_NONE,
        .event = SIM_PLAN_NONE,
        .group = SIM_PLAN_NONE,
        .touches = (uint32_t)plan->n_touches,
        .duration = -1,
    };
    return row;
}

SimInstruction *sim_plan_last(SimPlan *plan)
{
    g_assert(plan->n_rows > 0);
    return &plan->rows[plan->n_rows - 1];
}

static void add_touch(SimPlan *plan, SimTouch touch)
{
    g_assert(plan->n_rows > 0 && plan->n_touches < UINT32_MAX);
    if (plan->n_touches == plan->touches_capacity)
        plan->touches = grow(plan->touches, &plan->touches_capacity, sizeof *plan->touches);
    plan->touches[plan->n_touches++] = touch;
}

void sim_plan_add_read(SimPlan *plan, SimTouch touch)
{
    add_touch(plan, touch);
    SimInstruction *row = &plan->rows[plan->n_rows - 1];
    g_assert(row->n_writes == 0 && row->n_reads < UINT16_MAX);
    row->n_reads++;
}

void sim_plan_add_write(SimPlan *plan, SimTouch touch)
{
    add_touch(plan, touch);
    SimInstruction *row = &plan->rows[plan->n_rows - 1];
    g_assert(row->n_writes < UINT16_MAX);
    row->n_writes++;
}

static uint32_t add_buffer(SimPlan *plan, SimBuffer buffer)
{
    g_assert(plan->n_buffers < SIM_PLAN_NONE);
    if (plan->n_buffers == plan->buffers_capacity)
        plan->buffers = grow(plan->buffers, &plan->buffers_capacity, sizeof *plan->buffers);
    plan->buffers[plan->n_buffers] = buffer;
    return (uint32_t)plan->n_buffers++;
}

static uint32_t append_alloc(SimPlan *plan, SimBuffer buffer)
{
    SimInstruction *row = sim_plan_append(plan, SIM_PLAN_ALLOC);

    row->stream = buffer.is_host ? 0 : (uint16_t)buffer.stream;
    row->bytes = buffer.bytes;
    row->dtype = buffer.dtype;
    row->shape = buffer.shape;
    row->buffer = add_buffer(plan, buffer);
    return row->buffer;
}

uint32_t sim_plan_alloc(SimPlan *plan, uint32_t stream, SimName name, uint64_t bytes,
                        SimCategory category, SimDtype dtype, SimStringId shape)
{
    return append_alloc(plan, (SimBuffer){.name = name,
                                          .bytes = bytes,
                                          .stream = stream,
                                          .parent = SIM_PLAN_NONE,
                                          .shape = shape,
                                          .category = (uint8_t)category,
                                          .dtype = (uint8_t)dtype});
}

uint32_t sim_plan_alloc_host(SimPlan *plan, SimName name, uint64_t bytes, SimCategory category,
                             SimDtype dtype, SimStringId shape)
{
    return append_alloc(plan, (SimBuffer){.name = name,
                                          .bytes = bytes,
                                          .stream = SIM_PLAN_NONE,
                                          .parent = SIM_PLAN_NONE,
                                          .shape = shape,
                                          .category = (uint8_t)category,
                                          .dtype = (uint8_t)dtype,
                                          .is_host = true});
}

uint32_t sim_plan_view_part(SimPlan *plan, SimName name, SimTouch part, SimDtype dtype,
                            SimStringId shape)
{
    const SimBuffer *parent = sim_plan_buffer(plan, part.buffer);
    SimBuffer view = {.name = name,
                      .bytes = part.bytes != 0 ? part.bytes : parent->bytes,
                      .stream = SIM_PLAN_NONE,
                      .parent = part.buffer,
                      .offset = part.offset,
                      .shape = shape,
                      .category = parent->category,
                      .dtype = (uint8_t)dtype,
                      .is_host = parent->is_host,
                      .times_rank = part.times_rank};
    SimInstruction *row = sim_plan_append(plan, SIM_PLAN_VIEW);

    row->dtype = (uint8_t)dtype;
    row->shape = shape;
    row->buffer = add_buffer(plan, view);
    sim_plan_add_read(plan, part);
    return (uint32_t)plan->n_buffers - 1;
}

uint32_t sim_plan_view(SimPlan *plan, SimName name, uint32_t parent, uint64_t offset,
                       uint64_t bytes, SimDtype dtype, SimStringId shape)
{
    const SimTouch part = {.buffer = parent, .offset = offset, .bytes = bytes};

    return sim_plan_view_part(plan, name, part, dtype, shape);
}

void sim_plan_free_buffer(SimPlan *plan, uint32_t buffer)
{
    sim_plan_append(plan, SIM_PLAN_FREE)->buffer = buffer;
}

void sim_plan_record_stream(SimPlan *plan, uint32_t buffer, uint32_t stream)
{
    SimInstruction *row = sim_plan_append(plan, SIM_PLAN_RECORD_STREAM);

    row->buffer = buffer;
    row->stream = (uint16_t)stream;
}

uint32_t sim_plan_record(SimPlan *plan, uint32_t stream, SimName name)
{
    uint32_t rank_set = plan->context.rank_set;
    uint32_t event = sim_name_table_youngest(plan->events, name, NULL);
    SimInstruction *row = sim_plan_append(plan, SIM_PLAN_RECORD);

    if (event == SIM_PLAN_NONE ||
        sim_rank_cover_meets(&sim_name_table_entry(plan->events, event)->cover, plan, rank_set))
        event = sim_name_table_add(plan->events, name);
    sim_rank_cover_add(&sim_name_table_entry(plan->events, event)->cover, plan, rank_set);
    row->stream = (uint16_t)stream;
    row->event = event;
    return event;
}

uint32_t sim_plan_event(SimPlan *plan, SimName name)
{
    uint32_t event = sim_name_table_find(plan->events, plan, name, plan->context.rank_set);

    if (event == SIM_PLAN_NONE)
        event = sim_name_table_youngest(plan->events, name, NULL);
    return event != SIM_PLAN_NONE ? event : sim_name_table_add(plan->events, name);
}

void sim_plan_wait(SimPlan *plan, uint32_t stream, uint32_t event)
{
    SimInstruction *row = sim_plan_append(plan, SIM_PLAN_WAIT);

    row->stream = (uint16_t)stream;
    row->event = event;
}

void sim_plan_wait_stream(SimPlan *plan, uint32_t stream, uint32_t other)
{
    sim_plan_wait(plan, stream, other);
    plan->rows[plan->n_rows - 1].is_event_of_stream = true;
}

void sim_plan_host_wait(SimPlan *plan, uint32_t event)
{
    sim_plan_append(plan, SIM_PLAN_HOST_WAIT)->event = event;
}

void sim_plan_host(SimPlan *plan, const char *name, SimTime duration)
{
    SimStringId id = sim_strings_intern(plan->strings, name);
    SimInstruction *row = sim_plan_append(plan, SIM_PLAN_HOST);

    row->name = id;
    row->duration = duration;
}

void sim_plan_mark(SimPlan *plan, const char *name)
{
    SimStringId id = sim_strings_intern(plan->strings, name);

    sim_plan_append(plan, SIM_PLAN_MARK)->name = id;
}

SimInstruction *sim_plan_kernel(SimPlan *plan, uint32_t stream, SimStringId name,
                                SimStringId operator_name, SimDtype dtype)
{
    SimInstruction *row = sim_plan_append(plan, SIM_PLAN_KERNEL);

    row->stream = (uint16_t)stream;
    row->name = name;
    row->operator_name = operator_name;
    row->dtype = (uint8_t)dtype;
    return row;
}

SimInstruction *sim_plan_collective(SimPlan *plan, uint32_t stream, SimStringId name,
                                    SimCollectiveKind kind, uint32_t group, uint64_t bytes,
                                    SimDtype dtype)
{
    SimInstruction *row = sim_plan_append(plan, SIM_PLAN_COLLECTIVE);

    row->stream = (uint16_t)stream;
    row->name = name;
    row->collective = (uint8_t)kind;
    row->group = group;
    row->bytes = bytes;
    row->dtype = (uint8_t)dtype;
    return row;
}
