/* SPDX-License-Identifier: Apache-2.0
 *
 * What all FSDP1 units under one root share: the root's _FSDPState, _ExecOrderData and
 * _FreeEventQueue (torch/distributed/fsdp/_common_utils.py, _runtime_utils.py _init_streams,
 * _exec_order_utils.py, _limiter_utils.py).
 */
#pragma once

#include "fsdp/fsdp1_state.h"
#include "fsdp/unit_list.h"
#include "job/job.h"
#include "plan/plan.h"

#include <glib.h>
#include <stdbool.h>
#include <stdint.h>

/* Names of kernels and operators, interned once. */
typedef struct SimFsdp1Words {
    SimStringId cast, cat, zeros, accumulate, divide, pad;
    SimStringId all_gather, reduce_scatter, all_reduce, sum;
} SimFsdp1Words;

typedef struct SimFsdp1Slices SimFsdp1Slices; /* fsdp1_slices.h */

typedef struct SimFsdp1Context {
    SimPlan *plan; /* borrowed, like all here but what is said to be owned */
    const SimJob *job;
    const SimModel *model;
    const SimUnitList *units;
    SimFsdp1State *states; /* owned; one a unit */
    SimFsdp1Words words;
    SimFsdp1Slices *slices;   /* what the optimizer sees */
    uint32_t multiprocessors; /* of the GPU */

    uint32_t compute, pre_unshard, unshard, post_backward, all_reduce; /* streams */
    uint32_t shard_group, replicate_group;                             /* or NONE */
    uint32_t shard_size;
    bool is_sharded;          /* not NO_SHARD */
    bool is_hybrid;           /* all-reduce between replicas, on a stream of its own */
    bool frees_after_forward; /* FULL_SHARD, HYBRID_SHARD */
    SimDtype compute_dtype;   /* in which parameters are gathered and used */
    SimDtype reduce_dtype;    /* in which gradients are reduced */
    double before, after;     /* what gradients are divided by, before and after the reduction */

    GArray *free_events;        /* of uint32_t, events: the rate limiter's, oldest first */
    GArray *pre_forward_order;  /* of uint32_t: units, of the first iteration */
    GArray *post_forward_order; /* of uint32_t: units, of this one */
    uint32_t iteration;         /* backwards so far */
    uint64_t sequence;          /* counts up as autograd nodes are made */
    bool is_initialized;        /* lazily, by the first forward */
    bool flows_gradient;        /* in this forward a trained parameter has been used */
    bool synchronizes;          /* not inside no_sync() */
    bool is_callback_queued;    /* the final callback of this backward */
    uint32_t frozen_unit;       /* whose reshard waits for the next pre-backward, or MODEL_NONE */
} SimFsdp1Context;

/* Makes streams, communicators and states. Errors RANGE: the shard size does not divide the ranks;
 * SCHEMA: use_orig_params=False with trained and frozen parameters in one unit. */
SimFsdp1Context *sim_fsdp1_context_new(const SimJob *job, const SimModel *model,
                                       const SimUnitList *units, SimPlan *plan, GError **error);
void sim_fsdp1_context_free(SimFsdp1Context *context);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(SimFsdp1Context, sim_fsdp1_context_free)

/* Further rows belong to UNIT (SIM_MODEL_NONE: to no unit). */
void sim_fsdp1_context_enter(SimFsdp1Context *context, uint32_t unit);

/* True if parameters are computed with in another type than stored. */
bool sim_fsdp1_context_is_mixed(const SimFsdp1Context *context);

/* Launches kernel WORD on STREAM, from FROM to TO: both are moved once, and TO is also read where
 * the kernel works in place (FROM == TO). */
void sim_fsdp1_context_launch(SimFsdp1Context *context, uint32_t stream, SimStringId word,
                              uint32_t from, uint32_t to);
