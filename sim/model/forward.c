/* SPDX-License-Identifier: Apache-2.0 */
#include "model/forward.h"

SimSlot sim_forward_unary(SimProgram *program, SimOperator operator_, SimSlot value)
{
    return sim_program_call(program, operator_, NULL, 1, &value);
}

SimSlot sim_forward_binary(SimProgram *program, SimOperator operator_, SimSlot a, SimSlot b)
{
    SimSlot inputs[] = {a, b};
    return sim_program_call(program, operator_, NULL, 2, inputs);
}

SimSlot sim_forward_view(SimProgram *program, SimSlot value, uint32_t n_dims, const int64_t *dims)
{
    SimAttributes attributes = {.n_dims = n_dims};
    for (uint32_t i = 0; i < n_dims; i++)
        attributes.dims[i] = dims[i];
    return sim_program_call(program, SIM_OPERATOR_VIEW, &attributes, 1, &value);
}

SimSlot sim_forward_transpose(SimProgram *program, SimSlot value, int64_t dim0, int64_t dim1)
{
    SimAttributes attributes = {.dims = {dim0, dim1}, .n_dims = 2};
    return sim_program_call(program, SIM_OPERATOR_TRANSPOSE, &attributes, 1, &value);
}

SimSlot sim_forward_cast(SimProgram *program, SimSlot value, SimDtype dtype)
{
    SimAttributes attributes = {.dtype = dtype};
    return sim_program_call(program, SIM_OPERATOR_CAST, &attributes, 1, &value);
}

SimSlot sim_forward_scalar(SimProgram *program, SimOperator operator_, SimSlot value, double scalar)
{
    SimAttributes attributes = {.scalar = scalar};
    return sim_program_call(program, operator_, &attributes, 1, &value);
}

SimSlot sim_forward_slice(SimProgram *program, SimSlot value, uint32_t dim, uint64_t start,
                          uint64_t length)
{
    SimAttributes attributes = {.dim = dim, .start = start, .length = length};
    return sim_program_call(program, SIM_OPERATOR_SLICE, &attributes, 1, &value);
}

SimSlot sim_forward_module(SimProgram *program, uint32_t child, SimSlot value)
{
    return sim_program_call_module(program, child, 1, &value);
}

SimSlot sim_forward_attention(SimProgram *program, SimSlot query, SimSlot key, SimSlot value,
                              double dropout)
{
    SimSlot inputs[] = {query, key, value};
    SimSlot outputs[] = {0, SIM_SLOT_NONE, SIM_SLOT_NONE, SIM_SLOT_NONE};
    SimAttributes attributes = {.scalar = dropout};
    sim_program_call_many(program, SIM_OPERATOR_ATTENTION, &attributes, 3, inputs, 4, outputs);
    return outputs[0];
}

SimSlot sim_forward_dropout(SimProgram *program, SimSlot value, double p)
{
    if (p == 0)
        return value;
    SimSlot outputs[] = {SIM_SLOT_NONE, 0};
    SimAttributes attributes = {.scalar = p};
    sim_program_call_many(program, SIM_OPERATOR_DROPOUT, &attributes, 1, &value, 2, outputs);
    return outputs[1];
}

SimSlot sim_forward_cross_entropy(SimProgram *program, SimSlot logits, SimSlot labels)
{
    SimSlot probabilities = sim_forward_unary(program, SIM_OPERATOR_LOG_SOFTMAX, logits);
    sim_program_set_flags(program, SIM_PROGRAM_LOSS);
    SimSlot inputs[] = {probabilities, labels};
    SimSlot outputs[] = {0, SIM_SLOT_NONE};
    sim_program_call_many(program, SIM_OPERATOR_NLL_LOSS, NULL, 2, inputs, 2, outputs);
    sim_program_set_flags(program, SIM_PROGRAM_LOSS);
    return outputs[0];
}

SimProgram *sim_forward_linear_new(bool has_bias)
{
    SimProgram *program = sim_program_new(1);
    SimSlot inputs[] = {0, SIM_SLOT_PARAMETER(0), SIM_SLOT_PARAMETER(1)};
    SimSlot out =
        sim_program_call(program, has_bias ? SIM_OPERATOR_LINEAR_BIAS : SIM_OPERATOR_LINEAR, NULL,
                         has_bias ? 3 : 2, inputs);
    sim_program_finish(program, 1, &out);
    return program;
}

SimProgram *sim_forward_embedding_new(void)
{
    SimProgram *program = sim_program_new(1);
    SimSlot out = sim_forward_binary(program, SIM_OPERATOR_EMBEDDING, SIM_SLOT_PARAMETER(0), 0);
    sim_program_finish(program, 1, &out);
    return program;
}

SimProgram *sim_forward_fused_norm_new(double eps)
{
    SimProgram *program = sim_program_new(1);
    SimSlot inputs[] = {0, SIM_SLOT_PARAMETER(0)};
    SimSlot outputs[] = {0, SIM_SLOT_NONE};
    SimAttributes attributes = {.scalar = eps};
    sim_program_call_many(program, SIM_OPERATOR_RMS_NORM, &attributes, 2, inputs, 2, outputs);
    sim_program_finish(program, 1, outputs);
    return program;
}
