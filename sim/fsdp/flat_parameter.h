/* SPDX-License-Identifier: Apache-2.0
 *
 * FSDP1's flat parameter: all parameters of one unit behind each other in one vector, which is cut
 * into equal shards anywhere, also inside of a parameter (torch/distributed/fsdp/_flat_param.py:
 * _init_flat_param_and_metadata, _get_shard).
 *
 * With use_orig_params=True every parameter begins at a multiple of 16 bytes, counted in the type
 * in which it is computed with, and the whole is filled up to a multiple of the ranks: padding that
 * lies inside and is gathered and reduced with the rest. With False there is none of it; the last
 * ranks' shards are filled up instead.
 *
 * All counts are elements.
 */
#pragma once

#include "fsdp/unit_list.h"
#include "model/model.h"

#include <glib.h>
#include <stdbool.h>
#include <stdint.h>

typedef struct SimFlatParameter {
    uint32_t *order;          /* places in the unit, in the order of named_parameters */
    uint64_t *offsets;        /* by place in the unit */
    uint32_t count;           /* parameters */
    uint64_t elements;        /* of the whole, padding inside included */
    uint64_t shard_elements;  /* of one rank */
    uint64_t padded_elements; /* of all ranks: what is gathered */
} SimFlatParameter;

/* The part of one parameter that a rank owns. */
typedef struct SimFlatSlice {
    uint64_t offset; /* in the rank's shard */
    uint64_t elements;
} SimFlatSlice;

/* RANKS: of the shard group. */
void sim_flat_parameter_init(SimFlatParameter *flat, const SimUnit *unit, const SimModel *model,
                             uint32_t ranks, SimDtype compute_dtype, bool is_aligned);
void sim_flat_parameter_done(SimFlatParameter *flat);

/* What the rank at PLACE in the shard group owns of the parameter at INDEX in the unit, which has
 * ELEMENTS; none: 0 elements. */
SimFlatSlice sim_flat_parameter_slice(const SimFlatParameter *flat, uint32_t index,
                                      uint64_t elements, uint32_t place);
