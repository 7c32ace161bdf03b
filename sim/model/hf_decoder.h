/* SPDX-License-Identifier: Apache-2.0
 *
 * The decoder of transformers' models with rotary embedding, and the norms: what Llama, Mistral,
 * Mixtral, Qwen, Phi-3, Gemma and GPT-NeoX have in common. Private to hf_*.c.
 */
#pragma once

#include "model/hf_causal_lm.h"
#include "model/hf_model.h"

/* LlamaRMSNorm: in f32 operators, the weight applied in the compute dtype. */
SimProgram *sim_hf_decoder_rms_norm_new(double eps);
/* nn.LayerNorm, with or without bias. */
SimProgram *sim_hf_decoder_layer_norm_new(double eps, bool has_bias);

/* LlamaMLP: down_proj(activation(gate_proj(x)) * up_proj(x)); children gate_proj, up_proj,
 * down_proj. */
SimProgram *sim_hf_decoder_gated_mlp_new(SimOperator activation);

typedef struct SimHfDecoder {
    const SimModel *model;
    const SimModelConfig *config;
    const SimModelOptions *options;
    uint32_t module;
    /* rotary embeddings: of all layers, or of those that slide and of those that do not */
    uint32_t rotaries[2], n_rotaries;
    bool has_mapping;    /* masks by kind of layer, in a dictionary; arguments in another one */
    bool has_both_masks; /* makes both kinds whether a layer wants them or not */
    double embedding_dropout;
} SimHfDecoder;

/* Whether LAYER is given a mask. */
bool sim_hf_decoder_has_mask(const SimModelConfig *config, const SimModelOptions *options,
                             uint64_t layer);

/* forward(input_ids): embeddings, positions, masks, rotary tables, blocks, norm. A block takes
 * hidden_states, cos, sin, position_ids and, if it has one, the mask. */
SimProgram *sim_hf_decoder_new(const SimHfDecoder *decoder);
