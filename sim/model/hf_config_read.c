/* SPDX-License-Identifier: Apache-2.0 */
#include "model/hf_config_read.h"

#include "base/error.h"

bool sim_hf_config_read_count(const cJSON *json, const char *path, const char *key, int64_t max,
                              int64_t default_, uint64_t *out, GError **error)
{
    int64_t value = default_;
    bool is_optional = default_ >= 0 && !sim_json_has(json, key);
    if (!is_optional && !sim_json_get_int64(json, path, key, 1, max, &value, error))
        return false;
    *out = (uint64_t)value;
    return true;
}

bool sim_hf_config_read_flag(const cJSON *json, const char *path, const char *key, bool default_,
                             bool *out, GError **error)
{
    *out = default_;
    return !sim_json_has(json, key) || sim_json_get_bool(json, path, key, out, error);
}

bool sim_hf_config_read_fraction(const cJSON *json, const char *path, const char *key,
                                 double default_, double *out, GError **error)
{
    *out = default_;
    return !sim_json_has(json, key) || sim_json_get_double(json, path, key, 0, 1, out, error);
}

bool sim_hf_config_read_check_divides(const char *path, const char *what, uint64_t whole,
                                      const char *by, uint64_t part, GError **error)
{
    if (whole % part == 0)
        return true;
    g_set_error(error, SIM_ERROR, SIM_ERROR_RANGE,
                "%s.%s: expected a multiple of %s (%" G_GUINT64_FORMAT
                "), found %" G_GUINT64_FORMAT,
                path, what, by, part, whole);
    return false;
}

/* Layers I with (I + 1) % EVERY == 0 see all, the others slide; EVERY 0: those from FIRST on slide.
 */
static void set_pattern(SimModelConfig *config, uint64_t first, uint64_t every)
{
    config->slides = g_new0(bool, config->layers);
    for (uint64_t i = 0; i < config->layers; i++)
        config->slides[i] = i >= first && (every == 0 || (i + 1) % every != 0);
}

static bool read_layer_types(const cJSON *json, const char *path, SimModelConfig *config,
                             GError **error)
{
    static const char *const known[] = {"sliding_attention", "full_attention", NULL};
    const cJSON *list = NULL;
    if (!sim_json_get_array(json, path, "layer_types", &list, error))
        return false;
    if ((uint64_t)cJSON_GetArraySize(list) != config->layers) {
        g_set_error(error, SIM_ERROR, SIM_ERROR_SCHEMA,
                    "%s.layer_types: expected one of each of the %" G_GUINT64_FORMAT
                    " layers, found %d",
                    path, config->layers, cJSON_GetArraySize(list));
        return false;
    }
    config->slides = g_new0(bool, config->layers);
    const cJSON *item = list->child;
    for (uint64_t i = 0; i < config->layers; i++, item = item->next) {
        const char *type = cJSON_IsString(item) ? item->valuestring : "";
        config->slides[i] = g_str_equal(type, known[0]);
        if (config->slides[i] || g_str_equal(type, known[1]))
            continue;
        g_autofree char *where = g_strdup_printf("%s.layer_types[%" G_GUINT64_FORMAT "]", path, i);
        sim_error_set_unknown(error, where, "kind of attention", type, known);
        return false;
    }
    return true;
}

/* Llama has none; Qwen only where use_sliding_window says so, from layer max_window_layers on
 * (Qwen3-MoE: everywhere). */
bool sim_hf_config_read_window(const cJSON *json, const char *path, SimModelConfig *config,
                               GError **error)
{
    SimArchitecture architecture = config->architecture;
    bool is_qwen = architecture == SIM_ARCHITECTURE_QWEN2 || architecture == SIM_ARCHITECTURE_QWEN3;
    bool is_moe = architecture == SIM_ARCHITECTURE_QWEN3_MOE;
    bool is_used = architecture != SIM_ARCHITECTURE_LLAMA;
    if ((is_qwen || is_moe) &&
        !sim_hf_config_read_flag(json, path, "use_sliding_window", false, &is_used, error))
        return false;
    if (!is_used || !sim_json_has(json, "sliding_window"))
        return true;
    uint64_t first = 0;
    if (!sim_hf_config_read_count(json, path, "sliding_window", MAX_POSITIONS, -1,
                                  &config->sliding_window, error) ||
        (is_qwen &&
         !sim_hf_config_read_count(json, path, "max_window_layers", MAX_LAYERS, 28, &first, error)))
        return false;
    if (is_qwen && sim_json_has(json, "layer_types"))
        return read_layer_types(json, path, config, error);
    if (is_qwen)
        set_pattern(config, first, 0);
    return true;
}

/* Layers named in mlp_only_layers are dense, and of the others all but each decoder_sparse_step-th.
 */
static bool read_sparse_layers(const cJSON *json, const char *path, SimModelConfig *config,
                               GError **error)
{
    uint64_t step = 1;
    const cJSON *list = NULL;
    if (!sim_hf_config_read_count(json, path, "decoder_sparse_step", MAX_LAYERS, 1, &step, error) ||
        (sim_json_has(json, "mlp_only_layers") &&
         !sim_json_get_array(json, path, "mlp_only_layers", &list, error)))
        return false;
    config->is_sparse = g_new0(bool, config->layers);
    for (uint64_t i = 0; i < config->layers; i++)
        config->is_sparse[i] = (i + 1) % step == 0;
    const cJSON *item = NULL;
    cJSON_ArrayForEach(item, list) if (cJSON_IsNumber(item) && item->valuedouble >= 0 &&
                                       item->valuedouble < (double)config->layers)
        config->is_sparse[(uint64_t)item->valuedouble] = false;
    return true;
}

bool sim_hf_config_read_experts(const cJSON *json, const char *path, SimModelConfig *config,
                                GError **error)
{
    bool is_qwen = config->architecture == SIM_ARCHITECTURE_QWEN3_MOE;
    const char *count = is_qwen ? "num_experts" : "num_local_experts";
    config->is_topk_normalized = true;
    if (!sim_hf_config_read_count(json, path, count, MAX_HEADS, is_qwen ? 128 : 8, &config->experts,
                                  error) ||
        !sim_hf_config_read_count(json, path, "num_experts_per_tok", (int64_t)config->experts,
                                  is_qwen ? 8 : 2, &config->experts_per_token, error))
        return false;
    config->expert_intermediate = config->intermediate;
    return !is_qwen || (sim_hf_config_read_count(json, path, "moe_intermediate_size", MAX_WIDTH,
                                                 768, &config->expert_intermediate, error) &&
                        sim_hf_config_read_flag(json, path, "norm_topk_prob", false,
                                                &config->is_topk_normalized, error) &&
                        read_sparse_layers(json, path, config, error));
}

/* A number above 0, or none. */
static bool read_softcap(const cJSON *json, const char *path, const char *key, double default_,
                         double *out, GError **error)
{
    *out = cJSON_GetObjectItem(json, key) == NULL ? default_ : 0;
    return !sim_json_has(json, key) || sim_json_get_double(json, path, key, 1e-9, 1e9, out, error);
}

bool sim_hf_config_read_gemma(const cJSON *json, const char *path, SimModelConfig *config,
                              GError **error)
{
    bool is_3 = config->architecture == SIM_ARCHITECTURE_GEMMA3, has_bias = false;
    uint64_t every = 2;
    if (!sim_hf_config_read_decoder(json, path, 256, config, error) ||
        !sim_hf_config_read_flag(json, path, "tie_word_embeddings", true, &config->is_head_tied,
                                 error) ||
        !sim_hf_config_read_flag(json, path, "attention_bias", false, &has_bias, error) ||
        !read_softcap(json, path, "attn_logit_softcapping", is_3 ? 0 : 50,
                      &config->attention_softcap, error) ||
        !read_softcap(json, path, "final_logit_softcapping", is_3 ? 0 : 30, &config->logit_softcap,
                      error) ||
        !sim_hf_config_read_count(json, path, "sliding_window", MAX_POSITIONS, 4096,
                                  &config->sliding_window, error) ||
        (is_3 && !sim_hf_config_read_count(json, path, "sliding_window_pattern", MAX_LAYERS, 6,
                                           &every, error)))
        return false;
    config->has_qkv_bias = config->has_output_bias = has_bias;
    config->has_qk_norm = is_3;
    config->activation = SIM_ACTIVATION_GELU_KERNEL;
    if (sim_json_has(json, "layer_types"))
        return read_layer_types(json, path, config, error);
    set_pattern(config, 0, every);
    return true;
}

bool sim_hf_config_read_phi3(const cJSON *json, const char *path, SimModelConfig *config,
                             GError **error)
{
    double part = 1;
    if (!sim_hf_config_read_decoder(json, path, 0, config, error) ||
        !sim_hf_config_read_flag(json, path, "tie_word_embeddings", false, &config->is_head_tied,
                                 error) ||
        !sim_hf_config_read_fraction(json, path, "resid_pdrop", 0, &config->residual_dropout,
                                     error) ||
        !sim_hf_config_read_fraction(json, path, "partial_rotary_factor", 1, &part, error) ||
        !sim_hf_config_read_window(json, path, config, error))
        return false;
    config->rotary_dim = (uint64_t)((double)config->head_dim * part);
    return sim_hf_config_read_check_divides(path, "partial_rotary_factor x head_dim",
                                            config->rotary_dim, "two halves", 2, error);
}
