/* SPDX-License-Identifier: Apache-2.0
 *
 * Tensors and storages by reference count. A tensor is a view of a storage; a storage is one buffer
 * of the plan and dies (a `free` row) with the last tensor that refers to it. A parameter's tensor
 * has no storage: who holds parameters is the caller's affair.
 */
#pragma once

#include "model/layout.h"
#include "plan/plan.h"

#include <stdbool.h>
#include <stdint.h>

#define SIM_TENSOR_NO_NODE UINT32_MAX

typedef struct SimStorage SimStorage;
struct SimStorage {
    uint32_t references;
    uint32_t buffer;
    uint64_t bytes;
    SimStorage *next_unused;
};

typedef struct SimTensor SimTensor;
struct SimTensor {
    uint32_t references;
    bool is_view;        /* keeps its base alive: never a target of accumulation in place */
    uint8_t node_output; /* which output of NODE it is */
    uint32_t node;       /* what made it, in the graph of its microbatch; or NO_NODE */
    uint32_t parameter;  /* or SIM_MODEL_NONE */
    SimStorage *storage; /* NULL for a parameter */
    uint64_t offset;     /* elements from the storage's first */
    SimLayout layout;
    SimTensor *next_unused;
};

/* Owner of all tensors and storages; reuses their memory. */
typedef struct SimTensorPool {
    SimPlan *plan; /* borrowed */
    GPtrArray *chunks;
    SimTensor *unused_tensors;
    SimStorage *unused_storages;
} SimTensorPool;

void sim_tensor_pool_init(SimTensorPool *pool, SimPlan *plan);
void sim_tensor_pool_done(SimTensorPool *pool);

/* A tensor that is the whole of BUFFER; one reference. */
SimTensor *sim_tensor_new(SimTensorPool *pool, const SimLayout *layout, uint32_t buffer,
                          uint64_t bytes);
SimTensor *sim_tensor_new_parameter(SimTensorPool *pool, const SimLayout *layout,
                                    uint32_t parameter);
/* A part of BASE's storage; one reference. */
SimTensor *sim_tensor_new_view(SimTensorPool *pool, SimTensor *base, const SimLayout *layout,
                               uint64_t offset);

SimTensor *sim_tensor_ref(SimTensor *tensor);
/* Drops a reference; with the storage's last one a `free` row follows. */
void sim_tensor_unref(SimTensorPool *pool, SimTensor *tensor);

/* Takes the only reference to TENSOR and its storage; returns the buffer, which is not freed. */
uint32_t sim_tensor_steal_buffer(SimTensorPool *pool, SimTensor *tensor);

/* May a gradient be added into TENSOR in place? (can_accumulate_inplace of torch/csrc/autograd/
 * input_buffer.cpp: nobody else sees it, and it lies densely.) */
bool sim_tensor_is_private(const SimTensor *tensor);
