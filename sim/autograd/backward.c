/* SPDX-License-Identifier: Apache-2.0
 *
 * The engine: runs a graph's nodes from the youngest down. Of one node, in this order
 * (Engine::evaluate_function and call_function of torch/csrc/autograd/engine.cpp): tensor hooks;
 * the formula; results brought to their inputs' shape and type (validate_outputs); the incoming
 * gradients dropped; the saved tensors released; the results delivered, which may add them up.
 */
#include "autograd/autograd_private.h"

#include <string.h>

typedef struct Running {
    SimAutograd *autograd;
    SimGraph *graph;
    SimNode *node;
    const SimFormula *formula;
    SimTensor *temporaries[4];
    uint32_t n_temporaries;
    SimTensor *results[SIM_GRAPH_MAX_EDGES]; /* by input of the forward */
} Running;

static void mark_reached(SimAutograd *autograd, SimGraph *graph, uint32_t root)
{
    sim_graph_node(graph, root)->is_reached = true;
    for (uint32_t i = root + 1; i-- > 0;) {
        const SimNode *node = sim_graph_node(graph, i);
        if (!node->is_reached)
            continue;
        for (uint32_t j = 0; j < node->n_edges; j++) {
            const SimEdge *edge = &node->edges[j];
            if (edge->kind == SIM_EDGE_NODE)
                sim_graph_node(graph, edge->target)->is_reached = true;
            else if (edge->kind == SIM_EDGE_PARAMETER)
                autograd->pending[edge->target].expected++;
        }
    }
}

static SimDispatchPurpose purpose_of(const Running *running)
{
    SimDispatchPurpose purpose = {
        .category = (running->node->flags & SIM_PROGRAM_LOSS) != 0 ? SIM_CATEGORY_LOGITS_LOSS
                                                                   : SIM_CATEGORY_TEMPORARY,
        .stem = running->node->stem != 0 ? running->node->stem : running->autograd->loss_unit};
    for (uint32_t i = 0; i < SIM_OPERATOR_MAX_OUTPUTS; i++)
        purpose.gradient_of[i] = SIM_MODEL_NONE;
    return purpose;
}

static SimTensor *find_source(const Running *running, uint8_t reference)
{
    const SimNode *node = running->node;
    if (SIM_REFERENCE_KIND(reference) == SIM_REFERENCE_GRADIENT)
        return node->gradients[SIM_REFERENCE_INDEX(reference)];
    if (SIM_REFERENCE_KIND(reference) == SIM_REFERENCE_TEMPORARY)
        return running->temporaries[SIM_REFERENCE_INDEX(reference)];
    for (uint32_t i = 0; i < node->n_saved; i++)
        if (node->references[i] == reference)
            return node->saved[i];
    g_assert_not_reached();
}

/* The parameter for which the result of input I is already in its final form. */
static uint32_t parameter_of(const SimNode *node, uint32_t input)
{
    return node->edges[input].kind == SIM_EDGE_PARAMETER ? node->edges[input].target
                                                         : SIM_MODEL_NONE;
}

/* A Linear's operator works on the rows of [T, features]: its results come back as views. */
static bool is_view_of_rows(SimOperator operator_)
{
    return operator_ == SIM_OPERATOR_LINEAR_GRAD_INPUT ||
           operator_ == SIM_OPERATOR_LINEAR_GRAD_WEIGHT ||
           operator_ == SIM_OPERATOR_CONV1D_GRAD_INPUT;
}

/* Temporaries of an expression die, youngest first, when it has been computed. */
static void drop_temporaries(Running *running)
{
    while (running->n_temporaries > 0) {
        running->n_temporaries--;
        sim_tensor_unref(&running->autograd->dispatch.pool,
                         running->temporaries[running->n_temporaries]);
    }
}

/* The scalar of a backward operator, which is not always the forward's: x^p has p x^(p-1),
 * 1/sqrt(x) has -0.5 y^3. */
static SimAttributes attributes_of(const SimNode *node, SimOperator operator_)
{
    SimAttributes attributes = node->attributes != NULL ? *node->attributes : (SimAttributes){0};
    if (node->operator_ == SIM_OPERATOR_POW && operator_ == SIM_OPERATOR_POW)
        attributes.scalar -= 1;
    else if (node->operator_ == SIM_OPERATOR_RSQRT)
        attributes.scalar = operator_ == SIM_OPERATOR_POW ? 3 : -0.5;
    return attributes;
}

static void run_step(Running *running, const SimGradientStep *step)
{
    SimNode *node = running->node;
    SimDispatch *dispatch = &running->autograd->dispatch;
    SimTensor *sources[SIM_OPERATOR_MAX_INPUTS], *results[SIM_OPERATOR_MAX_OUTPUTS];
    uint32_t n_sources = step->n_sources;
    for (uint32_t i = 0; i < n_sources; i++)
        sources[i] = find_source(running, step->sources[i]);
    while (sources[n_sources - 1] == NULL) /* a split into fewer parts */
        n_sources--;
    SimDispatchPurpose purpose = purpose_of(running);
    /* Results that still have to be summed to the parameter's shape are temporary. */
    bool is_broadcast = step->operator_ == SIM_OPERATOR_MUL || step->operator_ == SIM_OPERATOR_ADD;
    for (uint32_t i = 0; i < step->n_results && !is_broadcast; i++)
        if (SIM_REFERENCE_KIND(step->results[i]) == SIM_REFERENCE_RESULT)
            purpose.gradient_of[i] = parameter_of(node, SIM_REFERENCE_INDEX(step->results[i]));
    SimAttributes attributes = attributes_of(node, step->operator_);
    uint32_t n_results =
        sim_dispatch_run(dispatch, step->operator_, &attributes, &node->layouts[step->like],
                         n_sources, sources, &purpose, results);
    g_assert(n_results == step->n_results);
    for (uint32_t i = 0; i < n_results; i++) {
        uint32_t index = SIM_REFERENCE_INDEX(step->results[i]);
        if (is_view_of_rows(step->operator_))
            results[i]->is_view = true;
        if (SIM_REFERENCE_KIND(step->results[i]) == SIM_REFERENCE_TEMPORARY) {
            running->temporaries[index] = results[i];
            running->n_temporaries = MAX(running->n_temporaries, index + 1);
        } else if ((node->wanted >> index & 1) != 0) {
            running->results[index] = results[i];
        } else {
            sim_tensor_unref(&dispatch->pool, results[i]);
        }
    }
    if (SIM_REFERENCE_KIND(step->results[0]) == SIM_REFERENCE_RESULT)
        drop_temporaries(running);
}

static bool is_same_shape(const SimShape *a, const SimShape *b)
{
    return a->n_dims == b->n_dims && memcmp(a->dims, b->dims, a->n_dims * sizeof *a->dims) == 0;
}

/* RESULT becomes what OPERATOR_ makes of it. */
static void replace_result(Running *running, uint32_t input, SimOperator operator_)
{
    SimDispatch *dispatch = &running->autograd->dispatch;
    SimDispatchPurpose purpose = purpose_of(running);
    purpose.gradient_of[0] = parameter_of(running->node, input);
    SimTensor *old = running->results[input], *results[SIM_OPERATOR_MAX_OUTPUTS];
    sim_dispatch_run(dispatch, operator_, running->node->attributes, &running->node->layouts[input],
                     1, &old, &purpose, results);
    running->results[input] = results[0];
    sim_tensor_unref(&dispatch->pool, old);
}

/* What the edge's metadata says: the input's type, but AccumulateGrad's own for a parameter that is
 * an input of the operator itself. The weight of a linear is not: F.linear transposes it first, and
 * the transposition's node validates its gradient after this one is done. */
static SimDtype valid_dtype(const Running *running, uint32_t input)
{
    const SimNode *node = running->node;
    const SimAutogradHooks *hooks = running->autograd->hooks;
    bool is_linear =
        node->operator_ == SIM_OPERATOR_LINEAR || node->operator_ == SIM_OPERATOR_LINEAR_BIAS;
    SimDtype dtype = SIM_DTYPE_NONE;
    if (node->edges[input].kind == SIM_EDGE_PARAMETER && hooks->gradient_dtype != NULL &&
        !(is_linear && input == 1))
        dtype = hooks->gradient_dtype(hooks->user_data, node->edges[input].target);
    return dtype != SIM_DTYPE_NONE ? dtype : node->layouts[input].dtype;
}

static void validate_results(Running *running)
{
    SimNode *node = running->node;
    for (uint32_t i = 0; i < node->n_edges; i++) {
        if (running->results[i] == NULL)
            continue;
        uint32_t n_dims = running->results[i]->layout.shape.n_dims;
        if (!is_same_shape(&running->results[i]->layout.shape, &node->layouts[i].shape)) {
            replace_result(running, i, SIM_OPERATOR_SUM);
            /* at::sum_to sums with kept dimensions and drops leading ones by a view */
            running->results[i]->is_view |= n_dims > node->layouts[i].shape.n_dims;
        }
        SimDtype dtype = valid_dtype(running, i);
        if (running->results[i]->layout.dtype != dtype) {
            node->layouts[i].dtype = dtype;
            replace_result(running, i, SIM_OPERATOR_CAST);
        }
    }
}

static void run_formula(Running *running)
{
    SimNode *node = running->node;
    if (node->kind == SIM_NODE_POST_BACKWARD) {
        for (uint32_t i = 0; i < node->n_edges; i++)
            if (node->gradients[i] != NULL)
                running->results[i] = sim_tensor_ref(node->gradients[i]);
        return;
    }
    if (node->kind == SIM_NODE_LEAF) {
        running->autograd->leaf_gradient = sim_tensor_ref(node->gradients[0]);
        return;
    }
    if (node->kind == SIM_NODE_STORED_GRADIENT) {
        running->results[0] = sim_tensor_ref(node->saved[0]);
        return;
    }
    running->formula = sim_catalogue_formula(node->operator_);
    for (uint32_t i = 0; i < running->formula->n_steps; i++)
        if ((running->formula->steps[i].wanted_by & node->wanted) != 0)
            run_step(running, &running->formula->steps[i]);
}

/* SUM and VALUE, both given away, into one tensor of PARAMETER's stream: they come from the compute
 * stream's pool and are lent to it. */
static SimTensor *accumulate_aside(Running *running, SimTensor *sum, SimTensor *value,
                                   uint32_t parameter)
{
    SimDispatch *dispatch = &running->autograd->dispatch;
    SimTensor *inputs[] = {sum, value}, *results[SIM_OPERATOR_MAX_OUTPUTS];
    SimDispatchPurpose purpose = purpose_of(running);
    purpose.gradient_of[0] = parameter;
    dispatch->stream = running->autograd->hooks->parameter_stream;
    sim_plan_wait_stream(dispatch->plan, dispatch->stream, 0);
    sim_dispatch_run(dispatch, SIM_OPERATOR_ADD, NULL, NULL, 2, inputs, &purpose, results);
    for (size_t i = 0; i < G_N_ELEMENTS(inputs); i++) {
        sim_plan_record_stream(dispatch->plan, inputs[i]->storage->buffer, dispatch->stream);
        sim_tensor_unref(&dispatch->pool, inputs[i]);
    }
    dispatch->stream = 0;
    return results[0];
}

/* SUM and VALUE, both given away, into one tensor (InputBuffer::add). */
static SimTensor *accumulate(Running *running, SimTensor *sum, SimTensor *value, uint32_t parameter)
{
    SimDispatch *dispatch = &running->autograd->dispatch;
    if (sum == NULL)
        return value;
    if (parameter != SIM_MODEL_NONE && running->autograd->hooks->parameter_stream != 0)
        return accumulate_aside(running, sum, value, parameter);
    if (sim_tensor_is_private(sum)) {
        sim_dispatch_add_in_place(dispatch, sum, value);
        sim_tensor_unref(&dispatch->pool, value);
        return sum;
    }
    SimDispatchPurpose purpose = purpose_of(running);
    purpose.gradient_of[0] = parameter;
    SimTensor *inputs[] = {sum, value}, *results[SIM_OPERATOR_MAX_OUTPUTS];
    sim_dispatch_run(dispatch, SIM_OPERATOR_ADD, NULL, NULL, 2, inputs, &purpose, results);
    sim_tensor_unref(&dispatch->pool, sum);
    sim_tensor_unref(&dispatch->pool, value);
    return results[0];
}

/* AccumulateGrad takes a gradient over if nobody else holds it, else copies it. */
static void accumulate_parameter(Running *running, uint32_t parameter)
{
    SimAutograd *autograd = running->autograd;
    SimTensor *gradient = g_steal_pointer(&autograd->pending[parameter].sum);
    bool is_whole = gradient->references == 1 && gradient->storage->references == 1 &&
                    gradient->storage->bytes == sim_layout_bytes(&gradient->layout);
    if (!is_whole) {
        SimLayout own = autograd->parameters[parameter]->layout;
        own.dtype = gradient->layout.dtype;
        SimName name = {.stem = running->node->stem, .serial = autograd->dispatch.serial++};
        SimTensor *copy =
            sim_dispatch_allocate(&autograd->dispatch, &own, name, SIM_CATEGORY_UNSHARDED_GRADIENT);
        sim_dispatch_copy(&autograd->dispatch, copy, gradient);
        sim_tensor_unref(&autograd->dispatch.pool, gradient);
        gradient = copy;
    }
    uint32_t buffer = sim_tensor_steal_buffer(&autograd->dispatch.pool, gradient);
    autograd->hooks->gradient(autograd->hooks->user_data, parameter, buffer);
}

static void deliver_results(Running *running)
{
    const SimNode *node = running->node;
    uint32_t ready[SIM_GRAPH_MAX_EDGES], n_ready = 0;
    for (uint32_t i = 0; i < node->n_edges; i++) {
        const SimEdge *edge = &node->edges[i];
        if (edge->kind == SIM_EDGE_NODE && running->results[i] != NULL) {
            SimTensor **slot =
                &sim_graph_node(running->graph, edge->target)->gradients[edge->number];
            *slot = accumulate(running, *slot, running->results[i], SIM_MODEL_NONE);
        } else if (edge->kind == SIM_EDGE_PARAMETER) {
            SimPendingGradient *pending = &running->autograd->pending[edge->target];
            if (running->results[i] != NULL)
                pending->sum = accumulate(running, pending->sum, running->results[i], edge->target);
            if (--pending->expected == 0 && pending->sum != NULL)
                ready[n_ready++] = edge->target;
        }
    }
    /* A bias is an input of addmm itself, a weight goes through a transpose first: bias, weight. */
    bool is_bias_first =
        node->operator_ == SIM_OPERATOR_LINEAR_BIAS || node->operator_ == SIM_OPERATOR_CONV1D;
    for (uint32_t i = 0; i < n_ready; i++)
        accumulate_parameter(running, ready[is_bias_first ? n_ready - 1 - i : i]);
}

static void call_tensor_hooks(SimAutograd *autograd, SimGraph *graph, const SimNode *node)
{
    for (uint32_t at = node->hooks; at != 0;) {
        SimGraphHook hook = g_array_index(graph->hooks, SimGraphHook, at - 1);
        bool *is_called = &g_array_index(graph->uses, bool, hook.use);
        autograd->hooks->pre_backward(autograd->hooks->user_data, hook.token, *is_called);
        *is_called = true;
        at = hook.next;
    }
}

static bool has_gradient(const SimNode *node)
{
    for (uint32_t i = 0; i < SIM_GRAPH_MAX_GRADIENTS; i++)
        if (node->gradients[i] != NULL)
            return true;
    return false;
}

static void drop_gradients(SimTensorPool *pool, SimNode *node)
{
    for (uint32_t i = 0; i < SIM_GRAPH_MAX_GRADIENTS; i++)
        if (node->gradients[i] != NULL)
            sim_tensor_unref(pool, g_steal_pointer(&node->gradients[i]));
}

/* A saved tensor of a checkpoint is taken out of its frame: recomputed, if it is the first one, and
 * from then on the node's alone. */
static void unpack_saved(SimAutograd *autograd, SimGraph *graph, SimNode *node)
{
    SimCheckpoint *checkpoint = node->checkpoint;
    if (checkpoint == NULL || node->n_saved == 0)
        return;
    if (!checkpoint->is_replayed)
        sim_autograd_replay(autograd, graph, checkpoint);
    for (uint32_t i = 0; i < node->n_saved; i++)
        node->saved[i] = sim_checkpoint_unpack(checkpoint, node->first_holder + i);
}

/* They are local variables of the formula's function: gone, last one first, when it returns. */
static void drop_unpacked(SimTensorPool *pool, SimNode *node)
{
    for (uint32_t i = node->n_saved; node->checkpoint != NULL && i-- > 0;)
        sim_tensor_unref(pool, g_steal_pointer(&node->saved[i]));
}

static void release_saved(SimTensorPool *pool, SimNode *node)
{
    if (node->checkpoint != NULL && node->n_saved > 0) {
        sim_checkpoint_release(node->checkpoint, pool, node->n_saved);
        node->n_saved = 0;
    }
    for (uint32_t i = 0; i < node->n_saved; i++)
        sim_tensor_unref(pool, node->saved[i]);
    node->n_saved = 0;
}

static void run_node(SimAutograd *autograd, SimGraph *graph, SimNode *node)
{
    Running running = {.autograd = autograd, .graph = graph, .node = node};
    SimPlanContext *context = sim_plan_context(autograd->plan);
    call_tensor_hooks(autograd, graph, node);
    context->unit = node->unit;
    if (node->kind == SIM_NODE_POST_BACKWARD)
        autograd->hooks->post_backward(autograd->hooks->user_data, node->token);
    unpack_saved(autograd, graph, node);
    run_formula(&running);
    drop_unpacked(&autograd->dispatch.pool, node);
    if (node->kind == SIM_NODE_OPERATOR)
        validate_results(&running);
    drop_gradients(&autograd->dispatch.pool, node);
    release_saved(&autograd->dispatch.pool, node);
    deliver_results(&running);
}

/* From the graph's last node down. */
static void walk(SimAutograd *autograd, SimGraph *graph)
{
    for (uint32_t i = graph->n_nodes; i-- > 0;) {
        SimNode *node = sim_graph_node(graph, i);
        if (node->is_reached && has_gradient(node))
            run_node(autograd, graph, node);
        else
            release_saved(&autograd->dispatch.pool, node);
    }
    graph->loss->node = SIM_TENSOR_NO_NODE;
    sim_graph_clear(graph);
}

/* A new reference to the losses' sum. */
static SimTensor *add_losses(SimAutograd *autograd, uint32_t first, uint32_t count)
{
    SimGraph *graph = sim_autograd_graph(autograd, first);
    SimTensor *sum = sim_tensor_ref(graph->loss);
    for (uint32_t i = 1; i < count; i++) {
        SimGraph *next = sim_autograd_graph(autograd, first + i);
        Running running = {
            .autograd = autograd, .graph = next, .node = sim_graph_node(next, next->loss->node)};
        SimDispatchPurpose purpose = purpose_of(&running);
        SimTensor *inputs[] = {sum, next->loss}, *results[SIM_OPERATOR_MAX_OUTPUTS];
        sim_dispatch_run(&autograd->dispatch, SIM_OPERATOR_ADD, NULL, NULL, 2, inputs, &purpose,
                         results);
        sim_tensor_unref(&autograd->dispatch.pool, sum);
        sum = results[0];
    }
    return sum;
}

/* The gradient of LOSS, which GRAPH made. */
static SimTensor *make_ones(SimAutograd *autograd, SimGraph *graph, SimTensor *loss)
{
    Running running = {
        .autograd = autograd, .graph = graph, .node = sim_graph_node(graph, graph->loss->node)};
    SimDispatchPurpose purpose = purpose_of(&running);
    SimTensor *ones[SIM_OPERATOR_MAX_OUTPUTS];
    sim_dispatch_run(&autograd->dispatch, SIM_OPERATOR_FILL, NULL, NULL, 1, &loss, &purpose, ones);
    return ones[0];
}

static void seed(SimAutograd *autograd, SimGraph *graph, SimTensor *gradient)
{
    g_assert(graph->loss != NULL && graph->loss->node != SIM_TENSOR_NO_NODE);
    mark_reached(autograd, graph, graph->loss->node);
    sim_graph_node(graph, graph->loss->node)->gradients[graph->loss->node_output] =
        sim_tensor_ref(gradient);
}

void sim_autograd_walk_loss(SimAutograd *autograd, SimGraph *graph)
{
    sim_plan_context(autograd->plan)->unit = autograd->loss_unit;
    SimTensor *ones = make_ones(autograd, graph, graph->loss);
    seed(autograd, graph, ones);
    walk(autograd, graph);
    sim_tensor_unref(&autograd->dispatch.pool, ones);
}

void sim_autograd_backward_sum(SimAutograd *autograd, uint32_t first, uint32_t count)
{
    SimPlanContext *context = sim_plan_context(autograd->plan);
    context->unit = autograd->loss_unit;
    SimTensor *sum = add_losses(autograd, first, count);
    SimTensor *ones = make_ones(autograd, sim_autograd_graph(autograd, first), sum);
    for (uint32_t i = 0; i < count; i++)
        seed(autograd, sim_autograd_graph(autograd, first + i), ones);
    for (uint32_t i = count; i-- > 0;)
        walk(autograd, sim_autograd_graph(autograd, first + i));
    autograd->root_gradient = ones;
    autograd->root = sum;
}

void sim_autograd_finish_backward(SimAutograd *autograd)
{
    sim_tensor_unref(&autograd->dispatch.pool, g_steal_pointer(&autograd->root_gradient));
    sim_tensor_unref(&autograd->dispatch.pool, g_steal_pointer(&autograd->root));
}

void sim_autograd_backward(SimAutograd *autograd, uint32_t microbatch)
{
    sim_autograd_backward_sum(autograd, microbatch, 1);
    sim_autograd_finish_backward(autograd);
}
