/* SPDX-License-Identifier: Apache-2.0
 *
 * How long a fused attention kernel takes that has the GPU to itself. Efficiency depends on the
 * head dimension, grows with the sequence (softmax and mask cost relatively less) and with the
 * number of thread blocks, each of which has 128 queries of one head:
 *
 *     F      = 4 batch heads seq^2 head_dim         (10 for backward; half of it under a causal
 * mask) blocks = batch heads ceil(seq / 128) rate   = peak * efficiency * seq / (seq + seq_half) *
 * blocks / (blocks + block_waves * SMs) time   = start + max(F / rate, traffic / bandwidth)
 *
 * Constants: kernel_constants.h. FLOPs: the forward has 2 matrix products, the backward 5 (csrc/
 * flash_attn of Dao-AILab/flash-attention). What surrounds the backward's main kernel (the row sums
 * of dO.O, the conversion of dQ) is bound by memory and not part of this time.
 */
#pragma once

#include "hardware/gpu.h"

#include <stdint.h>

typedef struct SimAttentionShape {
    uint64_t seq, head_dim;
    double flops; /* of the full square */
    double hbm_bytes;
    bool is_backward, is_causal;
} SimAttentionShape;

/* Seconds. PEAK in FLOP/s. O(1). */
double sim_attention_cost_compute(const SimGpu *gpu, const SimAttentionConstants *constants,
                                  double peak, const SimAttentionShape *shape);
