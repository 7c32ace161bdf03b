/* SPDX-License-Identifier: Apache-2.0
 *
 * The shape of a tensor, whole (unsharded). A value.
 */
#pragma once

#include <stdint.h>

#define SIM_SHAPE_MAX_DIMS 5

typedef struct SimShape {
    uint64_t dims[SIM_SHAPE_MAX_DIMS];
    uint32_t n_dims; /* 0 = a scalar */
} SimShape;

uint64_t sim_shape_elements(const SimShape *shape);
/* "4096x1024"; "" for a scalar. Owned by the caller. */
char *sim_shape_print(const SimShape *shape);
