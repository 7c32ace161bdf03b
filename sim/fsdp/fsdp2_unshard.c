/* SPDX-License-Identifier: Apache-2.0 */
#include "fsdp/fsdp2_unshard.h"

#include "fsdp/fsdp2_copy_out.h"
#include "fsdp/fsdp2_offload.h"

static const SimUnitParameter *get_parameter(const SimFsdp2State *state, uint32_t index)
{
    return &g_array_index(state->unit->parameters, SimUnitParameter, index);
}

/* What a rank holds of PARAMETER before the all-gather: its shard as stored, or after an integer
 * reshard the part for the smaller mesh, as computed with. */
static uint32_t get_source(const SimFsdp2State *state, uint32_t index)
{
    return state->sharded_state == SIM_SHARDED_POST_FORWARD
               ? state->parameters[index].post_forward_shard
               : state->parameters[index].sharded;
}

static bool is_cast(const SimFsdp2Context *context, const SimFsdp2State *state, uint32_t index)
{
    return get_parameter(state, index)->gather_dtype != context->job->store_dtype;
}

/* Bytes, as stored, of the sources that go through T. */
static uint64_t count_cast_bytes(const SimFsdp2Context *context, const SimFsdp2State *state)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < state->unit->parameters->len; i++)
        if (is_cast(context, state, i))
            bytes += sim_plan_buffer(context->plan, get_source(state, i))->bytes;
    return bytes;
}

static void add_cast_sources(SimFsdp2Context *context, const SimFsdp2State *state)
{
    for (uint32_t i = 0; i < state->unit->parameters->len; i++)
        if (is_cast(context, state, i))
            sim_plan_add_read(context->plan, SIM_TOUCH_WHOLE(get_source(state, i)));
}

/* T: all parameters that are gathered in another type than stored, in one buffer. The path is taken
 * whenever param_dtype is set, so also after an integer reshard, where nothing changes. */
static uint32_t cast_sources(SimFsdp2Context *context, SimFsdp2State *state, uint32_t ranks,
                             uint32_t stream)
{
    if (!state->unit->needs_cast)
        return SIM_PLAN_NONE;
    uint64_t bytes = 0;
    SimDtype dtype = SIM_DTYPE_NONE;
    for (uint32_t i = 0; i < state->unit->parameters->len; i++) {
        if (!is_cast(context, state, i))
            continue;
        bytes += sim_unit_list_gathered_bytes(get_parameter(state, i)) / ranks;
        dtype = get_parameter(state, i)->gather_dtype;
    }
    uint32_t cast =
        sim_plan_alloc(context->plan, stream, sim_fsdp2_state_name(state, SIM_FSDP2_T, 0), bytes,
                       SIM_CATEGORY_TEMPORARY, dtype, 0);
    SimInstruction *kernel =
        sim_plan_kernel(context->plan, stream, context->words.cast, context->words.cast, dtype);
    kernel->hbm_bytes = bytes + count_cast_bytes(context, state);
    add_cast_sources(context, state);
    sim_plan_add_write(context->plan, SIM_TOUCH_WHOLE(cast));
    return cast;
}

/* What the copy into the slot reads, in the order of the slot: T as a whole, or where only some
 * parameters are cast, its parts between the shards of the others. */
static void add_copy_in_operands(SimFsdp2Context *context, const SimFsdp2State *state,
                                 uint32_t cast, uint32_t ranks)
{
    uint64_t offset = 0;
    if (cast != SIM_PLAN_NONE && state->unit->gather_dtype != SIM_DTYPE_U8) {
        sim_plan_add_read(context->plan, SIM_TOUCH_WHOLE(cast));
        return;
    }
    for (uint32_t i = 0; i < state->unit->parameters->len; i++) {
        SimTouch touch = SIM_TOUCH_WHOLE(get_source(state, i));
        if (cast != SIM_PLAN_NONE && is_cast(context, state, i)) {
            uint64_t bytes = sim_unit_list_gathered_bytes(get_parameter(state, i)) / ranks;
            touch = (SimTouch){.buffer = cast, .offset = offset, .bytes = bytes};
            offset += bytes;
        }
        sim_plan_add_read(context->plan, touch);
    }
}

/* One rank has everything: U is copied from P when waited for, on the compute stream. */
static void start_alone(SimFsdp2Context *context, SimFsdp2State *state)
{
    state->all_gather_output = SIM_PLAN_NONE;
    state->all_gather_event = sim_plan_record(context->plan, context->compute,
                                              sim_fsdp2_state_name(state, SIM_FSDP2_AG, 0));
}

/* The collective's group and size: the smaller mesh after an integer reshard. */
static uint32_t get_group(const SimFsdp2Context *context, const SimFsdp2State *state,
                          uint32_t *ranks)
{
    bool is_small = state->sharded_state == SIM_SHARDED_POST_FORWARD;
    *ranks = is_small ? context->post_forward_size : context->shard_size;
    return is_small ? context->post_forward_group : context->shard_group;
}

static void start_all_gather(SimFsdp2Context *context, SimFsdp2State *state)
{
    SimPlan *plan = context->plan;
    uint32_t ranks;
    uint32_t group = get_group(context, state, &ranks);
    SimDtype dtype = state->unit->gather_dtype;
    uint64_t bytes = state->unit->shard_bytes * context->shard_size;
    uint64_t part = bytes / ranks;

    /* _fsdp_param_group.py, get_all_gather_streams */
    uint32_t copy_stream = state->is_all_gather_async ? context->compute : context->copy_in;
    uint32_t stream = state->is_all_gather_async ? context->compute : context->all_gather;
    bool is_offloaded = sim_fsdp2_offload_is_on(state) && state->sharded_state == SIM_SHARDED;
    g_autofree uint32_t *loaded =
        is_offloaded ? sim_fsdp2_offload_load(context, state, copy_stream) : NULL;
    uint32_t cast = is_offloaded ? SIM_PLAN_NONE : cast_sources(context, state, ranks, copy_stream);
    uint32_t output = sim_plan_alloc(plan, copy_stream, sim_fsdp2_state_name(state, SIM_FSDP2_A, 0),
                                     bytes, SIM_CATEGORY_ALL_GATHER_OUTPUT, dtype, 0);
    SimTouch slot = {.buffer = output, .times_rank = true, .offset = part, .bytes = part};
    SimInstruction *copy =
        sim_plan_kernel(plan, copy_stream, context->words.copy_in, context->words.copy_in, dtype);
    copy->bytes = part;
    copy->hbm_bytes = 2 * part;
    if (group != context->shard_group)
        copy->group = group;
    for (uint32_t i = 0; is_offloaded && i < state->unit->parameters->len; i++)
        sim_plan_add_read(plan, SIM_TOUCH_WHOLE(loaded[i]));
    if (!is_offloaded)
        add_copy_in_operands(context, state, cast, ranks);
    sim_plan_add_write(plan, slot);

    sim_plan_wait_stream(plan, stream, copy_stream);
    sim_plan_collective(plan, stream, context->words.all_gather, SIM_COLLECTIVE_ALL_GATHER, group,
                        bytes, dtype);
    sim_plan_add_read(plan, slot);
    sim_plan_add_write(plan, SIM_TOUCH_WHOLE(output));
    state->all_gather_output = output;
    state->all_gather_event =
        sim_plan_record(plan, stream, sim_fsdp2_state_name(state, SIM_FSDP2_AG, 0));
    if (cast != SIM_PLAN_NONE)
        sim_plan_free_buffer(plan, cast);
    for (uint32_t i = 0; is_offloaded && i < state->unit->parameters->len; i++)
        sim_plan_free_buffer(plan, loaded[i]);
}

void sim_fsdp2_unshard_start(SimFsdp2Context *context, SimFsdp2State *state)
{
    if (state->unit->parameters->len == 0 || state->is_all_gather_pending ||
        state->sharded_state == SIM_UNSHARDED)
        return;
    if (state->unit->call->stays_sharded_in_backward &&
        state->training_state == SIM_TRAINING_PRE_BACKWARD)
        return;
    state->is_all_gather_async =
        context->job->unshards_async || state->training_state == SIM_TRAINING_IDLE;
    SimStringId unit = sim_plan_context(context->plan)->unit;
    sim_fsdp2_context_enter(context, state->index);
    if (state->post_forward_event != SIM_PLAN_NONE) {
        sim_fsdp2_context_wait_all_gather_streams(context, state->post_forward_event);
        state->post_forward_event = SIM_PLAN_NONE;
    }
    uint32_t ranks;
    get_group(context, state, &ranks);
    if (ranks == 1)
        start_alone(context, state);
    else
        start_all_gather(context, state);
    state->is_all_gather_pending = true;
    sim_plan_context(context->plan)->unit = unit;
}

void sim_fsdp2_unshard_prefetch(SimFsdp2Context *context, uint32_t unit, SimTrainingState training)
{
    SimFsdp2State *state = &context->states[unit];
    SimTrainingState before = state->training_state;
    state->training_state = training;
    sim_fsdp2_unshard_start(context, state);
    state->training_state = before;
}

static void drop_post_forward_shards(SimFsdp2Context *context, SimFsdp2State *state)
{
    for (uint32_t i = 0; i < state->unit->parameters->len; i++) {
        if (state->parameters[i].post_forward_shard != SIM_PLAN_NONE)
            sim_plan_free_buffer(context->plan, state->parameters[i].post_forward_shard);
        state->parameters[i].post_forward_shard = SIM_PLAN_NONE;
    }
}

void sim_fsdp2_unshard_finish(SimFsdp2Context *context, SimFsdp2State *state)
{
    if (!state->is_all_gather_pending)
        return;
    bool is_forward = state->training_state == SIM_TRAINING_FORWARD;
    bool is_alone = state->all_gather_output == SIM_PLAN_NONE;
    if (is_forward)
        sim_fsdp2_context_drop_parked(context);
    if (!is_alone)
        sim_plan_wait(context->plan, context->compute, state->all_gather_event);
    sim_fsdp2_copy_out_run(context, state);
    drop_post_forward_shards(context, state);
    state->sharded_state = SIM_UNSHARDED;
    state->is_all_gather_pending = false;
    uint32_t event = sim_plan_record(context->plan, context->compute,
                                     sim_fsdp2_state_name(state, SIM_FSDP2_CO, 0));
    if (is_forward && !is_alone && !state->is_all_gather_async) {
        context->parked_output = state->all_gather_output;
        context->parked_event = event;
    } else {
        sim_fsdp2_context_wait_all_gather_streams(context, event);
        if (!is_alone)
            sim_plan_free_buffer(context->plan, state->all_gather_output);
    }
    state->all_gather_output = SIM_PLAN_NONE;
}

static void drop_unsharded(SimFsdp2Context *context, SimFsdp2State *state)
{
    if (context->job->keeps_unsharded_storage)
        return;
    for (uint32_t i = 0; i < state->unit->parameters->len; i++) {
        sim_plan_free_buffer(context->plan, state->parameters[i].unsharded);
        state->parameters[i].unsharded = SIM_PLAN_NONE;
    }
}

/* to_sharded_post_forward: parameter by parameter a clone of this rank's part for the smaller mesh,
 * then the whole is freed. */
static void reshard_to_smaller_mesh(SimFsdp2Context *context, SimFsdp2State *state)
{
    SimPlan *plan = context->plan;
    for (uint32_t i = 0; i < state->unit->parameters->len; i++) {
        const SimUnitParameter *parameter = get_parameter(state, i);
        uint64_t bytes = sim_unit_list_gathered_bytes(parameter) / context->post_forward_size;
        uint32_t whole = state->parameters[i].unsharded;
        uint32_t clone = sim_plan_alloc(
            plan, context->compute, sim_fsdp2_state_name(state, SIM_FSDP2_F, parameter->tail),
            bytes, SIM_CATEGORY_POST_FORWARD_SHARD, parameter->gather_dtype, 0);
        SimInstruction *kernel = sim_plan_kernel(plan, context->compute, context->words.clone,
                                                 context->words.clone, parameter->gather_dtype);
        kernel->hbm_bytes = 2 * bytes;
        kernel->group = context->post_forward_group;
        sim_plan_add_read(
            plan, (SimTouch){.buffer = whole, .times_rank = true, .offset = bytes, .bytes = bytes});
        sim_plan_add_write(plan, SIM_TOUCH_WHOLE(clone));
        sim_plan_free_buffer(plan, whole);
        state->parameters[i].unsharded = SIM_PLAN_NONE;
        state->parameters[i].post_forward_shard = clone;
    }
    state->sharded_state = SIM_SHARDED_POST_FORWARD;
    state->post_forward_event =
        sim_plan_record(plan, context->compute, sim_fsdp2_state_name(state, SIM_FSDP2_RAF, 0));
}

void sim_fsdp2_unshard_reshard(SimFsdp2Context *context, SimFsdp2State *state)
{
    if (state->training_state == SIM_TRAINING_FORWARD) {
        if (state->reshard_after_forward.kind == SIM_RESHARD_FALSE)
            return;
        if (state->reshard_after_forward.kind == SIM_RESHARD_TO &&
            state->sharded_state == SIM_UNSHARDED) {
            reshard_to_smaller_mesh(context, state);
            return;
        }
    }
    if (state->sharded_state == SIM_UNSHARDED)
        drop_unsharded(context, state);
    else if (state->sharded_state == SIM_SHARDED_POST_FORWARD)
        drop_post_forward_shards(context, state);
    state->sharded_state = SIM_SHARDED;
}

void sim_fsdp2_unshard_drop_pending(SimFsdp2Context *context, SimFsdp2State *state)
{
    if (!state->is_all_gather_pending)
        return;
    if (state->all_gather_output != SIM_PLAN_NONE) {
        sim_plan_wait(context->plan, context->compute, state->all_gather_event);
        sim_plan_free_buffer(context->plan, state->all_gather_output);
        state->all_gather_output = SIM_PLAN_NONE;
    }
    state->is_all_gather_pending = false;
}
