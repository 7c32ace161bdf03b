/* SPDX-License-Identifier: Apache-2.0
 *
 * How long a kernel takes that has the GPU to itself: the longer of arithmetic and memory traffic,
 * each at the part of its peak that such kernels reach, and at least the GPU's shortest kernel. How
 * a collective beside it slows it down is the business of sim/rank.
 */
#pragma once

#include "base/units.h"
#include "hardware/gpu.h"

#include <stdbool.h>
#include <stdint.h>

typedef enum SimKernelKind {
    SIM_KERNEL_MEMORY_BOUND,
    SIM_KERNEL_MATRIX_PRODUCT,
    SIM_KERNEL_ATTENTION_FORWARD,
    SIM_KERNEL_ATTENTION_BACKWARD,
} SimKernelKind;

/* Zero means unknown for every dimension. */
typedef struct SimKernelWork {
    SimKernelKind kind;
    SimPrecision precision;
    uint64_t flops;     /* as executed: causal attention counts the half it computes */
    uint64_t hbm_bytes; /* read and written */
    uint64_t m, n, k;   /* matrix product */
    uint64_t batch;     /* of a batched product or attention */
    uint64_t heads, kv_heads, seq, head_dim; /* attention */
    bool causal;
} SimKernelWork;

/* O(1). */
SimTime sim_kernel_cost_compute(const SimGpu *gpu, const SimKernelWork *work);
