/* SPDX-License-Identifier: Apache-2.0 */
#include "autograd/autocast.h"

SimDtype sim_autocast_dtype(SimOperator operator_)
{
    switch (operator_) {
    case SIM_OPERATOR_LINEAR:
    case SIM_OPERATOR_LINEAR_BIAS:
    case SIM_OPERATOR_CONV1D:
    case SIM_OPERATOR_BMM:
    case SIM_OPERATOR_ATTENTION:
    case SIM_OPERATOR_EFFICIENT_ATTENTION:
    case SIM_OPERATOR_EFFICIENT_ATTENTION_BIAS:
    case SIM_OPERATOR_EFFICIENT_ATTENTION_DROPOUT:
    case SIM_OPERATOR_EFFICIENT_ATTENTION_BIAS_DROPOUT:
        return SIM_DTYPE_BF16;
    case SIM_OPERATOR_POW:
    case SIM_OPERATOR_RSQRT:
    case SIM_OPERATOR_RECIPROCAL:
    case SIM_OPERATOR_SUM_DIM:
    case SIM_OPERATOR_LAYER_NORM:
    case SIM_OPERATOR_LAYER_NORM_UNBIASED:
    case SIM_OPERATOR_SOFTMAX:
    case SIM_OPERATOR_LOG_SOFTMAX:
    case SIM_OPERATOR_NLL_LOSS:
        return SIM_DTYPE_F32;
    default:
        return SIM_DTYPE_NONE;
    }
}

static bool is_floating(SimDtype dtype)
{
    return dtype == SIM_DTYPE_F32 || dtype == SIM_DTYPE_BF16 || dtype == SIM_DTYPE_F16;
}

/* A new reference, or NULL: the replay ended. */
static SimTensor *cast_tensor(SimAutograd *autograd, const SimProgramCall *call, SimDtype dtype,
                              const SimDispatchPurpose *purpose, SimTensor *tensor)
{
    const SimAttributes *attributes =
        dtype == SIM_DTYPE_F32 ? &autograd->to_f32 : &autograd->to_bf16;
    SimProgramCall cast = {
        .operator_ = SIM_OPERATOR_CAST, .n_inputs = 1, .n_outputs = 1, .flags = call->flags};
    SimTensor *results[SIM_OPERATOR_MAX_OUTPUTS];
    return sim_autograd_run_operator(autograd, &cast, attributes, purpose, &tensor, results)
               ? results[0]
               : NULL;
}

static SimTensor *cast_parameter(SimAutograd *autograd, const SimProgramCall *call, SimDtype dtype,
                                 const SimDispatchPurpose *purpose, SimTensor *tensor)
{
    SimTensor **cached = &autograd->casts[tensor->parameter];
    if (*cached == NULL)
        *cached = cast_tensor(autograd, call, dtype, purpose, tensor);
    return *cached != NULL ? sim_tensor_ref(*cached) : NULL;
}

/* The input to cast as the Kth: from right to left; Conv1D calls addmm(bias, input, weight). */
static uint32_t find_place(const SimProgramCall *call, uint32_t k)
{
    static const uint32_t conv1d[] = {1, 0, 2};
    return call->operator_ == SIM_OPERATOR_CONV1D ? conv1d[k] : call->n_inputs - 1 - k;
}

/* A new reference to INPUT in DTYPE, or NULL: the replay ended. */
static SimTensor *cast_input(SimAutograd *autograd, const SimProgramCall *call, SimDtype dtype,
                             const SimDispatchPurpose *purpose, SimTensor *input)
{
    bool is_kept = input->parameter != SIM_MODEL_NONE && dtype == SIM_DTYPE_BF16 &&
                   sim_graph_wants(autograd->model, input);
    if (input->layout.dtype == dtype || !is_floating(input->layout.dtype))
        return sim_tensor_ref(input);
    return (is_kept ? cast_parameter : cast_tensor)(autograd, call, dtype, purpose, input);
}

bool sim_autocast_inputs(SimAutograd *autograd, const SimProgramCall *call,
                         const SimDispatchPurpose *purpose, SimTensor *const *inputs,
                         SimTensor **cast)
{
    SimDtype dtype = sim_autocast_dtype(call->operator_);
    for (uint32_t k = 0; k < call->n_inputs; k++) {
        uint32_t place = find_place(call, k);
        cast[place] = cast_input(autograd, call, dtype, purpose, inputs[place]);
        if (cast[place] != NULL)
            continue;
        while (k-- > 0)
            sim_tensor_unref(&autograd->dispatch.pool, cast[find_place(call, k)]);
        return false;
    }
    return true;
}

void sim_autocast_clear(SimAutograd *autograd)
{
    for (uint32_t i = 0; autograd->casts != NULL && i < autograd->model->parameters->len; i++)
        if (autograd->casts[i] != NULL)
            sim_tensor_unref(&autograd->dispatch.pool, g_steal_pointer(&autograd->casts[i]));
}
