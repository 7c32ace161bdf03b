/* SPDX-License-Identifier: Apache-2.0 */
#include "autograd/autograd.h"

#include "autograd/autograd_private.h"

void sim_autograd_evaluate(SimAutograd *autograd)
{
    SimTensor *ids = g_ptr_array_index(autograd->buffers, 0);
    SimTensor *results[2];
    autograd->graph = NULL;
    sim_autograd_call_module(autograd, 0, 1, &ids, results);
    sim_tensor_unref(&autograd->dispatch.pool, results[0]);
}
