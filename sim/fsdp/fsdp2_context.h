/* SPDX-License-Identifier: Apache-2.0
 *
 * What all units under one root share: FSDPStateContext and FSDPCommContext
 * (torch/distributed/fsdp/_fully_shard/_fsdp_state.py, _fsdp_param_group.py): streams,
 * communicators, the all-gather output parked between two units' forwards, reduce-scatter inputs
 * not yet recycled, the order of post-forwards, and the flags of the backward that runs.
 */
#pragma once

#include "fsdp/fsdp2_state.h"
#include "fsdp/torch_version.h"
#include "fsdp/unit_list.h"
#include "job/job.h"
#include "plan/plan.h"

#include <glib.h>
#include <stdbool.h>
#include <stdint.h>

/* A reduce-scatter whose input is kept until the compute stream has waited for it. */
typedef struct SimFsdp2Reduction {
    uint32_t input; /* I */
    uint32_t event; /* E_rs */
} SimFsdp2Reduction;

/* Names of kernels and operators, interned once. */
typedef struct SimFsdp2Words {
    SimStringId cast, copy_in, copy_out, chunk_cat, accumulate, clone, divide, zeros, sgd,
        add_partial, cat, chunk, offload;
    SimStringId all_gather, reduce_scatter, all_reduce;
    SimStringId launch_tables;
    SimStringId average, sum; /* "reduction=avg" */
} SimFsdp2Words;

typedef struct SimFsdp2Context {
    SimPlan *plan; /* borrowed, like all here but what is said to be owned */
    const SimJob *job;
    const SimTorchVersion *version;
    const SimModel *model;
    const SimUnitList *units;
    SimFsdp2State *states; /* owned; one a unit */
    SimFsdp2Words words;

    uint32_t compute, copy_in, all_gather, reduce_scatter, all_reduce; /* streams */
    /* communicators, or NONE; reduce_group: of the reduce-scatter, mostly shard_group itself */
    uint32_t shard_group, reduce_group, replicate_group, post_forward_group;
    uint32_t shard_size, replicas, post_forward_size;
    bool is_replicated; /* the mesh has a dimension of replicas, even if of one */

    uint32_t forward_root;       /* unit whose forward is the outermost running one, or NONE */
    uint32_t parked_output;      /* A that the next unit's wait frees */
    uint32_t parked_event;       /* its E_co */
    GArray *reductions;          /* of SimFsdp2Reduction, oldest first */
    uint32_t max_reductions;     /* kept beyond the post-backward that made them: 1 */
    GArray *post_forward_order;  /* of uint32_t: units */
    uint32_t last_post_event[2]; /* of the reduce_scatter and of the all_reduce stream */
    uint32_t post_optim_event;   /* set_post_optim_event; the next root pre-forward uses it up */
    uint32_t multiprocessors;    /* of the GPU; 0: what depends on it is left out */
    int32_t launches;            /* serial of launch tables */
    int32_t post_optim_events;   /* how many there have been */
    bool is_last_backward;       /* set_is_last_backward */
} SimFsdp2Context;

/* Makes streams, communicators and states. Error SCHEMA, RANGE: sizes of meshes. */
SimFsdp2Context *sim_fsdp2_context_new(const SimJob *job, const SimModel *model,
                                       const SimUnitList *units, SimPlan *plan, GError **error);
void sim_fsdp2_context_free(SimFsdp2Context *context);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(SimFsdp2Context, sim_fsdp2_context_free)

/* Further rows belong to UNIT (SIM_MODEL_NONE: to no unit). */
void sim_fsdp2_context_enter(SimFsdp2Context *context, uint32_t unit);

/* Both all-gather streams wait for EVENT. */
void sim_fsdp2_context_wait_all_gather_streams(SimFsdp2Context *context, uint32_t event);

/* Drops the parked all-gather output behind its copy-out, if there is one. */
void sim_fsdp2_context_drop_parked(SimFsdp2Context *context);
