/* SPDX-License-Identifier: Apache-2.0
 *
 * Attention as the models of transformers call it (integrations/sdpa_attention.py, and
 * eager_attention_forward of models/.../modeling_*.py). Private to hf_*.c.
 */
#pragma once

#include "model/forward.h"
#include "model/hf_model.h"

typedef struct SimHfAttention {
    SimAttentionKind kind;
    uint64_t heads, key_value_heads, head_dim;
    double dropout, softcap; /* softcap: of eager attention; 0 = none */
    bool has_half_softmax;   /* eager softmax in the compute dtype (GPT-2); else in f32 */
} SimHfAttention;

/* Of CONFIG's decoder under OPTIONS. */
SimHfAttention sim_hf_attention_of(const SimModelConfig *config, const SimModelOptions *options);

/* Results of the attention module: its output and, if eager, the weights. */
uint32_t sim_hf_attention_results(const SimHfAttention *attention);

/* attn_output, attn_weights = attention_interface(query, key, value, mask), then attn_output seen
 * as [B, S, heads x head_dim]. Operands [B, heads, S, head_dim]; MASK is NONE where there is none.
 * Both results are bound as variables; WEIGHTS only if eager. Returns attn_output. */
SimSlot sim_hf_attention_write(SimProgram *program, const SimHfAttention *attention, SimSlot query,
                               SimSlot key, SimSlot value, SimSlot mask, SimSlot *weights);

/* scaled_dot_product_attention(query, key, value, mask): [B, heads, S, head_dim]. Flash, unless a
 * mask forbids it or KIND says otherwise. A boolean mask becomes one of the compute dtype in every
 * call (convert_boolean_attn_mask of aten/src/ATen/native/transformers/attention.cpp). */
SimSlot sim_hf_attention_sdpa(SimProgram *program, const SimHfAttention *attention, SimSlot query,
                              SimSlot key, SimSlot value, SimSlot mask);

/* torch.matmul of [B, heads, m, k] and [B, heads, k, n], sizes SIM_DIM_SEQUENCE or a number. */
SimSlot sim_hf_attention_matmul(SimProgram *program, uint64_t heads, SimSlot a, SimSlot b,
                                int64_t m, int64_t k, int64_t n);
