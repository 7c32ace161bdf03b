/* SPDX-License-Identifier: Apache-2.0
 *
 * Attention masks as transformers makes them (masking_utils.py of 5.24): from index vectors, by
 * broadcasting. Private to hf_*.c.
 */
#pragma once

#include "model/forward.h"

/* [B, 1, S, S]: causal and, with WINDOW > 0, sliding; bool, or for eager attention 0 and the lowest
 * number of the compute dtype. An unnamed value. */
SimSlot sim_hf_mask_write(SimProgram *program, bool is_eager, uint64_t window);

/* Whether a layer whose attention slides over WINDOW (0 = does not) has a mask: without one SDPA is
 * told that it is causal (_ignore_causal_mask_sdpa). */
bool sim_hf_mask_exists(bool is_eager, uint64_t window, uint64_t sequence);
