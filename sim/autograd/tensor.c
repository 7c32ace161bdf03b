/* SPDX-License-Identifier: Apache-2.0 */
#include "autograd/tensor.h"

#define CHUNK 256

void sim_tensor_pool_init(SimTensorPool *pool, SimPlan *plan)
{
    *pool = (SimTensorPool){.plan = plan, .chunks = g_ptr_array_new_with_free_func(g_free)};
}

void sim_tensor_pool_done(SimTensorPool *pool)
{
    g_ptr_array_unref(pool->chunks);
}

static SimTensor *take_tensor(SimTensorPool *pool, const SimLayout *layout)
{
    if (pool->unused_tensors == NULL) {
        SimTensor *chunk = g_new(SimTensor, CHUNK);
        g_ptr_array_add(pool->chunks, chunk);
        for (uint32_t i = 0; i < CHUNK; i++) {
            chunk[i].next_unused = pool->unused_tensors;
            pool->unused_tensors = &chunk[i];
        }
    }
    SimTensor *tensor = pool->unused_tensors;
    pool->unused_tensors = tensor->next_unused;
    tensor->references = 1;
    tensor->is_view = false;
    tensor->node = SIM_TENSOR_NO_NODE;
    tensor->node_output = 0;
    tensor->parameter = SIM_MODEL_NONE;
    tensor->storage = NULL;
    tensor->offset = 0;
    tensor->layout = *layout;
    return tensor;
}

static SimStorage *take_storage(SimTensorPool *pool)
{
    if (pool->unused_storages == NULL) {
        SimStorage *chunk = g_new(SimStorage, CHUNK);
        g_ptr_array_add(pool->chunks, chunk);
        for (uint32_t i = 0; i < CHUNK; i++) {
            chunk[i].next_unused = pool->unused_storages;
            pool->unused_storages = &chunk[i];
        }
    }
    SimStorage *storage = pool->unused_storages;
    pool->unused_storages = storage->next_unused;
    return storage;
}

static void give_back_tensor(SimTensorPool *pool, SimTensor *tensor)
{
    tensor->next_unused = pool->unused_tensors;
    pool->unused_tensors = tensor;
}

static void give_back_storage(SimTensorPool *pool, SimStorage *storage)
{
    storage->next_unused = pool->unused_storages;
    pool->unused_storages = storage;
}

SimTensor *sim_tensor_new(SimTensorPool *pool, const SimLayout *layout, uint32_t buffer,
                          uint64_t bytes)
{
    SimTensor *tensor = take_tensor(pool, layout);
    tensor->storage = take_storage(pool);
    tensor->storage->references = 1;
    tensor->storage->buffer = buffer;
    tensor->storage->bytes = bytes;
    return tensor;
}

SimTensor *sim_tensor_new_parameter(SimTensorPool *pool, const SimLayout *layout,
                                    uint32_t parameter)
{
    SimTensor *tensor = take_tensor(pool, layout);
    tensor->parameter = parameter;
    return tensor;
}

SimTensor *sim_tensor_new_view(SimTensorPool *pool, SimTensor *base, const SimLayout *layout,
                               uint64_t offset)
{
    SimTensor *tensor = take_tensor(pool, layout);
    tensor->is_view = true;
    tensor->parameter = base->parameter;
    tensor->storage = base->storage;
    tensor->offset = base->offset + offset;
    if (tensor->storage != NULL)
        tensor->storage->references++;
    return tensor;
}

SimTensor *sim_tensor_ref(SimTensor *tensor)
{
    tensor->references++;
    return tensor;
}

void sim_tensor_unref(SimTensorPool *pool, SimTensor *tensor)
{
    g_assert(tensor->references > 0);
    if (--tensor->references > 0)
        return;
    SimStorage *storage = tensor->storage;
    give_back_tensor(pool, tensor);
    if (storage != NULL && --storage->references == 0) {
        sim_plan_free_buffer(pool->plan, storage->buffer);
        give_back_storage(pool, storage);
    }
}

uint32_t sim_tensor_steal_buffer(SimTensorPool *pool, SimTensor *tensor)
{
    g_assert(tensor->references == 1 && tensor->storage->references == 1);
    uint32_t buffer = tensor->storage->buffer;
    give_back_storage(pool, tensor->storage);
    give_back_tensor(pool, tensor);
    return buffer;
}

bool sim_tensor_is_private(const SimTensor *tensor)
{
    return tensor->references == 1 && !tensor->is_view && tensor->storage != NULL &&
           tensor->storage->references == 1 && sim_layout_is_dense(&tensor->layout);
}
