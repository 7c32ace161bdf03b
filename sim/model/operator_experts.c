/* SPDX-License-Identifier: Apache-2.0
 *
 * Operators of a mixture of experts: choosing and sorting tokens, grouped matrix products. Their
 * sizes do not depend on where the router sends a token.
 */
#include "model/operator_describe.h"

/* Over one dimension, in f32 inside; it stays as 1 or goes. */
static void describe_sum_dim(SimOperatorCall *call)
{
    const SimLayout *in = call->inputs[0];
    uint32_t dim = call->attributes->dim;
    SimShape shape = in->shape;
    if (call->attributes->length == 1) {
        shape.dims[dim] = 1;
    } else {
        shape.n_dims--;
        for (uint32_t i = dim; i < shape.n_dims; i++)
            shape.dims[i] = shape.dims[i + 1];
    }
    SimLayout out = sim_layout_contiguous(&shape, in->dtype);
    sim_operator_describe_output(call, &out);
    sim_operator_describe_kernel(call, SIM_OPERATOR_SUM, 1, 1);
}

/* [T, E] -> values and indices [T, k]. */
static void describe_topk(SimOperatorCall *call)
{
    SimShape shape = call->inputs[0]->shape;
    shape.dims[shape.n_dims - 1] = call->attributes->length;
    SimLayout values = sim_layout_contiguous(&shape, call->inputs[0]->dtype);
    SimLayout indices = sim_layout_contiguous(&shape, SIM_DTYPE_I64);
    sim_operator_describe_output(call, &values);
    sim_operator_describe_output(call, &indices);
    sim_operator_describe_kernel(call, SIM_OPERATOR_TOPK, 1, 3);
}

/* gradient, indices: zeros as large as the input, then a scatter. */
static void describe_topk_grad(SimOperatorCall *call)
{
    SimLayout out = sim_layout_contiguous(&call->like->shape, call->inputs[0]->dtype);
    sim_operator_describe_output(call, &out);
    sim_operator_describe_kernel(call, SIM_OPERATOR_FILL, 0, 1);
    SimOperatorKernel *scatter = sim_operator_describe_kernel(call, SIM_OPERATOR_TOPK_GRAD, 3, 0);
    scatter->writes = 1;
    scatter->hbm_bytes += sim_layout_bytes(call->inputs[0]);
}

/* Values and where they came from; scratch: up to 4096 items, which a block sorts in place, a copy;
 * else 0, 1, 2.. and cub's, 64-bit keys all through (aten/src/ATen/native/cuda/Sort.cpp). */
static void describe_sort(SimOperatorCall *call)
{
    const SimLayout *in = call->inputs[0];
    uint64_t bytes = sim_layout_bytes(in);
    sim_operator_describe_output(call, in);
    sim_operator_describe_output(call, in);
    sim_operator_describe_scratch(call, bytes);
    if (sim_layout_elements(in) > 4096)
        sim_operator_describe_scratch(
            call, sim_operator_describe_sort_bytes(sim_layout_elements(in), 64));
    SimOperatorKernel *kernel = sim_operator_describe_kernel(call, SIM_OPERATOR_SORT, 1, 3);
    kernel->hbm_bytes += 8 * 4 * bytes; /* a pass over keys and values for every 8 bits */
}

static void describe_histc(SimOperatorCall *call)
{
    SimShape shape = {.dims = {call->attributes->length}, .n_dims = 1};
    SimLayout out = sim_layout_contiguous(&shape, call->inputs[0]->dtype);
    sim_operator_describe_output(call, &out);
    sim_operator_describe_kernel(call, SIM_OPERATOR_HISTC, 1, 1);
}

/* Of few enough numbers for one tile: cub's scan asks for 1023 bytes. */
static void describe_cumsum(SimOperatorCall *call)
{
    SimLayout out =
        sim_layout_contiguous(&call->inputs[0]->shape, sim_operator_describe_dtype(call));
    sim_operator_describe_output(call, &out);
    sim_operator_describe_scratch(call, 1023);
    sim_operator_describe_kernel(call, SIM_OPERATOR_CUMSUM, 1, 1);
}

/* One grouped product of CUTLASS (aten/src/ATen/native/cuda/GroupMM.cu, sm_90): for each group a
 * problem size (3 x 4 bytes), three pointers and three strides (8 each), and 512 bytes of workspace
 * an SM. */
static void describe_product(SimOperatorCall *call, const SimShape *shape, SimDtype dtype,
                             uint64_t groups, uint64_t m, uint64_t n, uint64_t k)
{
    SimLayout out = sim_layout_contiguous(shape, dtype);
    sim_operator_describe_output(call, &out);
    sim_operator_describe_scratch(call, groups * (3 * 4 + 3 * 8 + 3 * 8));
    sim_operator_describe_scratch(call, UINT64_C(512) * call->setting->sm_count);
    SimOperatorKernel *kernel =
        sim_operator_describe_kernel(call, call->operator_, SIM_OPERATOR_ALL, 1);
    kernel->figures_kind = SIM_FIGURES_MATRIX;
    kernel->figures[0] = m;
    kernel->figures[1] = n;
    kernel->figures[2] = k;
    kernel->flops = 2 * m * n * k;
}

/* rows [R, in], weight [E, out, in], offsets [E] -> [R, out]. */
static void describe_grouped(SimOperatorCall *call)
{
    const uint64_t *weight = call->inputs[1]->shape.dims;
    uint64_t rows = call->inputs[0]->shape.dims[0];
    SimShape shape = {.dims = {rows, weight[1]}, .n_dims = 2};
    describe_product(call, &shape, call->inputs[0]->dtype, weight[0], weight[1], rows, weight[2]);
}

/* gradient [R, out], weight [E, out, in], offsets -> [R, in]. */
static void describe_grouped_grad_input(SimOperatorCall *call)
{
    const uint64_t *weight = call->inputs[1]->shape.dims;
    uint64_t rows = call->inputs[0]->shape.dims[0];
    SimShape shape = {.dims = {rows, weight[2]}, .n_dims = 2};
    describe_product(call, &shape, call->inputs[0]->dtype, weight[0], weight[2], rows, weight[1]);
}

/* gradient [R, out], rows [R, in], offsets [E] -> [E, out, in]. */
static void describe_grouped_grad_weight(SimOperatorCall *call)
{
    const uint64_t *gradient = call->inputs[0]->shape.dims, *input = call->inputs[1]->shape.dims;
    uint64_t experts = call->inputs[2]->shape.dims[0];
    SimShape shape = {.dims = {experts, gradient[1], input[1]}, .n_dims = 3};
    describe_product(call, &shape, call->inputs[0]->dtype, experts, input[1], gradient[1],
                     gradient[0]);
}

static bool describe_groups(SimOperatorCall *call)
{
    switch (call->operator_) {
    case SIM_OPERATOR_GROUPED_MM:
        describe_grouped(call);
        return true;
    case SIM_OPERATOR_GROUPED_MM_GRAD_INPUT:
        describe_grouped_grad_input(call);
        return true;
    case SIM_OPERATOR_GROUPED_MM_GRAD_WEIGHT:
        describe_grouped_grad_weight(call);
        return true;
    default:
        return false;
    }
}

bool sim_operator_describe_experts(SimOperatorCall *call)
{
    switch (call->operator_) {
    case SIM_OPERATOR_SUM_DIM:
        describe_sum_dim(call);
        return true;
    case SIM_OPERATOR_TOPK:
        describe_topk(call);
        return true;
    case SIM_OPERATOR_TOPK_GRAD:
        describe_topk_grad(call);
        return true;
    case SIM_OPERATOR_SORT:
        describe_sort(call);
        return true;
    case SIM_OPERATOR_HISTC:
        describe_histc(call);
        return true;
    case SIM_OPERATOR_CUMSUM:
        describe_cumsum(call);
        return true;
    default:
        return describe_groups(call);
    }
}
