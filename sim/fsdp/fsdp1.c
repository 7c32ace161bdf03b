/* SPDX-License-Identifier: Apache-2.0 */
#include "fsdp/fsdp1.h"

#include <inttypes.h>

#include "fsdp/fsdp1_backward.h"
#include "fsdp/fsdp1_clip.h"
#include "fsdp/fsdp1_context.h"
#include "fsdp/fsdp1_forward.h"
#include "fsdp/fsdp1_slices.h"
#include "fsdp/unit_list.h"

struct SimFsdp1 {
    SimUnitList *units;
    SimFsdp1Context *context;
    SimFsdp1Slices *slices;
    SimFsdp1Clip *clip;
};

SimFsdp1 *sim_fsdp1_new(const SimJob *job, const SimModel *model, SimPlan *plan, GError **error)
{
    g_autoptr(SimUnitList) units = sim_unit_list_new(job, model, plan, error);
    if (units == NULL)
        return NULL;
    g_autoptr(SimFsdp1Context) context = sim_fsdp1_context_new(job, model, units, plan, error);
    if (context == NULL)
        return NULL;
    SimFsdp1 *fsdp = g_new0(SimFsdp1, 1);
    fsdp->slices = sim_fsdp1_slices_new(context);
    context->slices = fsdp->slices;
    fsdp->clip = sim_fsdp1_clip_new(fsdp->slices);
    fsdp->context = g_steal_pointer(&context);
    fsdp->units = g_steal_pointer(&units);
    return fsdp;
}

void sim_fsdp1_free(SimFsdp1 *fsdp)
{
    if (fsdp == NULL)
        return;
    sim_fsdp1_clip_free(fsdp->clip);
    sim_fsdp1_slices_free(fsdp->slices);
    sim_fsdp1_context_free(fsdp->context);
    sim_unit_list_free(fsdp->units);
    g_free(fsdp);
}

/* --- hooks -------------------------------------------------------------------------------------
 */

static uint32_t pre_forward(void *user_data, uint32_t module)
{
    SimFsdp1 *fsdp = user_data;
    return sim_fsdp1_forward_start(fsdp->context, module);
}

static uint32_t post_forward(void *user_data, uint32_t module)
{
    SimFsdp1 *fsdp = user_data;
    return sim_fsdp1_forward_finish(fsdp->context, module);
}

static void pre_backward(void *user_data, uint32_t token, bool is_repeat)
{
    (void)is_repeat; /* FSDP1 keeps its own account of it */
    SimFsdp1 *fsdp = user_data;
    sim_fsdp1_backward_start(fsdp->context, token);
}

static void post_backward(void *user_data, uint32_t token)
{
    SimFsdp1 *fsdp = user_data;
    sim_fsdp1_backward_finish(fsdp->context, token);
}

static uint32_t find_parameter(void *user_data, uint32_t parameter)
{
    SimFsdp1 *fsdp = user_data;
    return fsdp->context->states[fsdp->units->owner[parameter]]
        .views[fsdp->units->place[parameter]];
}

static void add_gradient(void *user_data, uint32_t parameter, uint32_t buffer)
{
    SimFsdp1 *fsdp = user_data;
    sim_fsdp1_backward_add_gradient(fsdp->context, parameter, buffer);
}

SimAutogradHooks sim_fsdp1_hooks(SimFsdp1 *fsdp)
{
    return (SimAutogradHooks){
        .user_data = fsdp,
        .parameter_stream = fsdp->context->unshard,
        .pre_forward = pre_forward,
        .post_forward = post_forward,
        .pre_backward = pre_backward,
        .post_backward = post_backward,
        .parameter = find_parameter,
        .gradient = add_gradient,
    };
}

/* --- the script's other calls ------------------------------------------------------------------
 */

/* "layers.0.norm.weight@0:256;...": which parameter lies where in the flat one, and its shape. */
static void print_parts(const SimFsdp1Context *context, const SimFsdp1State *state, GString *text)
{
    const SimFlatParameter *flat = &state->flat;
    for (uint32_t i = 0; i < flat->count; i++) {
        const SimUnitParameter *described =
            &g_array_index(state->unit->parameters, SimUnitParameter, flat->order[i]);
        const SimParameter *parameter = sim_model_parameter(context->model, described->parameter);
        g_autofree char *shape = sim_shape_print(&parameter->shape);
        g_string_append_printf(text, "%s%s@%" PRIu64 ":%s", i > 0 ? ";" : "", parameter->path,
                               flat->offsets[flat->order[i]], shape);
    }
}

/* Element i of a rank's shard is element R * n + i of the flat parameter. */
static void fill_shard(SimFsdp1Context *context, const SimFsdp1State *state)
{
    SimStrings *strings = sim_plan_strings(context->plan);
    SimStringId word = sim_strings_intern(strings, "fill");
    g_autoptr(GString) text = g_string_new(NULL);
    g_string_append_printf(
        text, "seed=0 name=%s parts=", sim_plan_string(context->plan, state->unit->name));
    print_parts(context, state, text);
    SimStringId arguments = sim_strings_intern(strings, text->str);
    SimInstruction *kernel =
        sim_plan_kernel(context->plan, context->compute, word, word, context->job->store_dtype);
    kernel->arguments = arguments;
    kernel->hbm_bytes = sim_plan_buffer(context->plan, state->shard)->bytes;
    sim_plan_add_write(context->plan, SIM_TOUCH_WHOLE(state->shard));
}

void sim_fsdp1_start(SimFsdp1 *fsdp)
{
    SimFsdp1Context *context = fsdp->context;
    SimDtype stored = context->job->store_dtype;
    for (uint32_t i = 0; i < sim_unit_list_count(fsdp->units); i++) {
        SimFsdp1State *state = &context->states[fsdp->units->traversal[i]];
        if (state->unit->parameters->len == 0)
            continue;
        sim_fsdp1_context_enter(context, state->index);
        state->shard = sim_plan_alloc(context->plan, context->compute,
                                      sim_fsdp1_state_name(state, SIM_FSDP1_P),
                                      state->flat.shard_elements * sim_dtype_bytes(stored),
                                      SIM_CATEGORY_PARAMETER_SHARD, stored, 0);
        fill_shard(context, state);
    }
    sim_fsdp1_context_enter(context, SIM_MODEL_NONE);
}

void sim_fsdp1_set_synchronization(SimFsdp1 *fsdp, bool synchronizes)
{
    fsdp->context->synchronizes = synchronizes;
}

void sim_fsdp1_set_multiprocessors(SimFsdp1 *fsdp, uint32_t multiprocessors)
{
    fsdp->context->multiprocessors = multiprocessors;
}

void sim_fsdp1_finish_backward(SimFsdp1 *fsdp)
{
    sim_fsdp1_backward_finish_all(fsdp->context);
}

void sim_fsdp1_clip(SimFsdp1 *fsdp)
{
    sim_fsdp1_clip_run(fsdp->clip);
}

void sim_fsdp1_step(SimFsdp1 *fsdp)
{
    sim_fsdp1_slices_step(fsdp->slices);
}

static void fill_gradient(SimFsdp1Context *context, uint32_t gradient)
{
    if (gradient == SIM_PLAN_NONE)
        return;
    const SimBuffer *buffer = sim_plan_buffer(context->plan, gradient);
    uint64_t bytes = buffer->bytes;
    sim_plan_kernel(context->plan, context->compute, context->words.zeros, context->words.zeros,
                    (SimDtype)buffer->dtype)
        ->hbm_bytes = bytes;
    sim_plan_add_write(context->plan, SIM_TOUCH_WHOLE(gradient));
}

void sim_fsdp1_zero_grad(SimFsdp1 *fsdp, bool keeps)
{
    SimFsdp1Context *context = fsdp->context;
    for (uint32_t i = 0; i < sim_unit_list_count(fsdp->units); i++) {
        SimFsdp1State *state = &context->states[fsdp->units->traversal[i]];
        sim_fsdp1_context_enter(context, state->index);
        if (keeps) {
            fill_gradient(context, state->whole_gradient);
            fill_gradient(context, state->sharded_gradient);
        } else {
            state->is_zeroed =
                state->whole_gradient != SIM_PLAN_NONE || state->sharded_gradient != SIM_PLAN_NONE;
        }
    }
    if (!keeps && context->job->fsdp1.uses_flat_parameters)
        sim_fsdp1_forward_drop_zeroed(context);
    sim_fsdp1_context_enter(context, SIM_MODEL_NONE);
}
