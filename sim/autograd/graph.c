/* SPDX-License-Identifier: Apache-2.0 */
#include "autograd/graph.h"

#include <string.h>

#define CHUNK 128

void sim_graph_init(SimGraph *graph)
{
    *graph = (SimGraph){.chunks = g_ptr_array_new_with_free_func(g_free),
                        .hooks = g_array_new(FALSE, FALSE, sizeof(SimGraphHook)),
                        .checkpoints = g_ptr_array_new(),
                        .uses = g_array_new(FALSE, TRUE, sizeof(bool))};
}

static void drop_checkpoints(SimGraph *graph)
{
    for (guint i = 0; i < graph->checkpoints->len; i++)
        sim_checkpoint_free(g_ptr_array_index(graph->checkpoints, i));
    g_ptr_array_set_size(graph->checkpoints, 0);
}

void sim_graph_done(SimGraph *graph)
{
    drop_checkpoints(graph);
    g_ptr_array_unref(graph->checkpoints);
    g_ptr_array_unref(graph->chunks);
    g_array_unref(graph->hooks);
    g_array_unref(graph->uses);
}

void sim_graph_clear(SimGraph *graph)
{
    graph->n_nodes = 0;
    drop_checkpoints(graph);
    g_array_set_size(graph->hooks, 0);
    g_array_set_size(graph->uses, 0);
}

SimNode *sim_graph_node(const SimGraph *graph, uint32_t number)
{
    g_assert(number < graph->n_nodes);
    SimNode *chunk = g_ptr_array_index(graph->chunks, number / CHUNK);
    return &chunk[number % CHUNK];
}

SimNode *sim_graph_add(SimGraph *graph, SimNodeKind kind)
{
    if (graph->n_nodes == graph->chunks->len * CHUNK)
        g_ptr_array_add(graph->chunks, g_new(SimNode, CHUNK));
    graph->n_nodes++;
    SimNode *node = sim_graph_node(graph, graph->n_nodes - 1);
    node->kind = kind;
    node->operator_ = SIM_OPERATOR_IDENTITY;
    node->attributes = NULL;
    node->token = node->hooks = node->wanted = node->n_edges = node->n_saved = 0;
    node->is_reached = false;
    node->flags = 0;
    node->checkpoint = NULL;
    node->unit = node->stem = 0;
    memset(node->gradients, 0, sizeof node->gradients);
    return node;
}

static bool is_trained(const SimModel *model, const SimTensor *tensor)
{
    return tensor->parameter != SIM_MODEL_NONE && tensor->node == SIM_TENSOR_NO_NODE &&
           !sim_model_parameter(model, tensor->parameter)->is_frozen;
}

bool sim_graph_wants(const SimModel *model, const SimTensor *tensor)
{
    return tensor->node != SIM_TENSOR_NO_NODE || is_trained(model, tensor);
}

SimEdge sim_graph_edge(const SimModel *model, const SimTensor *tensor)
{
    if (tensor->node != SIM_TENSOR_NO_NODE)
        return (SimEdge){
            .kind = SIM_EDGE_NODE, .target = tensor->node, .number = tensor->node_output};
    if (is_trained(model, tensor))
        return (SimEdge){.kind = SIM_EDGE_PARAMETER, .target = tensor->parameter};
    return (SimEdge){.kind = SIM_EDGE_NONE};
}

uint32_t sim_graph_wanted(const SimModel *model, uint32_t n_inputs, SimTensor *const *inputs)
{
    uint32_t wanted = 0;
    for (uint32_t i = 0; i < n_inputs && i < SIM_GRAPH_MAX_EDGES; i++)
        if (sim_graph_wants(model, inputs[i]))
            wanted |= 1U << i;
    return wanted;
}

static void save_tensors(SimNode *node, const SimFormula *formula, SimTensor *const *inputs,
                         SimTensor *const *results)
{
    uint32_t saved = sim_catalogue_saved(formula, node->wanted);
    for (uint32_t i = 0; i < formula->n_saved; i++) {
        if ((saved >> i & 1) == 0)
            continue;
        uint8_t reference = formula->saved[i];
        bool is_input = SIM_REFERENCE_KIND(reference) == SIM_REFERENCE_INPUT;
        SimTensor *tensor = (is_input ? inputs : results)[SIM_REFERENCE_INDEX(reference)];
        node->references[node->n_saved] = reference;
        node->saved[node->n_saved++] = node->checkpoint != NULL ? NULL : sim_tensor_ref(tensor);
    }
    if (node->checkpoint != NULL)
        node->first_holder = sim_checkpoint_hold(node->checkpoint, node->n_saved);
}

SimNode *sim_graph_record(SimGraph *graph, const SimModel *model, SimCheckpoint *checkpoint,
                          SimOperator operator_, const SimAttributes *attributes, uint32_t n_inputs,
                          SimTensor *const *inputs, uint32_t n_results, SimTensor *const *results)
{
    const SimFormula *formula = sim_catalogue_formula(operator_);
    uint32_t wanted = sim_graph_wanted(model, n_inputs, inputs);
    if (wanted == 0 || formula->n_steps == 0)
        return NULL;
    SimNode *node = sim_graph_add(graph, SIM_NODE_OPERATOR);
    node->operator_ = operator_;
    node->attributes = attributes;
    node->checkpoint = checkpoint;
    node->wanted = wanted;
    node->n_edges = MIN(n_inputs, SIM_GRAPH_MAX_EDGES);
    for (uint32_t i = 0; i < node->n_edges; i++) {
        node->edges[i] = sim_graph_edge(model, inputs[i]);
        node->layouts[i] = inputs[i]->layout;
    }
    save_tensors(node, formula, inputs, results);
    for (uint32_t i = 0; i < n_results; i++) {
        results[i]->node = graph->n_nodes - 1;
        results[i]->node_output = (uint8_t)i;
    }
    return node;
}

uint32_t sim_graph_add_use(SimGraph *graph)
{
    g_array_set_size(graph->uses, graph->uses->len + 1);
    return graph->uses->len - 1;
}

void sim_graph_add_hook(SimGraph *graph, const SimTensor *tensor, uint32_t token, uint32_t use)
{
    if (tensor->node == SIM_TENSOR_NO_NODE)
        return;
    SimNode *node = sim_graph_node(graph, tensor->node);
    SimGraphHook hook = {.token = token, .use = use, .next = node->hooks};
    g_array_append_val(graph->hooks, hook);
    node->hooks = graph->hooks->len;
}
