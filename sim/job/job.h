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

typedef enum SimApi { SIM_API_FSDP2 } SimApi;

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
    char *name;       /* module path, "root", members joined with "+" */
    GArray *modules;  /* of uint32_t: module indices */
    SimReshard reshard_after_forward;
} SimJobUnit;

typedef enum SimJobActionKind {
    SIM_ACTION_FORWARD,
    SIM_ACTION_BACKWARD,
    SIM_ACTION_CLIP,
    SIM_ACTION_OPTIMIZER,
    SIM_ACTION_ZERO_GRAD,
} SimJobActionKind;

typedef struct SimJobAction {
    SimJobActionKind kind;
    uint32_t microbatch; /* forward, backward */
} SimJobAction;

typedef struct SimJob {
    SimApi api;
    uint32_t ranks;        /* of the whole job */
    uint32_t shard_size;   /* ranks of one shard group; = ranks without replication */
    SimMixedPrecision precision;
    SimDtype store_dtype;
    GArray *units;         /* of SimJobUnit, in call order: bottom-up, the root last */
    GArray *actions;       /* of SimJobAction: one training step */
    uint32_t steps;
    uint64_t sequence, batch;
} SimJob;

/* Resolves SETTINGS against MODEL. Errors SCHEMA, RANGE, UNSUPPORTED, each naming the option. */
SimJob *sim_job_build(const SimSettings *settings, const SimModel *model, GError **error);
void sim_job_free(SimJob *job);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(SimJob, sim_job_free)
