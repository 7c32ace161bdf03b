/* SPDX-License-Identifier: Apache-2.0
 *
 * Runs the programs of modules: a slot is a reference to a tensor, a module call is a frame of
 * slots and FSDP's hooks around it.
 */
#include "autograd/autograd_private.h"

static SimTensor *operand(SimAutograd *autograd, uint32_t module, guint frame, SimSlot slot)
{
    if (SIM_SLOT_IS_PARAMETER(slot)) {
        uint32_t first = sim_model_module(autograd->model, module)->first_parameter;
        return autograd->parameters[first + SIM_SLOT_INDEX(slot)];
    }
    if (SIM_SLOT_IS_BUFFER(slot))
        return g_ptr_array_index(autograd->buffers, SIM_SLOT_INDEX(slot));
    return g_ptr_array_index(autograd->slots, frame + slot);
}

static void run_operator(SimAutograd *autograd, uint32_t module, const SimProgramCall *call,
                         const SimAttributes *attributes, SimTensor *const *inputs,
                         SimTensor **results)
{
    SimDispatchPurpose purpose = {.category = call->flags != 0 ? SIM_CATEGORY_LOGITS_LOSS
                                                               : SIM_CATEGORY_ACTIVATION,
                                  .stem = autograd->module_stems[module]};
    for (uint32_t i = 0; i < SIM_OPERATOR_MAX_OUTPUTS; i++)
        purpose.gradient_of[i] = SIM_MODEL_NONE;
    SimPlanContext *context = sim_plan_context(autograd->plan);
    SimStringId unit = context->unit;
    if ((call->flags & SIM_PROGRAM_LOSS) != 0)
        context->unit = autograd->loss_unit;
    uint32_t n_results = sim_dispatch_run(&autograd->dispatch, call->operator_, attributes, NULL,
                                          call->n_inputs, inputs, &purpose, results);
    if (autograd->graph != NULL && results[0] != inputs[0]) {
        SimNode *node = sim_graph_record(autograd->graph, autograd->model, call->operator_,
                                         attributes, call->n_inputs, inputs, n_results, results);
        if (node != NULL) {
            node->unit = context->unit;
            node->stem = purpose.stem;
            node->flags = call->flags;
        }
    }
    context->unit = unit;
}

/* RegisterPostBackwardFunction: those arguments that need a gradient pass through one node.
 * ARGUMENTS then hold one reference each. */
static void guard_arguments(SimAutograd *autograd, uint32_t token, uint32_t n,
                            SimTensor *const *inputs, SimTensor **arguments)
{
    SimGraph *graph = autograd->graph;
    SimNode *node = NULL;
    uint32_t number = 0;
    for (uint32_t i = 0; i < n; i++) {
        if (!sim_graph_wants(autograd->model, inputs[i])) {
            arguments[i] = sim_tensor_ref(inputs[i]);
            continue;
        }
        if (node == NULL) {
            node = sim_graph_add(graph, SIM_NODE_POST_BACKWARD);
            node->token = token;
            node->unit = sim_plan_context(autograd->plan)->unit;
            number = graph->n_nodes - 1;
        }
        g_assert(node->n_edges < SIM_GRAPH_MAX_EDGES);
        uint32_t edge = node->n_edges++;
        node->wanted |= 1U << edge;
        node->edges[edge] = sim_graph_edge(autograd->model, inputs[i]);
        node->layouts[edge] = inputs[i]->layout;
        arguments[i] =
            sim_tensor_new_view(&autograd->dispatch.pool, inputs[i], &inputs[i]->layout, 0);
        arguments[i]->node = number;
        arguments[i]->node_output = (uint8_t)edge;
    }
}

static void hook_results(SimAutograd *autograd, uint32_t token, uint32_t n_results,
                         SimTensor *const *results)
{
    uint32_t use = sim_graph_add_use(autograd->graph);
    for (uint32_t i = 0; i < n_results; i++)
        sim_graph_add_hook(autograd->graph, results[i], token, use);
}

/* Module.__call__. */
void sim_autograd_call_module(SimAutograd *autograd, uint32_t module, uint32_t n_inputs,
                              SimTensor *const *inputs, SimTensor **results)
{
    const SimAutogradHooks *hooks = autograd->hooks;
    const SimProgram *program = sim_model_module(autograd->model, module)->forward;
    g_assert(program != NULL && program->n_arguments == n_inputs);
    uint32_t token = hooks->pre_forward(hooks->user_data, module);
    bool is_guarded = autograd->graph != NULL && token != SIM_AUTOGRAD_NO_TOKEN;
    SimTensor *arguments[SIM_OPERATOR_MAX_INPUTS];
    if (is_guarded)
        guard_arguments(autograd, token, n_inputs, inputs, arguments);
    sim_autograd_run_program(autograd, module, program, is_guarded ? arguments : inputs, results);
    for (uint32_t i = 0; is_guarded && i < n_inputs; i++)
        sim_tensor_unref(&autograd->dispatch.pool, arguments[i]);
    token = hooks->post_forward(hooks->user_data, module);
    if (autograd->graph != NULL && token != SIM_AUTOGRAD_NO_TOKEN)
        hook_results(autograd, token, program->n_results, results);
}

static void run_call(SimAutograd *autograd, uint32_t module, guint frame, const SimProgram *program,
                     const SimProgramCall *call)
{
    SimTensor *inputs[SIM_OPERATOR_MAX_INPUTS], *results[SIM_OPERATOR_MAX_OUTPUTS];
    for (uint32_t i = 0; i < call->n_inputs; i++)
        inputs[i] = operand(autograd, module, frame, call->inputs[i]);
    if (call->is_module)
        sim_autograd_call_module(autograd, module + call->child, call->n_inputs, inputs, results);
    else
        run_operator(autograd, module, call,
                     &g_array_index(program->attributes, SimAttributes, call->attributes), inputs,
                     results);
    for (uint32_t i = 0; i < call->n_outputs; i++) {
        if (call->outputs[i] == SIM_SLOT_NONE)
            sim_tensor_unref(&autograd->dispatch.pool, results[i]);
        else
            g_ptr_array_index(autograd->slots, frame + call->outputs[i]) = results[i];
    }
    for (uint32_t i = 0; i < call->n_dying; i++) {
        SimSlot slot = g_array_index(program->dying, SimSlot, call->first_dying + i);
        sim_tensor_unref(&autograd->dispatch.pool, operand(autograd, module, frame, slot));
    }
}

void sim_autograd_run_program(SimAutograd *autograd, uint32_t module, const SimProgram *program,
                              SimTensor *const *arguments, SimTensor **results)
{
    guint frame = autograd->slots->len;
    g_ptr_array_set_size(autograd->slots, (gint)(frame + program->n_slots));
    for (uint32_t i = 0; i < program->n_arguments; i++)
        g_ptr_array_index(autograd->slots, frame + i) = arguments[i];
    for (guint i = 0; i < program->calls->len; i++)
        run_call(autograd, module, frame, program,
                 &g_array_index(program->calls, SimProgramCall, i));
    for (uint32_t i = 0; i < program->n_results; i++)
        results[i] = g_ptr_array_index(autograd->slots, frame + program->results[i]);
    g_ptr_array_set_size(autograd->slots, (gint)frame);
}
