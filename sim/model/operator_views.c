/* SPDX-License-Identifier: Apache-2.0
 *
 * Operators that rename elements: views, the copies a view needs where the layout forbids it, and
 * their gradients.
 */
#include "model/operator_describe.h"

static void describe_copy(SimOperatorCall *call, const SimLayout *layout)
{
    sim_operator_describe_output(call, layout);
    sim_operator_describe_kernel(call, SIM_OPERATOR_CLONE, 1, 1);
}

SimShape sim_operator_describe_shape(const SimOperatorCall *call)
{
    const SimAttributes *attributes = call->attributes;
    SimShape shape = {.n_dims = attributes->n_dims};
    uint64_t known = 1;
    uint32_t rest = UINT32_MAX;
    for (uint32_t i = 0; i < shape.n_dims; i++) {
        int64_t dim = attributes->dims[i];
        if (dim == SIM_DIM_REST) {
            rest = i;
            continue;
        }
        shape.dims[i] = dim == SIM_DIM_BATCH      ? call->setting->batch
                        : dim == SIM_DIM_SEQUENCE ? call->setting->sequence
                                                  : (uint64_t)dim;
        known *= shape.dims[i];
    }
    if (rest != UINT32_MAX && known > 0)
        shape.dims[rest] = sim_layout_elements(call->inputs[0]) / known;
    return shape;
}

/* torch.reshape: a view where the layout allows it, else a contiguous copy. */
static void describe_reshape(SimOperatorCall *call)
{
    SimShape shape = call->like != NULL ? call->like->shape : sim_operator_describe_shape(call);
    g_assert(sim_shape_elements(&shape) == sim_layout_elements(call->inputs[0]));
    SimLayout view;
    if (sim_layout_reshape(call->inputs[0], &shape, &view)) {
        sim_operator_describe_view(call, &view, 0);
    } else {
        view = sim_layout_contiguous(&shape, call->inputs[0]->dtype);
        describe_copy(call, &view);
    }
}

static void describe_slice(SimOperatorCall *call)
{
    const SimAttributes *attributes = call->attributes;
    SimLayout view = *call->inputs[0];
    view.shape.dims[attributes->dim] = attributes->length > 0
                                           ? attributes->length
                                           : view.shape.dims[attributes->dim] - attributes->start;
    sim_operator_describe_view(call, &view, attributes->start * view.strides[attributes->dim]);
}

static void describe_split(SimOperatorCall *call)
{
    const SimAttributes *attributes = call->attributes;
    SimLayout view = *call->inputs[0];
    uint64_t parts = view.shape.dims[attributes->dim] / attributes->length;
    view.shape.dims[attributes->dim] = attributes->length;
    for (uint64_t i = 0; i < parts; i++)
        sim_operator_describe_view(call, &view,
                                   i * attributes->length * view.strides[attributes->dim]);
}

/* [..., n] of real numbers <-> [..., n / 2] of complex ones, or the last dimension 2 made or gone.
 */
static void describe_as_complex(SimOperatorCall *call)
{
    SimLayout view = *call->inputs[0];
    uint32_t last = view.shape.n_dims - 1;
    g_assert(view.shape.dims[last] == 2 && view.strides[last] == 1);
    view.shape.n_dims--;
    for (uint32_t i = 0; i < last; i++)
        view.strides[i] /= 2;
    view.dtype = SIM_DTYPE_C64;
    sim_operator_describe_view(call, &view, 0);
}

static void describe_as_real(SimOperatorCall *call)
{
    SimLayout view = *call->inputs[0];
    uint32_t last = view.shape.n_dims++;
    g_assert(view.shape.n_dims <= SIM_SHAPE_MAX_DIMS);
    for (uint32_t i = 0; i < last; i++)
        view.strides[i] *= 2;
    view.shape.dims[last] = 2;
    view.strides[last] = 1;
    view.dtype = SIM_DTYPE_F32;
    sim_operator_describe_view(call, &view, 0);
}

/* Joined along one dimension; the result is contiguous (aten/src/ATen/native/cuda/Shape.cu). */
static void describe_cat(SimOperatorCall *call)
{
    SimShape shape = call->inputs[0]->shape;
    for (uint32_t i = 1; i < call->n_inputs; i++)
        shape.dims[call->attributes->dim] += call->inputs[i]->shape.dims[call->attributes->dim];
    SimLayout out = sim_layout_contiguous(&shape, call->inputs[0]->dtype);
    sim_operator_describe_output(call, &out);
    sim_operator_describe_kernel(call, SIM_OPERATOR_CAT, SIM_OPERATOR_ALL, 1);
}

/* The halves of a gradient of two joined tensors are views of it. */
static void describe_cat_grad(SimOperatorCall *call)
{
    uint32_t dim = call->attributes->dim;
    SimLayout view = *call->inputs[0];
    uint64_t whole = view.shape.dims[dim];
    view.shape.dims[dim] = call->like->shape.dims[dim];
    sim_operator_describe_view(call, &view, 0);
    uint64_t offset = view.shape.dims[dim] * view.strides[dim];
    view.shape.dims[dim] = whole - view.shape.dims[dim];
    sim_operator_describe_view(call, &view, offset);
}

/* A gradient of a part: zeros as large as the whole, then the part is copied in. */
static void describe_slice_grad(SimOperatorCall *call)
{
    SimLayout out = sim_layout_contiguous(&call->like->shape, call->inputs[0]->dtype);
    sim_operator_describe_output(call, &out);
    sim_operator_describe_kernel(call, SIM_OPERATOR_FILL, 0, 1);
    SimOperatorKernel *copy = sim_operator_describe_kernel(call, SIM_OPERATOR_SLICE_GRAD, 1, 1);
    copy->hbm_bytes = 2 * sim_layout_bytes(call->inputs[0]);
}

static void describe_pad(SimOperatorCall *call)
{
    SimShape shape = call->inputs[0]->shape;
    shape.dims[shape.n_dims - 1] += call->attributes->length;
    SimLayout out = sim_layout_contiguous(&shape, call->inputs[0]->dtype);
    sim_operator_describe_output(call, &out);
    sim_operator_describe_kernel(call, SIM_OPERATOR_FILL, 0, 1);
    sim_operator_describe_kernel(call, SIM_OPERATOR_PAD, 1, 1);
}

static void describe_clone(SimOperatorCall *call)
{
    if (sim_layout_is_contiguous(call->inputs[0])) {
        call->is_same = true;
        sim_operator_describe_view(call, call->inputs[0], 0);
        return;
    }
    SimLayout out = sim_layout_contiguous(&call->inputs[0]->shape, call->inputs[0]->dtype);
    describe_copy(call, &out);
}

static void describe_expand(SimOperatorCall *call)
{
    SimShape shape = sim_operator_describe_shape(call);
    SimLayout out = sim_layout_expand(call->inputs[0], &shape);
    sim_operator_describe_view(call, &out, 0);
}

/* A gradient that a sum over one dimension gives back to each of its elements. */
static void describe_expand_grad(SimOperatorCall *call)
{
    SimLayout out = {.shape = call->like->shape, .dtype = call->inputs[0]->dtype};
    bool is_kept = call->inputs[0]->shape.n_dims == out.shape.n_dims;
    for (uint32_t i = 0, j = 0; i < out.shape.n_dims; i++) {
        bool is_summed = i == call->attributes->dim;
        out.strides[i] = is_summed ? 0 : call->inputs[0]->strides[j];
        j += !is_summed || is_kept;
    }
    sim_operator_describe_view(call, &out, 0);
}

static void describe_transpose(SimOperatorCall *call)
{
    const int64_t *dims = call->attributes->dims;
    SimLayout out = sim_layout_transpose(call->inputs[0], (uint32_t)dims[0], (uint32_t)dims[1]);
    sim_operator_describe_view(call, &out, 0);
}

bool sim_operator_describe_views(SimOperatorCall *call)
{
    switch (call->operator_) {
    case SIM_OPERATOR_IDENTITY:
        call->is_same = true;
        sim_operator_describe_view(call, call->inputs[0], 0);
        return true;
    case SIM_OPERATOR_ALIAS:
        sim_operator_describe_view(call, call->inputs[0], 0);
        return true;
    case SIM_OPERATOR_VIEW:
        describe_reshape(call);
        return true;
    case SIM_OPERATOR_TRANSPOSE:
        describe_transpose(call);
        return true;
    case SIM_OPERATOR_SLICE:
        describe_slice(call);
        return true;
    case SIM_OPERATOR_EXPAND:
        describe_expand(call);
        return true;
    case SIM_OPERATOR_EXPAND_GRAD:
        describe_expand_grad(call);
        return true;
    case SIM_OPERATOR_SPLIT:
        describe_split(call);
        return true;
    case SIM_OPERATOR_VIEW_AS_COMPLEX:
        describe_as_complex(call);
        return true;
    case SIM_OPERATOR_VIEW_AS_REAL:
        describe_as_real(call);
        return true;
    case SIM_OPERATOR_CLONE:
        describe_clone(call);
        return true;
    case SIM_OPERATOR_CAT:
        describe_cat(call);
        return true;
    case SIM_OPERATOR_CAT_GRAD:
        describe_cat_grad(call);
        return true;
    case SIM_OPERATOR_SLICE_GRAD:
        describe_slice_grad(call);
        return true;
    case SIM_OPERATOR_PAD:
        describe_pad(call);
        return true;
    default:
        return false;
    }
}
