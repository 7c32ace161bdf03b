/* SPDX-License-Identifier: Apache-2.0 */
#include "fsdp/fsdp2_copy_out.h"

#include "fsdp/fsdp2_launch_tables.h"

static const SimUnitParameter *get_parameter(const SimFsdp2State *state, uint32_t index)
{
    return &g_array_index(state->unit->parameters, SimUnitParameter, index);
}

/* The parameter's pieces before they are put together along SHARD_DIM. */
static uint32_t alloc_pieces(SimFsdp2Context *context, SimFsdp2State *state,
                             const SimUnitParameter *parameter)
{
    return sim_plan_alloc(context->plan, context->compute,
                          sim_fsdp2_state_name(state, SIM_FSDP2_T, 0),
                          sim_unit_list_gathered_bytes(parameter), SIM_CATEGORY_TEMPORARY,
                          parameter->gather_dtype, 0);
}

/* A storage that set_keep_unsharded_storage has kept is used again. */
static void alloc_unsharded(SimFsdp2Context *context, SimFsdp2State *state, uint32_t index)
{
    const SimUnitParameter *parameter = get_parameter(state, index);
    if (state->parameters[index].unsharded != SIM_PLAN_NONE)
        return;
    SimName name = index == 0 ? sim_fsdp2_state_name(state, SIM_FSDP2_U, parameter->tail)
                              : sim_fsdp2_state_same_name(state, SIM_FSDP2_U, parameter->tail);
    state->parameters[index].unsharded = sim_plan_alloc(
        context->plan, context->compute, name, sim_unit_list_gathered_bytes(parameter),
        SIM_CATEGORY_UNSHARDED_PARAMETER, parameter->gather_dtype, parameter->shape);
}

/* U of every parameter, each with its T, if it needs one, right after it. */
static void alloc_all(SimFsdp2Context *context, SimFsdp2State *state, uint32_t *pieces)
{
    for (uint32_t i = 0; i < state->unit->parameters->len; i++) {
        const SimUnitParameter *parameter = get_parameter(state, i);
        alloc_unsharded(context, state, i);
        pieces[i] =
            parameter->shard_dim > 0 ? alloc_pieces(context, state, parameter) : SIM_PLAN_NONE;
    }
}

static void copy(SimFsdp2Context *context, SimFsdp2State *state, const uint32_t *pieces)
{
    SimPlan *plan = context->plan;
    SimStringId word = context->words.copy_out;
    uint64_t bytes = state->unit->shard_bytes * context->shard_size;
    SimInstruction *kernel =
        sim_plan_kernel(plan, context->compute, word, word, state->unit->gather_dtype);
    kernel->hbm_bytes = 2 * bytes;
    kernel->bytes = bytes;
    if (state->sharded_state == SIM_SHARDED_POST_FORWARD) /* parts of the smaller mesh */
        kernel->group = context->post_forward_group;
    sim_plan_add_read(plan, SIM_TOUCH_WHOLE(state->all_gather_output));
    for (uint32_t i = 0; i < state->unit->parameters->len; i++)
        sim_plan_add_write(plan, SIM_TOUCH_WHOLE(pieces[i] == SIM_PLAN_NONE
                                                     ? state->parameters[i].unsharded
                                                     : pieces[i]));
}

static void concatenate(SimFsdp2Context *context, SimFsdp2State *state, const uint32_t *pieces)
{
    SimPlan *plan = context->plan;
    for (uint32_t i = 0; i < state->unit->parameters->len; i++) {
        if (pieces[i] == SIM_PLAN_NONE)
            continue;
        const SimUnitParameter *parameter = get_parameter(state, i);
        SimStringId arguments =
            sim_strings_internf(sim_plan_strings(plan), "dim=%u", parameter->shard_dim);
        SimInstruction *kernel = sim_plan_kernel(plan, context->compute, context->words.cat,
                                                 context->words.cat, parameter->gather_dtype);
        kernel->hbm_bytes = 2 * sim_unit_list_gathered_bytes(parameter);
        kernel->arguments = arguments;
        sim_plan_add_read(plan, SIM_TOUCH_WHOLE(pieces[i]));
        sim_plan_add_write(plan, SIM_TOUCH_WHOLE(state->parameters[i].unsharded));
    }
}

/* The list of temporaries is dropped from its end; the last of them lives on a moment as the loop's
 * variable. */
static void drop_pieces(SimFsdp2Context *context, SimFsdp2State *state, const uint32_t *pieces)
{
    uint32_t last = SIM_PLAN_NONE;
    for (uint32_t i = state->unit->parameters->len; i-- > 0;) {
        if (pieces[i] == SIM_PLAN_NONE)
            continue;
        if (last == SIM_PLAN_NONE)
            last = pieces[i];
        else
            sim_plan_free_buffer(context->plan, pieces[i]);
    }
    if (last != SIM_PLAN_NONE)
        sim_plan_free_buffer(context->plan, last);
}

/* all_gather_inputs of one parameter: T, or where nothing is cast P itself. */
static uint32_t get_input(SimFsdp2Context *context, SimFsdp2State *state, uint32_t index)
{
    SimPlan *plan = context->plan;
    const SimUnitParameter *parameter = get_parameter(state, index);
    uint32_t sharded = state->parameters[index].sharded;
    if (parameter->gather_dtype == context->job->store_dtype)
        return sharded;
    uint64_t bytes = sim_unit_list_gathered_bytes(parameter);
    uint32_t cast = sim_plan_alloc(plan, context->compute,
                                   sim_fsdp2_state_name(state, SIM_FSDP2_T, parameter->tail), bytes,
                                   SIM_CATEGORY_TEMPORARY, parameter->gather_dtype, 0);
    uint64_t source = sim_plan_buffer(plan, sharded)->bytes;
    sim_plan_kernel(plan, context->compute, context->words.cast, context->words.cast,
                    parameter->gather_dtype)
        ->hbm_bytes = source + bytes;
    sim_plan_add_read(plan, SIM_TOUCH_WHOLE(sharded));
    sim_plan_add_write(plan, SIM_TOUCH_WHOLE(cast));
    return cast;
}

static void copy_alone(SimFsdp2Context *context, SimFsdp2State *state)
{
    SimPlan *plan = context->plan;
    uint32_t last = SIM_PLAN_NONE; /* what the loop's variable holds, unless it is P */
    for (uint32_t i = 0; i < state->unit->parameters->len; i++) {
        uint32_t input = get_input(context, state, i);
        if (last != SIM_PLAN_NONE)
            sim_plan_free_buffer(plan, last);
        last = input == state->parameters[i].sharded ? SIM_PLAN_NONE : input;
        alloc_unsharded(context, state, i);
        const SimUnitParameter *parameter = get_parameter(state, i);
        sim_plan_kernel(plan, context->compute, context->words.clone, context->words.clone,
                        parameter->gather_dtype)
            ->hbm_bytes = 2 * sim_unit_list_gathered_bytes(parameter);
        sim_plan_add_read(plan, SIM_TOUCH_WHOLE(input));
        sim_plan_add_write(plan, SIM_TOUCH_WHOLE(state->parameters[i].unsharded));
    }
    if (last != SIM_PLAN_NONE)
        sim_plan_free_buffer(plan, last);
}

void sim_fsdp2_copy_out_run(SimFsdp2Context *context, SimFsdp2State *state)
{
    if (state->all_gather_output == SIM_PLAN_NONE) {
        copy_alone(context, state);
        return;
    }
    g_autofree uint32_t *pieces = g_new(uint32_t, state->unit->parameters->len + 1);
    alloc_all(context, state, pieces);
    sim_fsdp2_launch_tables_split(context, state);
    copy(context, state, pieces);
    concatenate(context, state, pieces);
    drop_pieces(context, state, pieces);
}
