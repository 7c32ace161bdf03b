/* SPDX-License-Identifier: Apache-2.0
 *
 * A tensor in real memory: where it is, what it is made of, how it lies there. Operators compute in
 * f32 whatever the tensors are (as the GPU's kernels do inside), so an operand is loaded into a
 * dense array of floats in logical order, and stored from one with rounding to the nearest, ties to
 * even. A complex element counts as two floats, real part first.
 */
#pragma once

#include "base/dtype.h"

#include <glib.h>
#include <stdbool.h>
#include <stdint.h>

#define SIM_OPERAND_MAX_DIMS 5

typedef struct SimOperand {
    unsigned char *data;  /* the first element */
    unsigned char *start; /* of what the plan's row names */
    uint64_t bytes;       /* of that */
    uint32_t buffer;      /* of the plan */
    SimDtype dtype;
    uint32_t n_dims;
    uint64_t dims[SIM_OPERAND_MAX_DIMS];
    uint64_t strides[SIM_OPERAND_MAX_DIMS]; /* elements; 0 = the same element again */
} SimOperand;

/* How OPERAND lies, from the text of a plan (autograd's kernels say it:
 * "1x64x256/16384x256x1@0:f32") of LENGTH characters. Errors PARSE, RANGE (reaches outside of what
 * the row names). */
bool sim_operand_parse(SimOperand *operand, const char *text, size_t length, GError **error);

/* The same from the shape "1024x256" of its alloc, or as one dimension if that is empty. */
void sim_operand_set_shape(SimOperand *operand, const char *shape, SimDtype dtype);

uint64_t sim_operand_elements(const SimOperand *operand);
/* Floats an element takes in a loaded array: 2 if complex. */
uint32_t sim_operand_width(const SimOperand *operand);
bool sim_operand_is_dense(const SimOperand *operand); /* contiguous */

/* All elements as floats, owned by the caller. Integers below 2^24 are exact. */
float *sim_operand_load(const SimOperand *operand);
/* The same broadcast to the shape of LIKE (dimensions aligned at the end). */
float *sim_operand_load_as(const SimOperand *operand, const SimOperand *like);
/* Writes VALUES over all elements. */
void sim_operand_store(const SimOperand *operand, const float *values);
/* Integer elements, owned by the caller. Any integer or boolean type. */
int64_t *sim_operand_load_integers(const SimOperand *operand);
void sim_operand_store_integers(const SimOperand *operand, const int64_t *values);

/* N dense elements of FROM at IN to floats, and back. */
void sim_operand_widen(const void *in, SimDtype from, uint64_t n, float *out);
void sim_operand_round(const float *in, uint64_t n, SimDtype to, void *out);
