/* SPDX-License-Identifier: Apache-2.0
 *
 * Whether PyTorch's caching allocator really hands a freed block out again: the plan's allocs and
 * frees are played through it, on a device without end, with the events of record_stream complete
 * at once.
 */
#pragma once

#include "check/rank_view.h"

#include <glib.h>
#include <stdint.h>

typedef struct SimReuseQuestion {
    uint32_t buffer; /* freed */
    uint32_t free_row;
    uint32_t owner;     /* answer: the first buffer that gets some of its bytes; SIM_PLAN_NONE */
    uint32_t owner_row; /* answer: its alloc */
} SimReuseQuestion;

/* Answers all QUESTIONS in one pass: O(rows * (log blocks + open questions)). */
void sim_allocator_reuse_answer(const SimRankView *view, SimReuseQuestion *questions, size_t n);
