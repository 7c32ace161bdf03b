/* SPDX-License-Identifier: Apache-2.0
 *
 * The graph that a forward leaves behind: nodes in the order in which they were made, which is
 * their sequence number. A node only points to older nodes, so walking from the youngest down
 * visits every node when all that it waits for has run: what the engine's heap does
 * (torch/csrc/autograd/ engine.cpp), with AccumulateGrad, whose sequence number is the highest, run
 * as soon as it is ready.
 */
#pragma once

#include "autograd/checkpoint.h"
#include "autograd/tensor.h"
#include "model/catalogue.h"

#include <glib.h>
#include <stdbool.h>
#include <stdint.h>

#define SIM_GRAPH_MAX_EDGES 3
#define SIM_GRAPH_MAX_GRADIENTS 3
#define SIM_GRAPH_MAX_SAVED 8

typedef enum SimEdgeKind { SIM_EDGE_NONE, SIM_EDGE_NODE, SIM_EDGE_PARAMETER } SimEdgeKind;

/* Where the gradient of an input goes. */
typedef struct SimEdge {
    SimEdgeKind kind;
    uint32_t target; /* node or parameter */
    uint32_t number; /* which output of the node */
} SimEdge;

typedef enum SimNodeKind {
    SIM_NODE_OPERATOR,
    SIM_NODE_POST_BACKWARD,   /* RegisterPostBackwardFunction: identity, then a hook */
    SIM_NODE_LEAF,            /* AccumulateGrad of a tensor that is no parameter */
    SIM_NODE_STORED_GRADIENT, /* its result is the tensor it saved */
} SimNodeKind;

typedef struct SimNode {
    SimNodeKind kind;
    SimOperator operator_;
    const SimAttributes *attributes;
    uint32_t token;  /* of a post-backward node */
    uint32_t hooks;  /* tensor hooks on its outputs: index + 1 in SimGraph.hooks; 0 = none */
    uint32_t wanted; /* bit i: input i needs a gradient */
    uint32_t n_edges, n_saved;
    bool is_reached;
    uint8_t flags;             /* SimProgramFlags of the call */
    SimCheckpoint *checkpoint; /* in which it was made: SAVED are its holders then; or NULL */
    uint32_t first_holder;
    SimStringId unit, stem;
    SimEdge edges[SIM_GRAPH_MAX_EDGES];
    SimLayout layouts[SIM_GRAPH_MAX_EDGES]; /* of the wanted inputs */
    uint8_t references[SIM_GRAPH_MAX_SAVED];
    SimTensor *saved[SIM_GRAPH_MAX_SAVED];
    SimTensor *gradients[SIM_GRAPH_MAX_GRADIENTS]; /* the input buffer */
} SimNode;

/* pre_backward(token) before a node runs. */
typedef struct SimGraphHook {
    uint32_t token;
    uint32_t use;  /* index in SimGraph.uses */
    uint32_t next; /* index + 1; 0 = last */
} SimGraphHook;

typedef struct SimGraph {
    GPtrArray *chunks; /* of SimNode[], so that a node never moves */
    uint32_t n_nodes;
    GArray *hooks;          /* of SimGraphHook */
    GArray *uses;           /* of bool: has a hook of this use of a module been called? */
    GPtrArray *checkpoints; /* of SimCheckpoint, owned */
    SimTensor *loss;
} SimGraph;

void sim_graph_init(SimGraph *graph);
void sim_graph_done(SimGraph *graph);

/* Forgets the nodes, keeps the memory. */
void sim_graph_clear(SimGraph *graph);

/* A new node, everything but kind empty; its number is n_nodes - 1. */
SimNode *sim_graph_add(SimGraph *graph, SimNodeKind kind);
SimNode *sim_graph_node(const SimGraph *graph, uint32_t number);

/* Has TENSOR's gradient a place to go? */
bool sim_graph_wants(const SimModel *model, const SimTensor *tensor);
SimEdge sim_graph_edge(const SimModel *model, const SimTensor *tensor);

/* Bit i: input I needs a gradient. */
uint32_t sim_graph_wanted(const SimModel *model, uint32_t n_inputs, SimTensor *const *inputs);

/* Records that OPERATOR_ made RESULTS from INPUTS, if an input needs a gradient: saves what the
 * formula reads (or, in the forward of CHECKPOINT, a holder for each) and makes the results outputs
 * of the node. Returns it, or NULL. CHECKPOINT may be NULL. */
SimNode *sim_graph_record(SimGraph *graph, const SimModel *model, SimCheckpoint *checkpoint,
                          SimOperator operator_, const SimAttributes *attributes, uint32_t n_inputs,
                          SimTensor *const *inputs, uint32_t n_results, SimTensor *const *results);

/* A hook TOKEN of module use USE on the node that made TENSOR, if any. */
void sim_graph_add_hook(SimGraph *graph, const SimTensor *tensor, uint32_t token, uint32_t use);
uint32_t sim_graph_add_use(SimGraph *graph);
