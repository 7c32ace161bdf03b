/* SPDX-License-Identifier: Apache-2.0
 *
 * Reading the members of a config.json, and the parts of it that only some architectures have.
 * Private to hf_config*.c.
 */
#pragma once

#include "base/json.h"
#include "model/hf_config.h"

/* Bounds that no model comes near and that keep products below 2^63. */
#define MAX_WIDTH (INT64_C(1) << 24)
#define MAX_LAYERS 1000
#define MAX_HEADS 65536
#define MAX_POSITIONS (INT64_C(1) << 32)

/* The member, or DEFAULT where it is absent or null; a negative DEFAULT: it must be there. */
bool sim_hf_config_read_count(const cJSON *json, const char *path, const char *key, int64_t max,
                              int64_t default_, uint64_t *out, GError **error);
bool sim_hf_config_read_flag(const cJSON *json, const char *path, const char *key, bool default_,
                             bool *out, GError **error);
bool sim_hf_config_read_fraction(const cJSON *json, const char *path, const char *key,
                                 double default_, double *out, GError **error);
bool sim_hf_config_read_check_divides(const char *path, const char *what, uint64_t whole,
                                      const char *by, uint64_t part, GError **error);

/* A decoder's sizes as Llama's family names them; HEAD_DIM where the config has none, 0 = a share
 * of the hidden size. */
bool sim_hf_config_read_decoder(const cJSON *json, const char *path, int64_t head_dim,
                                SimModelConfig *config, GError **error);

/* sliding_window, and which layers slide: layer_types, or the architecture's own pattern. */
bool sim_hf_config_read_window(const cJSON *json, const char *path, SimModelConfig *config,
                               GError **error);
bool sim_hf_config_read_experts(const cJSON *json, const char *path, SimModelConfig *config,
                                GError **error);

bool sim_hf_config_read_gemma(const cJSON *json, const char *path, SimModelConfig *config,
                              GError **error);
bool sim_hf_config_read_phi3(const cJSON *json, const char *path, SimModelConfig *config,
                             GError **error);
bool sim_hf_config_read_neox(const cJSON *json, const char *path, SimModelConfig *config,
                             GError **error);
bool sim_hf_config_read_mpt(const cJSON *json, const char *path, SimModelConfig *config,
                            GError **error);
