/* SPDX-License-Identifier: Apache-2.0 */
#include "autograd/autograd.h"

#include <inttypes.h>

#include "autograd/autocast.h"
#include "autograd/autograd_private.h"
#include "autograd/chunked_loss.h"

static SimLayout parameter_layout(const SimParameter *parameter, SimDtype dtype)
{
    return sim_layout_contiguous(&parameter->shape, dtype);
}

static void make_parameters(SimAutograd *autograd, const SimAutogradOptions *options)
{
    const SimModel *model = autograd->model;
    autograd->parameters = g_new0(SimTensor *, model->parameters->len);
    for (uint32_t i = 0; i < model->parameters->len; i++) {
        const SimParameter *parameter = sim_model_parameter(model, i);
        uint32_t holder = parameter->tied_to != SIM_MODEL_NONE ? parameter->tied_to : i;
        SimDtype dtype = options->parameter_dtypes != NULL ? options->parameter_dtypes[i]
                                                           : options->compute_dtype;
        SimLayout layout = parameter_layout(parameter, dtype);
        autograd->parameters[i] =
            holder == i ? sim_tensor_new_parameter(&autograd->dispatch.pool, &layout, i)
                        : sim_tensor_ref(autograd->parameters[holder]);
    }
}

SimAutograd *sim_autograd_new(const SimModel *model, SimPlan *plan,
                              const SimAutogradOptions *options, const SimAutogradHooks *hooks)
{
    SimAutograd *autograd = g_new0(SimAutograd, 1);
    autograd->model = model;
    autograd->hooks = hooks;
    autograd->plan = plan;
    autograd->checkpoints = options->checkpoints;
    autograd->loss_chunks = options->loss_chunks;
    autograd->keeps_output = options->keeps_output;
    autograd->casts = options->is_autocast ? g_new0(SimTensor *, model->parameters->len) : NULL;
    autograd->to_f32.dtype = SIM_DTYPE_F32;
    autograd->to_bf16.dtype = SIM_DTYPE_BF16;
    sim_graph_init(&autograd->chunk_graph);
    sim_dispatch_init(&autograd->dispatch, model, plan, options, hooks);
    make_parameters(autograd, options);
    autograd->buffers = g_ptr_array_new();
    autograd->graphs = g_array_new(FALSE, TRUE, sizeof(SimGraph));
    autograd->slots = g_ptr_array_new();
    autograd->pending = g_new0(SimPendingGradient, model->parameters->len);
    autograd->module_stems = g_new(SimStringId, model->modules->len);
    SimStrings *strings = sim_plan_strings(plan);
    for (uint32_t i = 0; i < model->modules->len; i++) {
        const char *path = sim_model_module(model, i)->path;
        autograd->module_stems[i] = sim_strings_intern(strings, *path != '\0' ? path : "model");
    }
    autograd->loss_unit = sim_strings_intern(strings, "loss");
    return autograd;
}

void sim_autograd_free(SimAutograd *autograd)
{
    if (autograd == NULL)
        return;
    for (guint i = 0; i < autograd->graphs->len; i++)
        sim_graph_done(&g_array_index(autograd->graphs, SimGraph, i));
    sim_graph_done(&autograd->chunk_graph);
    g_array_unref(autograd->graphs);
    g_ptr_array_unref(autograd->buffers);
    g_ptr_array_unref(autograd->slots);
    g_free(autograd->parameters);
    g_free(autograd->pending);
    g_free(autograd->casts);
    g_free(autograd->module_stems);
    sim_dispatch_done(&autograd->dispatch);
    g_free(autograd);
}

SimGraph *sim_autograd_graph(SimAutograd *autograd, uint32_t microbatch)
{
    while (autograd->graphs->len <= microbatch) {
        g_array_set_size(autograd->graphs, autograd->graphs->len + 1);
        sim_graph_init(&g_array_index(autograd->graphs, SimGraph, autograd->graphs->len - 1));
    }
    return &g_array_index(autograd->graphs, SimGraph, microbatch);
}

static SimLayout buffer_layout(const SimModelBuffer *buffer, const SimOperatorSetting *setting)
{
    SimShape shape = {.n_dims = buffer->n_dims};
    for (uint32_t i = 0; i < buffer->n_dims; i++)
        shape.dims[i] = buffer->dims[i] == SIM_DIM_BATCH      ? setting->batch
                        : buffer->dims[i] == SIM_DIM_SEQUENCE ? setting->sequence
                                                              : (uint64_t)buffer->dims[i];
    return sim_layout_contiguous(&shape, buffer->dtype);
}

/* Says what the buffer holds: token ids below the vocabulary (drawn anew in each microbatch),
 * frequencies base^(-2i/d) or their table of rotations by position. The base is the usual one,
 * whatever the config says: values change neither memory nor time. */
static void fill_buffer(SimAutograd *autograd, const SimTensor *tensor,
                        const SimModelBuffer *buffer)
{
    SimPlan *plan = autograd->plan;
    SimStrings *strings = sim_plan_strings(plan);
    SimStringId word = autograd->dispatch.operator_names[SIM_OPERATOR_FILL];
    SimStringId arguments =
        buffer->is_input ? sim_strings_internf(strings, "seed=0 name=%s below=%" PRIu64,
                                               buffer->name, autograd->model->figures.vocabulary)
        : buffer->dtype == SIM_DTYPE_C64 ? sim_strings_intern(strings, "rotations=10000")
                                         : sim_strings_intern(strings, "frequencies=10000");
    SimInstruction *kernel = sim_plan_kernel(plan, 0, word, word, buffer->dtype);
    kernel->arguments = arguments;
    kernel->hbm_bytes = tensor->storage->bytes;
    sim_plan_add_write(plan, SIM_TOUCH_WHOLE(tensor->storage->buffer));
}

void sim_autograd_start(SimAutograd *autograd)
{
    SimStrings *strings = sim_plan_strings(autograd->plan);
    for (guint i = 0; i < autograd->model->buffers->len; i++) {
        const SimModelBuffer *buffer = &g_array_index(autograd->model->buffers, SimModelBuffer, i);
        SimLayout layout = buffer_layout(buffer, &autograd->dispatch.setting);
        SimName name = {.stem = sim_strings_intern(strings, buffer->name), .serial = -1};
        SimTensor *tensor =
            sim_dispatch_allocate(&autograd->dispatch, &layout, name,
                                  buffer->is_input ? SIM_CATEGORY_INPUT : SIM_CATEGORY_BUFFER);
        fill_buffer(autograd, tensor, buffer);
        g_ptr_array_add(autograd->buffers, tensor);
    }
}

/* `output = model(tokens)`: an older one dies when the new one exists. */
static void bind_output(SimAutograd *autograd, SimTensor *output)
{
    SimTensor *old = autograd->output;
    autograd->output = sim_tensor_ref(output);
    if (old != NULL)
        sim_tensor_unref(&autograd->dispatch.pool, old);
}

void sim_autograd_forward(SimAutograd *autograd, uint32_t microbatch, bool with_grad)
{
    SimGraph *graph = sim_autograd_graph(autograd, microbatch);
    g_assert(autograd->buffers->len == autograd->model->buffers->len && graph->loss == NULL);
    autograd->graph = with_grad ? graph : NULL;
    SimTensor *ids = g_ptr_array_index(autograd->buffers, 0);
    SimTensor *results[SIM_OPERATOR_MAX_OUTPUTS];
    sim_autograd_call_module(autograd, 0, 1, &ids, results);
    if (sim_model_module(autograd->model, 0)->forward->n_results == 2)
        sim_tensor_unref(&autograd->dispatch.pool, results[1]);
    if (autograd->keeps_output)
        bind_output(autograd, results[0]);
    if (autograd->loss_chunks > 0 && with_grad) {
        SimTensor *hidden = results[0];
        autograd->graph = NULL;
        results[0] = sim_chunked_loss_run(autograd, graph, hidden);
        sim_tensor_unref(&autograd->dispatch.pool, hidden);
    } else if (autograd->model->loss != NULL) {
        SimTensor *logits = results[0];
        sim_autograd_run_program(autograd, 0, autograd->model->loss, &logits, results);
        sim_tensor_unref(&autograd->dispatch.pool, logits);
    }
    sim_autocast_clear(autograd);
    graph->loss = results[0];
    autograd->graph = NULL;
}

void sim_autograd_drop_loss(SimAutograd *autograd, uint32_t microbatch)
{
    SimGraph *graph = sim_autograd_graph(autograd, microbatch);
    if (graph->loss != NULL)
        sim_tensor_unref(&autograd->dispatch.pool, g_steal_pointer(&graph->loss));
}
