/* SPDX-License-Identifier: Apache-2.0
 *
 * What FSDP1 does in backward (torch/distributed/fsdp/_runtime_utils.py: _pre_backward_hook,
 * _post_backward_hook, _post_backward_reshard_only_hook, _post_backward_final_callback).
 *
 * Parameters are parts of the flat parameter, so autograd concatenates their gradients into one
 * flat gradient: the backward of torch.split. It does so when it comes to the place where forward
 * made the parts (torch/csrc/autograd/engine.cpp: the node with the highest sequence number first),
 * which is the beginning of the unit's own forward or, where the unit was prefetched, that of the
 * unit before. Parts were made on the unshard stream, so that is where autograd runs their backward
 * and the hooks of the flat parameter: it is the current stream there.
 */
#pragma once

#include "fsdp/fsdp1_context.h"

/* A gradient arrives at UNIT's output. */
void sim_fsdp1_backward_start(SimFsdp1Context *context, uint32_t unit);

/* AccumulateGrad's turn for the model's parameter PARAMETER: BUFFER is its whole gradient. */
void sim_fsdp1_backward_add_gradient(SimFsdp1Context *context, uint32_t parameter, uint32_t buffer);

/* Autograd has come to the beginning of UNIT's forward. */
void sim_fsdp1_backward_finish(SimFsdp1Context *context, uint32_t unit);

/* At the end of backward(). */
void sim_fsdp1_backward_finish_all(SimFsdp1Context *context);
