/* SPDX-License-Identifier: Apache-2.0
 *
 * A job: every call a training script makes to FSDP, as data. The command line's settings
 * (settings.h) are shorthand; sim_job_build turns them into one. Builders (sim/fsdp) read a job and
 * nothing else.
 *
 * Module patterns are the model's own paths, "" the root, "*" one path component.
 */
#pragma once

#include "base/dtype.h"
#include "job/settings.h"
#include "model/model.h"

#include <glib.h>
#include <stdbool.h>
#include <stdint.h>

/* MixedPrecisionPolicy. NONE = as stored. */
typedef struct SimMixedPrecision {
    SimDtype param_dtype;
    SimDtype reduce_dtype;
} SimMixedPrecision;

/* reshard_after_forward of one fully_shard call. */
typedef enum SimReshardKind {
    SIM_RESHARD_UNSET, /* None: true, but the root keeps */
    SIM_RESHARD_FALSE,
    SIM_RESHARD_TRUE,
    SIM_RESHARD_TO, /* an integer: to a smaller mesh */
} SimReshardKind;

typedef struct SimReshard {
    SimReshardKind kind;
    uint32_t ranks; /* RESHARD_TO: of the smaller mesh */
} SimReshard;

/* One unit: one fully_shard call on one module, or on the modules of one list. */
typedef struct SimJobUnit {
    char *name;      /* module path, "root", members joined with "+" */
    GArray *modules; /* of uint32_t: module indices */
    SimReshard reshard_after_forward;
    /* FSDPModule.set_modules_to_forward_prefetch and ..._backward_prefetch: of uint32_t, units;
     * NULL = not called (backward: the unit whose forward ended just before). */
    GArray *forward_prefetch, *backward_prefetch;
    bool stays_sharded_in_backward; /* set_unshard_in_backward(False) */
    bool is_offloaded;              /* CPUOffloadPolicy: shards live in host memory */
    bool forces_sum_reduction;      /* set_force_sum_reduction_for_comms */
    double gradient_divide_factor;  /* set_gradient_divide_factor; 0 = all ranks */
} SimJobUnit;

/* Flags that a script may change from one microbatch to the next. */
typedef enum SimJobFlag {
    SIM_FLAG_GRADIENT_SYNC,          /* set_requires_gradient_sync; false: inside no_sync() */
    SIM_FLAG_ALL_REDUCE,             /* set_requires_all_reduce */
    SIM_FLAG_LAST_BACKWARD,          /* set_is_last_backward */
    SIM_FLAG_RESHARD_AFTER_BACKWARD, /* set_reshard_after_backward */
    SIM_FLAG_RESHARD_AFTER_FORWARD,  /* set_reshard_after_forward */
} SimJobFlag;

typedef enum SimJobActionKind {
    SIM_ACTION_FORWARD,
    SIM_ACTION_BACKWARD,
    SIM_ACTION_CLIP,
    SIM_ACTION_OPTIMIZER,
    SIM_ACTION_ZERO_GRAD,
    SIM_ACTION_SET,      /* FLAG of UNIT to VALUE */
    SIM_ACTION_RESHARD,  /* FSDPModule.reshard of UNIT */
    SIM_ACTION_UNSHARD,  /* FSDPModule.unshard(async_op=True) of UNIT */
    SIM_ACTION_EVALUATE, /* a forward without gradients */
} SimJobActionKind;

typedef struct SimJobAction {
    SimJobActionKind kind;
    uint32_t microbatch; /* forward, backward */
    uint32_t summed;     /* backward: of the sum of so many losses from MICROBATCH on; 0 = 1 */
    uint32_t unit;       /* set, reshard, unshard; SIM_MODEL_NONE = all units */
    SimJobFlag flag;     /* set */
    bool value;          /* set; zero_grad: set_to_none=False, gradients are kept and filled */
} SimJobAction;

/* torch.utils.checkpoint, not reentrant, around one module. */
typedef struct SimJobCheckpoint {
    uint32_t module;
    bool is_outside;   /* the wrapper is outside of the FSDP module; else fully_shard is outside */
    bool is_selective; /* torchtitan's policy per operator */
    bool stops_early;
} SimJobCheckpoint;

/* BackwardPrefetch of torch/distributed/fsdp/api.py. */
typedef enum SimBackwardPrefetch {
    SIM_BACKWARD_PREFETCH_PRE,
    SIM_BACKWARD_PREFETCH_POST,
    SIM_BACKWARD_PREFETCH_NONE,
} SimBackwardPrefetch;

/* Arguments of FullyShardedDataParallel, the same for all units. */
typedef struct SimJobFsdp1 {
    SimStrategy strategy;
    SimBackwardPrefetch backward_prefetch;
    bool has_forward_prefetch;
    bool limits_all_gathers;
    bool uses_flat_parameters; /* use_orig_params=False: the optimizer sees one parameter a unit */
    bool keeps_low_precision_grads; /* of MixedPrecision */
} SimJobFsdp1;

/* Arguments of DistributedDataParallel. */
typedef struct SimJobDdp {
    uint64_t bucket_cap_bytes; /* bucket_cap_mb; 0 = not given: 25 MiB, the first 1 MiB */
    bool gradient_as_bucket_view;
    bool find_unused_parameters;
    bool static_graph;
} SimJobDdp;

/* --steps auto takes at most so many. */
#define SIM_JOB_MOST_STEPS 10

typedef struct SimJob {
    SimApi api;
    SimJobFsdp1 fsdp1; /* of that API only, as the next */
    SimJobDdp ddp;
    uint32_t ranks;      /* of the whole job */
    uint32_t shard_size; /* ranks of one shard group; = ranks without replication */
    SimMixedPrecision precision;
    SimDtype store_dtype;
    GArray *units;        /* of SimJobUnit, in call order: bottom-up, the root last */
    GArray *actions;      /* of SimJobAction: one training step */
    GArray *checkpoints;  /* of SimJobCheckpoint; NULL = none */
    uint64_t loss_chunks; /* torchtitan's chunked loss; 0 = the whole at once */
    SimJobOptimizer optimizer;
    SimTorch torch; /* FSDP2: whose rules hold */
    uint32_t steps;
    uint64_t sequence, batch;
    bool is_built_on_meta;   /* wrapped on the meta device, then to_empty: each name of a tied
                              * parameter gets a tensor before they are tied again */
    bool has_replicate_mesh; /* a mesh (replicate, shard), even of one replica */
    uint32_t reduce_scatter_input_buffers; /* set_reduce_scatter_max_input_buffers; 0 = 1 */
    bool has_reduce_scatter_group;         /* set_separate_reduce_scatter_group */
    bool reduces_unused_parameters;        /* set_reduce_scatter_unused_params */
    bool has_post_optim_event;             /* set_post_optim_event after every optimizer step */
    bool unshards_async;                   /* _set_unshard_async_op */
    bool keeps_unsharded_storage;          /* set_keep_unsharded_storage */
    bool has_optimizer_in_backward; /* a step and zero_grad in every gradient's post-accumulate hook
                                     */
    GArray
        *shard_dims; /* of uint32_t, one a model parameter: shard_placement_fn; NULL = 0 for all */
    GArray *ignored_parameters; /* of uint32_t, model parameters: ignored_params; NULL = none */
    GArray *uncast_parameters; /* of uint32_t: param_dtype_override_fn keeps them as stored; NULL */
} SimJob;

/* A job of RANKS ranks without units and actions, everything else PyTorch's default; what
 * sim_job_free frees. Units own their name and arrays. */
SimJob *sim_job_new(uint32_t ranks);

/* Resolves SETTINGS, which are settled (settings.h), against MODEL. Errors IO (a file of --wrap),
 * SCHEMA, RANGE, each naming the option. O(modules * units).
 *
 * --wrap: `block`: embedding, each block, last norm with head, root (torchtitan); `block+root`:
 * each block, root, which holds the rest: always so where the head is tied, since a parameter
 * cannot be in two units; `root`; `size:N`: see job_wrap.h; else a file with a module path or
 * pattern on each line, one unit for each module that it names, then the root.
 *
 * FSDP1 has no unit of several modules: `block` means `block+root` there. DDP has no units.
 *
 * --strategy in FSDP2's words: shard_grad_op and hybrid_shard_zero2 keep what `default` frees,
 * no_shard is a shard group of one rank. FSDP1 on one rank never shards, as PyTorch decides.
 *
 * --forward-prefetch N, --backward-prefetch N (FSDP2): each unit names the next N (previous N) in
 * the order of the list, without the root.
 *
 * --checkpoint: around each block, inside of its unit; `every:K`: blocks K-1, 2K-1, ..., everything
 * recomputed. --steps auto: the most it may take.
 *
 * --reshard-after-forward: `default`: embedding and blocks are freed, norm with head is kept;
 * `last-block-kept`: nor the last block; `true`, `false`; `auto`: None everywhere; an integer: the
 * blocks to so many ranks, the embedding freed, the head kept. Units of a file or by size are
 * treated as blocks. The root stays at None (kept) but under `--wrap root`, where it takes true,
 * false or the integer. 1 means false, all ranks mean true (_fsdp_init.py,
 * _get_post_forward_mesh_info). */
SimJob *sim_job_build(const SimSettings *settings, const SimModel *model, GError **error);
void sim_job_free(SimJob *job);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(SimJob, sim_job_free)
