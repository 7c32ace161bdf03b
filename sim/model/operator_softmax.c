/* SPDX-License-Identifier: Apache-2.0
 *
 * Softmax over the last dimension (aten/src/ATen/native/cuda/SoftMax.cu).
 */
#include "model/operator_describe.h"

static void describe_softmax(SimOperatorCall *call)
{
    SimLayout out = sim_layout_contiguous(&call->inputs[0]->shape, call->inputs[0]->dtype);
    sim_operator_describe_output(call, &out);
    sim_operator_describe_kernel(call, call->operator_, 1, 1);
}

/* Rows of nothing but -inf become 0 (_safe_softmax of aten/src/ATen/native/SoftMax.cpp): which
 * elements are -inf, which rows are so all through, and the zero. */
static void describe_safe_softmax(SimOperatorCall *call)
{
    describe_softmax(call);
    uint64_t elements = sim_layout_elements(call->inputs[0]);
    const SimShape *shape = &call->inputs[0]->shape;
    sim_operator_describe_scratch(call, elements);
    sim_operator_describe_scratch(call, elements / shape->dims[shape->n_dims - 1]);
    sim_operator_describe_scratch(call, sim_dtype_bytes(call->inputs[0]->dtype));
}

/* gradient, output -> gradient of the input. Their product is made first, in a tensor of its own.
 */
static void describe_softmax_grad(SimOperatorCall *call)
{
    SimLayout out = sim_layout_contiguous(&call->inputs[1]->shape, call->inputs[0]->dtype);
    sim_operator_describe_output(call, &out);
    sim_operator_describe_scratch(call, sim_layout_bytes(&out));
    SimOperatorKernel *product = sim_operator_describe_kernel(call, SIM_OPERATOR_MUL, 3, 0);
    product->hbm_bytes += sim_layout_bytes(&out);
    sim_operator_describe_kernel(call, SIM_OPERATOR_SOFTMAX_GRAD, 3, 1);
}

bool sim_operator_describe_softmax(SimOperatorCall *call)
{
    switch (call->operator_) {
    case SIM_OPERATOR_SOFTMAX:
        describe_softmax(call);
        return true;
    case SIM_OPERATOR_SAFE_SOFTMAX:
        describe_safe_softmax(call);
        return true;
    case SIM_OPERATOR_SOFTMAX_GRAD:
        describe_softmax_grad(call);
        return true;
    default:
        return false;
    }
}
