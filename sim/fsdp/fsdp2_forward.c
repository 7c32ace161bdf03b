/* SPDX-License-Identifier: Apache-2.0 */
#include "fsdp/fsdp2_forward.h"

#include "autograd/autograd.h"
#include "fsdp/fsdp2_unshard.h"

/* _root_pre_forward: the only guard that the optimizer's writes are seen by the next copy-ins; the
 * script may have recorded an event just for that. */
static void start_root(SimFsdp2Context *context, uint32_t unit)
{
    if (context->forward_root != SIM_MODEL_NONE)
        return;
    context->forward_root = unit;
    if (context->post_optim_event != SIM_PLAN_NONE) {
        sim_fsdp2_context_wait_all_gather_streams(context, context->post_optim_event);
        context->post_optim_event = SIM_PLAN_NONE;
        return;
    }
    sim_plan_wait_stream(context->plan, context->copy_in, context->compute);
    sim_plan_wait_stream(context->plan, context->all_gather, context->compute);
}

uint32_t sim_fsdp2_forward_start(SimFsdp2Context *context, uint32_t module)
{
    uint32_t unit = context->units->unit_of_module[module];
    if (unit == SIM_MODEL_NONE)
        return SIM_AUTOGRAD_NO_TOKEN;
    SimFsdp2State *state = &context->states[unit];
    sim_fsdp2_context_enter(context, unit);
    bool is_first = state->running_modules == 0;
    if (is_first)
        state->running_modules = state->unit->call->modules->len;
    if (state->training_state == SIM_TRAINING_PRE_BACKWARD || !is_first)
        return SIM_AUTOGRAD_NO_TOKEN;
    state->training_state = SIM_TRAINING_FORWARD;
    start_root(context, unit);
    sim_fsdp2_unshard_start(context, state);
    sim_fsdp2_unshard_finish(context, state);
    const GArray *targets = state->unit->call->forward_prefetch;
    for (uint32_t i = 0; targets != NULL && i < targets->len; i++)
        sim_fsdp2_unshard_prefetch(context, g_array_index(targets, uint32_t, i),
                                   SIM_TRAINING_FORWARD);
    return unit;
}

/* A unit that runs while a graph is being walked (recomputed by an outer checkpoint) keeps its
 * parameters for its own backward, and its place in the order. */
uint32_t sim_fsdp2_forward_finish(SimFsdp2Context *context, uint32_t module)
{
    uint32_t unit = context->units->unit_of_module[module];
    if (unit == SIM_MODEL_NONE)
        return SIM_AUTOGRAD_NO_TOKEN;
    SimFsdp2State *state = &context->states[unit];
    g_assert(state->running_modules > 0);
    state->running_modules--;
    bool is_recompute = state->training_state == SIM_TRAINING_PRE_BACKWARD;
    if (state->running_modules > 0 || is_recompute) {
        sim_fsdp2_context_enter(context, state->unit->enclosing);
        return SIM_AUTOGRAD_NO_TOKEN;
    }
    SimPhase phase = sim_plan_context(context->plan)->phase;
    bool is_in_backward = phase == SIM_PHASE_BACKWARD || phase == SIM_PHASE_RECOMPUTE;
    if (state->unit->parameters->len > 0 && !is_in_backward) {
        sim_fsdp2_unshard_reshard(context, state);
        uint32_t place = context->post_forward_order->len;
        g_array_append_val(context->post_forward_order, unit);
        g_array_append_val(state->post_forward_indices, place);
    }
    state->training_state = SIM_TRAINING_IDLE;
    sim_fsdp2_context_enter(context, state->unit->enclosing);
    if (context->forward_root == unit) {
        sim_fsdp2_context_drop_parked(context);
        context->forward_root = SIM_MODEL_NONE;
    }
    return unit;
}
