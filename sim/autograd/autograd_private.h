/* SPDX-License-Identifier: Apache-2.0
 *
 * The state of a SimAutograd, for the files of this folder.
 */
#pragma once

#include "autograd/autograd.h"
#include "autograd/checkpoint.h"
#include "autograd/dispatch.h"
#include "autograd/graph.h"
#include "model/program.h"

/* A parameter's gradient on its way to AccumulateGrad. */
typedef struct SimPendingGradient {
    SimTensor *sum;
    uint32_t expected; /* contributions still to come in this backward */
} SimPendingGradient;

struct SimAutograd {
    const SimModel *model;
    const SimAutogradHooks *hooks;
    SimPlan *plan;
    SimDispatch dispatch;
    SimTensor **parameters;    /* by index; a tied one is the tensor of the one that holds it */
    GPtrArray *buffers;        /* of SimTensor, as in the model; kept for ever */
    GArray *graphs;            /* of SimGraph, by microbatch */
    GPtrArray *slots;          /* stack of SimTensor of the running programs */
    SimStringId *module_stems; /* by module */
    SimStringId loss_unit;
    SimPendingGradient *pending;              /* by parameter */
    const SimAutogradCheckpoint *checkpoints; /* by module, or NULL */
    SimTensor **casts;             /* by parameter: autocast's cache; NULL without autocast */
    SimAttributes to_f32, to_bf16; /* of its casts */
    uint64_t loss_chunks;
    SimGraph chunk_graph; /* of the chunk that runs */
    bool keeps_output;
    SimTensor *output;        /* of the last forward, if it is kept; or NULL */
    SimTensor *leaf_gradient; /* what SIM_NODE_LEAF got last */
    /* of the running backward, held by its caller: what it starts from, and the gradient of that */
    SimTensor *root, *root_gradient;
    /* of the running forward */
    SimGraph *graph;           /* NULL under no_grad */
    SimCheckpoint *checkpoint; /* whose module runs, in forward or in its replay; or NULL */
};

SimGraph *sim_autograd_graph(SimAutograd *autograd, uint32_t microbatch);

/* Runs PROGRAM as MODULE's: ARGUMENTS are borrowed, RESULTS hold one reference each. False: the
 * replay of a checkpoint ended within; there are no results. */
bool sim_autograd_run_program(SimAutograd *autograd, uint32_t module, const SimProgram *program,
                              SimTensor *const *arguments, SimTensor **results);

/* Module.__call__: hooks, then its program. False as above. */
bool sim_autograd_call_module(SimAutograd *autograd, uint32_t module, uint32_t n_inputs,
                              SimTensor *const *inputs, SimTensor **results);

/* Runs CHECKPOINT's module again, so that its holders are filled. */
void sim_autograd_replay(SimAutograd *autograd, SimGraph *graph, SimCheckpoint *checkpoint);

/* backward() of GRAPH's loss, which is not the training loop's. */
void sim_autograd_walk_loss(SimAutograd *autograd, SimGraph *graph);

/* Runs the operator of CALL as it is: in a forward, or in a replay, which may end here (false;
 * there are no results then). */
bool sim_autograd_run_operator(SimAutograd *autograd, const SimProgramCall *call,
                               const SimAttributes *attributes, const SimDispatchPurpose *purpose,
                               SimTensor *const *inputs, SimTensor **results);
