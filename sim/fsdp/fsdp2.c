/* SPDX-License-Identifier: Apache-2.0 */
#include "fsdp/fsdp2.h"

#include "fsdp/fsdp2_backward.h"
#include "fsdp/fsdp2_context.h"
#include "fsdp/fsdp2_forward.h"
#include "fsdp/fsdp2_offload.h"
#include "fsdp/fsdp2_unshard.h"
#include "fsdp/gradient_clip.h"
#include "fsdp/host_optimizer.h"
#include "fsdp/ignored_parameters.h"
#include "fsdp/optimizer.h"
#include "fsdp/unit_list.h"

struct SimFsdp2 {
    SimUnitList *units;
    SimFsdp2Context *context;
    SimOptimizer *optimizer;
    SimGradientClip *clip;
    SimIgnoredParameters *ignored;
    SimHostOptimizer *host_optimizer;
};

SimFsdp2 *sim_fsdp2_new(const SimJob *job, const SimModel *model, SimPlan *plan, GError **error)
{
    g_autoptr(SimUnitList) units = sim_unit_list_new(job, model, plan, error);
    if (units == NULL)
        return NULL;
    g_autoptr(SimFsdp2Context) context = sim_fsdp2_context_new(job, model, units, plan, error);
    if (context == NULL)
        return NULL;
    SimFsdp2 *fsdp = g_new0(SimFsdp2, 1);
    fsdp->optimizer =
        sim_optimizer_new(plan, job->optimizer, model->parameters->len, context->shard_size);
    fsdp->clip = sim_gradient_clip_new(plan, context->shard_group, context->shard_size);
    fsdp->host_optimizer = sim_host_optimizer_new(plan, model->parameters->len);
    fsdp->ignored = sim_ignored_parameters_new(job, model, plan);
    fsdp->context = g_steal_pointer(&context);
    fsdp->units = g_steal_pointer(&units);
    return fsdp;
}

void sim_fsdp2_free(SimFsdp2 *fsdp)
{
    if (fsdp == NULL)
        return;
    sim_optimizer_free(fsdp->optimizer);
    sim_gradient_clip_free(fsdp->clip);
    sim_ignored_parameters_free(fsdp->ignored);
    sim_host_optimizer_free(fsdp->host_optimizer);
    sim_fsdp2_context_free(fsdp->context);
    sim_unit_list_free(fsdp->units);
    g_free(fsdp);
}

void sim_fsdp2_set_multiprocessors(SimFsdp2 *fsdp, uint32_t multiprocessors)
{
    fsdp->context->multiprocessors = multiprocessors;
}

/* --- hooks -------------------------------------------------------------------------------------
 */

static uint32_t pre_forward(void *user_data, uint32_t module)
{
    SimFsdp2 *fsdp = user_data;
    return sim_fsdp2_forward_start(fsdp->context, module);
}

static uint32_t post_forward(void *user_data, uint32_t module)
{
    SimFsdp2 *fsdp = user_data;
    return sim_fsdp2_forward_finish(fsdp->context, module);
}

static void pre_backward(void *user_data, uint32_t token, bool is_repeat)
{
    SimFsdp2 *fsdp = user_data;
    if (!is_repeat)
        sim_fsdp2_backward_start(fsdp->context, token);
}

static void post_backward(void *user_data, uint32_t token)
{
    SimFsdp2 *fsdp = user_data;
    sim_fsdp2_backward_finish(fsdp->context, token);
}

static uint32_t find_parameter(void *user_data, uint32_t parameter)
{
    SimFsdp2 *fsdp = user_data;
    uint32_t owner = fsdp->units->owner[parameter];
    if (owner == SIM_MODEL_NONE)
        return sim_ignored_parameters_value(fsdp->ignored, parameter);
    return fsdp->context->states[owner].parameters[fsdp->units->place[parameter]].unsharded;
}

/* What torchtitan's chunked loss does with a head that is an FSDP module (components/loss.py). */
static void run_chunked_loss(void *user_data, uint32_t head, SimAutogradLossStage stage)
{
    SimFsdp2 *fsdp = user_data;
    uint32_t unit = fsdp->units->unit_of_module[head];
    if (unit == SIM_MODEL_NONE)
        return;
    SimFsdp2State *state = &fsdp->context->states[unit];
    bool is_between = stage == SIM_LOSS_STARTS;
    state->reduces_gradients = !is_between;
    if (stage == SIM_LOSS_LAST_CHUNK)
        return;
    state->reshard_after_forward.kind = is_between ? SIM_RESHARD_FALSE : SIM_RESHARD_TRUE;
    state->reshards_after_backward = !is_between;
    sim_fsdp2_context_enter(fsdp->context, unit);
    if (is_between) {
        sim_fsdp2_unshard_start(fsdp->context, state);
        sim_fsdp2_unshard_finish(fsdp->context, state);
    } else {
        sim_fsdp2_unshard_reshard(fsdp->context, state);
    }
    sim_fsdp2_context_enter(fsdp->context, SIM_MODEL_NONE);
}

static SimDtype find_gradient_dtype(void *user_data, uint32_t parameter)
{
    SimFsdp2 *fsdp = user_data;
    bool is_ignored = fsdp->units->owner[parameter] == SIM_MODEL_NONE;
    return is_ignored ? SIM_DTYPE_NONE
                      : sim_fsdp2_backward_gradient_dtype(fsdp->context, parameter);
}

static void add_gradient(void *user_data, uint32_t parameter, uint32_t buffer)
{
    SimFsdp2 *fsdp = user_data;
    if (fsdp->units->owner[parameter] == SIM_MODEL_NONE)
        sim_ignored_parameters_add_gradient(fsdp->ignored, parameter, buffer);
    else
        sim_fsdp2_backward_add_gradient(fsdp->context, parameter, buffer);
}

SimAutogradHooks sim_fsdp2_hooks(SimFsdp2 *fsdp)
{
    return (SimAutogradHooks){
        .user_data = fsdp,
        .pre_forward = pre_forward,
        .post_forward = post_forward,
        .pre_backward = pre_backward,
        .post_backward = post_backward,
        .parameter = find_parameter,
        .chunked_loss = run_chunked_loss,
        .gradient_dtype = find_gradient_dtype,
        .gradient = add_gradient,
    };
}

SimDtype *sim_fsdp2_parameter_dtypes(const SimFsdp2 *fsdp)
{
    const SimFsdp2Context *context = fsdp->context;
    uint32_t count = context->model->parameters->len;
    SimDtype *dtypes = g_new(SimDtype, count + 1);
    for (uint32_t i = 0; i < count; i++) {
        uint32_t owner = fsdp->units->owner[i];
        dtypes[i] = owner == SIM_MODEL_NONE
                        ? context->job->store_dtype
                        : g_array_index(sim_unit_list_get(fsdp->units, owner)->parameters,
                                        SimUnitParameter, fsdp->units->place[i])
                              .gather_dtype;
    }
    return dtypes;
}

/* --- the script's other calls ------------------------------------------------------------------
 */

/* The kernel `fill` gives element i of the whole parameter the value f(seed, name, i), so that
 * shards equal the whole whatever the number of ranks. */
static void fill_shard(SimFsdp2Context *context, uint32_t buffer, const SimParameter *parameter)
{
    SimStrings *strings = sim_plan_strings(context->plan);
    const SimBuffer *shard = sim_plan_buffer(context->plan, buffer);
    SimDtype dtype = (SimDtype)shard->dtype;
    uint64_t bytes = shard->bytes;
    bool is_host = shard->is_host;
    SimStringId word = sim_strings_intern(strings, "fill");
    SimStringId arguments = sim_strings_internf(strings, "seed=0 name=%s", parameter->path);
    SimInstruction *kernel = sim_plan_kernel(context->plan, context->compute, word, word, dtype);
    kernel->hbm_bytes = is_host ? 0 : bytes;
    kernel->arguments = arguments;
    sim_plan_add_write(context->plan, SIM_TOUCH_WHOLE(buffer));
}

static void alloc_shard(SimFsdp2Context *context, SimFsdp2State *state, uint32_t place,
                        SimName name)
{
    const SimUnitParameter *parameter =
        &g_array_index(state->unit->parameters, SimUnitParameter, place);
    SimDtype stored = context->job->store_dtype;
    uint64_t bytes = parameter->shard.shard_elements * sim_dtype_bytes(stored);
    state->parameters[place].sharded =
        sim_fsdp2_offload_is_on(state)
            ? sim_plan_alloc_host(context->plan, name, bytes, SIM_CATEGORY_PARAMETER_SHARD, stored,
                                  parameter->shard_shape)
            : sim_plan_alloc(context->plan, context->compute, name, bytes,
                             SIM_CATEGORY_PARAMETER_SHARD, stored, parameter->shard_shape);
}

static void start_unit(SimFsdp2Context *context, SimFsdp2State *state)
{
    const GArray *parameters = state->unit->parameters;
    sim_fsdp2_context_enter(context, state->index);
    for (uint32_t i = 0; i < parameters->len; i++) {
        SimStringId tail = g_array_index(parameters, SimUnitParameter, i).tail;
        alloc_shard(context, state, i,
                    i == 0 ? sim_fsdp2_state_name(state, SIM_FSDP2_P, tail)
                           : sim_fsdp2_state_same_name(state, SIM_FSDP2_P, tail));
    }
    for (uint32_t i = 0; i < parameters->len; i++)
        fill_shard(context, state->parameters[i].sharded,
                   sim_model_parameter(context->model,
                                       g_array_index(parameters, SimUnitParameter, i).parameter));
}

/* to_empty gives each name of a tied parameter a tensor of its own; tying them again keeps the last
 * one. */
static void tie_again(SimFsdp2 *fsdp, uint32_t parameter)
{
    SimFsdp2Context *context = fsdp->context;
    uint32_t holder = sim_model_parameter(context->model, parameter)->tied_to;
    if (holder == SIM_MODEL_NONE || fsdp->units->owner[holder] == SIM_MODEL_NONE)
        return;
    SimFsdp2State *state = &context->states[fsdp->units->owner[holder]];
    uint32_t place = fsdp->units->place[holder];
    uint32_t old = state->parameters[place].sharded;
    SimStringId tail = g_array_index(state->unit->parameters, SimUnitParameter, place).tail;
    sim_fsdp2_context_enter(context, state->index);
    alloc_shard(context, state, place, sim_fsdp2_state_name(state, SIM_FSDP2_P, tail));
    sim_plan_free_buffer(context->plan, old);
    fill_shard(context, state->parameters[place].sharded,
               sim_model_parameter(context->model, holder));
}

void sim_fsdp2_start(SimFsdp2 *fsdp)
{
    for (uint32_t u = 0; u < sim_unit_list_count(fsdp->units); u++)
        start_unit(fsdp->context, &fsdp->context->states[fsdp->units->traversal[u]]);
    for (uint32_t p = 0;
         fsdp->context->job->is_built_on_meta && p < fsdp->context->model->parameters->len; p++)
        tie_again(fsdp, p);
    sim_fsdp2_context_enter(fsdp->context, SIM_MODEL_NONE);
    sim_ignored_parameters_start(fsdp->ignored);
}

static void set_unit_flag(SimFsdp2State *state, SimJobFlag flag, bool value)
{
    switch (flag) {
    case SIM_FLAG_GRADIENT_SYNC:
        state->reduces_gradients = value;
        break;
    case SIM_FLAG_ALL_REDUCE:
        state->all_reduces_gradients = value;
        break;
    case SIM_FLAG_RESHARD_AFTER_BACKWARD:
        state->reshards_after_backward = value;
        break;
    case SIM_FLAG_RESHARD_AFTER_FORWARD:
        state->reshard_after_forward.kind = value ? SIM_RESHARD_TRUE : SIM_RESHARD_FALSE;
        break;
    case SIM_FLAG_LAST_BACKWARD:
        break;
    }
}

void sim_fsdp2_set_flag(SimFsdp2 *fsdp, uint32_t unit, SimJobFlag flag, bool value)
{
    if (flag == SIM_FLAG_LAST_BACKWARD)
        fsdp->context->is_last_backward = value;
    for (uint32_t u = 0; u < sim_unit_list_count(fsdp->units); u++)
        if (unit == SIM_MODEL_NONE || unit == u)
            set_unit_flag(&fsdp->context->states[u], flag, value);
}

void sim_fsdp2_reshard(SimFsdp2 *fsdp, uint32_t unit)
{
    for (uint32_t u = 0; u < sim_unit_list_count(fsdp->units); u++)
        if (unit == SIM_MODEL_NONE || unit == u)
            sim_fsdp2_unshard_reshard(fsdp->context, &fsdp->context->states[u]);
}

void sim_fsdp2_unshard(SimFsdp2 *fsdp, uint32_t unit)
{
    for (uint32_t u = 0; u < sim_unit_list_count(fsdp->units); u++)
        if (unit == SIM_MODEL_NONE || unit == u)
            sim_fsdp2_unshard_start(fsdp->context, &fsdp->context->states[u]);
}

void sim_fsdp2_finish_backward(SimFsdp2 *fsdp)
{
    sim_fsdp2_backward_finish_all(fsdp->context);
}

/* PARAMETER as the optimizer sees it; false if it has no gradient. */
static bool describe_tensor(const SimFsdp2 *fsdp, uint32_t index, SimOptimizerTensor *tensor)
{
    const SimFsdp2Context *context = fsdp->context;
    const SimParameter *parameter = sim_model_parameter(context->model, index);
    uint32_t owner = fsdp->units->owner[index];
    *tensor = (SimOptimizerTensor){.parameter = index, .dtype = context->job->store_dtype};
    if (owner == SIM_MODEL_NONE) {
        tensor->shard = sim_shard_whole(&parameter->shape);
        tensor->value = sim_ignored_parameters_value(fsdp->ignored, index);
        tensor->gradient = sim_ignored_parameters_gradient(fsdp->ignored, index);
        tensor->tail = sim_strings_intern(sim_plan_strings(context->plan), parameter->path);
    } else {
        const SimFsdp2State *state = &context->states[owner];
        uint32_t place = fsdp->units->place[index];
        const SimUnitParameter *described =
            &g_array_index(state->unit->parameters, SimUnitParameter, place);
        tensor->shard = described->shard;
        tensor->value = state->parameters[place].sharded;
        tensor->gradient = state->parameters[place].sharded_gradient;
        tensor->gradient_offset = state->parameters[place].sharded_gradient_offset;
        tensor->unit = state->unit->name;
        tensor->tail = described->tail;
    }
    return tensor->gradient != SIM_PLAN_NONE;
}

/* All parameters with a gradient, in the model's order, tied ones once. */
static GArray *collect_tensors(const SimFsdp2 *fsdp)
{
    const SimModel *model = fsdp->context->model;
    GArray *tensors = g_array_new(FALSE, FALSE, sizeof(SimOptimizerTensor));
    for (uint32_t p = 0; p < model->parameters->len; p++) {
        SimOptimizerTensor tensor;
        bool is_tied = sim_model_parameter(model, p)->tied_to != SIM_MODEL_NONE;
        if (!is_tied && describe_tensor(fsdp, p, &tensor))
            g_array_append_val(tensors, tensor);
    }
    return tensors;
}

void sim_fsdp2_clip(SimFsdp2 *fsdp)
{
    g_autoptr(GArray) tensors = collect_tensors(fsdp);
    g_autoptr(GArray) on_host = sim_host_optimizer_take(fsdp->host_optimizer, tensors);
    sim_gradient_clip_run(fsdp->clip, tensors);
    sim_host_optimizer_clip(fsdp->host_optimizer, on_host);
}

void sim_fsdp2_step(SimFsdp2 *fsdp)
{
    g_autoptr(GArray) tensors = collect_tensors(fsdp);
    g_autoptr(GArray) on_host = sim_host_optimizer_take(fsdp->host_optimizer, tensors);
    sim_optimizer_step(fsdp->optimizer, tensors);
    sim_host_optimizer_step(fsdp->host_optimizer, on_host);
    SimFsdp2Context *context = fsdp->context;
    if (!context->job->has_post_optim_event)
        return;
    SimName name = {.stem = sim_strings_intern(sim_plan_strings(context->plan), "post_optim"),
                    .serial = context->post_optim_events++};
    context->post_optim_event = sim_plan_record(context->plan, context->compute, name);
}

/* True if a parameter of STATE's unit still has its gradient in BUFFER. */
static bool is_referred_to(const SimFsdp2State *state, uint32_t buffer)
{
    for (uint32_t i = 0; i < state->unit->parameters->len; i++)
        if (state->parameters[i].sharded_gradient == buffer)
            return true;
    return false;
}

/* _foreach_zero_ */
static void fill_gradients(SimFsdp2 *fsdp)
{
    SimFsdp2Context *context = fsdp->context;
    g_autoptr(GArray) tensors = collect_tensors(fsdp);
    g_array_unref(sim_host_optimizer_take(fsdp->host_optimizer, tensors));
    if (tensors->len == 0)
        return;
    uint64_t bytes = 0;
    SimInstruction *kernel = sim_plan_kernel(context->plan, context->compute, context->words.zeros,
                                             context->words.zeros, context->job->store_dtype);
    for (uint32_t i = 0; i < tensors->len; i++) {
        const SimOptimizerTensor *tensor = &g_array_index(tensors, SimOptimizerTensor, i);
        bytes += tensor->shard.shard_elements * sim_dtype_bytes(tensor->dtype);
    }
    kernel->hbm_bytes = bytes;
    for (uint32_t i = 0; i < tensors->len; i++) {
        const SimOptimizerTensor *tensor = &g_array_index(tensors, SimOptimizerTensor, i);
        sim_plan_add_write(context->plan, (SimTouch){.buffer = tensor->gradient,
                                                     .offset = tensor->gradient_offset,
                                                     .bytes = tensor->shard.shard_elements *
                                                              sim_dtype_bytes(tensor->dtype)});
    }
}

void sim_fsdp2_zero_grad(SimFsdp2 *fsdp, bool keeps)
{
    if (keeps) {
        fill_gradients(fsdp);
        return;
    }
    SimFsdp2Context *context = fsdp->context;
    for (uint32_t p = 0; p < context->model->parameters->len; p++) {
        uint32_t owner = fsdp->units->owner[p];
        if (owner == SIM_MODEL_NONE) {
            sim_ignored_parameters_clear(fsdp->ignored, p);
            continue;
        }
        SimFsdp2State *state = &context->states[owner];
        uint32_t *gradient = &state->parameters[fsdp->units->place[p]].sharded_gradient;
        uint32_t buffer = *gradient;
        *gradient = SIM_PLAN_NONE;
        if (buffer == SIM_PLAN_NONE || is_referred_to(state, buffer))
            continue;
        sim_fsdp2_context_enter(context, owner);
        sim_plan_free_buffer(context->plan, buffer);
    }
    sim_fsdp2_context_enter(context, SIM_MODEL_NONE);
}
