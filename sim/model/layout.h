/* SPDX-License-Identifier: Apache-2.0
 *
 * How a tensor lies in its storage: shape, strides in elements, element type. Strides decide what
 * an activation costs where a formula would not see it: a reshape copies or does not
 * (aten/src/ATen/ TensorUtils.cpp, computeStride), a pointwise result takes its operands' order of
 * dimensions (aten/src/ATen/TensorIterator.cpp, reorder_dimensions).
 *
 * Values, no ownership, no errors: shapes that do not fit are bugs of a program (g_assert).
 */
#pragma once

#include "model/model.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct SimLayout {
    SimShape shape;
    uint64_t strides[SIM_SHAPE_MAX_DIMS]; /* 0 = an expanded dimension */
    SimDtype dtype;
} SimLayout;

SimLayout sim_layout_contiguous(const SimShape *shape, SimDtype dtype);

uint64_t sim_layout_elements(const SimLayout *layout);
uint64_t sim_layout_bytes(const SimLayout *layout); /* elements x size: the view, not the storage */

bool sim_layout_is_contiguous(const SimLayout *layout);

/* Every element has a place of its own and no place is left over (is_non_overlapping_and_dense). */
bool sim_layout_is_dense(const SimLayout *layout);

/* The view of IN with SHAPE (same number of elements) in *OUT; false if only a copy can have it. */
bool sim_layout_reshape(const SimLayout *in, const SimShape *shape, SimLayout *out);

SimLayout sim_layout_transpose(const SimLayout *in, uint32_t dim0, uint32_t dim1);

/* New dimensions in front of IN and broadcast ones get stride 0. */
SimLayout sim_layout_expand(const SimLayout *in, const SimShape *shape);

/* The shape that all N inputs broadcast to. */
SimShape sim_layout_broadcast(const SimLayout *const *inputs, uint32_t n);

/* What a pointwise operator allocates for the result of N inputs: broadcast shape, dense,
 * dimensions in the order of the inputs' strides, the first input first. */
SimLayout sim_layout_pointwise(const SimLayout *const *inputs, uint32_t n, SimDtype dtype);
