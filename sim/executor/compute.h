/* SPDX-License-Identifier: Apache-2.0
 *
 * The operators by their names in a plan, computed with BLAS on real memory. What an operator takes
 * stands with each in compute_*.c: operands in the order of the row's `reads` and `writes`, scalars
 * in `arguments`.
 */
#pragma once

#include "executor/operand.h"

#include <glib.h>
#include <stdbool.h>
#include <stdint.h>

typedef struct SimComputeCall {
    const char *operator_name;
    const char *arguments; /* "" if there are none */
    uint32_t n_in, n_out;
    const SimOperand *in;
    const SimOperand *out;
    bool is_described;       /* the row says how each operand lies */
    uint32_t place, members; /* of this rank in the row's group */
    uint32_t rank, ranks;    /* of all */
    int32_t step, microbatch;
} SimComputeCall;

/* Errors SCHEMA (number of operands), RANGE (shapes that do not fit). */
typedef bool (*SimComputeFunc)(const SimComputeCall *call, GError **error);

/* The operator NAME, or NULL. O(log operators). */
SimComputeFunc sim_compute_find(const char *name);

/* All names, NULL-terminated, for an error that names the nearest. Borrowed. */
const char *const *sim_compute_names(void);

/* A parameter inside of a flat one: the item "NAME@OFFSET:SHAPE" of `parts` in a fill. */
typedef struct SimComputePart {
    uint64_t offset, elements;
    uint64_t columns; /* of the last dimension */
    bool is_matrix;
} SimComputePart;

/* Reads ITEM, of which only the name is left; false if it is none. */
bool sim_compute_parse_part(char *item, SimComputePart *part);

/* Uniform in [0, 1): a function of the seed, the name and the element's number alone. */
double sim_compute_value(uint64_t seed, const char *name, uint64_t index);
