/* SPDX-License-Identifier: Apache-2.0
 *
 * What FSDP2 knows of one unit while a script runs: FSDPState and its FSDPParamGroup
 * (torch/distributed/fsdp/_fully_shard/_fsdp_state.py, _fsdp_param_group.py), with the plan's
 * buffers in place of tensors. SIM_PLAN_NONE stands for "there is none".
 *
 * Buffers and events are called as in recordings of PyTorch: a letter or word, the unit, and how
 * many of that kind the unit has had before: "A:layers.3#7", "rs:layers.3#2".
 */
#pragma once

#include "fsdp/unit_list.h"
#include "plan/plan.h"

#include <glib.h>
#include <stdbool.h>
#include <stdint.h>

/* Kinds of names; sim_fsdp2_state_name counts each for itself. */
typedef enum SimFsdp2Kind {
    SIM_FSDP2_P,    /* sharded parameter */
    SIM_FSDP2_T,    /* cast of the shards */
    SIM_FSDP2_H,    /* shard copied from the host */
    SIM_FSDP2_A,    /* all-gather output */
    SIM_FSDP2_U,    /* unsharded parameter */
    SIM_FSDP2_F,    /* shard kept by an integer reshard_after_forward */
    SIM_FSDP2_G,    /* widened unsharded gradient */
    SIM_FSDP2_I,    /* reduce-scatter input */
    SIM_FSDP2_O,    /* reduce-scatter output */
    SIM_FSDP2_Q,    /* sharded gradient, where it is not O itself */
    SIM_FSDP2_AG,   /* events: all-gather done */
    SIM_FSDP2_CO,   /* copy-out done */
    SIM_FSDP2_RS,   /* reduce-scatter done */
    SIM_FSDP2_AR,   /* all-reduce done */
    SIM_FSDP2_POST, /* gradient written */
    SIM_FSDP2_RAF,  /* resharded to the smaller mesh */
    SIM_FSDP2_OFF,  /* gradient copied to the host */
    SIM_FSDP2_KINDS
} SimFsdp2Kind;

typedef enum SimShardedState {
    SIM_SHARDED,
    SIM_UNSHARDED,
    SIM_SHARDED_POST_FORWARD,
} SimShardedState;

typedef enum SimTrainingState {
    SIM_TRAINING_IDLE,
    SIM_TRAINING_FORWARD,
    SIM_TRAINING_PRE_BACKWARD,
    SIM_TRAINING_POST_BACKWARD,
} SimTrainingState;

/* What is alive for one parameter of the unit. */
typedef struct SimFsdp2Parameter {
    uint32_t sharded;                 /* P */
    uint32_t unsharded;               /* U */
    uint32_t post_forward_shard;      /* F */
    uint32_t gradient;                /* whole, not reduced yet: autograd's, or widened (G) */
    uint32_t sharded_gradient;        /* the buffer `.grad` is a view of (O or Q) */
    uint64_t sharded_gradient_offset; /* bytes, in it */
    uint32_t offload_event;           /* its copy to the host, not waited for yet */
} SimFsdp2Parameter;

typedef struct SimFsdp2State {
    const SimUnit *unit;
    uint32_t index;
    SimFsdp2Parameter *parameters;      /* as unit->parameters */
    SimStrings *strings;                /* the plan's, borrowed */
    SimStringId stems[SIM_FSDP2_KINDS]; /* made with a kind's first name */
    int32_t serials[SIM_FSDP2_KINDS];
    SimShardedState sharded_state;
    SimTrainingState training_state;
    SimReshard reshard_after_forward; /* settled: FALSE, TRUE or TO */

    bool is_all_gather_pending; /* issued and not waited for */
    bool is_all_gather_async;   /* the last one was issued with async_op=True */
    uint32_t all_gather_output; /* A of it; NONE where one rank has all */
    uint32_t all_gather_event;
    uint32_t post_forward_event;  /* E_raf */
    uint32_t post_event;          /* E_post of a reduction whose backward was not the last */
    uint32_t all_reduce_event;    /* E_ar */
    uint32_t all_reduce_input;    /* O that an all-reduce may still work on */
    uint32_t partial_output;      /* O of backwards that reduced only within the shard group */
    GArray *post_forward_indices; /* of uint32_t: places in the post-forward order, a stack */
    uint32_t pending_modules;     /* members of the unit still to come in this forward, by bit */
    bool is_completed_by_root;    /* some never came: the root's post-forward was theirs too */
    bool defers_upcast;           /* between pre- and post-backward: grad_dtype is not set */
    bool reduces_gradients;       /* set_requires_gradient_sync */
    bool all_reduces_gradients;   /* set_requires_all_reduce */
    bool reshards_after_backward; /* set_reshard_after_backward */
} SimFsdp2State;

void sim_fsdp2_state_init(SimFsdp2State *state, const SimUnitList *units, uint32_t index,
                          SimPlan *plan);
void sim_fsdp2_state_done(SimFsdp2State *state);

/* The next name of KIND. TAIL may be 0. */
SimName sim_fsdp2_state_name(SimFsdp2State *state, SimFsdp2Kind kind, SimStringId tail);

/* The same, of the serial that sim_fsdp2_state_name gave out last: one serial for all parameters.
 */
SimName sim_fsdp2_state_same_name(const SimFsdp2State *state, SimFsdp2Kind kind, SimStringId tail);
