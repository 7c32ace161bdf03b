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

/* The bit of MODULE in the unit, and all of them (_modules_to_run_forward). */
static uint32_t bit_of(const SimFsdp2State *state, uint32_t module)
{
    const GArray *modules = state->unit->call->modules;
    g_assert(modules->len <= 32);
    for (uint32_t i = 0; i < modules->len; i++)
        if (g_array_index(modules, uint32_t, i) == module)
            return UINT32_C(1) << i;
    g_assert_not_reached();
}

static uint32_t all_bits(const SimFsdp2State *state)
{
    return UINT32_MAX >> (32 - state->unit->call->modules->len);
}

/* A group of modules is gathered, and its inputs get their node, once a pass: with the first one. A
 * pass of which not all modules run ends with its backward. */
uint32_t sim_fsdp2_forward_start(SimFsdp2Context *context, uint32_t module)
{
    uint32_t unit = context->units->unit_of_module[module];
    if (unit == SIM_MODEL_NONE)
        return SIM_AUTOGRAD_NO_TOKEN;
    SimFsdp2State *state = &context->states[unit];
    sim_fsdp2_context_enter(context, unit);
    if (state->pending_modules == 0)
        state->pending_modules = all_bits(state);
    if (state->training_state == SIM_TRAINING_PRE_BACKWARD ||
        state->training_state == SIM_TRAINING_FORWARD)
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

/* What a unit's last module does after its forward; not while a graph is being walked. */
static void finish_pass(SimFsdp2Context *context, SimFsdp2State *state)
{
    SimPhase phase = sim_plan_context(context->plan)->phase;
    bool is_in_backward = phase == SIM_PHASE_BACKWARD || phase == SIM_PHASE_RECOMPUTE;
    bool is_kept = is_in_backward && context->version->keeps_recomputed_units;
    if (state->unit->parameters->len > 0 && !is_kept) {
        sim_fsdp2_unshard_reshard(context, state);
        uint32_t place = context->post_forward_order->len;
        g_array_append_val(context->post_forward_order, state->index);
        g_array_append_val(state->post_forward_indices, place);
    }
    state->training_state = SIM_TRAINING_IDLE;
    state->pending_modules = 0;
}

/* _force_complete_incomplete_states: groups of which a module did not run (a chunked loss runs the
 * head later) are finished by the root, last one first. */
static void complete_others(SimFsdp2Context *context, uint32_t root)
{
    for (uint32_t i = sim_unit_list_count(context->units); i-- > 0;) {
        SimFsdp2State *state = &context->states[context->units->traversal[i]];
        if (state->index == root || state->pending_modules == 0)
            continue;
        sim_fsdp2_context_enter(context, state->index);
        finish_pass(context, state);
        state->is_completed_by_root = true;
    }
}

/* A unit that runs while a graph is being walked (recomputed by an outer checkpoint) keeps its
 * parameters for its own backward, and its place in the order. */
uint32_t sim_fsdp2_forward_finish(SimFsdp2Context *context, uint32_t module)
{
    uint32_t unit = context->units->unit_of_module[module];
    if (unit == SIM_MODEL_NONE)
        return SIM_AUTOGRAD_NO_TOKEN;
    SimFsdp2State *state = &context->states[unit];
    uint32_t bit = bit_of(state, module);
    bool is_repeat = (state->pending_modules & bit) == 0;
    state->pending_modules &= ~bit;
    bool is_recompute = state->training_state == SIM_TRAINING_PRE_BACKWARD;
    if (is_repeat || state->pending_modules != 0 || is_recompute) {
        sim_fsdp2_context_enter(context, state->unit->enclosing);
        return SIM_AUTOGRAD_NO_TOKEN;
    }
    finish_pass(context, state);
    bool is_root = context->forward_root == unit;
    if (is_root)
        complete_others(context, unit);
    sim_fsdp2_context_enter(context, state->unit->enclosing);
    if (is_root) {
        sim_fsdp2_context_drop_parked(context);
        context->forward_root = SIM_MODEL_NONE;
    }
    return unit;
}
