/* SPDX-License-Identifier: Apache-2.0 */
#include "model/hf_model.h"

#include "base/error.h"

bool sim_hf_model_has_code(const SimModelConfig *config, SimModelCode code)
{
    if (code == SIM_MODEL_CODE_TRANSFORMERS)
        return true;
    bool is_plain = config->architecture == SIM_ARCHITECTURE_LLAMA ||
                    config->architecture == SIM_ARCHITECTURE_MISTRAL;
    return is_plain && !config->has_qkv_bias && !config->has_output_bias && !config->has_mlp_bias;
}

static uint64_t count_elements(const SimModel *model, bool only_embedding)
{
    uint64_t elements = 0;
    for (uint32_t i = 0; i < model->parameters->len; i++) {
        const SimParameter *parameter = sim_model_parameter(model, i);
        if (parameter->tied_to == SIM_MODEL_NONE &&
            (!only_embedding || parameter->module == model->embedding))
            elements += parameter->elements;
    }
    return elements;
}

/* The published total has a tied head once, even where the code trains one of its own. */
static void set_figures(SimModel *model, const SimModelConfig *config)
{
    uint64_t head = config->vocabulary * config->hidden;
    model->is_head_tied =
        sim_model_parameter(model, sim_model_module(model, model->head)->first_parameter)
            ->tied_to != SIM_MODEL_NONE;
    model->config_parameters = count_elements(model, false);
    if (config->is_head_tied && !model->is_head_tied)
        model->config_parameters -= head;
    model->figures = (SimModelFigures){
        .layers = config->layers,
        .hidden = config->hidden,
        .heads = config->heads,
        .head_dim = config->head_dim,
        .key_value_heads = config->key_value_heads,
        .vocabulary = config->vocabulary,
        .max_positions = config->max_positions,
        .embedding_elements = model->is_head_tied ? 0 : count_elements(model, true),
    };
}

/* Gemma 2 (soft caps) and MPT (ALiBi) have no SDPA in transformers. */
static bool is_always_eager(SimArchitecture architecture)
{
    return architecture == SIM_ARCHITECTURE_GEMMA2 || architecture == SIM_ARCHITECTURE_MPT;
}

static SimModel *build(const SimModelConfig *config, const SimModelOptions *options)
{
    if (options->code == SIM_MODEL_CODE_TORCHTITAN)
        return sim_hf_model_build_torchtitan(config, options);
    switch (config->architecture) {
    case SIM_ARCHITECTURE_GPT2:
        return sim_hf_model_build_gpt2(config, options);
    case SIM_ARCHITECTURE_GEMMA2:
    case SIM_ARCHITECTURE_GEMMA3:
        return sim_hf_model_build_gemma(config, options);
    case SIM_ARCHITECTURE_PHI3:
        return sim_hf_model_build_phi3(config, options);
    case SIM_ARCHITECTURE_GPT_NEOX:
        return sim_hf_model_build_neox(config, options);
    case SIM_ARCHITECTURE_MPT:
        return sim_hf_model_build_mpt(config, options);
    default:
        return sim_hf_model_build_llama(config, options);
    }
}

/* Weights are in the names of transformers, whose model they are held against. */
static bool check_weights(const SimModelConfig *config, GError **error)
{
    if (config->weights == NULL)
        return true;
    SimModelOptions options = {.code = SIM_MODEL_CODE_TRANSFORMERS};
    g_autoptr(SimModel) model = build(config, &options);
    return sim_safetensors_check(config->weights, model, error);
}

SimModel *sim_hf_model_build(const SimModelConfig *config, const SimModelOptions *options,
                             GError **error)
{
    if (!sim_hf_model_has_code(config, options->code)) {
        g_set_error(error, SIM_ERROR, SIM_ERROR_UNSUPPORTED,
                    "%s: torchtitan code exists for plain Llama and Mistral without biases, found "
                    "%s; use --code transformers",
                    config->name, sim_hf_config_architecture_name(config->architecture));
        return NULL;
    }
    if (!check_weights(config, error))
        return NULL;
    SimModelConfig effective = *config; /* borrows what CONFIG owns */
    if (options->dropout >= 0)
        effective.attention_dropout = effective.embedding_dropout = effective.residual_dropout =
            options->dropout;
    SimModelOptions adjusted = *options;
    if (is_always_eager(config->architecture))
        adjusted.attention = SIM_ATTENTION_EAGER;
    SimModel *model = build(&effective, &adjusted);
    set_figures(model, config);
    return model;
}
