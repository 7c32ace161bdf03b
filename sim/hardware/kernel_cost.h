/* SPDX-License-Identifier: Apache-2.0
 *
 * How long a kernel takes, alone on the GPU and beside a collective.
 *
 * Alone: matrix products by shape (gemm_cost.h), attention by shape (attention_cost.h), all else by
 * its traffic: the shortest kernel's time, during which no loads are in flight, and the bytes at
 * the part of the bandwidth that such kernels reach. A product or attention without dimensions
 * takes the longer of arithmetic, at the part of the peak that the GPU's table gives for its FLOPs,
 * and traffic.
 *
 * Beside a collective, which holds SMs and takes bandwidth: a product that fills waves of thread
 * blocks needs more of them on fewer SMs. The last wave, if few SMs have a block of it, runs at the
 * clock that the power limit denies to a full GPU, up to the highest clock and peak. Any other
 * kernel bound by arithmetic slows as SMs are taken, one bound by memory as its max-min share of
 * the bandwidth shrinks; both at most to the 1.4 that overlapping is observed to cost. The known
 * case beyond that is a product of 132 blocks on the 132 SMs of an H100 beside an all-gather of 24
 * blocks: 80 % of the peak alone, 47 % beside it (NVIDIA developer forum).
 *
 * Durations are rounded up to picoseconds here and nowhere else; no function of libm is used, so
 * they are the same on every machine.
 */
#pragma once

#include "base/units.h"
#include "hardware/gpu.h"

#include <stdbool.h>
#include <stdint.h>

typedef enum SimKernelKind {
    SIM_KERNEL_MEMORY_BOUND, /* element by element, copies */
    SIM_KERNEL_MATRIX_PRODUCT,
    SIM_KERNEL_ATTENTION_FORWARD,
    SIM_KERNEL_ATTENTION_BACKWARD,
    SIM_KERNEL_NORM, /* RMSNorm, LayerNorm */
    SIM_KERNEL_NORM_GRAD,
    SIM_KERNEL_SOFTMAX, /* log_softmax over a vocabulary, forward or backward */
    SIM_KERNEL_OPTIMIZER,
} SimKernelKind;

/* As cuBLAS names the transposition of its operands: forward of a Linear TN, gradient of its input
 * NN, gradient of its weight NT. */
typedef enum SimGemmLayout { SIM_GEMM_TN, SIM_GEMM_NN, SIM_GEMM_NT } SimGemmLayout;

/* Zero means unknown for every dimension. */
typedef struct SimKernelWork {
    SimKernelKind kind;
    SimPrecision precision;
    uint64_t flops;     /* multiply-add = 2; of attention the full square, also if causal */
    uint64_t hbm_bytes; /* read and written, each tensor once */
    uint64_t m, n, k;   /* matrix product */
    SimGemmLayout layout;
    uint64_t batch;                /* of a batched product; attention's follows from its FLOPs */
    uint64_t heads, kv_heads, seq; /* attention */
    uint64_t head_dim;
    bool causal;
    bool sustained; /* the GPU works at its power limit, as in a training step (gemm_cost.h) */
    const char *attention; /* which kernel, of models/kernels; NULL: what PyTorch takes */
} SimKernelWork;

typedef struct SimKernelCost {
    SimTime duration; /* alone */
    bool is_memory_bound;
    uint64_t tiles;         /* thread blocks, one an SM at a time; 0: not known, or too many to
                               matter */
    double lone_tile;       /* time of one that has the GPU to itself, in that of one among many */
    double hbm_bytes_per_s; /* taken while it runs alone */
} SimKernelCost;

/* O(1). */
SimKernelCost sim_kernel_cost_describe(const SimGpu *gpu, const SimKernelWork *work);

/* The duration alone. O(1). */
SimTime sim_kernel_cost_compute(const SimGpu *gpu, const SimKernelWork *work);

/* The duration if all the while collectives hold SMS_HELD SMs and take HBM_TAKEN bytes a second;
 * never less than alone. O(1). */
SimTime sim_kernel_cost_slowed(const SimGpu *gpu, const SimKernelCost *cost, uint32_t sms_held,
                               double hbm_taken);
