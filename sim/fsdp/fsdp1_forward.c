/* SPDX-License-Identifier: Apache-2.0 */
#include "fsdp/fsdp1_forward.h"

#include "autograd/autograd.h"
#include "fsdp/fsdp1_unshard.h"

static void drop_gradient(SimFsdp1Context *context, uint32_t *gradient)
{
    if (*gradient != SIM_PLAN_NONE)
        sim_plan_free_buffer(context->plan, *gradient);
    *gradient = SIM_PLAN_NONE;
}

void sim_fsdp1_forward_drop_zeroed(SimFsdp1Context *context)
{
    SimStringId unit = sim_plan_context(context->plan)->unit;
    for (uint32_t i = 0; i < sim_unit_list_count(context->units); i++) {
        SimFsdp1State *state = &context->states[context->units->traversal[i]];
        if (!state->is_zeroed)
            continue;
        sim_fsdp1_context_enter(context, state->index);
        drop_gradient(context, &state->whole_gradient);
        drop_gradient(context, &state->sharded_gradient);
        state->is_zeroed = false;
    }
    sim_plan_context(context->plan)->unit = unit;
}

static void start_root(SimFsdp1Context *context)
{
    if (!context->is_initialized)
        sim_fsdp1_unshard_try(context);
    context->is_initialized = true;
    context->flows_gradient = false;
    sim_fsdp1_context_enter(context, context->units->root);
    for (uint32_t u = 0; u < sim_unit_list_count(context->units); u++) {
        SimFsdp1State *state = &context->states[u];
        if (!context->job->fsdp1.has_forward_prefetch)
            continue;
        state->needs_pre_forward_unshard = true;
        state->is_prefetched = false;
    }
    sim_plan_wait_stream(context->plan, context->unshard, context->compute);
    sim_plan_wait_stream(context->plan, context->pre_unshard, context->compute);
    sim_fsdp1_forward_drop_zeroed(context);
}

/* Once a trained parameter has been used, all that follows needs a gradient. */
static void note_gradients(SimFsdp1Context *context, uint32_t module)
{
    const SimModule *described = sim_model_module(context->model, module);
    for (uint32_t i = 0; i < described->n_parameters; i++)
        context->flows_gradient |=
            !sim_model_parameter(context->model, described->first_parameter + i)->is_frozen;
}

static void record_pre_forward(SimFsdp1Context *context, SimFsdp1State *state)
{
    if (context->iteration > 0 || state->pre_forward_index != SIM_PLAN_NONE)
        return;
    state->pre_forward_index = context->pre_forward_order->len;
    g_array_append_val(context->pre_forward_order, state->index);
}

uint32_t sim_fsdp1_forward_start(SimFsdp1Context *context, uint32_t module)
{
    uint32_t unit = context->units->unit_of_module[module];
    if (unit != SIM_MODEL_NONE && context->states[unit].training_state == SIM_FSDP1_BACKWARD_PRE)
        return SIM_AUTOGRAD_NO_TOKEN; /* recomputed */
    if (module == 0)
        start_root(context);
    note_gradients(context, module);
    if (unit == SIM_MODEL_NONE)
        return SIM_AUTOGRAD_NO_TOKEN;
    SimFsdp1State *state = &context->states[unit];
    sim_fsdp1_context_enter(context, unit);
    if (state->unit->parameters->len == 0)
        return SIM_AUTOGRAD_NO_TOKEN;
    state->entry_sequence = ++context->sequence;
    record_pre_forward(context, state);
    state->training_state = SIM_FSDP1_FORWARD;
    if (!state->is_prefetched)
        sim_fsdp1_unshard_start(context, state);
    state->needs_pre_forward_unshard = false;
    sim_fsdp1_unshard_wait(context);
    sim_fsdp1_unshard_prefetch(context, state);
    return unit;
}

/* A unit that has run before in this iteration keeps its place, unless that is the first one: 0
 * counts as "none" there. */
static void record_post_forward(SimFsdp1Context *context, SimFsdp1State *state)
{
    if (state->post_forward_index == SIM_PLAN_NONE || state->post_forward_index == 0)
        state->post_forward_index = context->post_forward_order->len;
    g_array_append_val(context->post_forward_order, state->index);
}

uint32_t sim_fsdp1_forward_finish(SimFsdp1Context *context, uint32_t module)
{
    uint32_t unit = context->units->unit_of_module[module];
    if (unit == SIM_MODEL_NONE)
        return SIM_AUTOGRAD_NO_TOKEN;
    SimFsdp1State *state = &context->states[unit];
    if (state->training_state == SIM_FSDP1_BACKWARD_PRE)
        return SIM_AUTOGRAD_NO_TOKEN;
    bool has_grad = sim_plan_context(context->plan)->phase != SIM_PHASE_EVALUATION;
    if (has_grad && unit == context->units->root)
        context->is_callback_queued = false;
    if (state->unit->parameters->len == 0) {
        sim_fsdp1_context_enter(context, state->unit->enclosing);
        return unit;
    }
    record_post_forward(context, state);
    bool frees = context->frees_after_forward && unit != context->units->root;
    sim_fsdp1_context_enter(context, unit);
    sim_fsdp1_unshard_reshard(context, state, frees, context->compute);
    if (has_grad) {
        /* _use_sharded_flat_param skips going back to shards for these strategies */
        state->is_left_in_use = context->is_sharded && !context->frees_after_forward &&
                                !context->job->fsdp1.uses_flat_parameters;
        state->needs_pre_backward_unshard = context->flows_gradient;
        state->has_run_pre_backward = false;
    }
    state->training_state = SIM_FSDP1_IDLE;
    sim_fsdp1_context_enter(context, state->unit->enclosing);
    return unit;
}
