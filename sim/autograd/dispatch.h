/* SPDX-License-Identifier: Apache-2.0
 *
 * Runs one operator: allocations, scratch and kernels as rows of the plan, results as tensors.
 * Knows nothing of graphs.
 */
#pragma once

#include "autograd/autograd.h"
#include "autograd/kernel_text.h"
#include "autograd/tensor.h"
#include "model/operator.h"

/* What the results of a call are. */
typedef struct SimDispatchPurpose {
    SimCategory category;
    SimStringId stem; /* of buffer names: the module's path */
    /* the parameter whose gradient result i is, or SIM_MODEL_NONE */
    uint32_t gradient_of[SIM_OPERATOR_MAX_OUTPUTS];
} SimDispatchPurpose;

typedef struct SimDispatchShape {
    SimShape shape;
    SimStringId text;
} SimDispatchShape;

#define SIM_DISPATCH_CACHE 256

typedef struct SimDispatch {
    uint32_t stream;               /* the current one: 0, compute, but for sums of gradients */
    SimPlan *plan;                 /* borrowed */
    const SimModel *model;         /* borrowed */
    const SimAutogradHooks *hooks; /* borrowed */
    SimOperatorSetting setting;
    SimTensorPool pool;
    SimOperatorCall call; /* the one being run */
    int32_t serial;       /* of buffer names */
    SimStringId operator_names[SIM_OPERATOR_COUNT];
    SimStringId scratch_stem;
    SimStringId *gradient_stems; /* by parameter; 0 = not yet made */
    SimDispatchShape *shapes;    /* texts made once a shape, not once a row; direct-mapped */
    SimKernelTexts *texts;       /* of `arguments` */
} SimDispatch;

void sim_dispatch_init(SimDispatch *dispatch, const SimModel *model, SimPlan *plan,
                       const SimAutogradOptions *options, const SimAutogradHooks *hooks);
void sim_dispatch_done(SimDispatch *dispatch);

/* Runs OPERATOR_ on N_INPUTS tensors; its results, one reference each, go to RESULTS (room for
 * SIM_OPERATOR_MAX_OUTPUTS). Returns their number. LIKE may be NULL. A result can be input 0
 * itself. */
uint32_t sim_dispatch_run(SimDispatch *dispatch, SimOperator operator_,
                          const SimAttributes *attributes, const SimLayout *like, uint32_t n_inputs,
                          SimTensor *const *inputs, const SimDispatchPurpose *purpose,
                          SimTensor **results);

/* target += value, in place. */
void sim_dispatch_add_in_place(SimDispatch *dispatch, SimTensor *target, SimTensor *value);

/* target = value. */
void sim_dispatch_copy(SimDispatch *dispatch, SimTensor *target, SimTensor *value);

/* A tensor of LAYOUT that no operator makes. */
SimTensor *sim_dispatch_allocate(SimDispatch *dispatch, const SimLayout *layout, SimName name,
                                 SimCategory category);
