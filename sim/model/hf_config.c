/* SPDX-License-Identifier: Apache-2.0 */
#include "model/hf_config.h"

#include <math.h>
#include <string.h>

#include "base/error.h"
#include "base/json.h"

/* Bounds that no model comes near and that keep products below 2^63. */
#define MAX_WIDTH (INT64_C(1) << 24)
#define MAX_LAYERS 10000
#define MAX_HEADS 65536
#define MAX_POSITIONS (INT64_C(1) << 32)

typedef struct Architecture {
    const char *name, *model_type;
} Architecture;

static const Architecture architectures[SIM_ARCHITECTURE_COUNT] = {
    [SIM_ARCHITECTURE_LLAMA] = {"LlamaForCausalLM", "llama"},
    [SIM_ARCHITECTURE_MISTRAL] = {"MistralForCausalLM", "mistral"},
    [SIM_ARCHITECTURE_QWEN2] = {"Qwen2ForCausalLM", "qwen2"},
    [SIM_ARCHITECTURE_QWEN3] = {"Qwen3ForCausalLM", "qwen3"},
    [SIM_ARCHITECTURE_GPT2] = {"GPT2LMHeadModel", "gpt2"},
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
    g_free(config);
}

/* The member, or DEFAULT where it is absent or null. */
static bool get_count(const cJSON *json, const char *path, const char *key, int64_t max,
                      int64_t default_, uint64_t *out, GError **error)
{
    int64_t value = default_;
    bool is_optional = default_ >= 0 && !sim_json_has(json, key);
    if (!is_optional && !sim_json_get_int64(json, path, key, 1, max, &value, error))
        return false;
    *out = (uint64_t)value;
    return true;
}

static bool get_flag(const cJSON *json, const char *path, const char *key, bool default_, bool *out,
                     GError **error)
{
    *out = default_;
    return !sim_json_has(json, key) || sim_json_get_bool(json, path, key, out, error);
}

static bool get_fraction(const cJSON *json, const char *path, const char *key, double default_,
                         double *out, GError **error)
{
    *out = default_;
    return !sim_json_has(json, key) || sim_json_get_double(json, path, key, 0, 1, out, error);
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

static bool check_divides(const char *path, const char *what, uint64_t whole, const char *by,
                          uint64_t part, GError **error)
{
    if (whole % part == 0)
        return true;
    g_set_error(error, SIM_ERROR, SIM_ERROR_RANGE,
                "%s.%s: expected a multiple of %s (%" G_GUINT64_FORMAT
                "), found %" G_GUINT64_FORMAT,
                path, what, by, part, whole);
    return false;
}

static bool read_llama(const cJSON *json, const char *path, SimModelConfig *config, GError **error)
{
    bool has_attention_bias = false;
    bool is_qwen3 = config->architecture == SIM_ARCHITECTURE_QWEN3;
    if (!get_count(json, path, "hidden_size", MAX_WIDTH, -1, &config->hidden, error) ||
        !get_count(json, path, "num_hidden_layers", MAX_LAYERS, -1, &config->layers, error) ||
        !get_count(json, path, "num_attention_heads", MAX_HEADS, -1, &config->heads, error) ||
        !get_count(json, path, "num_key_value_heads", MAX_HEADS, (int64_t)config->heads,
                   &config->key_value_heads, error) ||
        !get_count(json, path, "intermediate_size", MAX_WIDTH, -1, &config->intermediate, error) ||
        !get_count(json, path, "vocab_size", MAX_WIDTH, -1, &config->vocabulary, error) ||
        !get_count(json, path, "max_position_embeddings", MAX_POSITIONS, 2048,
                   &config->max_positions, error) ||
        !get_fraction(json, path, "rms_norm_eps", 1e-6, &config->norm_eps, error) ||
        !get_fraction(json, path, "attention_dropout", 0, &config->attention_dropout, error) ||
        !get_flag(json, path, "tie_word_embeddings", false, &config->is_head_tied, error) ||
        !get_flag(json, path, "attention_bias", false, &has_attention_bias, error) ||
        !get_flag(json, path, "mlp_bias", false, &config->has_mlp_bias, error))
        return false;
    if (!sim_json_has(json, "head_dim") && !is_qwen3 &&
        !check_divides(path, "hidden_size", config->hidden, "num_attention_heads", config->heads,
                       error))
        return false;
    int64_t head_dim = is_qwen3 ? 128 : (int64_t)(config->hidden / config->heads);
    if (!get_count(json, path, "head_dim", MAX_WIDTH, head_dim, &config->head_dim, error) ||
        !check_divides(path, "num_attention_heads", config->heads, "num_key_value_heads",
                       config->key_value_heads, error))
        return false;
    if (!check_divides(path, "head_dim", config->head_dim, "two halves", 2, error))
        return false;
    config->has_qkv_bias = config->architecture == SIM_ARCHITECTURE_QWEN2 || has_attention_bias;
    config->has_output_bias = has_attention_bias && config->architecture != SIM_ARCHITECTURE_QWEN2;
    config->has_qk_norm = is_qwen3;
    bool uses_window = config->architecture == SIM_ARCHITECTURE_MISTRAL;
    return !uses_window || !sim_json_has(json, "sliding_window") ||
           get_count(json, path, "sliding_window", MAX_POSITIONS, -1, &config->sliding_window,
                     error);
}

static bool read_gpt2(const cJSON *json, const char *path, SimModelConfig *config, GError **error)
{
    if (!get_count(json, path, "n_embd", MAX_WIDTH, -1, &config->hidden, error) ||
        !get_count(json, path, "n_layer", MAX_LAYERS, -1, &config->layers, error) ||
        !get_count(json, path, "n_head", MAX_HEADS, -1, &config->heads, error) ||
        !get_count(json, path, "n_positions", MAX_POSITIONS, 1024, &config->max_positions, error) ||
        !get_count(json, path, "vocab_size", MAX_WIDTH, -1, &config->vocabulary, error) ||
        !get_count(json, path, "n_inner", 4 * MAX_WIDTH, 4 * (int64_t)config->hidden,
                   &config->intermediate, error) ||
        !get_fraction(json, path, "layer_norm_epsilon", 1e-5, &config->norm_eps, error) ||
        !get_fraction(json, path, "attn_pdrop", 0.1, &config->attention_dropout, error) ||
        !get_fraction(json, path, "embd_pdrop", 0.1, &config->embedding_dropout, error) ||
        !get_fraction(json, path, "resid_pdrop", 0.1, &config->residual_dropout, error) ||
        !get_flag(json, path, "tie_word_embeddings", true, &config->is_head_tied, error) ||
        !check_divides(path, "n_embd", config->hidden, "n_head", config->heads, error))
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
    bool is_read =
        config->architecture == SIM_ARCHITECTURE_GPT2
            ? read_gpt2(json, path, config, error)
            : read_llama(json, path, config, error) && check_llama_activation(json, path, error);
    return is_read ? g_steal_pointer(&config) : NULL;
}
