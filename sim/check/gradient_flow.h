/* SPDX-License-Identifier: Apache-2.0
 *
 * Where each microbatch's gradient has got to: over how many ranks it was summed, and by what it
 * was scaled. Both travel with the data: from the kernel that writes an unsharded gradient, through
 * copies, reductions and additions, to the optimizer. There each contribution must have
 *
 *   - gone through each reduction once, and through the same ones as its neighbours (rule 7; a
 * first microbatch added after the all-reduce has missed it: #125484);
 *   - not been lost: every microbatch of the step that made gradients of the unit is in (rule 7);
 *   - the same factor as all others: 1 over the ranks reached, or 1 where the job scales the loss
 *     (rule 9).
 *
 * Also: a reduction's input is not reduced twice (35), an all-reduce or reduce-scatter in a group
 * of one does nothing (34).
 */
#pragma once

#include "check/rank_view.h"

#include <glib.h>
#include <stdint.h>

typedef struct SimGradientFlow SimGradientFlow;

/* Both borrowed. */
SimGradientFlow *sim_gradient_flow_new(const SimRankView *view, SimFindings *findings);
void sim_gradient_flow_free(SimGradientFlow *flow);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(SimGradientFlow, sim_gradient_flow_free)

void sim_gradient_flow_run(SimGradientFlow *flow, uint32_t index, const SimByteRange *spans,
                           uint32_t n_reads, uint32_t n_writes);
void sim_gradient_flow_forget(SimGradientFlow *flow, uint32_t buffer);

/* Gradients judged at an optimizer. */
uint64_t sim_gradient_flow_judged(const SimGradientFlow *flow);
