/* SPDX-License-Identifier: Apache-2.0
 *
 * What PyTorch's dispatcher and autograd engine would do with a model: the order in which a
 * training step issues operators, and when each tensor is born and dies, written as rows of a plan.
 *
 * Tensors are views of storages; a storage lives as long as something refers to it: a Python
 * variable of a running forward, an operator's saved tensor, a gradient in the engine's input
 * buffers, the caller. The plan's `alloc` and `free` rows follow from that count and from nothing
 * else. Backward walks the recorded graph as torch/csrc/autograd/engine.cpp does: ready node with
 * the highest sequence number first, AccumulateGrad before all; saved tensors are released after
 * the node has made its outputs.
 *
 * FSDP knows modules, not operators, so all it can do is in the hooks. Each hook may append rows of
 * its own to the plan (and change its context's unit, which autograd then keeps).
 *
 * Rows are appended on stream "compute" (0) with the plan's context, of which autograd itself
 * changes only phase FORWARD <-> RECOMPUTE and unit "loss".
 */
#pragma once

#include "model/model.h"
#include "plan/plan.h"

#include <stdbool.h>
#include <stdint.h>

/* "No unit": do not hook this module. */
#define SIM_AUTOGRAD_NO_TOKEN UINT32_MAX

/* When a chunked loss tells of itself (chunked_loss.h). */
typedef enum SimAutogradLossStage {
    SIM_LOSS_STARTS,     /* the head is about to run chunk by chunk */
    SIM_LOSS_LAST_CHUNK, /* before the last one */
    SIM_LOSS_ENDS,
} SimAutogradLossStage;

typedef struct SimAutogradHooks {
    void *user_data;

    /* On which parameters were made, if they are results themselves (parts of FSDP1's flat
     * parameter): the engine sums a parameter's gradients there, behind the compute stream
     * (torch/csrc/autograd/input_buffer.cpp, InputBuffer::add). 0 = the compute stream. */
    uint32_t parameter_stream;

    /* Before MODULE's forward runs (the module's `__call__` begins). Other than NO_TOKEN: the
     * inputs that need a gradient go through an identity node (RegisterPostBackwardFunction of
     * _fsdp_param_group.py) whose backward calls post_backward(TOKEN): not called if no input needs
     * one. */
    uint32_t (*pre_forward)(void *user_data, uint32_t module);

    /* After it. Other than NO_TOKEN: pre_backward(TOKEN) is called when a gradient arrives at the
     * first of the module's outputs that need one, just before the node that made it runs, and
     * again (is_repeat) for each further output of the same use. */
    uint32_t (*post_forward)(void *user_data, uint32_t module);

    void (*pre_backward)(void *user_data, uint32_t token, bool is_repeat);
    void (*post_backward)(void *user_data, uint32_t token);

    /* A chunked loss with module HEAD is at STAGE; may be NULL. */
    void (*chunked_loss)(void *user_data, uint32_t head, SimAutogradLossStage stage);

    /* The plan buffer from which an operator reads PARAMETER now. */
    uint32_t (*parameter)(void *user_data, uint32_t parameter);

    /* The type in which AccumulateGrad takes PARAMETER's gradient now (its grad_dtype; may be
     * NULL): NONE = as the operators made it. */
    SimDtype (*gradient_dtype)(void *user_data, uint32_t parameter);

    /* AccumulateGrad: BUFFER (an alloc of this plan, category UNSHARDED_GRADIENT) is PARAMETER's
     * whole gradient of this backward; it belongs to the callee, who frees it or adds it to an
     * older one. */
    void (*gradient)(void *user_data, uint32_t parameter, uint32_t buffer);
} SimAutogradHooks;

/* torch.utils.checkpoint, not reentrant, around a module's forward. */
typedef struct SimAutogradCheckpoint {
    bool is_used;
    bool is_outside; /* around its hooks too: the checkpoint wrapper is outside of FSDP's module */
    bool is_selective; /* torchtitan's policy per operator; else everything is recomputed */
    bool stops_early;
} SimAutogradCheckpoint;

typedef struct SimAutogradOptions {
    uint64_t sequence;                /* tokens a sample */
    uint64_t batch;                   /* samples a microbatch */
    SimDtype compute_dtype;           /* of parameters as operators see them (FSDP's param_dtype) */
    const SimDtype *parameter_dtypes; /* the same one by one, by parameter; NULL = compute_dtype */
    SimDtype residual_dtype;          /* of the embedding's output; = compute_dtype under FSDP */
    uint32_t sm_count;                /* scratch of reductions depends on it */
    uint32_t compute_capability;      /* 90 = sm_90: workspace of matrix products */
    const SimAutogradCheckpoint *checkpoints; /* by module; NULL = none. Borrowed by autograd */
    uint64_t loss_chunks;                     /* the model's chunked loss; 0 = its loss at once */
    bool keeps_output;                        /* the training loop's variable holds the model's
                                               * result until the next forward's is there */
    bool is_autocast;                         /* bf16 autocast around forward and loss */
} SimAutogradOptions;

typedef struct SimAutograd SimAutograd;

/* MODEL, PLAN, HOOKS are borrowed and must outlive the result. */
SimAutograd *sim_autograd_new(const SimModel *model, SimPlan *plan,
                              const SimAutogradOptions *options, const SimAutogradHooks *hooks);
void sim_autograd_free(SimAutograd *autograd);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(SimAutograd, sim_autograd_free)

/* Rows for what lies in memory before the first step besides parameters: rotary tables and other
 * buffers of the model, token ids and labels. */
void sim_autograd_start(SimAutograd *autograd);

/* One forward of the whole model and its loss. WITH_GRAD false = under no_grad (nothing is saved,
 * no hook token is asked for). The graph of MICROBATCH is kept until its backward. */
void sim_autograd_forward(SimAutograd *autograd, uint32_t microbatch, bool with_grad);

/* The model's forward alone under no_grad, without a loss; its result is dropped at once. Hooks
 * run, their tokens are not used. */
void sim_autograd_evaluate(SimAutograd *autograd);

/* backward() of MICROBATCH's loss, from its call to its return: consumes its graph. */
void sim_autograd_backward(SimAutograd *autograd, uint32_t microbatch);

/* backward() of the sum of the losses of COUNT microbatches from FIRST on: a later forward's nodes
 * have higher sequence numbers, so its graph is walked first. The caller runs what PyTorch queues
 * as final callback afterwards, and then the call returns: the gradient that it began with dies. */
void sim_autograd_backward_sum(SimAutograd *autograd, uint32_t first, uint32_t count);
void sim_autograd_finish_backward(SimAutograd *autograd);

/* The loss tensor of MICROBATCH is dropped (a Python variable of the training loop). */
void sim_autograd_drop_loss(SimAutograd *autograd, uint32_t microbatch);
