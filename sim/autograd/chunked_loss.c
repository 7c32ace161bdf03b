/* SPDX-License-Identifier: Apache-2.0 */
#include "autograd/chunked_loss.h"

/* The Python function's variables. */
typedef struct Loop {
    SimAutograd *autograd;
    uint64_t chunks, length; /* how many, tokens of each */
    SimTensor *hidden, *labels;
    SimTensor *gradient; /* of all tokens, f32 */
    SimTensor *total, *logits, *loss;
} Loop;

static SimDispatchPurpose purpose_of(const Loop *loop)
{
    SimDispatchPurpose purpose = {.category = SIM_CATEGORY_LOGITS_LOSS,
                                  .stem = loop->autograd->loss_unit};
    for (uint32_t i = 0; i < SIM_OPERATOR_MAX_OUTPUTS; i++)
        purpose.gradient_of[i] = SIM_MODEL_NONE;
    return purpose;
}

static SimTensor *run(const Loop *loop, SimOperator operator_, const SimAttributes *attributes,
                      uint32_t n_inputs, SimTensor *const *inputs)
{
    SimDispatchPurpose purpose = purpose_of(loop);
    SimTensor *results[SIM_OPERATOR_MAX_OUTPUTS];
    sim_plan_context(loop->autograd->plan)->unit = loop->autograd->loss_unit;
    sim_dispatch_run(&loop->autograd->dispatch, operator_, attributes, NULL, n_inputs, inputs,
                     &purpose, results);
    return results[0];
}

/* Zeros of SHAPE. */
static SimTensor *make_zeros(const Loop *loop, const SimShape *shape)
{
    SimTensorPool *pool = &loop->autograd->dispatch.pool;
    SimLayout layout = sim_layout_contiguous(shape, SIM_DTYPE_F32);
    SimTensor *like = sim_tensor_new_view(pool, loop->hidden, &layout, 0);
    SimTensor *zeros = run(loop, SIM_OPERATOR_FILL, NULL, 1, &like);
    sim_tensor_unref(pool, like);
    return zeros;
}

/* Rows INDEX * LENGTH and following of TENSOR, seen as rows of COLUMNS. */
static SimTensor *view_chunk(const Loop *loop, SimTensor *tensor, uint64_t columns, uint64_t index)
{
    SimShape shape = {.dims = {loop->length, columns}, .n_dims = columns > 1 ? 2 : 1};
    SimLayout layout = sim_layout_contiguous(&shape, tensor->layout.dtype);
    SimTensor *chunk = sim_tensor_new_view(&loop->autograd->dispatch.pool, tensor, &layout,
                                           index * loop->length * columns);
    chunk->parameter = SIM_MODEL_NONE;
    return chunk;
}

static void rebind(const Loop *loop, SimTensor **variable, SimTensor *value)
{
    if (*variable != NULL)
        sim_tensor_unref(&loop->autograd->dispatch.pool, *variable);
    *variable = value;
}

/* logits = head(x); loss = cross_entropy(logits.float(), y, reduction="sum") / tokens */
static void run_forward(Loop *loop, SimGraph *graph, SimTensor *x, SimTensor *y)
{
    SimAutograd *autograd = loop->autograd;
    SimTensor *results[2];
    autograd->graph = graph;
    sim_autograd_call_module(autograd, autograd->model->head, 1, &x, results);
    rebind(loop, &loop->logits, results[0]);
    SimTensor *arguments[] = {loop->logits, y};
    sim_plan_context(autograd->plan)->unit = autograd->loss_unit;
    sim_autograd_run_program(autograd, 0, autograd->model->chunk_loss, arguments, results);
    rebind(loop, &loop->loss, results[0]);
    autograd->graph = NULL;
}

/* gradient[chunk].copy_(x.grad); x.grad = None */
static void collect_gradient(const Loop *loop, uint64_t columns, uint64_t index)
{
    SimAutograd *autograd = loop->autograd;
    SimTensor *slice = view_chunk(loop, loop->gradient, columns, index);
    sim_plan_context(autograd->plan)->unit = autograd->loss_unit;
    sim_dispatch_copy(&autograd->dispatch, slice, autograd->leaf_gradient);
    sim_tensor_unref(&autograd->dispatch.pool, slice);
    sim_tensor_unref(&autograd->dispatch.pool, g_steal_pointer(&autograd->leaf_gradient));
}

static void run_chunk(Loop *loop, uint64_t index)
{
    SimAutograd *autograd = loop->autograd;
    SimGraph *graph = &autograd->chunk_graph;
    uint64_t columns = loop->hidden->layout.shape.dims[loop->hidden->layout.shape.n_dims - 1];
    SimTensor *x = view_chunk(loop, loop->hidden, columns, index);
    SimTensor *y = view_chunk(loop, loop->labels, 1, index);
    sim_graph_add(graph, SIM_NODE_LEAF)->unit = autograd->loss_unit;
    x->node = 0;
    run_forward(loop, graph, x, y);
    SimTensor *terms[] = {loop->total, loop->loss};
    rebind(loop, &loop->total, run(loop, SIM_OPERATOR_ADD, NULL, 2, terms));
    graph->loss = loop->loss;
    sim_autograd_walk_loss(autograd, graph);
    graph->loss = NULL;
    collect_gradient(loop, columns, index);
    sim_tensor_unref(&autograd->dispatch.pool, x);
    sim_tensor_unref(&autograd->dispatch.pool, y);
}

static void tell(const Loop *loop, SimAutogradLossStage stage)
{
    const SimAutogradHooks *hooks = loop->autograd->hooks;
    if (hooks->chunked_loss != NULL)
        hooks->chunked_loss(hooks->user_data, loop->autograd->model->head, stage);
}

/* BackThroughDecoder.apply(hidden, gradient, total): a node that keeps GRADIENT. */
static SimTensor *make_result(const Loop *loop, SimGraph *graph, SimTensor *gradient)
{
    SimAutograd *autograd = loop->autograd;
    SimTensor *result =
        sim_tensor_new_view(&autograd->dispatch.pool, loop->total, &loop->total->layout, 0);
    SimNode *node = sim_graph_add(graph, SIM_NODE_STORED_GRADIENT);
    node->unit = autograd->loss_unit;
    node->n_edges = 1;
    node->wanted = 1;
    node->edges[0] = sim_graph_edge(autograd->model, loop->hidden);
    node->layouts[0] = loop->hidden->layout;
    node->saved[node->n_saved++] = sim_tensor_ref(gradient);
    result->node = graph->n_nodes - 1;
    return result;
}

SimTensor *sim_chunked_loss_run(SimAutograd *autograd, SimGraph *graph, SimTensor *hidden)
{
    SimShape scalar = {.n_dims = 0};
    SimLayout half = hidden->layout;
    uint64_t tokens = half.shape.dims[0] * half.shape.dims[1];
    Loop loop = {.autograd = autograd,
                 .chunks = autograd->loss_chunks,
                 .length = tokens / autograd->loss_chunks,
                 .hidden = hidden,
                 .labels = g_ptr_array_index(autograd->buffers, 0)};
    loop.gradient = make_zeros(&loop, &half.shape);
    loop.total = make_zeros(&loop, &scalar);
    tell(&loop, SIM_LOSS_STARTS);
    for (uint64_t i = 0; i < loop.chunks; i++) {
        if (i + 1 == loop.chunks)
            tell(&loop, SIM_LOSS_LAST_CHUNK);
        run_chunk(&loop, i);
    }
    tell(&loop, SIM_LOSS_ENDS);
    SimAttributes cast = {.dtype = half.dtype};
    rebind(&loop, &loop.gradient, run(&loop, SIM_OPERATOR_CAST, &cast, 1, &loop.gradient));
    SimTensor *result = make_result(&loop, graph, loop.gradient);
    rebind(&loop, &loop.gradient, NULL);
    rebind(&loop, &loop.total, NULL);
    rebind(&loop, &loop.logits, NULL);
    rebind(&loop, &loop.loss, NULL);
    return result;
}
