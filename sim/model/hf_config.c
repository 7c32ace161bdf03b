/* SPDX-License-Identifier: Apache-2.0 */
#include "model/hf_config.h"

#include <math.h>
#include <string.h>

#include "base/error.h"
#include "model/hf_config_read.h"

typedef struct Architecture {
    const char *name, *model_type;
} Architecture;

static const Architecture architectures[SIM_ARCHITECTURE_COUNT] = {
    [SIM_ARCHITECTURE_LLAMA] = {"LlamaForCausalLM", "llama"},
    [SIM_ARCHITECTURE_MISTRAL] = {"MistralForCausalLM", "mistral"},
    [SIM_ARCHITECTURE_QWEN2] = {"Qwen2ForCausalLM", "qwen2"},
    [SIM_ARCHITECTURE_QWEN3] = {"Qwen3ForCausalLM", "qwen3"},
    [SIM_ARCHITECTURE_GPT2] = {"GPT2LMHeadModel", "gpt2"},
    [SIM_ARCHITECTURE_MIXTRAL] = {"MixtralForCausalLM", "mixtral"},
    [SIM_ARCHITECTURE_QWEN3_MOE] = {"Qwen3MoeForCausalLM", "qwen3_moe"},
    [SIM_ARCHITECTURE_GEMMA2] = {"Gemma2ForCausalLM", "gemma2"},
    [SIM_ARCHITECTURE_GEMMA3] = {"Gemma3ForCausalLM", "gemma3_text"},
    [SIM_ARCHITECTURE_PHI3] = {"Phi3ForCausalLM", "phi3"},
    [SIM_ARCHITECTURE_GPT_NEOX] = {"GPTNeoXForCausalLM", "gpt_neox"},
    [SIM_ARCHITECTURE_MPT] = {"MptForCausalLM", "mpt"},
};

const char *sim_hf_config_architecture_name(SimArchitecture architecture)
{
    g_assert(architecture < SIM_ARCHITECTURE_COUNT);
    return architectures[architecture].name;
}

void sim_hf_config_free(SimModelConfig *config)
{
    if (config == NULL)
        return;
    g_free(config->name);
    g_free(config->slides);
    g_free(config->is_sparse);
    sim_safetensors_free(config->weights);
    g_free(config);
}

bool sim_hf_config_slides(const SimModelConfig *config, uint64_t layer)
{
    g_assert(layer < config->layers);
    return config->sliding_window > 0 && (config->slides == NULL || config->slides[layer]);
}

bool sim_hf_config_is_sparse(const SimModelConfig *config, uint64_t layer)
{
    g_assert(layer < config->layers);
    return config->experts > 0 && (config->is_sparse == NULL || config->is_sparse[layer]);
}

static bool find_architecture(const cJSON *json, const char *path, SimArchitecture *out,
                              GError **error)
{
    const char *names[SIM_ARCHITECTURE_COUNT + 1] = {NULL};
    const char *key = sim_json_has(json, "architectures") ? "architectures" : "model_type";
    bool is_type = key[0] == 'm';
    for (int i = 0; i < SIM_ARCHITECTURE_COUNT; i++)
        names[i] = is_type ? architectures[i].model_type : architectures[i].name;
    const char *value = NULL;
    if (is_type) {
        if (!sim_json_get_string(json, path, key, &value, error))
            return false;
    } else {
        const cJSON *list = NULL;
        if (!sim_json_get_array(json, path, key, &list, error))
            return false;
        const cJSON *first = cJSON_GetArrayItem(list, 0);
        if (!cJSON_IsString(first)) {
            g_set_error(error, SIM_ERROR, SIM_ERROR_SCHEMA,
                        "%s.architectures[0]: expected a string, the class that the model is",
                        path);
            return false;
        }
        value = first->valuestring;
    }
    for (int i = 0; i < SIM_ARCHITECTURE_COUNT; i++)
        if (strcmp(value, names[i]) == 0) {
            *out = (SimArchitecture)i;
            return true;
        }
    g_autofree char *where = g_strconcat(path, ".", key, NULL);
    sim_error_set_unknown(error, where, "architecture", value, names);
    return false;
}

/* Sizes that a decoder of Llama's family names so. */
static bool read_sizes(const cJSON *json, const char *path, SimModelConfig *config, GError **error)
{
    return sim_hf_config_read_count(json, path, "hidden_size", MAX_WIDTH, -1, &config->hidden,
                                    error) &&
           sim_hf_config_read_count(json, path, "num_hidden_layers", MAX_LAYERS, -1,
                                    &config->layers, error) &&
           sim_hf_config_read_count(json, path, "num_attention_heads", MAX_HEADS, -1,
                                    &config->heads, error) &&
           sim_hf_config_read_count(json, path, "num_key_value_heads", MAX_HEADS,
                                    (int64_t)config->heads, &config->key_value_heads, error) &&
           sim_hf_config_read_count(json, path, "intermediate_size", MAX_WIDTH, -1,
                                    &config->intermediate, error) &&
           sim_hf_config_read_count(json, path, "vocab_size", MAX_WIDTH, -1, &config->vocabulary,
                                    error) &&
           sim_hf_config_read_count(json, path, "max_position_embeddings", MAX_POSITIONS, 2048,
                                    &config->max_positions, error) &&
           sim_hf_config_read_fraction(json, path, "rms_norm_eps", 1e-6, &config->norm_eps,
                                       error) &&
           sim_hf_config_read_fraction(json, path, "attention_dropout", 0,
                                       &config->attention_dropout, error);
}

/* The head's size where the config does not say: a share of the hidden size, or DEFAULT if not 0.
 */
static bool read_head(const cJSON *json, const char *path, int64_t default_, SimModelConfig *config,
                      GError **error)
{
    if (!sim_json_has(json, "head_dim") && default_ == 0 &&
        !sim_hf_config_read_check_divides(path, "hidden_size", config->hidden,
                                          "num_attention_heads", config->heads, error))
        return false;
    int64_t share = default_ > 0 ? default_ : (int64_t)(config->hidden / config->heads);
    if (!sim_hf_config_read_count(json, path, "head_dim", MAX_WIDTH, share, &config->head_dim,
                                  error) ||
        !sim_hf_config_read_check_divides(path, "num_attention_heads", config->heads,
                                          "num_key_value_heads", config->key_value_heads, error) ||
        !sim_hf_config_read_check_divides(path, "head_dim", config->head_dim, "two halves", 2,
                                          error))
        return false;
    config->rotary_dim = config->head_dim;
    return true;
}

bool sim_hf_config_read_decoder(const cJSON *json, const char *path, int64_t head_dim,
                                SimModelConfig *config, GError **error)
{
    return read_sizes(json, path, config, error) && read_head(json, path, head_dim, config, error);
}

static bool read_llama(const cJSON *json, const char *path, SimModelConfig *config, GError **error)
{
    bool has_attention_bias = false;
    SimArchitecture architecture = config->architecture;
    bool is_qwen2 = architecture == SIM_ARCHITECTURE_QWEN2;
    bool has_qk_norm =
        architecture == SIM_ARCHITECTURE_QWEN3 || architecture == SIM_ARCHITECTURE_QWEN3_MOE;
    if (!sim_hf_config_read_decoder(json, path, has_qk_norm ? 128 : 0, config, error) ||
        !sim_hf_config_read_flag(json, path, "tie_word_embeddings", false, &config->is_head_tied,
                                 error) ||
        !sim_hf_config_read_flag(json, path, "attention_bias", false, &has_attention_bias, error) ||
        !sim_hf_config_read_flag(json, path, "mlp_bias", false, &config->has_mlp_bias, error))
        return false;
    config->has_qkv_bias = is_qwen2 || has_attention_bias;
    config->has_output_bias = has_attention_bias && !is_qwen2;
    config->has_qk_norm = has_qk_norm;
    if (!sim_hf_config_read_window(json, path, config, error))
        return false;
    bool is_mixture =
        architecture == SIM_ARCHITECTURE_MIXTRAL || architecture == SIM_ARCHITECTURE_QWEN3_MOE;
    return !is_mixture || sim_hf_config_read_experts(json, path, config, error);
}

static bool read_gpt2(const cJSON *json, const char *path, SimModelConfig *config, GError **error)
{
    if (!sim_hf_config_read_count(json, path, "n_embd", MAX_WIDTH, -1, &config->hidden, error) ||
        !sim_hf_config_read_count(json, path, "n_layer", MAX_LAYERS, -1, &config->layers, error) ||
        !sim_hf_config_read_count(json, path, "n_head", MAX_HEADS, -1, &config->heads, error) ||
        !sim_hf_config_read_count(json, path, "n_positions", MAX_POSITIONS, 1024,
                                  &config->max_positions, error) ||
        !sim_hf_config_read_count(json, path, "vocab_size", MAX_WIDTH, -1, &config->vocabulary,
                                  error) ||
        !sim_hf_config_read_count(json, path, "n_inner", 4 * MAX_WIDTH, 4 * (int64_t)config->hidden,
                                  &config->intermediate, error) ||
        !sim_hf_config_read_fraction(json, path, "layer_norm_epsilon", 1e-5, &config->norm_eps,
                                     error) ||
        !sim_hf_config_read_fraction(json, path, "attn_pdrop", 0.1, &config->attention_dropout,
                                     error) ||
        !sim_hf_config_read_fraction(json, path, "embd_pdrop", 0.1, &config->embedding_dropout,
                                     error) ||
        !sim_hf_config_read_fraction(json, path, "resid_pdrop", 0.1, &config->residual_dropout,
                                     error) ||
        !sim_hf_config_read_flag(json, path, "tie_word_embeddings", true, &config->is_head_tied,
                                 error) ||
        !sim_hf_config_read_check_divides(path, "n_embd", config->hidden, "n_head", config->heads,
                                          error))
        return false;
    config->key_value_heads = config->heads;
    config->head_dim = config->hidden / config->heads;
    const char *activation = "gelu_new";
    if (sim_json_has(json, "activation_function") &&
        !sim_json_get_string(json, path, "activation_function", &activation, error))
        return false;
    static const char *const known[] = {"gelu_new", "gelu", NULL};
    config->is_gelu_kernel = strcmp(activation, "gelu") == 0;
    if (!config->is_gelu_kernel && strcmp(activation, "gelu_new") != 0) {
        g_autofree char *where = g_strconcat(path, ".activation_function", NULL);
        sim_error_set_unknown(error, where, "activation", activation, known);
        return false;
    }
    return true;
}

static bool check_llama_activation(const cJSON *json, const char *path, GError **error)
{
    const char *activation = "silu";
    if (sim_json_has(json, "hidden_act") &&
        !sim_json_get_string(json, path, "hidden_act", &activation, error))
        return false;
    static const char *const known[] = {"silu", NULL};
    if (strcmp(activation, "silu") == 0)
        return true;
    g_autofree char *where = g_strconcat(path, ".hidden_act", NULL);
    sim_error_set_unknown(error, where, "activation", activation, known);
    return false;
}

/* "nets/llama-3.1-8b.json" -> "llama-3.1-8b"; "mine/config.json" -> "mine". */
static char *name_of(const char *file)
{
    g_autofree char *base = g_path_get_basename(file);
    if (strcmp(base, "config.json") == 0) {
        g_autofree char *folder = g_path_get_dirname(file);
        return g_path_get_basename(folder);
    }
    if (g_str_has_suffix(base, ".json"))
        base[strlen(base) - strlen(".json")] = '\0';
    return g_steal_pointer(&base);
}

/* A folder is meant where the file is its config.json. */
static bool load_weights(const char *file, SimModelConfig *config, GError **error)
{
    g_autofree char *base = g_path_get_basename(file), *folder = g_path_get_dirname(file);
    GError *own = NULL;
    if (strcmp(base, "config.json") == 0)
        config->weights = sim_safetensors_load(folder, &own);
    if (own == NULL)
        return true;
    g_propagate_error(error, own);
    return false;
}

SimModelConfig *sim_hf_config_load(const char *file, GError **error)
{
    g_autoptr(cJSON) json = sim_json_load(file, error);
    if (json == NULL)
        return NULL;
    g_autofree char *path = g_strconcat(file, ": config", NULL);
    if (!cJSON_IsObject(json)) {
        g_set_error(error, SIM_ERROR, SIM_ERROR_SCHEMA,
                    "%s: expected an object, a Hugging Face config.json", file);
        return NULL;
    }
    g_autoptr(SimModelConfig) config = g_new0(SimModelConfig, 1);
    config->name = name_of(file);
    if (!find_architecture(json, path, &config->architecture, error))
        return NULL;
    bool is_read = false;
    switch (config->architecture) {
    case SIM_ARCHITECTURE_GPT2:
        is_read = read_gpt2(json, path, config, error);
        break;
    case SIM_ARCHITECTURE_GEMMA2:
    case SIM_ARCHITECTURE_GEMMA3:
        is_read = sim_hf_config_read_gemma(json, path, config, error);
        break;
    case SIM_ARCHITECTURE_GPT_NEOX:
        is_read = sim_hf_config_read_neox(json, path, config, error);
        break;
    case SIM_ARCHITECTURE_MPT:
        is_read = sim_hf_config_read_mpt(json, path, config, error);
        break;
    case SIM_ARCHITECTURE_PHI3:
        is_read = sim_hf_config_read_phi3(json, path, config, error) &&
                  check_llama_activation(json, path, error);
        break;
    default:
        is_read =
            read_llama(json, path, config, error) && check_llama_activation(json, path, error);
    }
    if (!is_read || !load_weights(file, config, error))
        return NULL;
    return g_steal_pointer(&config);
}
