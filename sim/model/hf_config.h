/* SPDX-License-Identifier: Apache-2.0
 *
 * A Hugging Face config.json, read strictly: what the architecture needs must be there and be
 * possible; keys that it does not need may stand there too. Defaults are those of transformers'
 * configuration classes.
 */
#pragma once

#include "model/safetensors.h"

typedef enum SimArchitecture {
    SIM_ARCHITECTURE_LLAMA,
    SIM_ARCHITECTURE_MISTRAL,
    SIM_ARCHITECTURE_QWEN2,
    SIM_ARCHITECTURE_QWEN3,
    SIM_ARCHITECTURE_GPT2,
    SIM_ARCHITECTURE_MIXTRAL,
    SIM_ARCHITECTURE_QWEN3_MOE,
    SIM_ARCHITECTURE_GEMMA2,
    SIM_ARCHITECTURE_GEMMA3,
    SIM_ARCHITECTURE_PHI3,
    SIM_ARCHITECTURE_GPT_NEOX,
    SIM_ARCHITECTURE_MPT,
    SIM_ARCHITECTURE_COUNT
} SimArchitecture;

/* transformers' activations.py: a kernel, or the formula in Python operators. */
typedef enum SimActivation {
    SIM_ACTIVATION_SILU,
    SIM_ACTIVATION_GELU_KERNEL, /* gelu, gelu_pytorch_tanh */
    SIM_ACTIVATION_GELU_NEW,
    SIM_ACTIVATION_GELU_FAST,
} SimActivation;

typedef struct SimModelConfig {
    char *name; /* the file's base name, or its folder's for "config.json" */
    SimArchitecture architecture;
    uint64_t layers, hidden, heads, key_value_heads, head_dim, intermediate, vocabulary;
    uint64_t max_positions;
    uint64_t sliding_window; /* 0 = none */
    bool *slides;            /* by layer; NULL: all of them if there is a window */
    uint64_t rotary_dim;     /* of head_dim: how much of a head turns */
    uint64_t experts, experts_per_token, expert_intermediate; /* 0 = no mixture */
    bool *is_sparse;                                          /* by layer; NULL: all are */
    double attention_softcap, logit_softcap;                  /* 0 = none */
    double norm_eps;
    double attention_dropout, embedding_dropout, residual_dropout;
    bool is_head_tied;
    bool has_qkv_bias, has_output_bias, has_mlp_bias, has_qk_norm;
    bool is_gelu_kernel; /* GPT-2: F.gelu; else gelu_new in Python */
    bool is_topk_normalized, is_residual_parallel;
    SimActivation activation; /* but GPT-2's */
    SimSafetensors *weights;  /* headers of the weights beside a "config.json"; NULL: none there */
} SimModelConfig;

/* Errors IO, PARSE, SCHEMA (a key missing or of another type, unknown architecture), RANGE, and
 * those of the weights beside it (safetensors.h). */
SimModelConfig *sim_hf_config_load(const char *file, GError **error);
void sim_hf_config_free(SimModelConfig *config);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(SimModelConfig, sim_hf_config_free)

/* "LlamaForCausalLM". */
const char *sim_hf_config_architecture_name(SimArchitecture architecture);

/* Whether LAYER's attention slides over a window; whether its MLP is a mixture of experts. */
bool sim_hf_config_slides(const SimModelConfig *config, uint64_t layer);
bool sim_hf_config_is_sparse(const SimModelConfig *config, uint64_t layer);
