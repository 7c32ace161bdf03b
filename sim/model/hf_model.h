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

typedef struct SimModelOptions {
    SimModelCode code;
    bool is_norm_composite; /* torchtitan: the norm in f32 operators, as before nn.RMSNorm */
    double dropout;         /* GPT-2: instead of the config's; negative = the config's */
} SimModelOptions;

/* Error UNSUPPORTED: the code does not exist for that architecture. */
SimModel *sim_hf_model_build(const SimModelConfig *config, const SimModelOptions *options,
                             GError **error);

/* Whether CODE exists for the config. */
bool sim_hf_model_has_code(const SimModelConfig *config, SimModelCode code);

/* One a code, private to hf_*.c. */
SimModel *sim_hf_model_build_torchtitan(const SimModelConfig *config,
                                        const SimModelOptions *options);
SimModel *sim_hf_model_build_llama(const SimModelConfig *config);
SimModel *sim_hf_model_build_gpt2(const SimModelConfig *config, const SimModelOptions *options);
