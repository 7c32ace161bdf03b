/* SPDX-License-Identifier: Apache-2.0
 *
 * Rotary position embedding as transformers writes it: tables of cosine and sine made in every
 * forward, rotate_half in Python operators. Private to hf_*.c.
 */
#pragma once

#include "model/forward.h"
#include "model/hf_config.h"

/* Adds the buffers inv_freq and original_inv_freq, PREFIX in front of their names (NULL = none).
 * Returns the first one's slot. */
SimSlot sim_hf_rotary_add_buffers(SimModel *model, const SimModelConfig *config,
                                  const char *prefix);

/* forward(x, position_ids) -> cos, sin: [1, S, rotary_dim], computed in f32. */
SimProgram *sim_hf_rotary_new(SimSlot inverse_frequencies);

/* query, key = apply_rotary_pos_emb(query, key, cos, sin): [B, heads, S, head_dim]. */
void sim_hf_rotary_apply(SimProgram *program, SimSlot cos, SimSlot sin, uint64_t head_dim,
                         SimSlot *query, SimSlot *key);

/* The same where only the first ROTARY_DIM elements turn and are joined with the others again (also
 * where there are no others: Phi-3), each as soon as it has turned, or (GPT-NeoX) both at the end.
 */
void sim_hf_rotary_apply_partly(SimProgram *program, SimSlot cos, SimSlot sin, uint64_t head_dim,
                                uint64_t rotary_dim, bool is_joined_last, SimSlot *query,
                                SimSlot *key);
