/* SPDX-License-Identifier: Apache-2.0 */
#include "fsdp/fsdp2_backward.h"

#include "fsdp/fsdp2_offload.h"
#include "fsdp/fsdp2_reduce.h"
#include "fsdp/fsdp2_unshard.h"

/* The unit that ended its forward just before the last use of STATE's did. Indices can be gone when
 * several backwards run. */
static void prefetch_previous(SimFsdp2Context *context, SimFsdp2State *state)
{
    GArray *indices = state->post_forward_indices;
    if (indices->len == 0)
        return;
    uint32_t place = g_array_index(indices, uint32_t, indices->len - 1);
    g_array_set_size(indices, indices->len - 1);
    if (place == 0)
        return;
    uint32_t target = g_array_index(context->post_forward_order, uint32_t, place - 1);
    sim_fsdp2_unshard_prefetch(context, target, SIM_TRAINING_PRE_BACKWARD);
}

/* A list of the script's replaces the default. */
static void prefetch(SimFsdp2Context *context, SimFsdp2State *state)
{
    const GArray *targets = state->unit->call->backward_prefetch;
    if (targets == NULL && state->unit->parameters->len > 0)
        prefetch_previous(context, state);
    for (uint32_t i = 0; targets != NULL && i < targets->len; i++)
        sim_fsdp2_unshard_prefetch(context, g_array_index(targets, uint32_t, i),
                                   SIM_TRAINING_PRE_BACKWARD);
}

void sim_fsdp2_backward_start(SimFsdp2Context *context, uint32_t unit)
{
    SimFsdp2State *state = &context->states[unit];
    bool is_gathered = state->unit->parameters->len > 0;
    if (is_gathered)
        sim_fsdp2_context_enter(context, unit);
    if (state->training_state == SIM_TRAINING_PRE_BACKWARD)
        return;
    state->training_state = SIM_TRAINING_PRE_BACKWARD;
    if (is_gathered) {
        sim_fsdp2_unshard_start(context, state);
        sim_fsdp2_unshard_finish(context, state);
    }
    state->defers_upcast = true;
    prefetch(context, state);
    for (uint32_t u = 0; unit == context->units->root && u < sim_unit_list_count(context->units);
         u++)
        if (context->states[u].is_completed_by_root) {
            context->states[u].is_completed_by_root = false;
            sim_fsdp2_backward_start(context, u);
        }
}

/* One kernel over a gradient: `cast` makes INTO, `accumulate` adds to it. */
static void launch(SimFsdp2Context *context, SimStringId word, uint32_t into, uint32_t from)
{
    SimPlan *plan = context->plan;
    const SimBuffer *target = sim_plan_buffer(plan, into);
    bool is_sum = word == context->words.accumulate;
    uint64_t bytes = sim_plan_buffer(plan, from)->bytes + (is_sum ? 2 : 1) * target->bytes;
    SimInstruction *kernel =
        sim_plan_kernel(plan, context->compute, word, word, (SimDtype)target->dtype);
    kernel->hbm_bytes = bytes;
    if (is_sum)
        sim_plan_add_read(plan, SIM_TOUCH_WHOLE(into));
    sim_plan_add_read(plan, SIM_TOUCH_WHOLE(from));
    sim_plan_add_write(plan, SIM_TOUCH_WHOLE(into));
}

/* AccumulateGrad keeps the gradient in the type it has if chunk_cat widens it, which it does only
 * to a wider type and only when this backward reduces. */
static bool needs_cast(const SimFsdp2State *state, SimDtype dtype)
{
    SimDtype reduce_dtype = state->unit->reduce_dtype;
    if (dtype == reduce_dtype)
        return false;
    return !state->defers_upcast || !state->reduces_gradients ||
           sim_dtype_bytes(reduce_dtype) <= sim_dtype_bytes(dtype);
}

SimDtype sim_fsdp2_backward_gradient_dtype(const SimFsdp2Context *context, uint32_t parameter)
{
    const SimFsdp2State *state = &context->states[context->units->owner[parameter]];
    uint32_t place = context->units->place[parameter];
    SimDtype dtype = g_array_index(state->unit->parameters, SimUnitParameter, place).gather_dtype;
    bool is_cast = state->parameters[place].gradient == SIM_PLAN_NONE && needs_cast(state, dtype);
    return is_cast ? state->unit->reduce_dtype : SIM_DTYPE_NONE;
}

void sim_fsdp2_backward_add_gradient(SimFsdp2Context *context, uint32_t parameter, uint32_t buffer)
{
    SimPlan *plan = context->plan;
    SimFsdp2State *state = &context->states[context->units->owner[parameter]];
    uint32_t place = context->units->place[parameter];
    const SimUnitParameter *described =
        &g_array_index(state->unit->parameters, SimUnitParameter, place);
    uint32_t *gradient = &state->parameters[place].gradient;
    SimDtype dtype = (SimDtype)sim_plan_buffer(plan, buffer)->dtype;
    bool is_cast = *gradient == SIM_PLAN_NONE ? needs_cast(state, dtype)
                                              : !state->defers_upcast && needs_cast(state, dtype);
    if (is_cast) {
        SimDtype wider = state->unit->reduce_dtype;
        uint32_t cast = sim_plan_alloc(plan, context->compute,
                                       sim_fsdp2_state_name(state, SIM_FSDP2_G, described->tail),
                                       described->shard.elements * sim_dtype_bytes(wider),
                                       SIM_CATEGORY_UNSHARDED_GRADIENT, wider, described->shape);
        launch(context, context->words.cast, cast, buffer);
        sim_plan_free_buffer(plan, buffer);
        buffer = cast;
    }
    if (*gradient == SIM_PLAN_NONE) {
        *gradient = buffer;
    } else {
        launch(context, context->words.accumulate, *gradient, buffer);
        sim_plan_free_buffer(plan, buffer);
    }
}

static bool has_gradients(const SimFsdp2State *state)
{
    for (uint32_t i = 0; i < state->unit->parameters->len; i++)
        if (state->parameters[i].gradient != SIM_PLAN_NONE)
            return true;
    return false;
}

/* A reduction of this unit whose backward was not the last one is still unwaited for. */
static void wait_for_own_reduction(SimFsdp2Context *context, SimFsdp2State *state)
{
    if (state->post_event != SIM_PLAN_NONE)
        sim_plan_wait(context->plan, context->compute, state->post_event);
    if (state->all_reduce_event != SIM_PLAN_NONE)
        sim_plan_wait(context->plan, context->compute, state->all_reduce_event);
    if (state->all_reduce_input != SIM_PLAN_NONE)
        sim_plan_free_buffer(context->plan, state->all_reduce_input);
    state->post_event = SIM_PLAN_NONE;
    state->all_reduce_event = SIM_PLAN_NONE;
    state->all_reduce_input = SIM_PLAN_NONE;
}

/* set_reduce_scatter_unused_params: zeros for what got no gradient. */
static void add_zeros(SimFsdp2Context *context, SimFsdp2State *state)
{
    for (uint32_t i = 0; i < state->unit->parameters->len; i++) {
        const SimUnitParameter *described =
            &g_array_index(state->unit->parameters, SimUnitParameter, i);
        if (described->is_frozen || state->parameters[i].gradient != SIM_PLAN_NONE)
            continue;
        SimDtype dtype = described->gather_dtype;
        uint64_t bytes = described->shard.elements * sim_dtype_bytes(dtype);
        uint32_t zeros =
            sim_plan_alloc(context->plan, context->compute,
                           sim_fsdp2_state_name(state, SIM_FSDP2_G, described->tail), bytes,
                           SIM_CATEGORY_UNSHARDED_GRADIENT, dtype, described->shape);
        SimInstruction *kernel = sim_plan_kernel(context->plan, context->compute,
                                                 context->words.zeros, context->words.zeros, dtype);
        kernel->hbm_bytes = bytes;
        sim_plan_add_write(context->plan, SIM_TOUCH_WHOLE(zeros));
        state->parameters[i].gradient = zeros;
    }
}

static void finish(SimFsdp2Context *context, SimFsdp2State *state)
{
    bool is_partial =
        state->unit->call->modules->len > 1 && state->training_state == SIM_TRAINING_FORWARD;
    state->defers_upcast = false;
    state->training_state = SIM_TRAINING_POST_BACKWARD;
    if (state->reduces_gradients && context->job->reduces_unused_parameters)
        add_zeros(context, state);
    if (state->reshards_after_backward)
        sim_fsdp2_unshard_reshard(context, state);
    if (!state->reduces_gradients)
        return;
    bool reduces = has_gradients(state);
    if (reduces || context->version->recycles_in_every_backward)
        sim_fsdp2_reduce_recycle(context, context->max_reductions - 1);
    if (!reduces)
        return;
    wait_for_own_reduction(context, state);
    sim_fsdp2_reduce_start(context, state);
    /* Of a group that ran in part, the next part's gradients come soon. */
    if (is_partial && state->post_event != SIM_PLAN_NONE)
        sim_plan_wait(context->plan, context->compute, state->post_event);
}

void sim_fsdp2_backward_finish(SimFsdp2Context *context, uint32_t unit)
{
    SimFsdp2State *state = &context->states[unit];
    sim_fsdp2_context_enter(context, unit);
    if (state->unit->parameters->len > 0)
        finish(context, state);
    sim_fsdp2_context_enter(context, state->unit->enclosing);
}

static void finalize_state(SimFsdp2Context *context, SimFsdp2State *state)
{
    sim_fsdp2_context_enter(context, state->index);
    if (!context->version->waits_for_last_unit)
        wait_for_own_reduction(context, state);
    if (state->all_reduce_input != SIM_PLAN_NONE)
        sim_plan_free_buffer(context->plan, state->all_reduce_input);
    state->all_reduce_input = SIM_PLAN_NONE;
    state->post_event = SIM_PLAN_NONE;
    state->all_reduce_event = SIM_PLAN_NONE;
    sim_fsdp2_offload_wait(context, state);
    sim_fsdp2_unshard_drop_pending(context, state);
    g_array_set_size(state->post_forward_indices, 0);
}

/* finalize_backward: what one stream did last tells of all it did before, so one wait a stream is
 * enough; older versions wait for every unit. */
static void finalize(SimFsdp2Context *context)
{
    sim_fsdp2_context_enter(context, SIM_MODEL_NONE);
    for (int i = 0; i < 2; i++) {
        if (context->last_post_event[i] != SIM_PLAN_NONE && context->version->waits_for_last_unit)
            sim_plan_wait(context->plan, context->compute, context->last_post_event[i]);
        context->last_post_event[i] = SIM_PLAN_NONE;
    }
    for (uint32_t i = 0; i < sim_unit_list_count(context->units); i++)
        finalize_state(context, &context->states[context->units->traversal[i]]);
    sim_fsdp2_context_enter(context, SIM_MODEL_NONE);
    g_array_set_size(context->post_forward_order, 0);
    sim_fsdp2_reduce_recycle(context, 0);
}

void sim_fsdp2_backward_finish_all(SimFsdp2Context *context)
{
    for (uint32_t i = 0; i < sim_unit_list_count(context->units); i++) {
        SimFsdp2State *state = &context->states[context->units->traversal[i]];
        sim_fsdp2_context_enter(context, state->index);
        if (state->unit->parameters->len > 0 && state->training_state != SIM_TRAINING_POST_BACKWARD)
            finish(context, state);
        state->training_state = SIM_TRAINING_IDLE;
        state->pending_modules = 0;
    }
    context->forward_root = SIM_MODEL_NONE;
    if (context->is_last_backward)
        finalize(context);
    sim_fsdp2_context_enter(context, SIM_MODEL_NONE);
}
