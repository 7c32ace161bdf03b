/* SPDX-License-Identifier: Apache-2.0
 *
 * Picture: how FSDP goes through a step, drawn from the plan with its own bytes (after the figure
 * fsdp_workflow of "Introducing PyTorch Fully Sharded Data Parallel (FSDP) API", pytorch.org,
 * 2022): on each rank, for each unit, gather the weights, forward, free them; then backwards
 * gather, backward, reduce-scatter, free; and below it the bytes of weights that the rank really
 * holds: the shard, all the time, and full weights only while their unit computes.
 */
#pragma once

#include "plan/plan.h"

/* Of the last step. The SVG, owned by the caller. */
char *sim_figure_workflow_draw(const SimPlan *plan);
