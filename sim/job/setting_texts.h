/* SPDX-License-Identifier: Apache-2.0
 *
 * What the texts among the settings may say: each check is one setting's. An error says what was
 * expected and found, without the place, which the caller knows.
 */
#pragma once

#include <glib.h>
#include <stdbool.h>
#include <stdint.h>

#define SIM_SETTING_MOST_RANKS INT64_C(1048576)

bool sim_setting_texts_check_dropout(const char *text, GError **error);
bool sim_setting_texts_check_loss(const char *text, GError **error);
bool sim_setting_texts_check_checkpoint(const char *text, GError **error);
bool sim_setting_texts_check_frozen(const char *text, GError **error);
bool sim_setting_texts_check_reshard(const char *text, GError **error);
bool sim_setting_texts_check_backward_prefetch(const char *text, GError **error);
bool sim_setting_texts_check_bucket(const char *text, GError **error);
bool sim_setting_texts_check_wrap(const char *text, GError **error);
bool sim_setting_texts_check_allocator(const char *text, GError **error);
/* Whether there is such a rank or link is known only with the cluster. */
bool sim_setting_texts_check_jitter(const char *text, GError **error);
bool sim_setting_texts_check_slow_rank(const char *text, GError **error);
bool sim_setting_texts_check_slow_link(const char *text, GError **error);
bool sim_setting_texts_check_hbm(const char *text, GError **error);
bool sim_setting_texts_check_ranks(const char *text, GError **error);

/* What a text that was checked says; false = nothing of the kind. LOSS: CHUNKS of `chunked:N`, else
 * 0; EVERY: K of `every:K`. */
bool sim_setting_texts_parse_dropout(const char *text, double *rate);
bool sim_setting_texts_parse_loss(const char *text, uint64_t *chunks);
bool sim_setting_texts_parse_every(const char *text, uint64_t *every);
