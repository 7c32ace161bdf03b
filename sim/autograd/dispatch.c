/* SPDX-License-Identifier: Apache-2.0 */
#include "autograd/dispatch.h"

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
        .texts = sim_kernel_text_new(),
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
    sim_kernel_text_free(dispatch->texts);
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
    uint32_t buffer = sim_plan_alloc(dispatch->plan, dispatch->stream, name, bytes, category,
                                     layout->dtype, shape_text(dispatch, &layout->shape));
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

static void add_operand(SimDispatch *dispatch, SimKernelTextKey *key, bool is_write,
                        const SimTensor *tensor)
{
    SimTouch touch = touch_of(dispatch, tensor);
    sim_kernel_text_push(key, is_write, &tensor->layout, touch.bytes == 0 ? tensor->offset : 0);
    if (is_write)
        sim_plan_add_write(dispatch->plan, touch);
    else
        sim_plan_add_read(dispatch->plan, touch);
}

/* Scratch is bytes; the operator knows how it uses them. */
static void add_scratch(SimDispatch *dispatch, SimKernelTextKey *key, bool is_write,
                        const uint32_t *scratch, uint32_t used)
{
    for (uint32_t i = 0; used >> i != 0; i++) {
        if ((used >> i & 1) == 0)
            continue;
        SimShape shape = {.dims = {sim_plan_buffer(dispatch->plan, scratch[i])->bytes},
                          .n_dims = 1};
        SimLayout layout = sim_layout_contiguous(&shape, SIM_DTYPE_U8);
        sim_kernel_text_push(key, is_write, &layout, 0);
        if (is_write)
            sim_plan_add_write(dispatch->plan, SIM_TOUCH_WHOLE(scratch[i]));
        else
            sim_plan_add_read(dispatch->plan, SIM_TOUCH_WHOLE(scratch[i]));
    }
}

static void launch(SimDispatch *dispatch, const SimOperatorKernel *kernel, uint32_t n_inputs,
                   SimTensor *const *inputs, SimTensor *const *results, const uint32_t *scratch)
{
    SimStringId name = dispatch->operator_names[kernel->name];
    SimDtype dtype = n_inputs > 0 ? inputs[0]->layout.dtype : results[0]->layout.dtype;
    SimInstruction *row = sim_plan_kernel(dispatch->plan, dispatch->stream, name, name, dtype);
    row->flops = kernel->flops;
    row->hbm_bytes = kernel->hbm_bytes;
    SimKernelTextKey key;
    sim_kernel_text_start(&key, kernel, &dispatch->call);
    for (uint32_t i = 0; i < n_inputs; i++)
        if ((kernel->reads >> i & 1) != 0)
            add_operand(dispatch, &key, false, inputs[i]);
    add_scratch(dispatch, &key, false, scratch, kernel->scratch_reads);
    for (uint32_t i = 0; i < dispatch->call.n_outputs; i++)
        if ((kernel->writes >> i & 1) != 0)
            add_operand(dispatch, &key, true, results[i]);
    add_scratch(dispatch, &key, true, scratch, kernel->scratch_writes);
    sim_plan_last(dispatch->plan)->arguments =
        sim_kernel_text_intern(dispatch->texts, sim_plan_strings(dispatch->plan), &key);
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
            scratch[depth++] = sim_plan_alloc(dispatch->plan, dispatch->stream, name, event->bytes,
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
            launch(dispatch, &call->kernels[event->number], n_inputs, inputs, results, scratch);
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

/* One of the two kernels below, which are no operator call. */
static SimInstruction *launch_alone(SimDispatch *dispatch, SimOperator operator_, SimDtype dtype,
                                    SimKernelTextKey *key)
{
    SimStringId name = dispatch->operator_names[operator_];
    SimOperatorKernel kernel = {.name = operator_};
    SimOperatorCall call = {.operator_ = operator_};
    sim_kernel_text_start(key, &kernel, &call);
    return sim_plan_kernel(dispatch->plan, dispatch->stream, name, name, dtype);
}

void sim_dispatch_add_in_place(SimDispatch *dispatch, SimTensor *target, SimTensor *value)
{
    SimKernelTextKey key;
    launch_alone(dispatch, SIM_OPERATOR_ADD, target->layout.dtype, &key)->hbm_bytes =
        2 * sim_layout_bytes(&target->layout) + sim_layout_bytes(&value->layout);
    add_operand(dispatch, &key, false, target);
    add_operand(dispatch, &key, false, value);
    add_operand(dispatch, &key, true, target);
    sim_plan_last(dispatch->plan)->arguments =
        sim_kernel_text_intern(dispatch->texts, sim_plan_strings(dispatch->plan), &key);
}

void sim_dispatch_copy(SimDispatch *dispatch, SimTensor *target, SimTensor *value)
{
    SimKernelTextKey key;
    launch_alone(dispatch, SIM_OPERATOR_CLONE, value->layout.dtype, &key)->hbm_bytes =
        sim_layout_bytes(&target->layout) + sim_layout_bytes(&value->layout);
    add_operand(dispatch, &key, false, value);
    add_operand(dispatch, &key, true, target);
    sim_plan_last(dispatch->plan)->arguments =
        sim_kernel_text_intern(dispatch->texts, sim_plan_strings(dispatch->plan), &key);
}
