/* SPDX-License-Identifier: Apache-2.0
 *
 * One parameter as an optimizer sees it: this rank's shard and its gradient. What an optimizer
 * reads and writes are true rows only, so its rows in the plan are one for each class of ranks
 * (rank_classes.h).
 */
#pragma once

#include "fsdp/rank_classes.h"
#include "fsdp/shard.h"
#include "plan/plan.h"

#include <glib.h>
#include <stdint.h>

typedef struct SimOptimizerTensor {
    uint32_t parameter; /* in the model: what its states are kept under */
    SimShard shard;
    SimDtype dtype;           /* stored */
    uint32_t value;           /* the buffer its shard is a part of */
    uint64_t value_offset;    /* bytes */
    uint32_t gradient;        /* the buffer its gradient is a part of */
    uint64_t gradient_offset; /* bytes */
    SimStringId unit, tail;   /* names of the states: "S:unit#0:tail.exp_avg" */
} SimOptimizerTensor;

/* What a rank of CLASS really owns of it. */
uint64_t sim_optimizer_tensor_elements(const SimOptimizerTensor *tensor, const SimRankClass *class);
uint64_t sim_optimizer_tensor_bytes(const SimOptimizerTensor *tensor, const SimRankClass *class);

/* The part of the gradient's buffer that a rank of CLASS uses. */
SimTouch sim_optimizer_tensor_gradient(const SimOptimizerTensor *tensor, const SimRankClass *class);

/* Of TENSORS, an array of SimOptimizerTensor: all bytes of a rank of CLASS, and all classes. */
uint64_t sim_optimizer_tensor_sum(const GArray *tensors, const SimRankClass *class);
GArray *sim_optimizer_tensor_classes(SimPlan *plan, uint32_t shard_size, const GArray *tensors);
