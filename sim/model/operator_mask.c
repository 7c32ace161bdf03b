/* SPDX-License-Identifier: Apache-2.0
 *
 * Operators that make and apply attention masks, and in-place bookkeeping without a gradient.
 */
#include "model/operator_describe.h"

/* bool of one byte an element. */
static void describe_boolean(SimOperatorCall *call)
{
    SimLayout out = sim_layout_pointwise(call->inputs, call->n_inputs, SIM_DTYPE_U8);
    sim_operator_describe_output(call, &out);
    sim_operator_describe_kernel(call, call->operator_, SIM_OPERATOR_ALL, 1);
}

static void describe_like(SimOperatorCall *call)
{
    SimLayout out = sim_layout_pointwise(call->inputs, 1, call->inputs[0]->dtype);
    sim_operator_describe_output(call, &out);
    sim_operator_describe_kernel(call, call->operator_, 1, 1);
}

/* where(mask, value, other): a Python number becomes a tensor of one element for the length of the
 * call (scalar_tensor). Inputs: the mask, and VALUE unless it is such a number too. */
static void describe_where(SimOperatorCall *call)
{
    SimDtype dtype = sim_operator_describe_dtype(call);
    SimLayout out = sim_layout_pointwise(call->inputs, 1, dtype);
    uint32_t numbers = 3 - call->n_inputs;
    for (uint32_t i = 0; i < numbers; i++)
        sim_operator_describe_scratch(call, sim_dtype_bytes(dtype));
    sim_operator_describe_output(call, &out);
    sim_operator_describe_kernel(call, SIM_OPERATOR_WHERE, SIM_OPERATOR_ALL, 1);
}

/* self.masked_fill(mask, value): a copy of self, then in place. */
static void describe_masked_fill(SimOperatorCall *call)
{
    SimLayout out = sim_layout_pointwise(call->inputs, 1, call->inputs[0]->dtype);
    sim_operator_describe_output(call, &out);
    sim_operator_describe_kernel(call, SIM_OPERATOR_CLONE, 1, 1);
    sim_operator_describe_kernel(call, call->operator_, 3, 1);
}

/* 2 ** input: the base becomes a tensor of one f32 number on the way
 * (aten/src/ATen/native/Pow.cpp).
 */
static void describe_exponent(SimOperatorCall *call)
{
    describe_like(call);
    sim_operator_describe_scratch(call, 8);
}

/* In place: nothing but a launch. */
static void describe_in_place(SimOperatorCall *call)
{
    sim_operator_describe_view(call, call->inputs[0], 0);
    sim_operator_describe_kernel(call, call->operator_, SIM_OPERATOR_ALL, 1);
}

static void describe_empty(SimOperatorCall *call)
{
    sim_operator_describe_output(call, call->inputs[0]);
}

bool sim_operator_describe_mask(SimOperatorCall *call)
{
    switch (call->operator_) {
    case SIM_OPERATOR_COMPARE:
    case SIM_OPERATOR_LOGICAL_AND:
    case SIM_OPERATOR_TRIL:
        describe_boolean(call);
        return true;
    case SIM_OPERATOR_WHERE:
        describe_where(call);
        return true;
    case SIM_OPERATOR_MASKED_FILL:
    case SIM_OPERATOR_MASKED_FILL_GRAD:
        describe_masked_fill(call);
        return true;
    case SIM_OPERATOR_COPY:
        describe_like(call);
        return true;
    case SIM_OPERATOR_EXPONENT:
        describe_exponent(call);
        return true;
    case SIM_OPERATOR_INDEX_PUT:
    case SIM_OPERATOR_DIV_IN_PLACE:
        describe_in_place(call);
        return true;
    case SIM_OPERATOR_EMPTY:
        describe_empty(call);
        return true;
    default:
        return false;
    }
}
