/* SPDX-License-Identifier: Apache-2.0 */
#include "fsdp/ddp.h"

#include "base/error.h"
#include "fsdp/ddp_reducer.h"
#include "fsdp/gradient_clip.h"
#include "fsdp/optimizer.h"
#include "fsdp/optimizer_tensor.h"
#include "fsdp/shard.h"

struct SimDdp {
    const SimJob *job;
    const SimModel *model;
    SimPlan *plan;
    SimDdpReducer *reducer; /* NULL before sim_ddp_start */
    SimOptimizer *optimizer;
    SimGradientClip *clip;
    uint32_t *parameters; /* buffers, by parameter */
    bool *is_used;        /* in the running forward, by parameter */
    SimStringId unit;
    uint32_t compute;
    bool synchronizes;
};

SimDdp *sim_ddp_new(const SimJob *job, const SimModel *model, SimPlan *plan)
{
    SimDdp *ddp = g_new0(SimDdp, 1);
    ddp->job = job;
    ddp->model = model;
    ddp->plan = plan;
    ddp->parameters = g_new(uint32_t, model->parameters->len + 1);
    ddp->is_used = g_new0(bool, model->parameters->len + 1);
    ddp->unit = sim_strings_intern(sim_plan_strings(plan), "ddp");
    ddp->compute = sim_plan_stream(plan, "compute");
    ddp->synchronizes = true;
    return ddp;
}

void sim_ddp_free(SimDdp *ddp)
{
    if (ddp == NULL)
        return;
    sim_ddp_reducer_free(ddp->reducer);
    sim_optimizer_free(ddp->optimizer);
    sim_gradient_clip_free(ddp->clip);
    g_free(ddp->parameters);
    g_free(ddp->is_used);
    g_free(ddp);
}

/* --- hooks -------------------------------------------------------------------------------------
 */

static uint32_t hold(const SimDdp *ddp, uint32_t parameter)
{
    uint32_t tied_to = sim_model_parameter(ddp->model, parameter)->tied_to;
    return tied_to == SIM_MODEL_NONE ? parameter : tied_to;
}

static bool has_grad(const SimDdp *ddp)
{
    return sim_plan_context(ddp->plan)->phase != SIM_PHASE_EVALUATION;
}

static uint32_t pre_forward(void *user_data, uint32_t module)
{
    SimDdp *ddp = user_data;
    if (module == 0) {
        sim_plan_context(ddp->plan)->unit = ddp->unit;
        if (has_grad(ddp))
            sim_ddp_reducer_prepare_forward(ddp->reducer);
        for (uint32_t p = 0; p < ddp->model->parameters->len; p++)
            ddp->is_used[p] = false;
    }
    return SIM_AUTOGRAD_NO_TOKEN;
}

static uint32_t post_forward(void *user_data, uint32_t module)
{
    SimDdp *ddp = user_data;
    if (module == 0 && has_grad(ddp) && ddp->synchronizes)
        sim_ddp_reducer_prepare_backward(ddp->reducer, ddp->is_used);
    return SIM_AUTOGRAD_NO_TOKEN;
}

/* Not called: no module has a token. */
static void pre_backward(void *user_data, uint32_t token, bool is_repeat)
{
    (void)user_data;
    (void)token;
    (void)is_repeat;
    g_assert_not_reached();
}

static void post_backward(void *user_data, uint32_t token)
{
    (void)user_data;
    (void)token;
    g_assert_not_reached();
}

static uint32_t find_parameter(void *user_data, uint32_t parameter)
{
    SimDdp *ddp = user_data;
    ddp->is_used[hold(ddp, parameter)] = true;
    return ddp->parameters[hold(ddp, parameter)];
}

static void add_gradient(void *user_data, uint32_t parameter, uint32_t buffer)
{
    SimDdp *ddp = user_data;
    sim_ddp_reducer_add_gradient(ddp->reducer, hold(ddp, parameter), buffer);
}

SimAutogradHooks sim_ddp_hooks(SimDdp *ddp)
{
    return (SimAutogradHooks){
        .user_data = ddp,
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

static void start_parameter(SimDdp *ddp, uint32_t index)
{
    const SimParameter *parameter = sim_model_parameter(ddp->model, index);
    SimDtype stored = ddp->job->store_dtype;
    SimStrings *strings = sim_plan_strings(ddp->plan);
    SimName name = {.stem = sim_strings_intern(strings, "P:ddp"),
                    .tail = sim_strings_intern(strings, parameter->path)};
    g_autofree char *shape = sim_shape_print(&parameter->shape);
    uint64_t bytes = parameter->elements * sim_dtype_bytes(stored);
    ddp->parameters[index] =
        sim_plan_alloc(ddp->plan, ddp->compute, name, bytes, SIM_CATEGORY_PARAMETER_SHARD, stored,
                       sim_strings_intern(strings, shape));
    SimStringId fill = sim_strings_intern(strings, "fill");
    SimStringId arguments = sim_strings_internf(strings, "seed=0 name=%s", parameter->path);
    SimInstruction *kernel = sim_plan_kernel(ddp->plan, ddp->compute, fill, fill, stored);
    kernel->arguments = arguments;
    kernel->hbm_bytes = bytes;
    sim_plan_add_write(ddp->plan, SIM_TOUCH_WHOLE(ddp->parameters[index]));
}

void sim_ddp_start(SimDdp *ddp)
{
    sim_plan_context(ddp->plan)->unit = ddp->unit;
    for (uint32_t p = 0; p < ddp->model->parameters->len; p++)
        if (sim_model_parameter(ddp->model, p)->tied_to == SIM_MODEL_NONE)
            start_parameter(ddp, p);
    ddp->reducer = sim_ddp_reducer_new(ddp->job, ddp->model, ddp->plan);
    ddp->optimizer =
        sim_optimizer_new(ddp->plan, ddp->job->optimizer, ddp->model->parameters->len, 1);
    ddp->clip = sim_gradient_clip_new(ddp->plan, sim_ddp_reducer_group(ddp->reducer), 1);
}

void sim_ddp_set_synchronization(SimDdp *ddp, bool synchronizes)
{
    ddp->synchronizes = synchronizes;
}

void sim_ddp_finish_backward(SimDdp *ddp)
{
    sim_ddp_reducer_finish_backward(ddp->reducer);
}

static GArray *collect_tensors(const SimDdp *ddp)
{
    GArray *tensors = g_array_new(FALSE, FALSE, sizeof(SimOptimizerTensor));
    for (uint32_t p = 0; p < ddp->model->parameters->len; p++) {
        const SimParameter *parameter = sim_model_parameter(ddp->model, p);
        SimDdpGradient gradient = sim_ddp_reducer_gradient(ddp->reducer, p);
        if (gradient.buffer == SIM_PLAN_NONE)
            continue;
        SimOptimizerTensor tensor = {
            .parameter = p,
            .shard = sim_shard_whole(&parameter->shape),
            .dtype = ddp->job->store_dtype,
            .value = ddp->parameters[p],
            .gradient = gradient.buffer,
            .gradient_offset = gradient.offset,
            .unit = ddp->unit,
            .tail = sim_strings_intern(sim_plan_strings(ddp->plan), parameter->path),
        };
        g_array_append_val(tensors, tensor);
    }
    return tensors;
}

void sim_ddp_clip(SimDdp *ddp)
{
    g_autoptr(GArray) tensors = collect_tensors(ddp);
    sim_gradient_clip_run(ddp->clip, tensors);
}

void sim_ddp_step(SimDdp *ddp)
{
    g_autoptr(GArray) tensors = collect_tensors(ddp);
    sim_optimizer_step(ddp->optimizer, tensors);
}

static void fill_gradients(SimDdp *ddp)
{
    SimStringId word = sim_strings_intern(sim_plan_strings(ddp->plan), "zeros");
    uint64_t bytes = 0;
    for (uint32_t p = 0; p < ddp->model->parameters->len; p++)
        if (sim_ddp_reducer_gradient(ddp->reducer, p).buffer != SIM_PLAN_NONE)
            bytes += sim_ddp_reducer_touch(ddp->reducer, p).bytes;
    sim_plan_kernel(ddp->plan, ddp->compute, word, word, ddp->job->store_dtype)->hbm_bytes = bytes;
    for (uint32_t p = 0; p < ddp->model->parameters->len; p++)
        if (sim_ddp_reducer_gradient(ddp->reducer, p).buffer != SIM_PLAN_NONE)
            sim_plan_add_write(ddp->plan, sim_ddp_reducer_touch(ddp->reducer, p));
}

void sim_ddp_zero_grad(SimDdp *ddp, bool keeps)
{
    sim_plan_context(ddp->plan)->unit = ddp->unit;
    if (keeps)
        fill_gradients(ddp);
    for (uint32_t p = 0; !keeps && p < ddp->model->parameters->len; p++)
        sim_ddp_reducer_drop_gradient(ddp->reducer, p);
}

bool sim_ddp_check(const SimDdp *ddp, GError **error)
{
    uint32_t stuck = sim_ddp_reducer_stuck(ddp->reducer);
    if (stuck == SIM_MODEL_NONE)
        return true;
    g_set_error(error, SIM_ERROR, SIM_ERROR_UNSUPPORTED,
                "%s: gets no gradient, so DDP waits for it and refuses the next forward; set "
                "find_unused_parameters or static_graph",
                sim_model_parameter(ddp->model, stuck)->path);
    return false;
}
