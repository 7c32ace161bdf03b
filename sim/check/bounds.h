/* SPDX-License-Identifier: Apache-2.0
 *
 * Counts and orders: how many buffers of a kind live at once, what is left at the end of forward,
 * backward and step, and in which order units are gathered, used and reduced (rules 10, 18, 19, 21
 * to 23, 27 to 29, 31, 36, 38, 39).
 *
 * The bounds are FSDP2's own unless the plan's `meta config` sets forward_prefetch,
 * backward_prefetch, reduce_scatter_buffers or reshard_after_backward.
 */
#pragma once

#include "check/rank_view.h"

#include <glib.h>
#include <stdbool.h>
#include <stdint.h>

typedef struct SimBoundsLimits {
    uint32_t gathers_forward; /* live all-gather outputs */
    uint32_t gathers_backward;
    uint32_t reduce_inputs; /* live reduce-scatter inputs */
    bool keeps_unsharded;   /* parameters may stay unsharded over the end of backward */
} SimBoundsLimits;

/* FSDP2's, widened by PLAN's `meta config`. A config that is no JSON object counts as none. */
void sim_bounds_read_limits(SimBoundsLimits *limits, const SimPlan *plan);

typedef struct SimBounds SimBounds;

/* VIEW and FINDINGS are borrowed. */
SimBounds *sim_bounds_new(const SimRankView *view, SimFindings *findings,
                          const SimBoundsLimits *limits);
void sim_bounds_free(SimBounds *bounds);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(SimBounds, sim_bounds_free)

/* Every row of the rank, in order, before its own effects. */
void sim_bounds_row(SimBounds *bounds, uint32_t index);
void sim_bounds_alloc(SimBounds *bounds, uint32_t index, uint32_t buffer);
void sim_bounds_free_buffer(SimBounds *bounds, uint32_t index, uint32_t buffer);
void sim_bounds_run(SimBounds *bounds, uint32_t index, const SimByteRange *spans, uint32_t n_reads,
                    uint32_t n_writes);
/* After the last row. */
void sim_bounds_finish(SimBounds *bounds);
