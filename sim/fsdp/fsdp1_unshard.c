/* SPDX-License-Identifier: Apache-2.0 */
#include "fsdp/fsdp1_unshard.h"

/* _FreeEventQueue (_limiter_utils.py): how many unsharded parameters may wait to be freed. */
#define MOST_INFLIGHT_ALL_GATHERS 2

static uint64_t get_shard_bytes(const SimFsdp1State *state, SimDtype dtype)
{
    return state->flat.shard_elements * sim_dtype_bytes(dtype);
}

static uint64_t get_unsharded_bytes(const SimFsdp1State *state, SimDtype dtype)
{
    return state->flat.padded_elements * sim_dtype_bytes(dtype);
}

static void try_bytes(SimFsdp1Context *context, SimFsdp1State *state, uint64_t bytes,
                      SimDtype dtype)
{
    uint32_t buffer =
        sim_plan_alloc(context->plan, context->compute, sim_fsdp1_state_name(state, SIM_FSDP1_LAZY),
                       bytes, SIM_CATEGORY_TEMPORARY, dtype, 0);
    sim_plan_free_buffer(context->plan, buffer);
}

static void try_unit(SimFsdp1Context *context, SimFsdp1State *state)
{
    bool is_mixed = sim_fsdp1_context_is_mixed(context);
    SimDtype stored = context->job->store_dtype, computed = context->compute_dtype;
    sim_fsdp1_context_enter(context, state->index);
    if (state->unit->parameters->len == 0)
        return;
    if (is_mixed)
        try_bytes(context, state, get_shard_bytes(state, computed), computed);
    if (context->is_sharded)
        try_bytes(context, state, get_unsharded_bytes(state, computed), computed);
    if (context->is_sharded && is_mixed)
        try_bytes(context, state, get_unsharded_bytes(state, stored), stored);
}

void sim_fsdp1_unshard_try(SimFsdp1Context *context)
{
    for (uint32_t i = 0; i < sim_unit_list_count(context->units); i++)
        try_unit(context, &context->states[context->units->traversal[i]]);
}

/* M. True if something has to be waited for. */
static bool start_pre_unshard(SimFsdp1Context *context, SimFsdp1State *state)
{
    if (!sim_fsdp1_context_is_mixed(context) || state->unsharded != SIM_PLAN_NONE)
        return false;
    if (state->low_precision_shard == SIM_PLAN_NONE)
        state->low_precision_shard = sim_plan_alloc(
            context->plan, context->pre_unshard, sim_fsdp1_state_name(state, SIM_FSDP1_M),
            get_shard_bytes(state, context->compute_dtype), SIM_CATEGORY_LOW_PRECISION_SHARD,
            context->compute_dtype, 0);
    sim_fsdp1_context_launch(context, context->pre_unshard, context->words.cast, state->shard,
                             state->low_precision_shard);
    return true;
}

/* Blocks the host, not a stream. */
static void limit(SimFsdp1Context *context)
{
    if (!context->job->fsdp1.limits_all_gathers ||
        context->free_events->len < MOST_INFLIGHT_ALL_GATHERS)
        return;
    sim_plan_host_wait(context->plan, g_array_index(context->free_events, uint32_t, 0));
    g_array_remove_index(context->free_events, 0);
}

/* The parameters become parts of BUFFER, whose name is the last of KIND. */
static void set_views(SimFsdp1Context *context, SimFsdp1State *state, uint32_t buffer,
                      SimFsdp1Kind kind)
{
    uint32_t size = sim_dtype_bytes(context->compute_dtype);
    for (uint32_t i = 0; i < state->unit->parameters->len; i++) {
        const SimUnitParameter *parameter =
            &g_array_index(state->unit->parameters, SimUnitParameter, i);
        uint64_t elements = sim_model_parameter(context->model, parameter->parameter)->elements;
        state->views[i] =
            sim_plan_view(context->plan, sim_fsdp1_state_part(state, kind, parameter->tail), buffer,
                          state->flat.offsets[i] * size, elements * size, context->compute_dtype,
                          parameter->shape);
    }
}

static void all_gather(SimFsdp1Context *context, SimFsdp1State *state)
{
    SimPlan *plan = context->plan;
    uint32_t source =
        state->low_precision_shard != SIM_PLAN_NONE ? state->low_precision_shard : state->shard;
    uint64_t bytes = get_unsharded_bytes(state, context->compute_dtype);
    state->unsharded =
        sim_plan_alloc(plan, context->unshard, sim_fsdp1_state_name(state, SIM_FSDP1_U), bytes,
                       SIM_CATEGORY_UNSHARDED_PARAMETER, context->compute_dtype, 0);
    sim_plan_collective(plan, context->unshard, context->words.all_gather,
                        SIM_COLLECTIVE_ALL_GATHER, context->shard_group, bytes,
                        context->compute_dtype);
    sim_plan_add_read(plan, SIM_TOUCH_WHOLE(source));
    sim_plan_add_write(plan, SIM_TOUCH_WHOLE(state->unsharded));
    set_views(context, state, state->unsharded, SIM_FSDP1_U);
}

static void free_low_precision_shard(SimFsdp1Context *context, SimFsdp1State *state,
                                     uint32_t stream)
{
    if (state->low_precision_shard == SIM_PLAN_NONE)
        return;
    sim_plan_record_stream(context->plan, state->low_precision_shard, stream);
    sim_plan_free_buffer(context->plan, state->low_precision_shard);
    state->low_precision_shard = SIM_PLAN_NONE;
}

/* NO_SHARD: the parameters are parts of what there is. */
static void use_shard(SimFsdp1Context *context, SimFsdp1State *state)
{
    if (state->low_precision_shard != SIM_PLAN_NONE)
        set_views(context, state, state->low_precision_shard, SIM_FSDP1_M);
    else if (state->views[0] == SIM_PLAN_NONE)
        set_views(context, state, state->shard, SIM_FSDP1_P);
}

void sim_fsdp1_unshard_start(SimFsdp1Context *context, SimFsdp1State *state)
{
    SimStringId unit = sim_plan_context(context->plan)->unit;
    sim_fsdp1_context_enter(context, state->index);
    if (start_pre_unshard(context, state))
        sim_plan_wait_stream(context->plan, context->unshard, context->pre_unshard);
    limit(context);
    if (!context->is_sharded) {
        use_shard(context, state);
    } else if (state->unsharded == SIM_PLAN_NONE) {
        all_gather(context, state);
        free_low_precision_shard(context, state, context->unshard);
    }
    state->is_in_use = true;
    if (sim_plan_context(context->plan)->phase == SIM_PHASE_FORWARD)
        state->view_sequence = ++context->sequence;
    sim_plan_context(context->plan)->unit = unit;
}

void sim_fsdp1_unshard_wait(SimFsdp1Context *context)
{
    sim_plan_wait_stream(context->plan, context->compute, context->unshard);
}

/* The unit to be unsharded early, or NULL (_get_handle_to_prefetch). */
static SimFsdp1State *find_target(SimFsdp1Context *context, const SimFsdp1State *state)
{
    const SimJobFsdp1 *job = &context->job->fsdp1;
    if (state->training_state == SIM_FSDP1_FORWARD) {
        uint32_t next = state->pre_forward_index + 1; /* NONE + 1 = 0: that unit is not wanted */
        if (!job->has_forward_prefetch || next >= context->pre_forward_order->len)
            return NULL;
        SimFsdp1State *target =
            &context->states[g_array_index(context->pre_forward_order, uint32_t, next)];
        return target->needs_pre_forward_unshard && !target->is_prefetched ? target : NULL;
    }
    SimBackwardPrefetch time = state->training_state == SIM_FSDP1_BACKWARD_PRE
                                   ? SIM_BACKWARD_PREFETCH_PRE
                                   : SIM_BACKWARD_PREFETCH_POST;
    uint32_t place = state->post_forward_index;
    if (job->backward_prefetch != time || place == SIM_PLAN_NONE || place == 0)
        return NULL;
    SimFsdp1State *target =
        &context->states[g_array_index(context->post_forward_order, uint32_t, place - 1)];
    return target->needs_pre_backward_unshard && !target->is_prefetched ? target : NULL;
}

void sim_fsdp1_unshard_prefetch(SimFsdp1Context *context, const SimFsdp1State *state)
{
    SimFsdp1State *target = find_target(context, state);
    if (target == NULL)
        return;
    sim_fsdp1_unshard_start(context, target);
    target->is_prefetched = true;
}

static void free_unsharded(SimFsdp1Context *context, SimFsdp1State *state, uint32_t stream)
{
    if (state->unsharded == SIM_PLAN_NONE)
        return;
    sim_plan_record_stream(context->plan, state->unsharded, stream);
    sim_plan_free_buffer(context->plan, state->unsharded);
    state->unsharded = SIM_PLAN_NONE;
}

void sim_fsdp1_unshard_reshard(SimFsdp1Context *context, SimFsdp1State *state, bool frees,
                               uint32_t stream)
{
    if (frees) {
        free_unsharded(context, state, stream);
        if (context->job->fsdp1.limits_all_gathers) {
            uint32_t event =
                sim_plan_record(context->plan, stream, sim_fsdp1_state_name(state, SIM_FSDP1_FREE));
            g_array_append_val(context->free_events, event);
        }
    }
    if (!context->is_sharded)
        free_low_precision_shard(context, state, stream);
    state->is_in_use = false;
    state->is_left_in_use = false;
    state->is_prefetched = false;
}
