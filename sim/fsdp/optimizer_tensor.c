/* SPDX-License-Identifier: Apache-2.0 */
#include "fsdp/optimizer_tensor.h"

uint64_t sim_optimizer_tensor_elements(const SimOptimizerTensor *tensor, const SimRankClass *class)
{
    return sim_shard_true_rows(&tensor->shard, class->first) * tensor->shard.row_elements;
}

uint64_t sim_optimizer_tensor_bytes(const SimOptimizerTensor *tensor, const SimRankClass *class)
{
    return sim_optimizer_tensor_elements(tensor, class) * sim_dtype_bytes(tensor->dtype);
}

SimTouch sim_optimizer_tensor_gradient(const SimOptimizerTensor *tensor, const SimRankClass *class)
{
    return (SimTouch){.buffer = tensor->gradient,
                      .offset = tensor->gradient_offset,
                      .bytes = sim_optimizer_tensor_bytes(tensor, class)};
}

uint64_t sim_optimizer_tensor_sum(const GArray *tensors, const SimRankClass *class)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < tensors->len; i++)
        bytes += sim_optimizer_tensor_bytes(&g_array_index(tensors, SimOptimizerTensor, i), class);
    return bytes;
}

GArray *sim_optimizer_tensor_classes(SimPlan *plan, uint32_t shard_size, const GArray *tensors)
{
    g_autoptr(GArray) shards = g_array_new(FALSE, FALSE, sizeof(SimShard));
    for (uint32_t i = 0; i < tensors->len; i++)
        g_array_append_val(shards, g_array_index(tensors, SimOptimizerTensor, i).shard);
    return sim_rank_classes_compute(plan, shard_size, shards);
}
