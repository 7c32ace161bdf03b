/* SPDX-License-Identifier: Apache-2.0
 *
 * A module of whose forward nothing is known but what goes in, what comes out and which parameters
 * it has. Its result exists (OPAQUE), takes part in the gradient of each parameter (OPAQUE_JOIN,
 * which reads the parameter, in place), and nothing else is said: no FLOPs, no activation inside.
 */
#include "model/operator_describe.h"

/* Any input -> a result of the shape given (dims), else the input's, in the compute type. */
static void describe_result(SimOperatorCall *call)
{
    SimShape shape =
        call->attributes->n_dims > 0 ? sim_operator_describe_shape(call) : call->inputs[0]->shape;
    SimLayout out = sim_layout_contiguous(&shape, sim_operator_describe_dtype(call));
    sim_operator_describe_output(call, &out);
    sim_operator_describe_kernel(call, SIM_OPERATOR_OPAQUE, 1, 1);
}

/* Gradient -> one that lies as LIKE does. */
static void describe_gradient(SimOperatorCall *call)
{
    SimLayout out = sim_layout_contiguous(&call->like->shape, call->like->dtype);
    sim_operator_describe_output(call, &out);
    sim_operator_describe_kernel(call, SIM_OPERATOR_OPAQUE_GRAD, (1U << call->n_inputs) - 1, 1);
}

bool sim_operator_describe_opaque(SimOperatorCall *call)
{
    switch (call->operator_) {
    case SIM_OPERATOR_OPAQUE:
        describe_result(call);
        return true;
    case SIM_OPERATOR_OPAQUE_JOIN:
        sim_operator_describe_view(call, call->inputs[0], 0);
        sim_operator_describe_kernel(call, SIM_OPERATOR_OPAQUE_JOIN, 3, 1);
        return true;
    case SIM_OPERATOR_OPAQUE_GRAD:
        describe_gradient(call);
        return true;
    default:
        return false;
    }
}
