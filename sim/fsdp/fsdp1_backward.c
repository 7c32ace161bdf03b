/* SPDX-License-Identifier: Apache-2.0 */
#include "fsdp/fsdp1_backward.h"

#include "fsdp/fsdp1_forward.h"
#include "fsdp/fsdp1_reduce.h"
#include "fsdp/fsdp1_slices.h"
#include "fsdp/fsdp1_unshard.h"

/* _should_free_in_backward */
static bool frees_in_backward(const SimFsdp1Context *context)
{
    return context->is_sharded && (context->synchronizes || context->frees_after_forward);
}

static void reshard_after_backward(SimFsdp1Context *context, SimFsdp1State *state, uint32_t stream)
{
    sim_fsdp1_unshard_reshard(context, state, frees_in_backward(context), stream);
    sim_fsdp1_unshard_prefetch(context, state);
}

/* A frozen unit has no gradient whose hook could reshard it: a hook on its input does, called after
 * the pre-backward of the unit that made the input. */
static void reshard_frozen(SimFsdp1Context *context)
{
    if (context->frozen_unit == SIM_MODEL_NONE)
        return;
    SimFsdp1State *state = &context->states[context->frozen_unit];
    context->frozen_unit = SIM_MODEL_NONE;
    SimStringId unit = sim_plan_context(context->plan)->unit;
    sim_fsdp1_context_enter(context, state->index);
    state->training_state = SIM_FSDP1_BACKWARD_POST;
    reshard_after_backward(context, state, context->compute);
    sim_plan_context(context->plan)->unit = unit;
}

void sim_fsdp1_backward_start(SimFsdp1Context *context, uint32_t unit)
{
    SimFsdp1State *state = &context->states[unit];
    if (state->has_run_pre_backward)
        return;
    if (unit == context->units->root && !context->is_callback_queued) {
        context->is_callback_queued = true;
        sim_fsdp1_forward_drop_zeroed(context);
    }
    if (state->unit->parameters->len == 0)
        return;
    sim_fsdp1_context_enter(context, unit);
    state->training_state = SIM_FSDP1_BACKWARD_PRE;
    if (state->needs_pre_backward_unshard) {
        if (!state->is_prefetched)
            sim_fsdp1_unshard_start(context, state);
        sim_fsdp1_unshard_wait(context);
    }
    state->needs_pre_backward_unshard = false;
    sim_fsdp1_unshard_prefetch(context, state);
    sim_fsdp1_reduce_raise(context, state);
    state->has_run_pre_backward = true;
    reshard_frozen(context);
}

/* _post_backward_hook: on the flat parameter's AccumulateGrad. IS_FIRST: its parameters had no
 * gradient before. */
static void post_backward(SimFsdp1Context *context, SimFsdp1State *state, bool is_first)
{
    state->training_state = SIM_FSDP1_BACKWARD_POST;
    reshard_after_backward(context, state, context->unshard);
    if (context->synchronizes)
        sim_fsdp1_reduce_start(context, state);
    else if (!context->job->fsdp1.uses_flat_parameters && is_first &&
             state->sharded_gradient == SIM_PLAN_NONE)
        sim_fsdp1_slices_expose(context->slices, state);
}

static void finish(SimFsdp1Context *context, SimFsdp1State *state)
{
    SimStringId unit = sim_plan_context(context->plan)->unit;
    sim_fsdp1_context_enter(context, state->index);
    bool is_first = state->whole_gradient == SIM_PLAN_NONE;
    sim_fsdp1_reduce_concatenate(context, state);
    post_backward(context, state, is_first);
    sim_fsdp1_reduce_drop_added(context, state);
    sim_plan_context(context->plan)->unit = unit;
}

/* Concatenates and reduces all units with gradients whose parts were made later than SEQUENCE, the
 * last made first. */
static void finish_later_than(SimFsdp1Context *context, uint64_t sequence)
{
    for (;;) {
        SimFsdp1State *latest = NULL;
        for (uint32_t u = 0; u < sim_unit_list_count(context->units); u++) {
            SimFsdp1State *state = &context->states[u];
            if (state->has_gradients && state->view_sequence > sequence &&
                (latest == NULL || state->view_sequence > latest->view_sequence))
                latest = state;
        }
        if (latest == NULL)
            return;
        finish(context, latest);
    }
}

void sim_fsdp1_backward_add_gradient(SimFsdp1Context *context, uint32_t parameter, uint32_t buffer)
{
    SimFsdp1State *state = &context->states[context->units->owner[parameter]];
    reshard_frozen(context);
    state->gradients[context->units->place[parameter]] = buffer;
    state->has_gradients = true;
}

void sim_fsdp1_backward_finish(SimFsdp1Context *context, uint32_t unit)
{
    SimFsdp1State *state = &context->states[unit];
    sim_fsdp1_context_enter(context, unit);
    reshard_frozen(context);
    if (state->is_frozen)
        context->frozen_unit = unit;
    else if (state->has_gradients)
        sim_fsdp1_reduce_record(context, state);
    finish_later_than(context, state->entry_sequence);
    sim_fsdp1_context_enter(context, state->unit->enclosing);
}

/* _catch_all_reshard: no hook has come to this unit. */
static void catch_up(SimFsdp1Context *context, SimFsdp1State *state)
{
    if (state->is_in_use || state->is_left_in_use)
        sim_fsdp1_unshard_reshard(context, state, frees_in_backward(context), context->compute);
}

static void finalize(SimFsdp1Context *context, SimFsdp1State *state)
{
    sim_fsdp1_context_enter(context, state->index);
    catch_up(context, state);
    if (context->synchronizes && !state->is_frozen)
        sim_fsdp1_reduce_lower(context, state);
    state->training_state = SIM_FSDP1_IDLE;
    state->has_run_pre_backward = false;
    state->needs_pre_backward_unshard = false;
    state->is_prefetched = false;
    state->post_forward_index = SIM_PLAN_NONE;
}

void sim_fsdp1_backward_finish_all(SimFsdp1Context *context)
{
    reshard_frozen(context);
    finish_later_than(context, 0);
    sim_fsdp1_context_enter(context, context->units->root);
    if (context->synchronizes) {
        sim_plan_wait_stream(context->plan, context->compute, context->post_backward);
        if (context->is_hybrid)
            sim_plan_wait_stream(context->plan, context->compute, context->all_reduce);
    }
    context->iteration++;
    g_array_set_size(context->post_forward_order, 0);
    for (uint32_t i = 0; i < sim_unit_list_count(context->units); i++) {
        SimFsdp1State *state = &context->states[context->units->traversal[i]];
        if (state->unit->parameters->len > 0)
            finalize(context, state);
    }
    context->is_callback_queued = false;
    sim_fsdp1_context_enter(context, SIM_MODEL_NONE);
}
