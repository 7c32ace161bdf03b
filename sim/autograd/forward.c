/* SPDX-License-Identifier: Apache-2.0
 *
 * Runs the programs of modules: a slot is a reference to a tensor, a module call is a frame of
 * slots and FSDP's hooks around it.
 */
#include "autograd/autocast.h"
#include "autograd/autograd_private.h"

static bool is_replaying(const SimAutograd *autograd)
{
    return autograd->checkpoint != NULL && autograd->checkpoint->is_replaying;
}

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

/* What the nodes of a replay save, in the order of the forward's nodes: those of OPERATOR_'s saved
 * tensors that are of KIND. False: the replay ends here. */
static bool pack_saved(SimAutograd *autograd, SimOperator operator_, uint32_t wanted,
                       SimReferenceKind kind, SimTensor *const *tensors)
{
    const SimFormula *formula = sim_catalogue_formula(operator_);
    uint32_t saved = wanted != 0 ? sim_catalogue_saved(formula, wanted) : 0;
    for (uint32_t i = 0; i < formula->n_saved; i++) {
        uint8_t reference = formula->saved[i];
        if ((saved >> i & 1) != 0 && SIM_REFERENCE_KIND(reference) == kind &&
            !sim_checkpoint_pack(autograd->checkpoint, tensors[SIM_REFERENCE_INDEX(reference)]))
            return false;
    }
    return true;
}

/* An operator of a replay: as ever, but its result comes from the cache if the policy chose it, and
 * its node would live only until the replay is done, so it is not made. Any number says that a
 * result needs a gradient. */
static bool replay_operator(SimAutograd *autograd, const SimProgramCall *call,
                            const SimAttributes *attributes, const SimDispatchPurpose *purpose,
                            SimTensor *const *inputs, SimTensor **results)
{
    uint32_t wanted = sim_graph_wanted(autograd->model, call->n_inputs, inputs);
    if (!pack_saved(autograd, call->operator_, wanted, SIM_REFERENCE_INPUT, inputs))
        return false;
    uint32_t n_results = call->n_outputs;
    if (sim_checkpoint_chooses(autograd->checkpoint, call->operator_))
        sim_checkpoint_take_cached(autograd->checkpoint, n_results, results);
    else
        n_results = sim_dispatch_run(&autograd->dispatch, call->operator_, attributes, NULL,
                                     call->n_inputs, inputs, purpose, results);
    if (results[0] == inputs[0])
        return true;
    for (uint32_t i = 0; i < n_results && wanted != 0; i++)
        if (sim_catalogue_formula(call->operator_)->n_steps > 0)
            results[i]->node = 0;
    if (pack_saved(autograd, call->operator_, wanted, SIM_REFERENCE_OUTPUT, results))
        return true;
    for (uint32_t i = 0; i < n_results; i++)
        sim_tensor_unref(&autograd->dispatch.pool, results[i]);
    return false;
}

static void run_operator(SimAutograd *autograd, const SimProgramCall *call,
                         const SimAttributes *attributes, const SimDispatchPurpose *purpose,
                         SimTensor *const *inputs, SimTensor **results)
{
    SimCheckpoint *checkpoint = autograd->checkpoint;
    bool is_cached = checkpoint != NULL && sim_checkpoint_chooses(checkpoint, call->operator_);
    uint32_t n_results = sim_dispatch_run(&autograd->dispatch, call->operator_, attributes, NULL,
                                          call->n_inputs, inputs, purpose, results);
    if (is_cached)
        sim_checkpoint_cache(checkpoint, &autograd->dispatch.pool, n_results, results);
    if (autograd->graph == NULL || results[0] == inputs[0])
        return;
    SimNode *node = sim_graph_record(autograd->graph, autograd->model, checkpoint, call->operator_,
                                     attributes, call->n_inputs, inputs, n_results, results);
    if (node != NULL) {
        node->unit = sim_plan_context(autograd->plan)->unit;
        node->stem = purpose->stem;
        node->flags = call->flags;
    }
}

bool sim_autograd_run_operator(SimAutograd *autograd, const SimProgramCall *call,
                               const SimAttributes *attributes, const SimDispatchPurpose *purpose,
                               SimTensor *const *inputs, SimTensor **results)
{
    if (is_replaying(autograd))
        return replay_operator(autograd, call, attributes, purpose, inputs, results);
    run_operator(autograd, call, attributes, purpose, inputs, results);
    return true;
}

static bool run_autocast(SimAutograd *autograd, const SimProgramCall *call,
                         const SimAttributes *attributes, const SimDispatchPurpose *purpose,
                         SimTensor *const *inputs, SimTensor **results)
{
    SimTensor *cast[SIM_OPERATOR_MAX_INPUTS];
    if (!sim_autocast_inputs(autograd, call, purpose, inputs, cast))
        return false;
    bool is_done = sim_autograd_run_operator(autograd, call, attributes, purpose, cast, results);
    for (uint32_t i = 0; i < call->n_inputs; i++)
        sim_tensor_unref(&autograd->dispatch.pool, cast[i]);
    return is_done;
}

static bool call_operator(SimAutograd *autograd, uint32_t module, const SimProgramCall *call,
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
    bool is_autocast =
        autograd->casts != NULL && sim_autocast_dtype(call->operator_) != SIM_DTYPE_NONE;
    bool is_done = (is_autocast ? run_autocast : sim_autograd_run_operator)(
        autograd, call, attributes, &purpose, inputs, results);
    context->unit = unit;
    return is_done;
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

/* A chunked loss runs the head itself. */
static const SimProgram *program_of(const SimAutograd *autograd, uint32_t module)
{
    bool is_headless = module == 0 && autograd->loss_chunks > 0 && autograd->graph != NULL;
    return is_headless ? autograd->model->headless
                       : sim_model_module(autograd->model, module)->forward;
}

static const SimAutogradCheckpoint *find_checkpoint(const SimAutograd *autograd, uint32_t module)
{
    bool is_free =
        autograd->checkpoints != NULL && autograd->graph != NULL && autograd->checkpoint == NULL;
    return is_free && autograd->checkpoints[module].is_used ? &autograd->checkpoints[module] : NULL;
}

/* checkpoint(function, *args) begins: what runs now is its own until it ends. */
static void open_checkpoint(SimAutograd *autograd, const SimAutogradCheckpoint *settings,
                            uint32_t module, uint32_t n, SimTensor *const *arguments)
{
    autograd->checkpoint =
        sim_checkpoint_new(settings, module, sim_plan_context(autograd->plan)->unit, n, arguments);
    g_ptr_array_add(autograd->graph->checkpoints, autograd->checkpoint);
}

static void close_checkpoint(SimAutograd *autograd)
{
    autograd->checkpoint = NULL;
}

/* The module's own forward; a checkpoint inside of its hooks is around this. */
static bool run_forward(SimAutograd *autograd, uint32_t module, SimTensor *const *arguments,
                        SimTensor **results)
{
    const SimProgram *program = program_of(autograd, module);
    const SimAutogradCheckpoint *settings = find_checkpoint(autograd, module);
    bool is_opened = settings != NULL && !settings->is_outside;
    if (is_opened)
        open_checkpoint(autograd, settings, module, program->n_arguments, arguments);
    bool is_done = sim_autograd_run_program(autograd, module, program, arguments, results);
    if (is_opened)
        close_checkpoint(autograd);
    return is_done;
}

/* The module with its hooks. The hooks of a replay get no node: its graph is never walked. */
static bool call_hooked(SimAutograd *autograd, uint32_t module, uint32_t n_inputs,
                        SimTensor *const *inputs, SimTensor **results)
{
    const SimAutogradHooks *hooks = autograd->hooks;
    bool is_recorded = autograd->graph != NULL && !is_replaying(autograd);
    uint32_t token = hooks->pre_forward(hooks->user_data, module);
    bool is_guarded = is_recorded && token != SIM_AUTOGRAD_NO_TOKEN;
    SimTensor *arguments[SIM_OPERATOR_MAX_INPUTS];
    if (is_guarded)
        guard_arguments(autograd, token, n_inputs, inputs, arguments);
    bool is_done = run_forward(autograd, module, is_guarded ? arguments : inputs, results);
    for (uint32_t i = 0; is_guarded && i < n_inputs; i++)
        sim_tensor_unref(&autograd->dispatch.pool, arguments[i]);
    token = hooks->post_forward(hooks->user_data, module);
    if (is_recorded && token != SIM_AUTOGRAD_NO_TOKEN)
        hook_results(autograd, token, sim_model_module(autograd->model, module)->forward->n_results,
                     results);
    return is_done;
}

bool sim_autograd_call_module(SimAutograd *autograd, uint32_t module, uint32_t n_inputs,
                              SimTensor *const *inputs, SimTensor **results)
{
    const SimProgram *program = sim_model_module(autograd->model, module)->forward;
    g_assert(program != NULL && program->n_arguments == n_inputs);
    const SimAutogradCheckpoint *settings = find_checkpoint(autograd, module);
    bool is_opened = settings != NULL && settings->is_outside;
    if (is_opened)
        open_checkpoint(autograd, settings, module, n_inputs, inputs);
    bool is_done = call_hooked(autograd, module, n_inputs, inputs, results);
    if (is_opened)
        close_checkpoint(autograd);
    return is_done;
}

static bool run_call(SimAutograd *autograd, uint32_t module, guint frame, const SimProgram *program,
                     const SimProgramCall *call)
{
    SimTensor *inputs[SIM_OPERATOR_MAX_INPUTS], *results[SIM_OPERATOR_MAX_OUTPUTS];
    for (uint32_t i = 0; i < call->n_inputs; i++)
        inputs[i] = operand(autograd, module, frame, call->inputs[i]);
    bool is_done =
        call->is_module
            ? sim_autograd_call_module(autograd, module + call->child, call->n_inputs, inputs,
                                       results)
            : call_operator(autograd, module, call,
                            &g_array_index(program->attributes, SimAttributes, call->attributes),
                            inputs, results);
    if (!is_done)
        return false;
    for (uint32_t i = 0; i < call->n_outputs; i++) {
        if (call->outputs[i] == SIM_SLOT_NONE)
            sim_tensor_unref(&autograd->dispatch.pool, results[i]);
        else
            g_ptr_array_index(autograd->slots, frame + call->outputs[i]) = results[i];
    }
    for (uint32_t i = 0; i < call->n_dying; i++) {
        SimSlot slot = g_array_index(program->dying, SimSlot, call->first_dying + i);
        gpointer *dying = &g_ptr_array_index(autograd->slots, frame + slot);
        sim_tensor_unref(&autograd->dispatch.pool, g_steal_pointer(dying));
    }
    return true;
}

/* An exception ends the function: all that its frame still holds dies. */
static void unwind(SimAutograd *autograd, guint frame, const SimProgram *program)
{
    for (uint32_t slot = program->n_arguments; slot < program->n_slots; slot++) {
        SimTensor *tensor = g_ptr_array_index(autograd->slots, frame + slot);
        if (tensor != NULL)
            sim_tensor_unref(&autograd->dispatch.pool, tensor);
    }
}

bool sim_autograd_run_program(SimAutograd *autograd, uint32_t module, const SimProgram *program,
                              SimTensor *const *arguments, SimTensor **results)
{
    guint frame = autograd->slots->len;
    g_ptr_array_set_size(autograd->slots, (gint)(frame + program->n_slots));
    for (uint32_t i = 0; i < program->n_arguments; i++)
        g_ptr_array_index(autograd->slots, frame + i) = arguments[i];
    bool is_done = true;
    for (guint i = 0; i < program->calls->len && is_done; i++)
        is_done = run_call(autograd, module, frame, program,
                           &g_array_index(program->calls, SimProgramCall, i));
    if (!is_done)
        unwind(autograd, frame, program);
    for (uint32_t i = 0; is_done && i < program->n_results; i++)
        results[i] = g_ptr_array_index(autograd->slots, frame + program->results[i]);
    g_ptr_array_set_size(autograd->slots, (gint)frame);
    return is_done;
}

void sim_autograd_replay(SimAutograd *autograd, SimGraph *graph, SimCheckpoint *checkpoint)
{
    SimPlanContext *context = sim_plan_context(autograd->plan);
    const SimPlanContext before = *context;
    context->phase = SIM_PHASE_RECOMPUTE;
    context->unit = checkpoint->unit;
    autograd->graph = graph;
    autograd->checkpoint = checkpoint;
    sim_checkpoint_start_replay(checkpoint);
    SimTensor *results[SIM_OPERATOR_MAX_OUTPUTS];
    bool is_done = checkpoint->settings.is_outside
                       ? call_hooked(autograd, checkpoint->module, checkpoint->n_arguments,
                                     checkpoint->arguments, results)
                       : run_forward(autograd, checkpoint->module, checkpoint->arguments, results);
    const SimProgram *program = sim_model_module(autograd->model, checkpoint->module)->forward;
    for (uint32_t i = 0; is_done && i < program->n_results; i++)
        sim_tensor_unref(&autograd->dispatch.pool, results[i]);
    sim_autocast_clear(autograd);
    sim_checkpoint_finish_replay(checkpoint);
    autograd->checkpoint = NULL;
    autograd->graph = NULL;
    context->phase = before.phase;
    context->unit = before.unit;
}
