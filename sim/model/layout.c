/* SPDX-License-Identifier: Apache-2.0 */
#include "model/layout.h"

SimLayout sim_layout_contiguous(const SimShape *shape, SimDtype dtype)
{
    SimLayout layout = {.shape = *shape, .dtype = dtype};
    uint64_t stride = 1;
    for (uint32_t i = shape->n_dims; i-- > 0;) {
        layout.strides[i] = stride;
        stride *= shape->dims[i];
    }
    return layout;
}

uint64_t sim_layout_elements(const SimLayout *layout)
{
    return sim_shape_elements(&layout->shape);
}

uint64_t sim_layout_bytes(const SimLayout *layout)
{
    return sim_shape_elements(&layout->shape) * sim_dtype_bytes(layout->dtype);
}

bool sim_layout_is_contiguous(const SimLayout *layout)
{
    uint64_t expected = 1;
    for (uint32_t i = layout->shape.n_dims; i-- > 0;) {
        if (layout->shape.dims[i] == 1)
            continue;
        if (layout->strides[i] != expected)
            return false;
        expected *= layout->shape.dims[i];
    }
    return true;
}

bool sim_layout_is_dense(const SimLayout *layout)
{
    uint64_t expected = 1;
    uint32_t left = 0;
    for (uint32_t i = 0; i < layout->shape.n_dims; i++)
        left += layout->shape.dims[i] != 1;
    while (left > 0) {
        uint32_t i = 0;
        while (i < layout->shape.n_dims &&
               (layout->shape.dims[i] == 1 || layout->strides[i] != expected))
            i++;
        if (i == layout->shape.n_dims)
            return false;
        expected *= layout->shape.dims[i];
        left--;
    }
    return true;
}

/* Walks both shapes from the last dimension: a run of old dimensions that lies in one piece may be
 * cut in any way, a step between two pieces may not be crossed. */
bool sim_layout_reshape(const SimLayout *in, const SimShape *shape, SimLayout *out)
{
    const SimShape *old = &in->shape;
    if (sim_layout_is_contiguous(in)) {
        *out = sim_layout_contiguous(shape, in->dtype);
        return true;
    }
    SimLayout result = {.shape = *shape, .dtype = in->dtype};
    uint32_t view = shape->n_dims;
    uint64_t piece = 1, view_elements = 1;
    uint64_t base = old->n_dims > 0 ? in->strides[old->n_dims - 1] : 1;
    for (uint32_t i = old->n_dims; i-- > 0;) {
        piece *= old->dims[i];
        bool is_end = i == 0 || (old->dims[i - 1] != 1 && in->strides[i - 1] != piece * base);
        if (!is_end)
            continue;
        while (view > 0 && (view_elements < piece || shape->dims[view - 1] == 1)) {
            view--;
            result.strides[view] = view_elements * base;
            view_elements *= shape->dims[view];
        }
        if (view_elements != piece)
            return false;
        if (i > 0) {
            base = in->strides[i - 1];
            piece = view_elements = 1;
        }
    }
    if (view != 0)
        return false;
    *out = result;
    return true;
}

SimLayout sim_layout_transpose(const SimLayout *in, uint32_t dim0, uint32_t dim1)
{
    g_assert(dim0 < in->shape.n_dims && dim1 < in->shape.n_dims);
    SimLayout out = *in;
    out.shape.dims[dim0] = in->shape.dims[dim1];
    out.shape.dims[dim1] = in->shape.dims[dim0];
    out.strides[dim0] = in->strides[dim1];
    out.strides[dim1] = in->strides[dim0];
    return out;
}

SimLayout sim_layout_expand(const SimLayout *in, const SimShape *shape)
{
    g_assert(shape->n_dims >= in->shape.n_dims);
    SimLayout out = {.shape = *shape, .dtype = in->dtype};
    uint32_t shift = shape->n_dims - in->shape.n_dims;
    for (uint32_t i = 0; i < in->shape.n_dims; i++) {
        bool is_same = in->shape.dims[i] == shape->dims[i + shift];
        g_assert(is_same || in->shape.dims[i] == 1);
        out.strides[i + shift] = is_same ? in->strides[i] : 0;
    }
    return out;
}

SimShape sim_layout_broadcast(const SimLayout *const *inputs, uint32_t n)
{
    SimShape shape = inputs[0]->shape;
    for (uint32_t i = 1; i < n; i++) {
        const SimShape *other = &inputs[i]->shape;
        while (shape.n_dims < other->n_dims) {
            for (uint32_t j = shape.n_dims; j > 0; j--)
                shape.dims[j] = shape.dims[j - 1];
            shape.dims[0] = 1;
            shape.n_dims++;
        }
        uint32_t shift = shape.n_dims - other->n_dims;
        for (uint32_t j = 0; j < other->n_dims; j++) {
            if (shape.dims[j + shift] == 1)
                shape.dims[j + shift] = other->dims[j];
            g_assert(other->dims[j] == 1 || other->dims[j] == shape.dims[j + shift]);
        }
    }
    return shape;
}

static bool is_same_shape(const SimShape *a, const SimShape *b)
{
    if (a->n_dims != b->n_dims)
        return false;
    for (uint32_t i = 0; i < a->n_dims; i++)
        if (a->dims[i] != b->dims[i])
            return false;
    return true;
}

/* 1: dimension A must lie outside dimension B; -1: inside; 0: the operands do not say. */
static int compare_dims(const SimLayout *expanded, uint32_t n, uint32_t a, uint32_t b)
{
    for (uint32_t i = 0; i < n; i++) {
        uint64_t stride_a = expanded[i].strides[a], stride_b = expanded[i].strides[b];
        if (stride_a == 0 || stride_b == 0)
            continue;
        if (stride_a != stride_b)
            return stride_a < stride_b ? -1 : 1;
        if (expanded[i].shape.dims[a] > expanded[i].shape.dims[b])
            return 1;
    }
    return 0;
}

SimLayout sim_layout_pointwise(const SimLayout *const *inputs, uint32_t n, SimDtype dtype)
{
    g_assert(n >= 1 && n <= 4);
    SimShape shape = sim_layout_broadcast(inputs, n);
    if (is_same_shape(&shape, &inputs[0]->shape) && sim_layout_is_contiguous(inputs[0]))
        return sim_layout_contiguous(&shape, dtype);

    SimLayout expanded[4];
    for (uint32_t i = 0; i < n; i++)
        expanded[i] = sim_layout_expand(inputs[i], &shape);

    uint32_t order[SIM_SHAPE_MAX_DIMS]; /* innermost first */
    for (uint32_t i = 0; i < shape.n_dims; i++)
        order[i] = shape.n_dims - 1 - i;
    for (uint32_t i = 1; i < shape.n_dims; i++) {
        uint32_t at = i;
        for (uint32_t j = i; j-- > 0;) {
            int comparison = compare_dims(expanded, n, order[j], order[at]);
            if (comparison < 0)
                break;
            if (comparison > 0) {
                uint32_t swapped = order[j];
                order[j] = order[at];
                order[at] = swapped;
                at = j;
            }
        }
    }
    SimLayout out = {.shape = shape, .dtype = dtype};
    uint64_t stride = 1;
    for (uint32_t i = 0; i < shape.n_dims; i++) {
        out.strides[order[i]] = stride;
        stride *= shape.dims[order[i]];
    }
    return out;
}
