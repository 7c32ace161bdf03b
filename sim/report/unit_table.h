/* SPDX-License-Identifier: Apache-2.0
 *
 * What one step of a plan does with each unit's weights on one rank: bytes gathered, freed and
 * reduced, read off the rows of the step.
 */
#pragma once

#include "plan/plan.h"

#include <glib.h>
#include <stdint.h>

typedef struct SimUnitLine {
    SimStringId unit;
    uint64_t shard_bytes;          /* its part of the parameters, always there */
    uint64_t full_bytes;           /* its full weights while they are there */
    uint64_t forward_gather_bytes; /* whole buffers, as in the plan */
    uint64_t forward_free_bytes;   /* full weights freed before backward */
    uint64_t backward_gather_bytes;
    uint64_t reduce_bytes; /* input of its reduce-scatters */
    uint64_t all_reduce_bytes;
    uint64_t backward_free_bytes; /* full weights freed in backward or later */
    uint64_t activation_bytes;    /* allocated by its forward and not freed in it */
} SimUnitLine;

/* Units in order of first appearance; a unit without parameters is left out. Of step STEP (-1: of
 * rows without one). Owned by the caller. O(rows). */
GArray *sim_unit_table_compute(const SimPlan *plan, uint32_t rank, int32_t step);
