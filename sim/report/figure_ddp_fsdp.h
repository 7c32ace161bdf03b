/* SPDX-License-Identifier: Apache-2.0
 *
 * Picture: the same training step under DDP and under FSDP, two runs side by side (after the figure
 * FSDP-graph-2a of "Fully Sharded Data Parallel: faster AI training with fewer GPUs",
 * engineering.fb.com, 2021): an all-reduce of gradients is a reduce-scatter followed by an
 * all-gather, and FSDP moves that all-gather to where the weights are needed, twice.
 */
#pragma once

#include "predict/summary.h"

/* The SVG, owned by the caller. */
char *sim_figure_ddp_fsdp_draw(const SimSummary *ddp, const SimSummary *fsdp);
