/* SPDX-License-Identifier: Apache-2.0 */
#include "autograd/dispatch.h"

#include <inttypes.h>
#include <string.h>

#define COMPUTE 0 /* stream */

void sim_dispatch_init(SimDispatch *dispatch, const SimModel *model, SimPlan *plan,
                       const SimAutogradOptions *options, const SimAutogradHooks *hooks)
{
    *dispatch = (SimDispatch){
        .plan = plan,
        .model = model,
        .hooks = hooks,
        .setting = {.batch = options->batch,
                    .sequence = options->sequence,
                    .sm_count = options->sm_count,
                    .compute_capability = options->compute_capability,
                    .compute_dtype = options->compute_dtype},
        .gradient_stems = g_new0(SimStringId, model->parameters->len),
        .shapes = g_new0(SimDispatchShape, SIM_DISPATCH_CACHE),
        .figures = g_new0(SimDispatchFigures, SIM_DISPATCH_CACHE),
    };
    sim_tensor_pool_init(&dispatch->pool, plan);
    SimStrings *strings = sim_plan_strings(plan);
    for (uint32_t i = 0; i < SIM_OPERATOR_COUNT; i++)
        dispatch->operator_names[i] = sim_strings_intern(strings, sim_operator_name(i));
    dispatch->scratch_stem = sim_strings_intern(strings, "workspace");
}

void sim_dispatch_done(SimDispatch *dispatch)
{
    sim_tensor_pool_done(&dispatch->pool);
    g_free(dispatch->gradient_stems);
    g_free(dispatch->shapes);
    g_free(dispatch->figures);
}

static SimStringId shape_text(SimDispatch *dispatch, const SimShape *shape)
{
    uint64_t hash = shape->n_dims;
    for (uint32_t i = 0; i < shape->n_dims; i++)
        hash = hash * 31 + shape->dims[i];
    SimDispatchShape *entry = &dispatch->shapes[(hash ^ hash >> 8) % SIM_DISPATCH_CACHE];
    bool is_hit = entry->text != 0 && entry->shape.n_dims == shape->n_dims;
    for (uint32_t i = 0; is_hit && i < shape->n_dims; i++)
        is_hit = entry->shape.dims[i] == shape->dims[i];
    if (!is_hit) {
        g_autofree char *text = sim_shape_print(shape);
        entry->shape = *shape;
        entry->text = sim_strings_intern(sim_plan_strings(dispatch->plan), text);
    }
    return entry->text;
}

static SimStringId figures_text(SimDispatch *dispatch, const SimOperatorKernel *kernel)
{
    if (kernel->figures_kind == SIM_FIGURES_NONE)
        return 0;
    const uint64_t *f = kernel->figures;
    uint64_t hash = ((f[0] * 31 + f[1]) * 31 + f[2]) * 31 + f[3] + kernel->figures_kind;
    SimDispatchFigures *entry = &dispatch->figures[(hash ^ hash >> 8) % SIM_DISPATCH_CACHE];
    if (entry->kind == kernel->figures_kind &&
        memcmp(entry->figures, f, sizeof entry->figures) == 0)
        return entry->text;
    SimStrings *strings = sim_plan_strings(dispatch->plan);
    entry->kind = kernel->figures_kind;
    memcpy(entry->figures, f, sizeof entry->figures);
    entry->text = kernel->figures_kind == SIM_FIGURES_MATRIX
                      ? sim_strings_internf(strings, "m=%" PRIu64 " n=%" PRIu64 " k=%" PRIu64, f[0],
                                            f[1], f[2])
                      : sim_strings_internf(strings,
                                            "heads=%" PRIu64 " seq=%" PRIu64 " head_dim=%" PRIu64
                                            " causal=%" PRIu64,
                                            f[0], f[1], f[2], f[3]);
    return entry->text;
}

static SimStringId gradient_stem(SimDispatch *dispatch, uint32_t parameter)
{
    SimStringId *stem = &dispatch->gradient_stems[parameter];
    if (*stem == 0)
        *stem = sim_strings_internf(sim_plan_strings(dispatch->plan), "G:%s",
                                    sim_model_parameter(dispatch->model, parameter)->path);
    return *stem;
}

SimTensor *sim_dispatch_allocate(SimDispatch *dispatch, const SimLayout *layout, SimName name,
                                 SimCategory category)
{
    uint64_t bytes = sim_layout_bytes(layout);
    uint32_t buffer = sim_plan_alloc(dispatch->plan, COMPUTE, name, bytes, category, layout->dtype,
                                     shape_text(dispatch, &layout->shape));
    return sim_tensor_new(&dispatch->pool, layout, buffer, bytes);
}

static SimTensor *allocate_output(SimDispatch *dispatch, uint32_t number,
                                  const SimDispatchPurpose *purpose)
{
    const SimOperatorCall *call = &dispatch->call;
    uint32_t parameter = purpose->gradient_of[number];
    bool is_gradient = parameter != SIM_MODEL_NONE;
    SimName name = {.stem = is_gradient ? gradient_stem(dispatch, parameter) : purpose->stem,
                    .tail = dispatch->operator_names[call->operator_],
                    .serial = dispatch->serial++};
    return sim_dispatch_allocate(dispatch, &call->outputs[number], name,
                                 is_gradient ? SIM_CATEGORY_UNSHARDED_GRADIENT : purpose->category);
}

static SimTouch touch_of(const SimDispatch *dispatch, const SimTensor *tensor)
{
    if (tensor->parameter != SIM_MODEL_NONE)
        return SIM_TOUCH_WHOLE(
            dispatch->hooks->parameter(dispatch->hooks->user_data, tensor->parameter));
    SimTouch touch = SIM_TOUCH_WHOLE(tensor->storage->buffer);
    uint64_t bytes = sim_layout_bytes(&tensor->layout);
    if (bytes < tensor->storage->bytes && sim_layout_is_contiguous(&tensor->layout)) {
        touch.offset = tensor->offset * sim_dtype_bytes(tensor->layout.dtype);
        touch.bytes = bytes;
    }
    return touch;
}

static void launch(SimDispatch *dispatch, const SimOperatorKernel *kernel, uint32_t n_inputs,
                   SimTensor *const *inputs, SimTensor *const *results)
{
    SimStringId name = dispatch->operator_names[kernel->name];
    SimDtype dtype = n_inputs > 0 ? inputs[0]->layout.dtype : results[0]->layout.dtype;
    SimInstruction *row = sim_plan_kernel(dispatch->plan, COMPUTE, name, name, dtype);
    row->flops = kernel->flops;
    row->hbm_bytes = kernel->hbm_bytes;
    row->arguments = figures_text(dispatch, kernel);
    for (uint32_t i = 0; i < n_inputs; i++)
        if ((kernel->reads >> i & 1) != 0)
            sim_plan_add_read(dispatch->plan, touch_of(dispatch, inputs[i]));
    for (uint32_t i = 0; i < dispatch->call.n_outputs; i++)
        if ((kernel->writes >> i & 1) != 0)
            sim_plan_add_write(dispatch->plan, touch_of(dispatch, results[i]));
}

/* The host code of an operator that is no view, event by event. */
static void run_events(SimDispatch *dispatch, uint32_t n_inputs, SimTensor *const *inputs,
                       const SimDispatchPurpose *purpose, SimTensor **results)
{
    const SimOperatorCall *call = &dispatch->call;
    uint32_t scratch[16], depth = 0;
    for (uint32_t i = 0; i < call->n_events; i++) {
        const SimOperatorEvent *event = &call->events[i];
        switch (event->kind) {
        case SIM_OPERATOR_EVENT_OUTPUT:
            results[event->number] = allocate_output(dispatch, event->number, purpose);
            break;
        case SIM_OPERATOR_EVENT_SCRATCH: {
            g_assert(depth < G_N_ELEMENTS(scratch));
            SimName name = {.stem = dispatch->scratch_stem,
                            .tail = dispatch->operator_names[call->operator_],
                            .serial = dispatch->serial++};
            scratch[depth++] = sim_plan_alloc(dispatch->plan, COMPUTE, name, event->bytes,
                                              SIM_CATEGORY_WORKSPACE, SIM_DTYPE_U8, 0);
            break;
        }
        case SIM_OPERATOR_EVENT_RELEASE:
            for (uint32_t j = 0; j < event->number; j++)
                sim_plan_free_buffer(dispatch->plan, scratch[--depth]);
            break;
        case SIM_OPERATOR_EVENT_RELEASE_BELOW:
            depth--;
            sim_plan_free_buffer(dispatch->plan, scratch[depth - 1]);
            scratch[depth - 1] = scratch[depth];
            break;
        case SIM_OPERATOR_EVENT_KERNEL:
            launch(dispatch, &call->kernels[event->number], n_inputs, inputs, results);
            break;
        }
    }
}

uint32_t sim_dispatch_run(SimDispatch *dispatch, SimOperator operator_,
                          const SimAttributes *attributes, const SimLayout *like, uint32_t n_inputs,
                          SimTensor *const *inputs, const SimDispatchPurpose *purpose,
                          SimTensor **results)
{
    SimOperatorCall *call = &dispatch->call;
    call->operator_ = operator_;
    call->attributes = attributes;
    call->like = like;
    call->setting = &dispatch->setting;
    call->n_inputs = n_inputs;
    for (uint32_t i = 0; i < n_inputs; i++)
        call->inputs[i] = &inputs[i]->layout;
    sim_operator_describe(call);
    if (call->is_same)
        results[0] = sim_tensor_ref(inputs[0]);
    else if (call->is_view)
        for (uint32_t i = 0; i < call->n_outputs; i++)
            results[i] = sim_tensor_new_view(&dispatch->pool, inputs[0], &call->outputs[i],
                                             call->offsets[i]);
    if (!call->is_same && (!call->is_view || call->n_events > 0))
        run_events(dispatch, n_inputs, inputs, purpose, results);
    return call->n_outputs;
}

void sim_dispatch_add_in_place(SimDispatch *dispatch, SimTensor *target, SimTensor *value)
{
    SimStringId name = dispatch->operator_names[SIM_OPERATOR_ADD];
    SimInstruction *row =
        sim_plan_kernel(dispatch->plan, COMPUTE, name, name, target->layout.dtype);
    row->hbm_bytes = 2 * sim_layout_bytes(&target->layout) + sim_layout_bytes(&value->layout);
    sim_plan_add_read(dispatch->plan, touch_of(dispatch, target));
    sim_plan_add_read(dispatch->plan, touch_of(dispatch, value));
    sim_plan_add_write(dispatch->plan, touch_of(dispatch, target));
}

void sim_dispatch_copy(SimDispatch *dispatch, SimTensor *target, SimTensor *value)
{
    SimStringId name = dispatch->operator_names[SIM_OPERATOR_CLONE];
    SimInstruction *row = sim_plan_kernel(dispatch->plan, COMPUTE, name, name, value->layout.dtype);
    row->hbm_bytes = sim_layout_bytes(&target->layout) + sim_layout_bytes(&value->layout);
    sim_plan_add_read(dispatch->plan, touch_of(dispatch, value));
    sim_plan_add_write(dispatch->plan, touch_of(dispatch, target));
}
