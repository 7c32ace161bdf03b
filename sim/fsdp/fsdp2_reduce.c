/* SPDX-License-Identifier: Apache-2.0 */
#include "fsdp/fsdp2_reduce.h"

#include <math.h>

#include "fsdp/fsdp2_launch_tables.h"
#include "fsdp/fsdp2_offload.h"

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
    sim_fsdp2_launch_tables_chunk_cat(context, state);
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

/* How a unit's sum becomes a mean (_get_gradient_divide_factors). */
typedef struct Division {
    double before, after;        /* kernels divide by these; 1 = no kernel */
    SimStringId scatter, reduce; /* arguments of the collectives */
} Division;

/* The largest power of two whose square does not exceed FACTOR, as far as it divides FACTOR: sums
 * of halves neither overflow before nor underflow after. */
static double find_pre_factor(double factor)
{
    double pre = 1;
    while (fmod(factor, pre) == 0 && factor / pre > pre)
        pre *= 2;
    return pre;
}

static Division compute_division(const SimFsdp2Context *context, const SimFsdp2State *state)
{
    double given = state->unit->call->gradient_divide_factor;
    double factor = given == 0 ? context->job->ranks : given;
    SimStringId sum = context->words.sum, average = context->words.average;
    bool is_half = state->unit->reduce_dtype == SIM_DTYPE_F16;
    if (is_half || state->unit->call->forces_sum_reduction) {
        double before = is_half ? find_pre_factor(factor) : 1;
        return (Division){before, factor / before, sum, sum};
    }
    if (context->job->ranks == 1 && given == 0)
        return (Division){1, 1, sum, sum};
    if (given == 0)
        return (Division){1, 1, average, average};
    if (given == context->shard_size)
        return (Division){1, 1, average, sum};
    char number[G_ASCII_DTOSTR_BUF_SIZE];
    g_ascii_formatd(number, sizeof number, "%.12g", 1 / given);
    SimStringId scaled =
        sim_strings_internf(sim_plan_strings(context->plan), "reduction=premul:%s", number);
    return (Division){1, 1, scaled, sum};
}

static void divide(SimFsdp2Context *context, uint32_t stream, uint32_t buffer, double factor)
{
    if (factor == 1)
        return;
    char number[G_ASCII_DTOSTR_BUF_SIZE];
    g_ascii_formatd(number, sizeof number, "%.12g", factor);
    SimStringId arguments =
        sim_strings_internf(sim_plan_strings(context->plan), "factor=%s", number);
    const SimBuffer *divided = sim_plan_buffer(context->plan, buffer);
    SimDtype dtype = (SimDtype)divided->dtype;
    uint64_t bytes = divided->bytes;
    SimInstruction *kernel =
        sim_plan_kernel(context->plan, stream, context->words.divide, context->words.divide, dtype);
    kernel->hbm_bytes = 2 * bytes;
    kernel->arguments = arguments;
    sim_plan_add_read(context->plan, SIM_TOUCH_WHOLE(buffer));
    sim_plan_add_write(context->plan, SIM_TOUCH_WHOLE(buffer));
}

/* O on the reduce-scatter stream, from I. With one rank in the group it is a copy. */
static uint32_t reduce_scatter(SimFsdp2Context *context, SimFsdp2State *state, uint32_t input,
                               const Division *division)
{
    SimPlan *plan = context->plan;
    SimDtype dtype = state->unit->reduce_dtype;
    sim_plan_wait_stream(plan, context->reduce_scatter, context->compute);
    uint64_t bytes = sim_plan_buffer(plan, input)->bytes;
    uint64_t output_bytes = bytes / context->shard_size;
    uint32_t output =
        sim_plan_alloc(plan, context->reduce_scatter, sim_fsdp2_state_name(state, SIM_FSDP2_O, 0),
                       output_bytes, SIM_CATEGORY_REDUCE_SCATTER_OUTPUT, dtype, 0);
    divide(context, context->reduce_scatter, input, division->before);
    if (context->shard_size > 1) {
        SimInstruction *row =
            sim_plan_collective(plan, context->reduce_scatter, context->words.reduce_scatter,
                                SIM_COLLECTIVE_REDUCE_SCATTER, context->reduce_group, bytes, dtype);
        row->arguments = division->scatter;
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

static void accumulate(SimFsdp2Context *context, uint32_t stream, uint32_t into, uint32_t added,
                       SimStringId name)
{
    const SimBuffer *buffer = sim_plan_buffer(context->plan, added);
    uint64_t bytes = buffer->bytes;
    SimInstruction *kernel = sim_plan_kernel(context->plan, stream, name, context->words.accumulate,
                                             (SimDtype)buffer->dtype);
    kernel->hbm_bytes = 3 * bytes;
    sim_plan_add_read(context->plan, SIM_TOUCH_WHOLE(into));
    sim_plan_add_read(context->plan, SIM_TOUCH_WHOLE(added));
    sim_plan_add_write(context->plan, SIM_TOUCH_WHOLE(into));
}

static void all_reduce(SimFsdp2Context *context, SimFsdp2State *state, uint32_t output,
                       const Division *division)
{
    SimPlan *plan = context->plan;
    SimDtype dtype = state->unit->reduce_dtype;
    if (state->partial_output != SIM_PLAN_NONE)
        accumulate(context, context->reduce_scatter, output, state->partial_output,
                   context->words.add_partial);
    sim_plan_wait_stream(plan, context->all_reduce, context->reduce_scatter);
    SimInstruction *row = sim_plan_collective(plan, context->all_reduce, context->words.all_reduce,
                                              SIM_COLLECTIVE_ALL_REDUCE, context->replicate_group,
                                              sim_plan_buffer(plan, output)->bytes, dtype);
    row->arguments = division->reduce;
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
        if (sim_fsdp2_offload_is_on(state)) {
            sim_fsdp2_offload_store(context, state, i, reduced, offset, stream);
        } else if (parameter->sharded_gradient == SIM_PLAN_NONE) {
            parameter->sharded_gradient = reduced;
            parameter->sharded_gradient_offset = offset;
            is_kept = true;
        } else if (parameter->sharded_gradient != older) {
            older = parameter->sharded_gradient;
            accumulate(context, stream, older, reduced, context->words.accumulate);
        }
        offset += get_parameter(state, i)->shard.shard_elements *
                  sim_dtype_bytes(context->job->store_dtype);
    }
    return is_kept;
}

/* A script's post-accumulate hooks: step and zero_grad of one parameter after the other. */
static bool step_in_backward(SimFsdp2Context *context, SimFsdp2State *state, uint32_t stream,
                             uint32_t reduced)
{
    SimDtype stored = context->job->store_dtype;
    for (uint32_t i = 0; i < state->unit->parameters->len; i++) {
        SimFsdp2Parameter *parameter = &state->parameters[i];
        if (parameter->sharded_gradient != reduced)
            continue;
        uint64_t bytes = get_parameter(state, i)->shard.shard_elements * sim_dtype_bytes(stored);
        SimInstruction *kernel =
            sim_plan_kernel(context->plan, stream, context->words.sgd, context->words.sgd, stored);
        kernel->hbm_bytes = 3 * bytes;
        sim_plan_add_read(context->plan, SIM_TOUCH_WHOLE(parameter->sharded));
        sim_plan_add_read(context->plan, (SimTouch){.buffer = reduced,
                                                    .offset = parameter->sharded_gradient_offset,
                                                    .bytes = bytes});
        sim_plan_add_write(context->plan, SIM_TOUCH_WHOLE(parameter->sharded));
        parameter->sharded_gradient = SIM_PLAN_NONE;
    }
    return false;
}

/* After the last collective, on its stream: divide, cast, write or add, record. */
static void finish_output(SimFsdp2Context *context, SimFsdp2State *state, uint32_t output,
                          uint64_t elements, const Division *division)
{
    SimPlan *plan = context->plan;
    SimDtype dtype = state->unit->reduce_dtype;
    uint32_t stream = context->is_replicated ? context->all_reduce : context->reduce_scatter;
    divide(context, stream, output, division->after);
    bool is_cast = dtype != context->job->store_dtype;
    uint32_t reduced = is_cast ? cast_output(context, state, stream, output, elements) : output;
    bool is_kept = write_gradients(context, state, stream, reduced);
    if (context->job->has_optimizer_in_backward)
        is_kept = step_in_backward(context, state, stream, reduced);
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
        accumulate(context, context->reduce_scatter, state->partial_output, output,
                   context->words.add_partial);
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

/* A gradient that is to be cut in another dimension than 0 is brought into the order of ranks
 * first: a copy takes its place (Shard(dim > 0) in foreach_reduce). */
static void order_gradients(SimFsdp2Context *context, SimFsdp2State *state)
{
    SimPlan *plan = context->plan;
    for (uint32_t i = 0; i < state->unit->parameters->len; i++) {
        const SimUnitParameter *parameter = get_parameter(state, i);
        uint32_t gradient = state->parameters[i].gradient;
        if (gradient == SIM_PLAN_NONE || parameter->shard_dim == 0)
            continue;
        const SimBuffer *buffer = sim_plan_buffer(plan, gradient);
        uint64_t bytes = buffer->bytes;
        SimDtype dtype = (SimDtype)buffer->dtype;
        uint32_t ordered =
            sim_plan_alloc(plan, context->compute, sim_fsdp2_state_name(state, SIM_FSDP2_T, 0),
                           bytes, SIM_CATEGORY_TEMPORARY, dtype, 0);
        SimStringId arguments =
            sim_strings_internf(sim_plan_strings(plan), "dim=%u", parameter->shard_dim);
        SimInstruction *kernel = sim_plan_kernel(plan, context->compute, context->words.chunk,
                                                 context->words.chunk, dtype);
        kernel->hbm_bytes = 2 * bytes;
        kernel->arguments = arguments;
        sim_plan_add_read(plan, SIM_TOUCH_WHOLE(gradient));
        sim_plan_add_write(plan, SIM_TOUCH_WHOLE(ordered));
        sim_plan_free_buffer(plan, gradient);
        state->parameters[i].gradient = ordered;
    }
}

void sim_fsdp2_reduce_start(SimFsdp2Context *context, SimFsdp2State *state)
{
    order_gradients(context, state);
    uint64_t elements = count_shard_elements(state);
    bool is_partial = context->is_replicated && !state->all_reduces_gradients;
    Division division = compute_division(context, state);
    if (state->partial_output != SIM_PLAN_NONE)
        sim_plan_wait_stream(context->plan, context->reduce_scatter, context->compute);
    uint32_t input =
        chunk_cat(context, state,
                  elements * context->shard_size * sim_dtype_bytes(state->unit->reduce_dtype));
    free_gradients(context, state);
    uint32_t output = reduce_scatter(context, state, input, &division);
    if (is_partial) {
        keep_partial(context, state, output);
        return;
    }
    if (context->is_replicated)
        all_reduce(context, state, output, &division);
    finish_output(context, state, output, elements, &division);
}

void sim_fsdp2_reduce_recycle(SimFsdp2Context *context, uint32_t kept)
{
    GArray *reductions = context->reductions;
    uint32_t recycled = reductions->len > kept ? reductions->len - kept : 0;
    for (uint32_t i = 0; i < recycled; i++)
        sim_plan_wait(context->plan, context->compute,
                      g_array_index(reductions, SimFsdp2Reduction, i).event);
    for (uint32_t i = 0; i < recycled; i++)
        sim_plan_free_buffer(context->plan, g_array_index(reductions, SimFsdp2Reduction, i).input);
    g_array_remove_range(reductions, 0, recycled);
}
