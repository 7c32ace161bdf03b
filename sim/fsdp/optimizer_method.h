/* SPDX-License-Identifier: Apache-2.0
 *
 * Optimizers as data: which states a parameter has, what one step launches over which operands, and
 * what it holds meanwhile. Sources: torch/optim/adam.py, sgd.py, _adafactor.py; bitsandbytes/optim/
 * optimizer.py (Optimizer2State) for 8-bit AdamW.
 */
#pragma once

#include "job/settings.h"

#include <stdbool.h>
#include <stdint.h>

#define SIM_OPTIMIZER_MOST_STATES 4

/* How large a state of a tensor of n elements (rows x columns) is. */
typedef enum SimOptimizerStateSize {
    SIM_STATE_LIKE_VALUE,
    SIM_STATE_QUANTISED, /* a byte an element; four below 4096 elements */
    SIM_STATE_MAXIMA,    /* four bytes for each 256 elements; none below 4096 elements */
    SIM_STATE_ROWS,      /* one a row of a matrix, like the value */
    SIM_STATE_COLUMNS,   /* one a column of a matrix */
    SIM_STATE_VECTOR,    /* like the value, but nothing of a matrix */
} SimOptimizerStateSize;

typedef struct SimOptimizerState {
    const char *name; /* "exp_avg" */
    SimOptimizerStateSize size;
} SimOptimizerState;

/* Operands of a pass, by bit. */
enum {
    SIM_OPERAND_VALUE = 1 << 0,
    SIM_OPERAND_GRADIENT = 1 << 1,
    SIM_OPERAND_TEMPORARY = 1 << 2,
    SIM_OPERAND_STEP = 1 << 3,    /* the number of steps, where it is on the device */
    SIM_OPERAND_STATE_0 = 1 << 4, /* and the following bits */
};

/* One kernel over all tensors. */
typedef struct SimOptimizerPass {
    const char *word;
    uint8_t reads, writes;
    bool is_first_only; /* when a parameter's states have just been born: tensor by tensor */
    bool is_later_only; /* when they were there before */
} SimOptimizerPass;

typedef struct SimOptimizerMethod {
    bool has_device_step;   /* fused: a 4-byte `step` a tensor, on the device */
    bool has_maps;          /* two tables of 256 f32 values that all tensors share */
    bool is_by_tensor;      /* a Python loop over the tensors; else lists of tensors (foreach) */
    bool is_born_by_tensor; /* states too, just before their tensor's update; else all before */
    /* like the values: 1 = for all tensors at once, freed at the end of the step; by tensor: so
     * many, each freed when the next tensor's exists */
    uint8_t n_temporaries;
    uint8_t n_states, n_passes;
    SimOptimizerState states[SIM_OPTIMIZER_MOST_STATES];
    SimOptimizerPass passes[8];
} SimOptimizerMethod;

const SimOptimizerMethod *sim_optimizer_method_get(SimJobOptimizer kind);
