/* SPDX-License-Identifier: Apache-2.0
 *
 * Operators that look things up by token: embedding and the loss.
 */
#include "model/operator_describe.h"

/* weight [V, H], indices [B, S] -> [B, S, H]. */
static void describe_embedding(SimOperatorCall *call)
{
    SimShape shape = call->inputs[1]->shape;
    shape.dims[shape.n_dims++] = call->inputs[0]->shape.dims[1];
    SimLayout out = sim_layout_contiguous(&shape, call->inputs[0]->dtype);
    sim_operator_describe_output(call, &out);
    SimOperatorKernel *kernel = sim_operator_describe_kernel(call, SIM_OPERATOR_EMBEDDING, 2, 1);
    kernel->reads = 3;
    kernel->hbm_bytes += sim_layout_bytes(&out);
}

/* What one tile of 256 threads and 9 items each holds needs none. Onesweep: a second buffer of keys
 * and values, 256 counters of 8 bytes a pass over 8 key bits, 256 of 4 bytes a tile of 4096 items,
 * and alignment. */
uint64_t sim_operator_describe_sort_bytes(uint64_t items, uint64_t bits)
{
    if (items <= 256 * 9)
        return 1;
    return 16 * items + (bits + 7) / 8 * 2048 + (items + 4095) / 4096 * 1024 + 511;
}

static uint64_t sort_bytes(uint64_t tokens, uint64_t vocabulary)
{
    uint64_t bits = 1;
    while (vocabulary >> bits > 0)
        bits++;
    return sim_operator_describe_sort_bytes(tokens, bits);
}

/* Up to 3072 tokens one kernel adds rows into the zeroed gradient; above, indices are sorted and
 * summed segment by segment (aten/src/ATen/native/cuda/Embedding.cu, EmbeddingBackwardKernel.cu).
 * Partial sums: a segment holds 10 rows, and there may be as many more as there are distinct
 * tokens, a bound that the host knows without looking. */
static void describe_embedding_grad_sorted(SimOperatorCall *call, const SimLayout *out)
{
    uint64_t tokens = sim_layout_elements(call->inputs[1]);
    uint64_t vocabulary = out->shape.dims[0], hidden = out->shape.dims[1];
    uint64_t indices = 8 * tokens, count = 8, scan = 1279;
    uint64_t sort = sort_bytes(tokens, vocabulary);
    uint64_t partial = tokens / 10 + MIN(tokens, vocabulary);
    sim_operator_describe_scratch(call, indices); /* sorted */
    sim_operator_describe_scratch(call, indices); /* where they came from */
    sim_operator_describe_scratch(call, indices); /* 0, 1, 2.. */
    sim_operator_describe_scratch(call, sort);
    sim_operator_describe_release(call, 2);
    sim_operator_describe_output(call, out);
    sim_operator_describe_kernel(call, SIM_OPERATOR_FILL, 0, 1);
    sim_operator_describe_scratch(call, indices); /* offsets of segments */
    sim_operator_describe_scratch(call, count);
    sim_operator_describe_scratch(call, indices);
    sim_operator_describe_scratch(call, scan);
    sim_operator_describe_release(call, 2);
    sim_operator_describe_scratch(call, indices); /* partial segments of each */
    sim_operator_describe_scratch(call, indices);
    sim_operator_describe_scratch(call, scan);
    sim_operator_describe_release(call, 1);
    sim_operator_describe_scratch(call, count);
    sim_operator_describe_scratch(call, 8 * partial);
    sim_operator_describe_scratch(call, 4 * partial * hidden);
}

/* gradient [B, S, H], indices -> [V, H]. */
static void describe_embedding_grad(SimOperatorCall *call)
{
    SimLayout out = sim_layout_contiguous(&call->like->shape, call->inputs[0]->dtype);
    if (sim_layout_elements(call->inputs[1]) > 3072) {
        describe_embedding_grad_sorted(call, &out);
    } else {
        sim_operator_describe_output(call, &out);
        sim_operator_describe_kernel(call, SIM_OPERATOR_FILL, 0, 1);
    }
    SimOperatorKernel *kernel =
        sim_operator_describe_kernel(call, SIM_OPERATOR_EMBEDDING_GRAD, 3, 1);
    kernel->hbm_bytes = 2 * sim_layout_bytes(call->inputs[0]) + sim_layout_bytes(call->inputs[1]);
}

static void describe_like_input(SimOperatorCall *call)
{
    SimLayout out = sim_layout_contiguous(&call->inputs[0]->shape, call->inputs[0]->dtype);
    sim_operator_describe_output(call, &out);
    sim_operator_describe_kernel(call, call->operator_, SIM_OPERATOR_ALL, 1);
}

/* log probabilities [T, V], labels [T] -> mean loss, how many labels counted. */
static void describe_nll_loss(SimOperatorCall *call)
{
    SimShape scalar = {.n_dims = 0};
    SimLayout out = sim_layout_contiguous(&scalar, call->inputs[0]->dtype);
    sim_operator_describe_output(call, &out);
    sim_operator_describe_output(call, &out);
    SimOperatorKernel *kernel = sim_operator_describe_kernel(call, SIM_OPERATOR_NLL_LOSS, 2, 3);
    kernel->reads = 3;
    kernel->hbm_bytes *= 2; /* one probability a label */
}

/* gradient, log probabilities, labels, count -> zeros but for one element a row. */
static void describe_nll_loss_grad(SimOperatorCall *call)
{
    SimLayout out = sim_layout_contiguous(&call->inputs[1]->shape, call->inputs[1]->dtype);
    sim_operator_describe_output(call, &out);
    sim_operator_describe_kernel(call, SIM_OPERATOR_FILL, 0, 1);
    SimOperatorKernel *kernel =
        sim_operator_describe_kernel(call, SIM_OPERATOR_NLL_LOSS_GRAD, 0xd, 0);
    kernel->writes = 1;
    kernel->hbm_bytes += 4 * call->inputs[1]->shape.dims[0];
}

bool sim_operator_describe_tokens(SimOperatorCall *call)
{
    switch (call->operator_) {
    case SIM_OPERATOR_EMBEDDING:
        describe_embedding(call);
        return true;
    case SIM_OPERATOR_EMBEDDING_GRAD:
        describe_embedding_grad(call);
        return true;
    case SIM_OPERATOR_LOG_SOFTMAX:
    case SIM_OPERATOR_LOG_SOFTMAX_GRAD:
        describe_like_input(call);
        return true;
    case SIM_OPERATOR_NLL_LOSS:
        describe_nll_loss(call);
        return true;
    case SIM_OPERATOR_NLL_LOSS_GRAD:
        describe_nll_loss_grad(call);
        return true;
    default:
        return false;
    }
}
