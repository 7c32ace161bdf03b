/* SPDX-License-Identifier: Apache-2.0 */
#include "fsdp/fsdp1_reduce.h"

static SimDtype get_dtype(const SimFsdp1Context *context, uint32_t buffer)
{
    return (SimDtype)sim_plan_buffer(context->plan, buffer)->dtype;
}

/* A buffer of ELEMENTS. */
static uint32_t alloc(SimFsdp1Context *context, SimFsdp1State *state, SimFsdp1Kind kind,
                      uint32_t stream, uint64_t elements, SimDtype dtype, SimCategory category)
{
    return sim_plan_alloc(context->plan, stream, sim_fsdp1_state_name(state, kind),
                          elements * sim_dtype_bytes(dtype), category, dtype, 0);
}

static void free_buffer(SimFsdp1Context *context, uint32_t buffer)
{
    if (buffer != SIM_PLAN_NONE)
        sim_plan_free_buffer(context->plan, buffer);
}

/* --- the concatenation -------------------------------------------------------------------------
 */

void sim_fsdp1_reduce_record(SimFsdp1Context *context, SimFsdp1State *state)
{
    state->gradient_event = sim_plan_record(context->plan, context->compute,
                                            sim_fsdp1_state_name(state, SIM_FSDP1_GRADIENT));
}

/* Zeros of ELEMENTS behind OFFSET of the flat gradient. */
static void add_zeros(SimFsdp1Context *context, SimFsdp1State *state, GArray *parts,
                      uint64_t elements)
{
    if (elements == 0)
        return;
    SimDtype dtype = context->compute_dtype;
    uint32_t zeros = alloc(context, state, SIM_FSDP1_Z, context->unshard, elements, dtype,
                           SIM_CATEGORY_TEMPORARY);
    sim_plan_kernel(context->plan, context->unshard, context->words.zeros, context->words.zeros,
                    dtype)
        ->hbm_bytes = elements * sim_dtype_bytes(dtype);
    sim_plan_add_write(context->plan, SIM_TOUCH_WHOLE(zeros));
    g_array_append_val(parts, zeros);
}

/* What is concatenated, in order: split_with_sizes_backward makes zeros for every part without a
 * gradient. */
static GArray *collect_parts(SimFsdp1Context *context, SimFsdp1State *state)
{
    const SimFlatParameter *flat = &state->flat;
    GArray *parts = g_array_new(FALSE, FALSE, sizeof(uint32_t));
    uint64_t end = 0;
    for (uint32_t i = 0; i < flat->count; i++) {
        uint32_t place = flat->order[i];
        uint32_t parameter =
            g_array_index(state->unit->parameters, SimUnitParameter, place).parameter;
        uint64_t elements = sim_model_parameter(context->model, parameter)->elements;
        add_zeros(context, state, parts, flat->offsets[place] - end);
        end = flat->offsets[place] + elements;
        if (state->gradients[place] != SIM_PLAN_NONE)
            g_array_append_val(parts, state->gradients[place]);
        else
            add_zeros(context, state, parts, elements);
    }
    add_zeros(context, state, parts, flat->elements - end);
    return parts;
}

/* Gradients come from the compute stream's pool: the allocator keeps them until the concatenation
 * is done (InputBuffer::add of torch/csrc/autograd/input_buffer.cpp records them on this stream).
 */
static void free_parts(SimFsdp1Context *context, SimFsdp1State *state, const GArray *parts)
{
    for (uint32_t i = 0; i < parts->len; i++) {
        uint32_t part = g_array_index(parts, uint32_t, i);
        if (sim_plan_buffer(context->plan, part)->stream != context->unshard)
            sim_plan_record_stream(context->plan, part, context->unshard);
        sim_plan_free_buffer(context->plan, part);
    }
    for (uint32_t i = 0; i < state->unit->parameters->len; i++)
        state->gradients[i] = SIM_PLAN_NONE;
    state->has_gradients = false;
}

static uint32_t concatenate(SimFsdp1Context *context, SimFsdp1State *state, SimFsdp1Kind kind,
                            SimCategory category)
{
    SimPlan *plan = context->plan;
    g_autoptr(GArray) parts = collect_parts(context, state);
    uint32_t whole = alloc(context, state, kind, context->unshard, state->flat.elements,
                           context->compute_dtype, category);
    sim_plan_kernel(plan, context->unshard, context->words.cat, context->words.cat,
                    context->compute_dtype)
        ->hbm_bytes = 2 * state->flat.elements * sim_dtype_bytes(context->compute_dtype);
    for (uint32_t i = 0; i < parts->len; i++)
        sim_plan_add_read(plan, SIM_TOUCH_WHOLE(g_array_index(parts, uint32_t, i)));
    sim_plan_add_write(plan, SIM_TOUCH_WHOLE(whole));
    free_parts(context, state, parts);
    return whole;
}

static void accumulate(SimFsdp1Context *context, uint32_t stream, uint32_t into, uint32_t added)
{
    SimPlan *plan = context->plan;
    uint64_t bytes = 2 * sim_plan_buffer(plan, into)->bytes + sim_plan_buffer(plan, added)->bytes;
    sim_plan_kernel(plan, stream, context->words.accumulate, context->words.accumulate,
                    get_dtype(context, into))
        ->hbm_bytes = bytes;
    sim_plan_add_read(plan, SIM_TOUCH_WHOLE(into));
    sim_plan_add_read(plan, SIM_TOUCH_WHOLE(added));
    sim_plan_add_write(plan, SIM_TOUCH_WHOLE(into));
}

void sim_fsdp1_reduce_concatenate(SimFsdp1Context *context, SimFsdp1State *state)
{
    if (state->gradient_event == SIM_PLAN_NONE)
        sim_fsdp1_reduce_record(context, state);
    sim_plan_wait(context->plan, context->unshard, state->gradient_event);
    state->gradient_event = SIM_PLAN_NONE;
    if (state->whole_gradient == SIM_PLAN_NONE) {
        state->whole_gradient =
            concatenate(context, state, SIM_FSDP1_G, SIM_CATEGORY_UNSHARDED_GRADIENT);
        return;
    }
    state->added_gradient = concatenate(context, state, SIM_FSDP1_N, SIM_CATEGORY_TEMPORARY);
    accumulate(context, context->unshard, state->whole_gradient, state->added_gradient);
}

void sim_fsdp1_reduce_drop_added(SimFsdp1Context *context, SimFsdp1State *state)
{
    free_buffer(context, state->added_gradient);
    state->added_gradient = SIM_PLAN_NONE;
}

/* --- the reduction -----------------------------------------------------------------------------
 */

static void divide(SimFsdp1Context *context, uint32_t stream, uint32_t buffer, double factor)
{
    if (factor <= 1)
        return;
    SimPlan *plan = context->plan;
    char number[G_ASCII_DTOSTR_BUF_SIZE];
    g_ascii_formatd(number, sizeof number, "%.12g", factor);
    SimStringId arguments = sim_strings_internf(sim_plan_strings(plan), "factor=%s", number);
    uint64_t bytes = sim_plan_buffer(plan, buffer)->bytes;
    SimInstruction *kernel = sim_plan_kernel(plan, stream, context->words.divide,
                                             context->words.divide, get_dtype(context, buffer));
    kernel->hbm_bytes = 2 * bytes;
    kernel->arguments = arguments;
    sim_plan_add_read(plan, SIM_TOUCH_WHOLE(buffer));
    sim_plan_add_write(plan, SIM_TOUCH_WHOLE(buffer));
}

static void all_reduce(SimFsdp1Context *context, uint32_t stream, uint32_t buffer)
{
    uint64_t bytes = sim_plan_buffer(context->plan, buffer)->bytes;
    sim_plan_collective(context->plan, stream, context->words.all_reduce, SIM_COLLECTIVE_ALL_REDUCE,
                        context->replicate_group, bytes, get_dtype(context, buffer))
        ->arguments = context->words.sum;
    sim_plan_add_read(context->plan, SIM_TOUCH_WHOLE(buffer));
    sim_plan_add_write(context->plan, SIM_TOUCH_WHOLE(buffer));
}

/* BUFFER in TYPE, as KIND on STREAM; BUFFER itself where it has that type. */
static uint32_t cast(SimFsdp1Context *context, SimFsdp1State *state, SimFsdp1Kind kind,
                     uint32_t stream, uint32_t buffer, SimDtype type, SimCategory category)
{
    SimDtype from = get_dtype(context, buffer);
    if (from == type)
        return buffer;
    uint64_t elements = sim_plan_buffer(context->plan, buffer)->bytes / sim_dtype_bytes(from);
    uint32_t copy = alloc(context, state, kind, stream, elements, type, category);
    sim_fsdp1_context_launch(context, stream, context->words.cast, buffer, copy);
    return copy;
}

/* Whole, in the reduction's type. */
static uint32_t cast_whole(SimFsdp1Context *context, SimFsdp1State *state)
{
    return cast(context, state, SIM_FSDP1_C, context->post_backward, state->whole_gradient,
                context->reduce_dtype, SIM_CATEGORY_REDUCE_COPY);
}

/* _get_reduce_scatter_tensors: only without padding inside. */
static uint32_t pad(SimFsdp1Context *context, SimFsdp1State *state, uint32_t buffer)
{
    if (state->flat.elements == state->flat.padded_elements)
        return buffer;
    uint32_t padded =
        alloc(context, state, SIM_FSDP1_C, context->post_backward, state->flat.padded_elements,
              context->reduce_dtype, SIM_CATEGORY_REDUCE_COPY);
    sim_fsdp1_context_launch(context, context->post_backward, context->words.pad, buffer, padded);
    return padded;
}

static uint32_t reduce_scatter(SimFsdp1Context *context, SimFsdp1State *state, uint32_t input)
{
    SimPlan *plan = context->plan;
    SimDtype dtype = context->reduce_dtype;
    uint32_t output = alloc(context, state, SIM_FSDP1_O, context->post_backward,
                            state->flat.shard_elements, dtype, SIM_CATEGORY_REDUCE_SCATTER_OUTPUT);
    divide(context, context->post_backward, input, context->before);
    uint64_t bytes = sim_plan_buffer(plan, input)->bytes;
    sim_plan_collective(plan, context->post_backward, context->words.reduce_scatter,
                        SIM_COLLECTIVE_REDUCE_SCATTER, context->shard_group, bytes, dtype)
        ->arguments = context->words.sum;
    sim_plan_add_read(plan, SIM_TOUCH_WHOLE(input));
    sim_plan_add_write(plan, SIM_TOUCH_WHOLE(output));
    return output;
}

/* _cast_grad_to_param_dtype: the low-precision one dies at once. */
static uint32_t cast_to_stored(SimFsdp1Context *context, SimFsdp1State *state, uint32_t stream,
                               uint32_t gradient)
{
    uint32_t stored = cast(context, state, SIM_FSDP1_Q, stream, gradient, context->job->store_dtype,
                           SIM_CATEGORY_SHARDED_GRADIENT);
    if (stored == gradient)
        return gradient;
    sim_plan_record_stream(context->plan, gradient, stream);
    sim_plan_free_buffer(context->plan, gradient);
    return stored;
}

/* O becomes the gradient, or is added to it: returned is what nothing refers to any more. */
static uint32_t keep(SimFsdp1Context *context, SimFsdp1State *state, uint32_t stream,
                     uint32_t output)
{
    divide(context, stream, output, context->after);
    uint32_t stored = cast_to_stored(context, state, stream, output);
    if (state->sharded_gradient == SIM_PLAN_NONE) {
        state->sharded_gradient = stored;
        return SIM_PLAN_NONE;
    }
    accumulate(context, stream, state->sharded_gradient, stored);
    return stored;
}

static void reduce_sharded(SimFsdp1Context *context, SimFsdp1State *state)
{
    SimPlan *plan = context->plan;
    uint32_t whole = state->whole_gradient;
    uint32_t copy = cast_whole(context, state);
    uint32_t input = pad(context, state, copy);
    uint32_t output = reduce_scatter(context, state, input);
    uint32_t stream = context->post_backward;
    if (context->is_hybrid) {
        stream = context->all_reduce;
        sim_plan_wait_stream(plan, stream, context->post_backward);
        sim_plan_record_stream(plan, output, stream);
        all_reduce(context, stream, output);
    }
    uint32_t dropped = keep(context, state, stream, output);
    /* Python drops the function's variables in the order of their assignment, the caller's last. */
    if (copy != whole)
        sim_plan_free_buffer(plan, copy);
    if (input != copy)
        sim_plan_free_buffer(plan, input);
    free_buffer(context, dropped);
    sim_plan_record_stream(plan, whole, context->post_backward);
    sim_plan_free_buffer(plan, whole);
    state->whole_gradient = SIM_PLAN_NONE;
}

/* NO_SHARD: the whole gradient is reduced in place and stays. */
static void reduce_whole(SimFsdp1Context *context, SimFsdp1State *state)
{
    uint32_t stream = context->post_backward, whole = state->whole_gradient;
    uint32_t reduced = cast(context, state, SIM_FSDP1_Q, stream, whole, context->reduce_dtype,
                            SIM_CATEGORY_SHARDED_GRADIENT);
    divide(context, stream, reduced, context->before);
    all_reduce(context, stream, reduced);
    divide(context, stream, reduced, context->after);
    uint32_t kept = context->job->fsdp1.keeps_low_precision_grads
                        ? reduced
                        : cast(context, state, SIM_FSDP1_Q, stream, reduced,
                               context->job->store_dtype, SIM_CATEGORY_SHARDED_GRADIENT);
    if (kept != reduced) {
        sim_plan_record_stream(context->plan, reduced, stream);
        if (reduced != whole)
            sim_plan_free_buffer(context->plan, reduced);
    }
    sim_plan_record_stream(context->plan, whole, stream);
    if (kept != whole)
        sim_plan_free_buffer(context->plan, whole);
    state->whole_gradient = kept;
}

void sim_fsdp1_reduce_start(SimFsdp1Context *context, SimFsdp1State *state)
{
    sim_plan_wait_stream(context->plan, context->post_backward, context->unshard);
    if (context->is_sharded)
        reduce_sharded(context, state);
    else
        reduce_whole(context, state);
}

void sim_fsdp1_reduce_raise(SimFsdp1Context *context, SimFsdp1State *state)
{
    if (!context->is_sharded || state->sharded_gradient == SIM_PLAN_NONE)
        return;
    uint32_t raised = cast(context, state, SIM_FSDP1_Q, context->compute, state->sharded_gradient,
                           context->job->store_dtype, SIM_CATEGORY_SHARDED_GRADIENT);
    if (raised != state->sharded_gradient)
        sim_plan_free_buffer(context->plan, state->sharded_gradient);
    state->sharded_gradient = raised;
}

void sim_fsdp1_reduce_lower(SimFsdp1Context *context, SimFsdp1State *state)
{
    uint32_t *gradient = context->is_sharded ? &state->sharded_gradient : &state->whole_gradient;
    if (!context->job->fsdp1.keeps_low_precision_grads || *gradient == SIM_PLAN_NONE)
        return;
    uint32_t lowered = cast(context, state, SIM_FSDP1_L, context->compute, *gradient,
                            context->compute_dtype, SIM_CATEGORY_SHARDED_GRADIENT);
    if (lowered != *gradient)
        sim_plan_free_buffer(context->plan, *gradient);
    *gradient = lowered;
}
