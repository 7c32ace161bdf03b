/* SPDX-License-Identifier: Apache-2.0 */
#include "hardware/attention_cost.h"

#define BLOCK_QUERIES 128
#define FORWARD_FLOPS 4 /* an element of the full square and of the head: two products */
#define BACKWARD_FLOPS 10
#define MICROSECOND 1e-6

static double efficiency_of(const SimAttentionConstants *constants, uint64_t head_dim)
{
    return constants->efficiency[head_dim <= 96 ? 0 : head_dim <= 160 ? 1 : 2];
}

double sim_attention_cost_compute(const SimGpu *gpu, const SimAttentionConstants *constants,
                                  double peak, const SimAttentionShape *shape)
{
    double seq = (double)shape->seq;
    double square = shape->is_backward ? BACKWARD_FLOPS : FORWARD_FLOPS;
    double batch_heads = shape->flops / (square * seq * seq * (double)shape->head_dim);
    double blocks = batch_heads * (double)((shape->seq + BLOCK_QUERIES - 1) / BLOCK_QUERIES);
    double rate = peak * efficiency_of(constants, shape->head_dim) * seq /
                  (seq + constants->seq_half) * blocks /
                  (blocks + constants->block_waves * gpu->sms);
    double flops = shape->is_causal ? shape->flops / 2 : shape->flops;
    double memory = shape->hbm_bytes / (gpu->hbm_bytes_per_s * constants->memory_fraction);
    return constants->start_us * MICROSECOND + MAX(flops / rate, memory);
}
