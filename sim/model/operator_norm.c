/* SPDX-License-Identifier: Apache-2.0
 *
 * Normalisations with a kernel of their own: F.rms_norm (aten::_fused_rms_norm) and layer_norm.
 * Both keep their row statistics in f32 (aten/src/ATen/native/layer_norm.cpp).
 */
#include "model/operator_describe.h"

static SimLayout statistics_of(const SimLayout *input)
{
    SimShape shape = input->shape;
    shape.dims[shape.n_dims - 1] = 1;
    return sim_layout_contiguous(&shape, SIM_DTYPE_F32);
}

/* input, weight [, bias] -> output [, mean], reciprocal of the deviation. */
static void describe_forward(SimOperatorCall *call)
{
    SimLayout out = sim_layout_contiguous(&call->inputs[0]->shape, call->inputs[0]->dtype);
    SimLayout statistics = statistics_of(call->inputs[0]);
    sim_operator_describe_output(call, &out);
    sim_operator_describe_output(call, &statistics);
    if (call->operator_ != SIM_OPERATOR_RMS_NORM)
        sim_operator_describe_output(call, &statistics);
    SimOperatorKernel *kernel =
        sim_operator_describe_kernel(call, call->operator_, SIM_OPERATOR_ALL, SIM_OPERATOR_ALL);
    kernel->writes = (1U << call->n_outputs) - 1;
}

/* gradient, input, statistics.., weight [, bias: LayerNorm's] -> gradients of input, weight [,
 * bias]: two kernels.
 */
static void describe_backward(SimOperatorCall *call)
{
    bool is_layer_norm = call->operator_ == SIM_OPERATOR_LAYER_NORM_GRAD;
    const SimLayout *weight = call->inputs[is_layer_norm ? 4 : 3];
    SimLayout out = sim_layout_contiguous(&call->inputs[1]->shape, call->inputs[1]->dtype);
    SimLayout weight_out = sim_layout_contiguous(&weight->shape, weight->dtype);
    sim_operator_describe_output(call, &out);
    sim_operator_describe_output(call, &weight_out);
    bool has_bias = is_layer_norm && call->n_inputs == 6;
    if (has_bias)
        sim_operator_describe_output(call, &weight_out);
    sim_operator_describe_kernel(call, call->operator_, (1U << call->n_inputs) - 1, 1);
    sim_operator_describe_kernel(call,
                                 is_layer_norm ? SIM_OPERATOR_LAYER_NORM_GRAD_WEIGHT
                                               : SIM_OPERATOR_RMS_NORM_GRAD_WEIGHT,
                                 is_layer_norm ? 0xf : 0x7, has_bias ? 6 : 2);
}

bool sim_operator_describe_norm(SimOperatorCall *call)
{
    switch (call->operator_) {
    case SIM_OPERATOR_RMS_NORM:
    case SIM_OPERATOR_LAYER_NORM:
    case SIM_OPERATOR_LAYER_NORM_UNBIASED:
        describe_forward(call);
        return true;
    case SIM_OPERATOR_RMS_NORM_GRAD:
    case SIM_OPERATOR_LAYER_NORM_GRAD:
        describe_backward(call);
        return true;
    default:
        return false;
    }
}
