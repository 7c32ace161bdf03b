/* SPDX-License-Identifier: Apache-2.0
 *
 * Wrapping: which parameters each `fully_shard` call takes, in the order in which it flattens them
 * (torch/distributed/fsdp/_fully_shard/_fsdp_init.py, _get_managed_modules and
 * _get_managed_states).
 *
 * A unit owns the parameters of its modules and of everything below them that no earlier call took:
 * children in registration order, a module's own parameters after its children's. Calls are
 * bottom-up. A tied parameter belongs to the unit that owns the one it is tied to. A unit may own
 * nothing (a root whose parts are all wrapped): its hooks run, nothing is gathered for it.
 *
 * All indices are into the arrays here; a unit's index is its place in call order.
 */
#pragma once

#include "fsdp/shard.h"
#include "job/job.h"
#include "plan/plan.h"

#include <glib.h>
#include <stdbool.h>
#include <stdint.h>

typedef struct SimUnitParameter {
    uint32_t parameter; /* in the model */
    uint32_t shard_dim; /* the dimension that is cut */
    SimShard shard;
    SimDtype gather_dtype; /* in which it is gathered and computed with */
    bool is_frozen;
    SimStringId tail;        /* name below the unit: "attention.wq.weight" */
    SimStringId shape;       /* whole */
    SimStringId shard_shape; /* of what a rank stores */
} SimUnitParameter;

typedef struct SimUnit {
    const SimJobUnit *call;
    SimStringId name;
    GArray *parameters;    /* of SimUnitParameter; empty: nothing is gathered */
    SimDtype gather_dtype; /* of the all-gather: U8 where parameters differ */
    SimDtype reduce_dtype; /* of the reduce-scatter */
    uint64_t shard_bytes;  /* what a rank puts into the all-gather */
    bool needs_cast;       /* a parameter is gathered in another type than stored */
    uint32_t enclosing;    /* the unit around it, or SIM_MODEL_NONE */
} SimUnit;

typedef struct SimUnitList {
    GArray *units;            /* of SimUnit, in call order */
    uint32_t root;            /* the unit of module 0 */
    uint32_t *traversal;      /* all units in the order of root.modules() */
    uint32_t *unit_of_module; /* whose hooks run around that module, or SIM_MODEL_NONE */
    uint32_t *owner;          /* of a parameter: unit, or SIM_MODEL_NONE (ignored) */
    uint32_t *place;          /* of a parameter: index in its unit */
} SimUnitList;

/* Names are interned in PLAN. Errors SCHEMA: no unit holds the root, a module in two calls, a
 * scalar parameter, a parameter shared by two units (PyTorch refuses all of them). */
SimUnitList *sim_unit_list_new(const SimJob *job, const SimModel *model, SimPlan *plan,
                               GError **error);
void sim_unit_list_free(SimUnitList *units);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(SimUnitList, sim_unit_list_free)

/* The whole, padded parameter in the type in which it is gathered. */
uint64_t sim_unit_list_gathered_bytes(const SimUnitParameter *parameter);

SimUnit *sim_unit_list_get(const SimUnitList *units, uint32_t unit);
uint32_t sim_unit_list_count(const SimUnitList *units);
