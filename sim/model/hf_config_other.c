/* SPDX-License-Identifier: Apache-2.0
 *
 * Configs with names of their own: GPT-NeoX and MPT.
 */
#include "base/error.h"
#include "model/hf_config_read.h"

static bool read_activation(const cJSON *json, const char *path, SimModelConfig *config,
                            GError **error)
{
    static const char *const known[] = {"gelu", "gelu_new", "gelu_fast", "gelu_pytorch_tanh", NULL};
    static const SimActivation activations[] = {SIM_ACTIVATION_GELU_KERNEL, SIM_ACTIVATION_GELU_NEW,
                                                SIM_ACTIVATION_GELU_FAST,
                                                SIM_ACTIVATION_GELU_KERNEL};
    const char *name = "gelu";
    if (sim_json_has(json, "hidden_act") &&
        !sim_json_get_string(json, path, "hidden_act", &name, error))
        return false;
    for (uint32_t i = 0; known[i] != NULL; i++)
        if (g_str_equal(name, known[i])) {
            config->activation = activations[i];
            return true;
        }
    g_autofree char *where = g_strconcat(path, ".hidden_act", NULL);
    sim_error_set_unknown(error, where, "activation", name, known);
    return false;
}

bool sim_hf_config_read_neox(const cJSON *json, const char *path, SimModelConfig *config,
                             GError **error)
{
    double part = 0.25;
    bool has_bias = true;
    if (!sim_hf_config_read_decoder(json, path, 0, config, error) ||
        !sim_hf_config_read_flag(json, path, "tie_word_embeddings", false, &config->is_head_tied,
                                 error) ||
        !sim_hf_config_read_fraction(json, path, "layer_norm_eps", 1e-5, &config->norm_eps,
                                     error) ||
        !sim_hf_config_read_fraction(json, path, "hidden_dropout", 0, &config->residual_dropout,
                                     error) ||
        !sim_hf_config_read_fraction(json, path, "rotary_pct", 0.25, &part, error) ||
        !sim_hf_config_read_flag(json, path, "attention_bias", true, &has_bias, error) ||
        !sim_hf_config_read_flag(json, path, "use_parallel_residual", true,
                                 &config->is_residual_parallel, error) ||
        !read_activation(json, path, config, error))
        return false;
    config->embedding_dropout = config->residual_dropout;
    config->has_qkv_bias = config->has_output_bias = has_bias;
    config->key_value_heads = config->heads;
    config->rotary_dim = (uint64_t)((double)config->head_dim * part);
    return sim_hf_config_read_check_divides(path, "rotary_pct x head size", config->rotary_dim,
                                            "two halves", 2, error);
}

/* transformers ignores learned_pos_emb, expansion_ratio and emb_pdrop: it has ALiBi, four times the
 * width, and attn_config's dropout everywhere. */
bool sim_hf_config_read_mpt(const cJSON *json, const char *path, SimModelConfig *config,
                            GError **error)
{
    if (!sim_hf_config_read_count(json, path, "d_model", MAX_WIDTH, -1, &config->hidden, error) ||
        !sim_hf_config_read_count(json, path, "n_layers", MAX_LAYERS, -1, &config->layers, error) ||
        !sim_hf_config_read_count(json, path, "n_heads", MAX_HEADS, -1, &config->heads, error) ||
        !sim_hf_config_read_count(json, path, "max_seq_len", MAX_POSITIONS, 2048,
                                  &config->max_positions, error) ||
        !sim_hf_config_read_count(json, path, "vocab_size", MAX_WIDTH, -1, &config->vocabulary,
                                  error) ||
        !sim_hf_config_read_fraction(json, path, "layer_norm_epsilon", 1e-5, &config->norm_eps,
                                     error) ||
        !sim_hf_config_read_flag(json, path, "tie_word_embeddings", true, &config->is_head_tied,
                                 error) ||
        !sim_hf_config_read_check_divides(path, "d_model", config->hidden, "n_heads", config->heads,
                                          error))
        return false;
    const cJSON *attention = cJSON_GetObjectItem(json, "attn_config");
    g_autofree char *where = g_strconcat(path, ".attn_config", NULL);
    if (attention != NULL && !cJSON_IsObject(attention)) {
        g_set_error(error, SIM_ERROR, SIM_ERROR_SCHEMA, "%s: expected an object", where);
        return false;
    }
    if (attention != NULL && !sim_hf_config_read_fraction(attention, where, "attn_pdrop", 0,
                                                          &config->attention_dropout, error))
        return false;
    config->residual_dropout = config->attention_dropout;
    config->intermediate = 4 * config->hidden;
    config->key_value_heads = config->heads;
    config->head_dim = config->hidden / config->heads;
    config->activation = SIM_ACTIVATION_GELU_KERNEL;
    return true;
}
