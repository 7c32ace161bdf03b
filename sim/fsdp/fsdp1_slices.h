/* SPDX-License-Identifier: Apache-2.0
 *
 * What the optimizer sees of FSDP1's flat parameters (torch/distributed/fsdp/_flat_param.py,
 * _use_sharded_views): with use_orig_params=True each rank's pieces of the original parameters,
 * one-dimensional, nothing where a rank owns none; with False one parameter a unit, padding
 * included. Ranks with the same pieces in the same order form a class; its rows are one.
 */
#pragma once

#include "fsdp/fsdp1_context.h"
#include "fsdp/optimizer.h"
#include "plan/plan.h"

#include <glib.h>
#include <stdint.h>

typedef struct SimFsdp1Slice {
    uint32_t unit;
    uint32_t parameter; /* of the model, on the first rank of the class; NONE: the flat parameter */
    SimFlatSlice part;
    SimStringId tail; /* names of states */
} SimFsdp1Slice;

typedef struct SimFsdp1Class {
    uint32_t rank_set; /* in the plan; 0 = all ranks */
    GArray *slices;    /* of SimFsdp1Slice, in the order of the model's parameters */
    SimOptimizer *optimizer;
} SimFsdp1Class;

struct SimFsdp1Slices {
    SimFsdp1Context *context; /* borrowed */
    GArray *classes;          /* of SimFsdp1Class, in the order of their first ranks */
};

SimFsdp1Slices *sim_fsdp1_slices_new(SimFsdp1Context *context);
void sim_fsdp1_slices_free(SimFsdp1Slices *slices);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(SimFsdp1Slices, sim_fsdp1_slices_free)

/* The pieces of CLASS that have a gradient: of SimOptimizerTensor. Owned by the caller. */
GArray *sim_fsdp1_slices_collect(const SimFsdp1Slices *slices, const SimFsdp1Class *class);

/* _use_unsharded_grad_views: the parameters' `.grad` become parts of STATE's whole gradient. What
 * does not fit a parameter's type and size is put in the place of an empty tensor that does: each
 * rank's pieces are allocated once and given back, on the unshard stream. */
void sim_fsdp1_slices_expose(SimFsdp1Slices *slices, SimFsdp1State *state);

/* optimizer.step() */
void sim_fsdp1_slices_step(SimFsdp1Slices *slices);
