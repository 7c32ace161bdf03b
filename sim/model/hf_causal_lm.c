/* SPDX-License-Identifier: Apache-2.0 */
#include "model/hf_causal_lm.h"

#include "model/module_tree.h"

SimSlot sim_hf_causal_lm_position_ids(SimProgram *program)
{
    int64_t dims[] = {1, SIM_DIM_SEQUENCE};
    SimSlot counted = sim_program_call(program, SIM_OPERATOR_ARANGE, NULL, 0, NULL);
    SimSlot shifted = sim_forward_scalar(program, SIM_OPERATOR_ADD_SCALAR, counted, 0);
    return sim_forward_view(program, shifted, 2, dims);
}

SimSlot sim_hf_causal_lm_gelu_new(SimProgram *p, SimSlot x)
{
    SimSlot half = sim_forward_scalar(p, SIM_OPERATOR_MUL_SCALAR, x, 0.5);
    SimSlot cube = sim_forward_scalar(p, SIM_OPERATOR_POW, x, 3);
    SimSlot scaled = sim_forward_scalar(p, SIM_OPERATOR_MUL_SCALAR, cube, 0.044715);
    SimSlot inner = sim_forward_binary(p, SIM_OPERATOR_ADD, x, scaled);
    SimSlot argument = sim_forward_scalar(p, SIM_OPERATOR_MUL_SCALAR, inner, 0.7978845608028654);
    SimSlot tanh = sim_forward_unary(p, SIM_OPERATOR_TANH, argument);
    SimSlot shifted = sim_forward_scalar(p, SIM_OPERATOR_ADD_SCALAR, tanh, 1);
    return sim_forward_binary(p, SIM_OPERATOR_MUL, half, shifted);
}

/* ForCausalLMLoss(logits, labels): labels padded by one and shifted, logits in f32. */
static SimSlot write_loss(SimProgram *p, SimSlot logits, SimSlot labels, uint64_t vocabulary)
{
    int64_t rows[] = {SIM_DIM_REST, (int64_t)vocabulary}, flat[] = {SIM_DIM_REST};
    SimAttributes one = {.length = 1};
    sim_program_open_function(p);
    SimSlot wide = sim_program_bind(p, sim_forward_cast(p, logits, SIM_DTYPE_F32));
    sim_program_set_flags(p, SIM_PROGRAM_LOSS);
    SimSlot padded = sim_program_bind(p, sim_program_call(p, SIM_OPERATOR_PAD, &one, 1, &labels));
    sim_program_set_flags(p, SIM_PROGRAM_LOSS);
    SimAttributes rest = {.dim = 1, .start = 1};
    SimSlot shifted = sim_program_call(p, SIM_OPERATOR_SLICE, &rest, 1, &padded);
    shifted = sim_program_bind(p, sim_forward_unary(p, SIM_OPERATOR_CLONE, shifted));
    sim_program_set_flags(p, SIM_PROGRAM_LOSS);
    wide = sim_program_rebind(p, wide, sim_forward_view(p, wide, 2, rows));
    sim_program_set_flags(p, SIM_PROGRAM_LOSS);
    shifted = sim_program_rebind(p, shifted, sim_forward_view(p, shifted, 1, flat));
    SimSlot loss = sim_program_bind(p, sim_forward_cross_entropy(p, wide, shifted));
    sim_program_close_function(p, 1, &loss);
    return loss;
}

/* logits / softcap, tanh, * softcap (Gemma 2). */
static SimSlot write_softcap(SimProgram *p, SimSlot logits, double cap)
{
    SimSlot scaled = sim_forward_scalar(p, SIM_OPERATOR_MUL_SCALAR, logits, 1 / cap);
    sim_program_set_flags(p, SIM_PROGRAM_LOGITS);
    logits = sim_program_rebind(p, logits, scaled);
    SimSlot tanh = sim_forward_unary(p, SIM_OPERATOR_TANH, logits);
    sim_program_set_flags(p, SIM_PROGRAM_LOGITS);
    logits = sim_program_rebind(p, logits, tanh);
    scaled = sim_forward_scalar(p, SIM_OPERATOR_MUL_SCALAR, logits, cap);
    sim_program_set_flags(p, SIM_PROGRAM_LOGITS);
    return sim_program_rebind(p, logits, scaled);
}

void sim_hf_causal_lm_finish(SimModel *model, const SimModelConfig *config, uint32_t decoder)
{
    SimProgram *head = sim_forward_linear_new(false);
    sim_program_set_flags(head, SIM_PROGRAM_LOGITS);
    model->head =
        sim_module_tree_add_weight(model, 0, "lm_head", config->vocabulary, config->hidden, head);
    if (config->is_head_tied)
        sim_module_tree_tie(model, sim_model_module(model, model->head)->first_parameter,
                            sim_model_module(model, model->embedding)->first_parameter);
    SimProgram *p = sim_program_new(1);
    SimSlot hidden = sim_program_bind(p, sim_forward_module(p, decoder, 0));
    SimSlot logits = sim_program_bind(p, sim_forward_module(p, model->head, hidden));
    if (config->logit_softcap > 0)
        logits = write_softcap(p, logits, config->logit_softcap);
    SimSlot loss = sim_program_bind(p, write_loss(p, logits, 0, config->vocabulary));
    SimSlot output[] = {loss, logits}; /* CausalLMOutput, of which the script takes the loss */
    sim_program_finish(p, 2, output);
    sim_module_tree_set_forward(model, 0, p);
}
