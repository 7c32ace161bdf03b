/* SPDX-License-Identifier: Apache-2.0
 *
 * DDP's Reducer (torch/csrc/distributed/c10d/reducer.cpp; torch/nn/parallel/distributed.py): the
 * buckets, which gradients they still wait for, and their all-reduces.
 *
 * A gradient that is complete is divided by the ranks into its place in its bucket; with
 * gradient_as_bucket_view that place is the gradient from then on. Buckets are reduced in their
 * order, each as soon as it and all before it are complete, on a stream of their own. At the end of
 * backward the compute stream waits for each and, without views, copies its parts back.
 *
 * Buckets are made twice. At construction: one for all or, to find unused parameters, by size in
 * the order of registration, the last first. Before the forward that follows the first synchronised
 * backward (static_graph: the second): by size in the order in which gradients came, the first one
 * smaller where no size was given; not where unused parameters are looked for in every step. With
 * static_graph the first backward reduces everything at its end.
 */
#pragma once

#include "fsdp/ddp_buckets.h"
#include "job/job.h"
#include "model/model.h"
#include "plan/plan.h"

#include <glib.h>
#include <stdbool.h>
#include <stdint.h>

/* A parameter's `.grad`. */
typedef struct SimDdpGradient {
    uint32_t buffer; /* its own, or its bucket; NONE: there is none */
    uint64_t offset; /* bytes, in it */
    bool is_view;    /* of its bucket */
} SimDdpGradient;

typedef struct SimDdpReducer SimDdpReducer;

/* Makes the communicator and the first buckets. All borrowed. */
SimDdpReducer *sim_ddp_reducer_new(const SimJob *job, const SimModel *model, SimPlan *plan);
void sim_ddp_reducer_free(SimDdpReducer *reducer);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(SimDdpReducer, sim_ddp_reducer_free)

/* A training forward begins. */
void sim_ddp_reducer_prepare_forward(SimDdpReducer *reducer);

/* It has used the parameters that IS_USED says, by parameter, and its backward is to be reduced. */
void sim_ddp_reducer_prepare_backward(SimDdpReducer *reducer, const bool *is_used);

/* AccumulateGrad: BUFFER is PARAMETER's whole gradient of this backward. */
void sim_ddp_reducer_add_gradient(SimDdpReducer *reducer, uint32_t parameter, uint32_t buffer);

/* The final callback of backward. */
void sim_ddp_reducer_finish_backward(SimDdpReducer *reducer);

SimDdpGradient sim_ddp_reducer_gradient(const SimDdpReducer *reducer, uint32_t parameter);
/* Where it is: whole, or its part of the bucket. */
SimTouch sim_ddp_reducer_touch(const SimDdpReducer *reducer, uint32_t parameter);

/* zero_grad(set_to_none=True) of PARAMETER. */
void sim_ddp_reducer_drop_gradient(SimDdpReducer *reducer, uint32_t parameter);

/* A parameter that got no gradient although its bucket waited for one, or SIM_MODEL_NONE: PyTorch
 * refuses the next forward ("Expected to have finished reduction in the prior iteration"). */
uint32_t sim_ddp_reducer_stuck(const SimDdpReducer *reducer);

/* The communicator. */
uint32_t sim_ddp_reducer_group(const SimDdpReducer *reducer);
