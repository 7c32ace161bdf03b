/* SPDX-License-Identifier: Apache-2.0
 *
 * A Hugging Face config.json, read strictly: what the architecture needs must be there and be
 * possible; keys that it does not need may stand there too. Defaults are those of transformers'
 * configuration classes.
 */
#pragma once

#include <glib.h>
#include <stdbool.h>
#include <stdint.h>

typedef enum SimArchitecture {
    SIM_ARCHITECTURE_LLAMA,
    SIM_ARCHITECTURE_MISTRAL,
    SIM_ARCHITECTURE_QWEN2,
    SIM_ARCHITECTURE_QWEN3,
    SIM_ARCHITECTURE_GPT2,
    SIM_ARCHITECTURE_COUNT
} SimArchitecture;

typedef struct SimModelConfig {
    char *name; /* the file's base name, or its folder's for "config.json" */
    SimArchitecture architecture;
    uint64_t layers, hidden, heads, key_value_heads, head_dim, intermediate, vocabulary;
    uint64_t max_positions;
    uint64_t sliding_window; /* 0 = none */
    double norm_eps;
    double attention_dropout, embedding_dropout, residual_dropout;
    bool is_head_tied;
    bool has_qkv_bias, has_output_bias, has_mlp_bias, has_qk_norm;
    bool is_gelu_kernel; /* GPT-2: F.gelu; else gelu_new in Python */
} SimModelConfig;

/* Errors IO, PARSE, SCHEMA (a key missing or of another type, unknown architecture), RANGE. */
SimModelConfig *sim_hf_config_load(const char *file, GError **error);
void sim_hf_config_free(SimModelConfig *config);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(SimModelConfig, sim_hf_config_free)

/* "LlamaForCausalLM". */
const char *sim_hf_config_architecture_name(SimArchitecture architecture);
