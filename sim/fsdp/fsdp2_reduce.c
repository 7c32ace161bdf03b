/* SPDX-License-Identifier: Apache-2.0 */
#include "fsdp/fsdp2_reduce.h"

static const SimUnitParameter *get_parameter(const SimFsdp2State *state, uint32_t index)
{
    return &g_array_index(state->unit->parameters, SimUnitParameter, index);
}

static bool has_gradient(const SimFsdp2State *state, uint32_t index)
{
    return state->parameters[index].gradient != SIM_PLAN_NONE;
}

/* Elements of one rank's part of the reduction: shards of the parameters that take part. */
static uint64_t count_shard_elements(const SimFsdp2State *state)
{
    uint64_t elements = 0;
    for (uint32_t i = 0; i < state->unit->parameters->len; i++)
        if (has_gradient(state, i))
            elements += get_parameter(state, i)->shard.shard_elements;
    return elements;
}

static uint32_t chunk_cat(SimFsdp2Context *context, SimFsdp2State *state, uint64_t bytes)
{
    SimPlan *plan = context->plan;
    SimDtype dtype = state->unit->reduce_dtype;
    uint32_t input =
        sim_plan_alloc(plan, context->compute, sim_fsdp2_state_name(state, SIM_FSDP2_I, 0), bytes,
                       SIM_CATEGORY_REDUCE_SCATTER_INPUT, dtype, 0);
    uint64_t gradient_bytes = 0;
    for (uint32_t i = 0; i < state->unit->parameters->len; i++)
        if (has_gradient(state, i))
            gradient_bytes += sim_plan_buffer(plan, state->parameters[i].gradient)->bytes;
    SimInstruction *kernel = sim_plan_kernel(plan, context->compute, context->words.chunk_cat,
                                             context->words.chunk_cat, dtype);
    kernel->bytes = bytes;
    kernel->hbm_bytes = gradient_bytes + bytes;
    for (uint32_t i = 0; i < state->unit->parameters->len; i++)
        if (has_gradient(state, i))
            sim_plan_add_read(plan, SIM_TOUCH_WHOLE(state->parameters[i].gradient));
    sim_plan_add_write(plan, SIM_TOUCH_WHOLE(input));
    return input;
}

/* The factors by which half-precision sums are divided before and after, so that neither overflows
 * nor underflows: a power of two near the root of all ranks' number, and the rest. Other types let
 * the collective average. */
static uint32_t get_pre_factor(const SimFsdp2Context *context, SimDtype dtype)
{
    uint32_t factor = context->job->ranks;
    uint32_t pre = 1;
    if (dtype != SIM_DTYPE_F16)
        return 1;
    while (factor % pre == 0 && factor / pre > pre)
        pre *= 2;
    return pre;
}

static void divide(SimFsdp2Context *context, uint32_t stream, uint32_t buffer, uint64_t bytes,
                   SimDtype dtype, uint32_t factor)
{
    if (factor == 1)
        return;
    SimStringId arguments =
        sim_strings_internf(sim_plan_strings(context->plan), "factor=%u", factor);
    SimInstruction *kernel =
        sim_plan_kernel(context->plan, stream, context->words.divide, context->words.divide, dtype);
    kernel->hbm_bytes = 2 * bytes;
    kernel->arguments = arguments;
    sim_plan_add_read(context->plan, SIM_TOUCH_WHOLE(buffer));
    sim_plan_add_write(context->plan, SIM_TOUCH_WHOLE(buffer));
}

static SimStringId get_reduction(const SimFsdp2Context *context, SimDtype dtype)
{
    bool is_sum = dtype == SIM_DTYPE_F16 || context->job->ranks == 1;
    return is_sum ? context->words.sum : context->words.average;
}

/* O on the reduce-scatter stream, from I. With one rank in the group it is a copy. */
static uint32_t reduce_scatter(SimFsdp2Context *context, SimFsdp2State *state, uint32_t input,
                               uint64_t bytes, SimCategory category)
{
    SimPlan *plan = context->plan;
    SimDtype dtype = state->unit->reduce_dtype;
    sim_plan_wait_stream(plan, context->reduce_scatter, context->compute);
    uint64_t output_bytes = bytes / context->shard_size;
    uint32_t output =
        sim_plan_alloc(plan, context->reduce_scatter, sim_fsdp2_state_name(state, SIM_FSDP2_O, 0),
                       output_bytes, category, dtype, 0);
    divide(context, context->reduce_scatter, input, bytes, dtype, get_pre_factor(context, dtype));
    if (context->shard_size > 1) {
        SimInstruction *row =
            sim_plan_collective(plan, context->reduce_scatter, context->words.reduce_scatter,
                                SIM_COLLECTIVE_REDUCE_SCATTER, context->shard_group, bytes, dtype);
        row->arguments = get_reduction(context, dtype);
    } else {
        SimInstruction *row = sim_plan_kernel(plan, context->reduce_scatter, context->words.clone,
                                              context->words.clone, dtype);
        row->hbm_bytes = 2 * bytes;
    }
    sim_plan_add_read(plan, SIM_TOUCH_WHOLE(input));
    sim_plan_add_write(plan, SIM_TOUCH_WHOLE(output));
    SimFsdp2Reduction reduction = {input,
                                   sim_plan_record(plan, context->reduce_scatter,
                                                   sim_fsdp2_state_name(state, SIM_FSDP2_RS, 0))};
    g_array_append_val(context->reductions, reduction);
    return output;
}

static void accumulate(SimFsdp2Context *context, uint32_t stream, uint32_t into, uint32_t added)
{
    const SimBuffer *buffer = sim_plan_buffer(context->plan, added);
    uint64_t bytes = buffer->bytes;
    SimInstruction *kernel = sim_plan_kernel(context->plan, stream, context->words.accumulate,
                                             context->words.accumulate, (SimDtype)buffer->dtype);
    kernel->hbm_bytes = 3 * bytes;
    sim_plan_add_read(context->plan, SIM_TOUCH_WHOLE(into));
    sim_plan_add_read(context->plan, SIM_TOUCH_WHOLE(added));
    sim_plan_add_write(context->plan, SIM_TOUCH_WHOLE(into));
}

static void all_reduce(SimFsdp2Context *context, SimFsdp2State *state, uint32_t output)
{
    SimPlan *plan = context->plan;
    SimDtype dtype = state->unit->reduce_dtype;
    if (state->partial_output != SIM_PLAN_NONE)
        accumulate(context, context->reduce_scatter, output, state->partial_output);
    sim_plan_wait_stream(plan, context->all_reduce, context->reduce_scatter);
    SimInstruction *row = sim_plan_collective(plan, context->all_reduce, context->words.all_reduce,
                                              SIM_COLLECTIVE_ALL_REDUCE, context->replicate_group,
                                              sim_plan_buffer(plan, output)->bytes, dtype);
    row->arguments = get_reduction(context, dtype);
    sim_plan_add_read(plan, SIM_TOUCH_WHOLE(output));
    sim_plan_add_write(plan, SIM_TOUCH_WHOLE(output));
    state->all_reduce_event =
        sim_plan_record(plan, context->all_reduce, sim_fsdp2_state_name(state, SIM_FSDP2_AR, 0));
    state->all_reduce_input = output;
}

/* The stored type's copy of O, on the post stream's pool. */
static uint32_t cast_output(SimFsdp2Context *context, SimFsdp2State *state, uint32_t stream,
                            uint32_t output, uint64_t elements)
{
    SimPlan *plan = context->plan;
    SimDtype stored = context->job->store_dtype;
    uint64_t bytes = elements * sim_dtype_bytes(stored);
    uint32_t cast = sim_plan_alloc(plan, stream, sim_fsdp2_state_name(state, SIM_FSDP2_Q, 0), bytes,
                                   SIM_CATEGORY_SHARDED_GRADIENT, stored, 0);
    SimInstruction *kernel =
        sim_plan_kernel(plan, stream, context->words.cast, context->words.cast, stored);
    kernel->hbm_bytes = bytes + sim_plan_buffer(plan, output)->bytes;
    sim_plan_add_read(plan, SIM_TOUCH_WHOLE(output));
    sim_plan_add_write(plan, SIM_TOUCH_WHOLE(cast));
    return cast;
}

/* Makes parts of REDUCED the parameters' `.grad`, or adds them to an older one. True if something
 * still refers to REDUCED afterwards. */
static bool write_gradients(SimFsdp2Context *context, SimFsdp2State *state, uint32_t stream,
                            uint32_t reduced)
{
    uint64_t offset = 0;
    uint32_t older = SIM_PLAN_NONE;
    bool is_kept = false;
    for (uint32_t i = 0; i < state->unit->parameters->len; i++) {
        SimFsdp2Parameter *parameter = &state->parameters[i];
        if (!has_gradient(state, i))
            continue;
        parameter->gradient = SIM_PLAN_NONE;
        if (parameter->sharded_gradient == SIM_PLAN_NONE) {
            parameter->sharded_gradient = reduced;
            parameter->sharded_gradient_offset = offset;
            is_kept = true;
        } else if (parameter->sharded_gradient != older) {
            older = parameter->sharded_gradient;
            accumulate(context, stream, older, reduced);
        }
        offset += get_parameter(state, i)->shard.shard_elements *
                  sim_dtype_bytes(context->job->store_dtype);
    }
    return is_kept;
}

/* After the last collective, on its stream: divide, cast, write or add, record. */
static void finish_output(SimFsdp2Context *context, SimFsdp2State *state, uint32_t output,
                          uint64_t elements, uint32_t stream)
{
    SimPlan *plan = context->plan;
    SimDtype dtype = state->unit->reduce_dtype;
    uint32_t pre = get_pre_factor(context, dtype);
    if (pre > 1)
        divide(context, stream, output, elements * sim_dtype_bytes(dtype), dtype,
               context->job->ranks / pre);
    bool is_cast = dtype != context->job->store_dtype;
    uint32_t reduced = is_cast ? cast_output(context, state, stream, output, elements) : output;
    bool is_kept = write_gradients(context, state, stream, reduced);
    state->post_event =
        sim_plan_record(plan, stream, sim_fsdp2_state_name(state, SIM_FSDP2_POST, 0));
    context->last_post_event[stream == context->all_reduce] = state->post_event;
    if (state->partial_output != SIM_PLAN_NONE) {
        sim_plan_free_buffer(plan, state->partial_output);
        state->partial_output = SIM_PLAN_NONE;
    }
    if (is_cast && !is_kept)
        sim_plan_free_buffer(plan, reduced);
    bool is_output_kept = !is_cast && is_kept;
    if (is_output_kept)
        state->all_reduce_input = SIM_PLAN_NONE;
    else if (state->all_reduce_input != output)
        sim_plan_free_buffer(plan, output);
}

/* Replicas that are not to be reduced over yet: O waits on the reduce-scatter stream. */
static void keep_partial(SimFsdp2Context *context, SimFsdp2State *state, uint32_t output)
{
    SimPlan *plan = context->plan;
    if (state->partial_output == SIM_PLAN_NONE) {
        state->partial_output = output;
        output = SIM_PLAN_NONE;
    } else {
        accumulate(context, context->reduce_scatter, state->partial_output, output);
    }
    for (uint32_t i = 0; i < state->unit->parameters->len; i++)
        state->parameters[i].gradient = SIM_PLAN_NONE;
    state->post_event = sim_plan_record(plan, context->reduce_scatter,
                                        sim_fsdp2_state_name(state, SIM_FSDP2_POST, 0));
    context->last_post_event[0] = state->post_event;
    if (output != SIM_PLAN_NONE)
        sim_plan_free_buffer(plan, output);
}

/* A Python list drops its items from its end. */
static void free_gradients(SimFsdp2Context *context, SimFsdp2State *state)
{
    for (uint32_t i = state->unit->parameters->len; i-- > 0;)
        if (has_gradient(state, i))
            sim_plan_free_buffer(context->plan, state->parameters[i].gradient);
}

void sim_fsdp2_reduce_start(SimFsdp2Context *context, SimFsdp2State *state)
{
    uint64_t elements = count_shard_elements(state);
    uint64_t bytes = elements * context->shard_size * sim_dtype_bytes(state->unit->reduce_dtype);
    bool is_replicated = context->replicas > 1;
    bool is_partial = is_replicated && !state->all_reduces_gradients;
    if (state->partial_output != SIM_PLAN_NONE)
        sim_plan_wait_stream(context->plan, context->reduce_scatter, context->compute);
    uint32_t input = chunk_cat(context, state, bytes);
    free_gradients(context, state);
    uint32_t output = reduce_scatter(context, state, input, bytes,
                                     is_partial ? SIM_CATEGORY_PARTIAL_REDUCE_OUTPUT
                                                : SIM_CATEGORY_REDUCE_SCATTER_OUTPUT);
    if (is_partial) {
        keep_partial(context, state, output);
        return;
    }
    if (is_replicated)
        all_reduce(context, state, output);
    finish_output(context, state, output, elements,
                  is_replicated ? context->all_reduce : context->reduce_scatter);
}

void sim_fsdp2_reduce_recycle(SimFsdp2Context *context, uint32_t kept)
{
    while (context->reductions->len > kept) {
        SimFsdp2Reduction oldest = g_array_index(context->reductions, SimFsdp2Reduction, 0);
        sim_plan_wait(context->plan, context->compute, oldest.event);
        sim_plan_free_buffer(context->plan, oldest.input);
        g_array_remove_index(context->reductions, 0);
    }
}
