/* SPDX-License-Identifier: Apache-2.0 */
#include "autograd/checkpoint.h"

SimCheckpoint *sim_checkpoint_new(const SimAutogradCheckpoint *settings, uint32_t module,
                                  SimStringId unit, uint32_t n_arguments,
                                  SimTensor *const *arguments)
{
    SimCheckpoint *checkpoint = g_new0(SimCheckpoint, 1);
    checkpoint->settings = *settings;
    checkpoint->module = module;
    checkpoint->unit = unit;
    checkpoint->n_arguments = n_arguments;
    for (uint32_t i = 0; i < n_arguments; i++)
        checkpoint->arguments[i] = sim_tensor_ref(arguments[i]);
    checkpoint->recomputed = g_ptr_array_new();
    checkpoint->cached = g_ptr_array_new();
    return checkpoint;
}

void sim_checkpoint_free(SimCheckpoint *checkpoint)
{
    g_assert(checkpoint->n_unreleased == 0);
    g_ptr_array_unref(checkpoint->recomputed);
    g_ptr_array_unref(checkpoint->cached);
    g_free(checkpoint);
}

uint32_t sim_checkpoint_hold(SimCheckpoint *checkpoint, uint32_t n)
{
    uint32_t first = checkpoint->n_holders;
    checkpoint->n_holders += n;
    checkpoint->n_unreleased += n;
    return first;
}

static bool is_matrix_product(SimOperator operator_)
{
    return operator_ == SIM_OPERATOR_LINEAR || operator_ == SIM_OPERATOR_LINEAR_BIAS ||
           operator_ == SIM_OPERATOR_CONV1D;
}

bool sim_checkpoint_chooses(SimCheckpoint *checkpoint, SimOperator operator_)
{
    if (!checkpoint->settings.is_selective)
        return false;
    if (is_matrix_product(operator_))
        return checkpoint->n_products++ % 2 == 0;
    switch (operator_) {
    case SIM_OPERATOR_ATTENTION:
    case SIM_OPERATOR_EFFICIENT_ATTENTION:
    case SIM_OPERATOR_EFFICIENT_ATTENTION_BIAS:
    case SIM_OPERATOR_EFFICIENT_ATTENTION_DROPOUT:
    case SIM_OPERATOR_EFFICIENT_ATTENTION_BIAS_DROPOUT:
        return true;
    default:
        return false;
    }
}

void sim_checkpoint_cache(SimCheckpoint *checkpoint, SimTensorPool *pool, uint32_t n_results,
                          SimTensor *const *results)
{
    for (uint32_t i = 0; i < n_results; i++)
        g_ptr_array_add(checkpoint->cached,
                        sim_tensor_new_view(pool, results[i], &results[i]->layout, 0));
}

void sim_checkpoint_start_replay(SimCheckpoint *checkpoint)
{
    g_assert(!checkpoint->is_replayed);
    checkpoint->is_replaying = true;
    checkpoint->n_products = 0;
    g_ptr_array_set_size(checkpoint->recomputed, (gint)checkpoint->n_holders);
}

void sim_checkpoint_finish_replay(SimCheckpoint *checkpoint)
{
    g_assert(checkpoint->n_packed == checkpoint->n_holders);
    checkpoint->is_replaying = false;
    checkpoint->is_replayed = true;
}

void sim_checkpoint_take_cached(SimCheckpoint *checkpoint, uint32_t n, SimTensor **results)
{
    for (uint32_t i = 0; i < n; i++) {
        gpointer *cached = &g_ptr_array_index(checkpoint->cached, checkpoint->next_cached++);
        results[i] = g_steal_pointer(cached);
    }
}

bool sim_checkpoint_pack(SimCheckpoint *checkpoint, SimTensor *tensor)
{
    g_assert(checkpoint->n_packed < checkpoint->n_holders);
    g_ptr_array_index(checkpoint->recomputed, checkpoint->n_packed++) = sim_tensor_ref(tensor);
    return !checkpoint->settings.stops_early || checkpoint->n_packed < checkpoint->n_holders;
}

SimTensor *sim_checkpoint_unpack(SimCheckpoint *checkpoint, uint32_t holder)
{
    g_assert(checkpoint->is_replayed && holder < checkpoint->n_holders);
    gpointer *recomputed = &g_ptr_array_index(checkpoint->recomputed, holder);
    return g_steal_pointer(recomputed);
}

static void drop_all(SimTensorPool *pool, GPtrArray *tensors)
{
    for (guint i = 0; i < tensors->len; i++)
        if (g_ptr_array_index(tensors, i) != NULL)
            sim_tensor_unref(pool, g_ptr_array_index(tensors, i));
    g_ptr_array_set_size(tensors, 0);
}

void sim_checkpoint_release(SimCheckpoint *checkpoint, SimTensorPool *pool, uint32_t n)
{
    g_assert(checkpoint->n_unreleased >= n);
    checkpoint->n_unreleased -= n;
    if (checkpoint->n_unreleased > 0)
        return;
    drop_all(pool, checkpoint->recomputed);
    drop_all(pool, checkpoint->cached);
    while (checkpoint->n_arguments > 0)
        sim_tensor_unref(pool, checkpoint->arguments[--checkpoint->n_arguments]);
}
