/* SPDX-License-Identifier: Apache-2.0
 *
 * Matrix products. cuBLAS is column-major, so m, n, k stand as it sees them: forward of a Linear
 * m=out n=T k=in, its input gradient m=in n=T k=out, its weight gradient m=in n=out k=T.
 *
 * Every mm takes cuBLAS's workspace from the caching allocator for the length of the call; a
 * product with bias is one cuBLASLt call with a workspace of its own (aten/src/ATen/cuda/
 * CublasHandlePool.cpp of 2.15: caching of workspaces is off).
 */
#include "model/operator_describe.h"

uint64_t sim_operator_describe_workspace(const SimOperatorCall *call)
{
    /* Hopper and later 32 MiB, before that the default ":4096:2:16:8" in KiB. */
    return call->setting->compute_capability >= 90 ? UINT64_C(32) << 20
                                                   : (2 * UINT64_C(4096) + 8 * UINT64_C(16)) << 10;
}

#define CUBLASLT_WORKSPACE_BYTES (UINT64_C(1) << 20)

static void describe_product(SimOperatorCall *call, const SimLayout *out, uint64_t workspace,
                             uint64_t m, uint64_t n, uint64_t k)
{
    sim_operator_describe_output(call, out);
    sim_operator_describe_scratch(call, workspace);
    SimOperatorKernel *kernel =
        sim_operator_describe_kernel(call, call->operator_, SIM_OPERATOR_ALL, 1);
    kernel->figures_kind = SIM_FIGURES_MATRIX;
    kernel->figures[0] = m;
    kernel->figures[1] = n;
    kernel->figures[2] = k;
    kernel->flops = 2 * m * n * k;
}

/* INPUT with its last dimension replaced. */
static SimLayout with_last(const SimLayout *input, uint64_t last)
{
    SimShape shape = input->shape;
    shape.dims[shape.n_dims - 1] = last;
    return sim_layout_contiguous(&shape, input->dtype);
}

/* input [.., in], weight [out, in] (Linear) or [in, out] (Conv1D of transformers), bias [out]. */
static void describe_forward(SimOperatorCall *call)
{
    const SimShape *weight = &call->inputs[1]->shape;
    bool is_conv1d = call->operator_ == SIM_OPERATOR_CONV1D;
    uint64_t in = weight->dims[is_conv1d ? 0 : 1], out_features = weight->dims[is_conv1d ? 1 : 0];
    SimLayout out = with_last(call->inputs[0], out_features);
    bool has_bias = call->operator_ != SIM_OPERATOR_LINEAR;
    describe_product(call, &out,
                     has_bias ? CUBLASLT_WORKSPACE_BYTES : sim_operator_describe_workspace(call),
                     out_features, sim_layout_elements(&out) / out_features, in);
}

/* gradient [.., out], weight -> [.., in]. */
static void describe_grad_input(SimOperatorCall *call)
{
    const SimShape *weight = &call->inputs[1]->shape;
    bool is_conv1d = call->operator_ == SIM_OPERATOR_CONV1D_GRAD_INPUT;
    uint64_t in = weight->dims[is_conv1d ? 0 : 1], out_features = weight->dims[is_conv1d ? 1 : 0];
    SimLayout out = with_last(call->inputs[0], in);
    describe_product(call, &out, sim_operator_describe_workspace(call), in,
                     sim_layout_elements(&out) / in, out_features);
}

/* gradient [.., out], input [.., in] -> as the weight lies. */
static void describe_grad_weight(SimOperatorCall *call)
{
    const SimLayout *gradient = call->inputs[0], *input = call->inputs[1];
    uint64_t out_features = gradient->shape.dims[gradient->shape.n_dims - 1];
    uint64_t in = input->shape.dims[input->shape.n_dims - 1];
    bool is_conv1d = call->operator_ == SIM_OPERATOR_CONV1D_GRAD_WEIGHT;
    SimShape shape = {.dims = {is_conv1d ? in : out_features, is_conv1d ? out_features : in},
                      .n_dims = 2};
    SimLayout out = sim_layout_contiguous(&shape, gradient->dtype);
    describe_product(call, &out, sim_operator_describe_workspace(call), shape.dims[1],
                     shape.dims[0], sim_layout_elements(gradient) / out_features);
}

/* [N, m, k] x [N, k, n]; a gradient lies contiguously in the shape of the operand. */
static void describe_batched(SimOperatorCall *call)
{
    const uint64_t *a = call->inputs[0]->shape.dims, *b = call->inputs[1]->shape.dims;
    SimShape shape = {.dims = {a[0], a[1], b[2]}, .n_dims = 3};
    uint64_t inner = a[2];
    if (call->operator_ == SIM_OPERATOR_BMM_GRAD_SELF) {
        shape.dims[2] = b[1];
    } else if (call->operator_ == SIM_OPERATOR_BMM_GRAD_OTHER) { /* self, then the gradient */
        shape.dims[1] = a[2];
        inner = a[1];
    }
    SimLayout out = sim_layout_contiguous(&shape, call->inputs[0]->dtype);
    describe_product(call, &out, sim_operator_describe_workspace(call), shape.dims[2],
                     shape.dims[1], inner);
    call->kernels[0].flops *= shape.dims[0];
}

bool sim_operator_describe_matrix(SimOperatorCall *call)
{
    switch (call->operator_) {
    case SIM_OPERATOR_LINEAR:
    case SIM_OPERATOR_LINEAR_BIAS:
    case SIM_OPERATOR_CONV1D:
        describe_forward(call);
        return true;
    case SIM_OPERATOR_BMM:
    case SIM_OPERATOR_BMM_GRAD_SELF:
    case SIM_OPERATOR_BMM_GRAD_OTHER:
        describe_batched(call);
        return true;
    case SIM_OPERATOR_LINEAR_GRAD_INPUT:
    case SIM_OPERATOR_CONV1D_GRAD_INPUT:
        describe_grad_input(call);
        return true;
    case SIM_OPERATOR_LINEAR_GRAD_WEIGHT:
    case SIM_OPERATOR_CONV1D_GRAD_WEIGHT:
        describe_grad_weight(call);
        return true;
    default:
        return false;
    }
}
