/* SPDX-License-Identifier: Apache-2.0
 *
 * What the causal language models of transformers share: position ids, gelu_new, the head and the
 * loss inside the root's forward. Private to hf_*.c.
 */
#pragma once

#include "model/forward.h"
#include "model/hf_config.h"

/* (torch.arange(S) + 0).unsqueeze(0): an unnamed value. */
SimSlot sim_hf_causal_lm_position_ids(SimProgram *program);

/* gelu_new: 0.5 * x * (1.0 + tanh(sqrt(2 / pi) * (x + 0.044715 * pow(x, 3.0)))) */
SimSlot sim_hf_causal_lm_gelu_new(SimProgram *program, SimSlot x);

/* Adds lm_head, tied as the config says, and the root's forward: DECODER's output, logits, loss
 * (loss/loss_utils.py, ForCausalLMLoss). */
void sim_hf_causal_lm_finish(SimModel *model, const SimModelConfig *config, uint32_t decoder);
