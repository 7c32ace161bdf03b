/* SPDX-License-Identifier: Apache-2.0
 *
 * What FSDP1 knows of one unit while a script runs: FlatParamHandle and its FlatParameter
 * (torch/distributed/fsdp/_flat_param.py), with the plan's buffers in place of tensors.
 * SIM_PLAN_NONE stands for "there is none".
 *
 * Buffers and events are called as in recordings of PyTorch: "U:layers.3#7", "free:layers.3#2".
 */
#pragma once

#include "fsdp/flat_parameter.h"
#include "fsdp/unit_list.h"
#include "plan/plan.h"

#include <stdbool.h>
#include <stdint.h>

/* Kinds of names; sim_fsdp1_state_name counts each for itself. */
typedef enum SimFsdp1Kind {
    SIM_FSDP1_P,        /* local shard, stored */
    SIM_FSDP1_M,        /* low-precision shard */
    SIM_FSDP1_U,        /* unsharded flat parameter */
    SIM_FSDP1_G,        /* whole flat gradient */
    SIM_FSDP1_C,        /* the same in the reduction's type, or padded */
    SIM_FSDP1_O,        /* reduce-scatter output */
    SIM_FSDP1_Q,        /* gradient in the stored type, where it is not O itself */
    SIM_FSDP1_L,        /* gradient kept in low precision */
    SIM_FSDP1_N,        /* a further whole gradient, to be added to G */
    SIM_FSDP1_Z,        /* zeros for what got no gradient */
    SIM_FSDP1_EMPTY,    /* in whose place a part of a whole gradient is put */
    SIM_FSDP1_LAZY,     /* tried and given back by lazy initialisation */
    SIM_FSDP1_FREE,     /* events: the unsharded parameter was given back */
    SIM_FSDP1_GRADIENT, /* all of the unit's gradients are computed */
    SIM_FSDP1_KINDS
} SimFsdp1Kind;

/* HandleTrainingState */
typedef enum SimFsdp1Training {
    SIM_FSDP1_IDLE,
    SIM_FSDP1_FORWARD,
    SIM_FSDP1_BACKWARD_PRE,
    SIM_FSDP1_BACKWARD_POST,
} SimFsdp1Training;

typedef struct SimFsdp1State {
    const SimUnit *unit;
    uint32_t index;
    SimFlatParameter flat;
    bool is_frozen; /* no parameter is trained */
    SimStringId stems[SIM_FSDP1_KINDS];
    int32_t serials[SIM_FSDP1_KINDS];

    uint32_t shard;               /* P */
    uint32_t low_precision_shard; /* M */
    uint32_t unsharded;           /* U */
    uint32_t *views;              /* by place in the unit: parts of U, or of M or P */
    uint32_t *gradients;          /* by place: computed, not concatenated yet */
    bool has_gradients;           /* one of them is there */
    uint32_t gradient_event;      /* they are computed; NONE: not recorded yet */
    uint32_t whole_gradient;      /* not reduced yet; NO_SHARD: reduced */
    uint32_t added_gradient;   /* has been added to it; autograd holds it until its hook is over */
    uint32_t sharded_gradient; /* reduced */
    bool is_zeroed;            /* zero_grad has dropped the parameters' own `.grad` */

    SimFsdp1Training training_state;
    bool is_in_use;      /* the flat parameter is the unsharded one */
    bool is_left_in_use; /* after forward the parameters still are parts of it */
    bool is_prefetched;
    bool needs_pre_forward_unshard;
    bool needs_pre_backward_unshard;
    bool has_run_pre_backward;
    uint32_t pre_forward_index;  /* in the order of the first iteration, or NONE */
    uint32_t post_forward_index; /* in the order of this iteration, or NONE */
    /* Places in the order in which autograd nodes are made: of the unit's views of the flat
     * parameter, and of the last operator before the unit's forward. */
    uint64_t view_sequence, entry_sequence;
} SimFsdp1State;

void sim_fsdp1_state_init(SimFsdp1State *state, const SimUnitList *units, uint32_t index,
                          SimPlan *plan);
void sim_fsdp1_state_done(SimFsdp1State *state);

/* The next name of KIND. */
SimName sim_fsdp1_state_name(SimFsdp1State *state, SimFsdp1Kind kind);

/* The last one of KIND, with TAIL: a part of that buffer. */
SimName sim_fsdp1_state_part(const SimFsdp1State *state, SimFsdp1Kind kind, SimStringId tail);
