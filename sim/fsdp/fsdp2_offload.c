/* SPDX-License-Identifier: Apache-2.0 */
#include "fsdp/fsdp2_offload.h"

static const SimUnitParameter *get_parameter(const SimFsdp2State *state, uint32_t index)
{
    return &g_array_index(state->unit->parameters, SimUnitParameter, index);
}

bool sim_fsdp2_offload_is_on(const SimFsdp2State *state)
{
    return state->unit->call->is_offloaded;
}

static void copy(SimFsdp2Context *context, uint32_t stream, SimTouch from, uint32_t to,
                 uint64_t bytes, bool is_device_to_host)
{
    SimInstruction *row = sim_plan_append(context->plan, SIM_PLAN_COPY);
    row->stream = (uint16_t)stream;
    row->name = context->words.offload;
    row->bytes = bytes;
    row->is_device_to_host = is_device_to_host;
    sim_plan_add_read(context->plan, from);
    sim_plan_add_write(context->plan, SIM_TOUCH_WHOLE(to));
}

/* A shard on the device, as stored. */
static uint32_t load_shard(SimFsdp2Context *context, SimFsdp2State *state, uint32_t index,
                           uint32_t stream)
{
    uint32_t shard = state->parameters[index].sharded;
    uint64_t bytes = sim_plan_buffer(context->plan, shard)->bytes;
    uint32_t loaded =
        sim_plan_alloc(context->plan, stream,
                       sim_fsdp2_state_name(state, SIM_FSDP2_H, get_parameter(state, index)->tail),
                       bytes, SIM_CATEGORY_TEMPORARY, context->job->store_dtype, 0);
    copy(context, stream, SIM_TOUCH_WHOLE(shard), loaded, bytes, false);
    return loaded;
}

static uint32_t cast_shard(SimFsdp2Context *context, SimFsdp2State *state, uint32_t index,
                           uint32_t loaded, uint32_t stream)
{
    SimPlan *plan = context->plan;
    const SimUnitParameter *parameter = get_parameter(state, index);
    uint64_t source = sim_plan_buffer(plan, loaded)->bytes;
    uint64_t bytes = parameter->shard.shard_elements * sim_dtype_bytes(parameter->gather_dtype);
    uint32_t cast =
        sim_plan_alloc(plan, stream, sim_fsdp2_state_name(state, SIM_FSDP2_T, parameter->tail),
                       bytes, SIM_CATEGORY_TEMPORARY, parameter->gather_dtype, 0);
    sim_plan_kernel(plan, stream, context->words.cast, context->words.cast, parameter->gather_dtype)
        ->hbm_bytes = bytes + source;
    sim_plan_add_read(plan, SIM_TOUCH_WHOLE(loaded));
    sim_plan_add_write(plan, SIM_TOUCH_WHOLE(cast));
    sim_plan_free_buffer(plan, loaded);
    return cast;
}

uint32_t *sim_fsdp2_offload_load(SimFsdp2Context *context, SimFsdp2State *state, uint32_t stream)
{
    uint32_t *sources = g_new(uint32_t, state->unit->parameters->len + 1);
    for (uint32_t i = 0; i < state->unit->parameters->len; i++) {
        sources[i] = load_shard(context, state, i, stream);
        if (get_parameter(state, i)->gather_dtype != context->job->store_dtype)
            sources[i] = cast_shard(context, state, i, sources[i], stream);
    }
    return sources;
}

void sim_fsdp2_offload_store(SimFsdp2Context *context, SimFsdp2State *state, uint32_t place,
                             uint32_t reduced, uint64_t offset, uint32_t stream)
{
    SimPlan *plan = context->plan;
    const SimUnitParameter *described = get_parameter(state, place);
    SimFsdp2Parameter *parameter = &state->parameters[place];
    SimDtype stored = context->job->store_dtype;
    uint64_t bytes = described->shard.shard_elements * sim_dtype_bytes(stored);
    uint32_t gradient =
        sim_plan_alloc_host(plan, sim_fsdp2_state_name(state, SIM_FSDP2_Q, described->tail), bytes,
                            SIM_CATEGORY_SHARDED_GRADIENT, stored, described->shard_shape);
    copy(context, stream, (SimTouch){.buffer = reduced, .offset = offset, .bytes = bytes}, gradient,
         bytes, true);
    uint32_t event =
        sim_plan_record(plan, stream, sim_fsdp2_state_name(state, SIM_FSDP2_OFF, described->tail));
    if (parameter->sharded_gradient == SIM_PLAN_NONE) {
        parameter->sharded_gradient = gradient;
        parameter->sharded_gradient_offset = 0;
        parameter->offload_event = event;
        return;
    }
    sim_plan_host_wait(plan, event); /* `.grad +=` on the host needs the numbers now */
    sim_plan_host(plan, "accumulate", 0);
    sim_plan_free_buffer(plan, gradient);
}

void sim_fsdp2_offload_wait(SimFsdp2Context *context, SimFsdp2State *state)
{
    for (uint32_t i = 0; i < state->unit->parameters->len; i++) {
        uint32_t *event = &state->parameters[i].offload_event;
        if (*event != SIM_PLAN_NONE)
            sim_plan_host_wait(context->plan, *event);
        *event = SIM_PLAN_NONE;
    }
}
