/* SPDX-License-Identifier: Apache-2.0
 *
 * Indexing by tensors, and taking one matrix of a stack
 * (aten/src/ATen/native/TensorAdvancedIndexing.cpp, cuda/Indexing.cu).
 */
#include "model/operator_describe.h"

static uint64_t count_bits(uint64_t n)
{
    uint64_t bits = 1;
    while (n >> bits > 0)
        bits++;
    return bits;
}

/* self[indices]: rows of self. */
static void describe_index(SimOperatorCall *call)
{
    SimShape shape = call->inputs[0]->shape;
    shape.dims[0] = call->inputs[1]->shape.dims[0];
    SimLayout out = sim_layout_contiguous(&shape, call->inputs[0]->dtype);
    sim_operator_describe_output(call, &out);
    SimOperatorKernel *kernel = sim_operator_describe_kernel(call, SIM_OPERATOR_INDEX, 2, 1);
    kernel->reads = 3;
    kernel->hbm_bytes += sim_layout_bytes(&out);
}

/* Adds rows up in the order of their sorted indices (index_put_with_sort_kernel), at most BITS
 * long. Scratch of 8 bytes a row: for each of the tensors that index, the remainder, of which a
 * multiple is made, and which goes; all multiples but the first, once added to it; sorted, 0,
 * 1, 2.. and sorted again; then cub's. */
static void describe_sorted_put(SimOperatorCall *call, uint32_t indices, uint64_t bits)
{
    uint64_t rows = sim_layout_elements(call->inputs[1]);
    for (uint32_t i = 0; i < indices; i++) {
        sim_operator_describe_scratch(call, 8 * rows);
        sim_operator_describe_scratch(call, 8 * rows);
        sim_operator_describe_release_below(call);
    }
    if (indices > 1)
        sim_operator_describe_release(call, indices - 1);
    for (uint32_t i = 0; i < 3; i++)
        sim_operator_describe_scratch(call, 8 * rows);
    sim_operator_describe_scratch(call, sim_operator_describe_sort_bytes(rows, bits));
    SimOperatorKernel *sort = sim_operator_describe_kernel(call, SIM_OPERATOR_SORT, 2, 0);
    sort->hbm_bytes += (bits + 7) / 8 * 4 * 8 * rows;
    SimOperatorKernel *add = sim_operator_describe_kernel(call, call->operator_, 3, 0);
    add->writes = 1;
    add->hbm_bytes += 2 * sim_layout_bytes(call->inputs[0]);
}

/* gradient, indices..: zeros as large as self, into which the rows are put. */
static void describe_index_grad(SimOperatorCall *call)
{
    SimLayout out = sim_layout_contiguous(&call->like->shape, call->inputs[0]->dtype);
    uint32_t indices = call->operator_ == SIM_OPERATOR_INDEX_PAIR_GRAD ? 2 : 1;
    uint64_t places = 1;
    for (uint32_t i = 0; i < indices; i++)
        places *= out.shape.dims[i];
    sim_operator_describe_output(call, &out);
    sim_operator_describe_kernel(call, SIM_OPERATOR_FILL, 0, 1);
    describe_sorted_put(call, indices, count_bits(places - 1));
}

/* self[i, j]: the first two dimensions become one. */
static void describe_index_pair(SimOperatorCall *call)
{
    SimShape shape = {.dims = {call->inputs[1]->shape.dims[0]}, .n_dims = 1};
    for (uint32_t i = 2; i < call->inputs[0]->shape.n_dims; i++)
        shape.dims[shape.n_dims++] = call->inputs[0]->shape.dims[i];
    SimLayout out = sim_layout_contiguous(&shape, call->inputs[0]->dtype);
    sim_operator_describe_output(call, &out);
    sim_operator_describe_kernel(call, SIM_OPERATOR_INDEX_PAIR, 6, 1);
}

/* self.index_add_(0, index, source): in place. */
static void describe_index_add(SimOperatorCall *call)
{
    sim_operator_describe_view(call, call->inputs[0], 0);
    SimOperatorKernel *kernel = sim_operator_describe_kernel(call, SIM_OPERATOR_INDEX_ADD, 6, 0);
    kernel->reads = 7;
    kernel->writes = 1;
    kernel->hbm_bytes += 2 * sim_layout_bytes(call->inputs[2]);
}

/* Where a mask is set: of the shape given, or rows of two numbers, an even share of all tokens'. */
static void describe_nonzero(SimOperatorCall *call)
{
    const SimAttributes *attributes = call->attributes;
    SimShape shape = {.n_dims = 2};
    if (attributes->start > 0) {
        uint64_t tokens = call->setting->batch * call->setting->sequence;
        shape.dims[0] = tokens * attributes->length / attributes->start;
        shape.dims[1] = 2;
    } else {
        shape = sim_operator_describe_shape(call);
    }
    SimLayout out = sim_layout_contiguous(&shape, SIM_DTYPE_I64);
    sim_operator_describe_output(call, &out);
    sim_operator_describe_kernel(call, SIM_OPERATOR_NONZERO, 1, 1);
}

static void describe_select(SimOperatorCall *call)
{
    SimLayout view = *call->inputs[0];
    uint64_t offset = call->attributes->start * view.strides[0];
    view.shape.n_dims--;
    for (uint32_t i = 0; i < view.shape.n_dims; i++) {
        view.shape.dims[i] = view.shape.dims[i + 1];
        view.strides[i] = view.strides[i + 1];
    }
    sim_operator_describe_view(call, &view, offset);
}

/* Zeros as large as the whole stack, then the one is copied in. */
static void describe_select_grad(SimOperatorCall *call)
{
    SimLayout out = sim_layout_contiguous(&call->like->shape, call->inputs[0]->dtype);
    sim_operator_describe_output(call, &out);
    sim_operator_describe_kernel(call, SIM_OPERATOR_FILL, 0, 1);
    SimOperatorKernel *copy = sim_operator_describe_kernel(call, SIM_OPERATOR_SELECT_GRAD, 1, 0);
    copy->writes = 1;
    copy->hbm_bytes *= 2;
}

bool sim_operator_describe_index(SimOperatorCall *call)
{
    switch (call->operator_) {
    case SIM_OPERATOR_INDEX:
        describe_index(call);
        return true;
    case SIM_OPERATOR_INDEX_PAIR:
        describe_index_pair(call);
        return true;
    case SIM_OPERATOR_INDEX_GRAD:
    case SIM_OPERATOR_INDEX_PAIR_GRAD:
        describe_index_grad(call);
        return true;
    case SIM_OPERATOR_INDEX_ADD:
        describe_index_add(call);
        return true;
    case SIM_OPERATOR_NONZERO:
        describe_nonzero(call);
        return true;
    case SIM_OPERATOR_SELECT:
        describe_select(call);
        return true;
    case SIM_OPERATOR_SELECT_GRAD:
        describe_select_grad(call);
        return true;
    default:
        return false;
    }
}
