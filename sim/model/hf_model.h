/* SPDX-License-Identifier: Apache-2.0
 *
 * A config -> the module tree as PyTorch code of a style writes it. Names, order of calls,
 * variables and their scopes are the code's own, because memory follows them.
 */
#pragma once

#include "model/hf_config.h"
#include "model/model.h"

typedef enum SimModelCode {
    SIM_MODEL_CODE_TORCHTITAN,   /* torchtitan/models/llama3/model */
    SIM_MODEL_CODE_TRANSFORMERS, /* transformers/models/.../modeling_*.py of 5.24 */
} SimModelCode;

/* Which kernel attention runs on. Where a mask forbids flash and cuDNN, SDPA falls back to
 * efficient. cuDNN keeps what flash keeps; its own workspace is not known. Gemma 2 and MPT, for
 * which transformers refuses SDPA, are always eager. */
typedef enum SimAttentionKind {
    SIM_ATTENTION_FLASH,
    SIM_ATTENTION_CUDNN,
    SIM_ATTENTION_EFFICIENT,
    SIM_ATTENTION_MATH,
    SIM_ATTENTION_EAGER, /* transformers: matmul and softmax in Python operators */
} SimAttentionKind;

/* Mixture of experts in transformers (integrations/moe.py): all experts in one grouped product, or
 * a Python loop over them. */
typedef enum SimExpertsKind { SIM_EXPERTS_GROUPED, SIM_EXPERTS_LOOP } SimExpertsKind;

typedef struct SimModelOptions {
    SimModelCode code;
    bool is_norm_composite; /* torchtitan: the norm in f32 operators, as before nn.RMSNorm */
    bool is_norm_wide;      /* torchtitan: nn.RMSNorm with f32 weights, which stay f32 */
    double dropout;         /* instead of all of the config's; negative = the config's */
    SimAttentionKind attention;
    SimExpertsKind experts;
    bool is_output_wide; /* torchtitan before May 2024: the model's result is f32 logits */
    bool is_rope_real;   /* torchtitan: rotate_half with f32 tables instead of complex numbers */
    uint64_t sequence;   /* tokens a sample: decides whether a sliding window has a mask */
    uint64_t batch;      /* samples a microbatch; 0 = 1 */
} SimModelOptions;

/* Error UNSUPPORTED: the code does not exist for that architecture. */
SimModel *sim_hf_model_build(const SimModelConfig *config, const SimModelOptions *options,
                             GError **error);

/* Whether CODE exists for the config. */
bool sim_hf_model_has_code(const SimModelConfig *config, SimModelCode code);

/* One a code, private to hf_*.c. */
SimModel *sim_hf_model_build_torchtitan(const SimModelConfig *config,
                                        const SimModelOptions *options);
SimModel *sim_hf_model_build_llama(const SimModelConfig *config, const SimModelOptions *options);
SimModel *sim_hf_model_build_gpt2(const SimModelConfig *config, const SimModelOptions *options);
SimModel *sim_hf_model_build_gemma(const SimModelConfig *config, const SimModelOptions *options);
SimModel *sim_hf_model_build_phi3(const SimModelConfig *config, const SimModelOptions *options);
SimModel *sim_hf_model_build_neox(const SimModelConfig *config, const SimModelOptions *options);
SimModel *sim_hf_model_build_mpt(const SimModelConfig *config, const SimModelOptions *options);
