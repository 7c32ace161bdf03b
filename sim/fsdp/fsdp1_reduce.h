/* SPDX-License-Identifier: Apache-2.0
 *
 * Reducing one unit's gradient (torch/distributed/fsdp/_runtime_utils.py: _post_backward_hook,
 * _reduce_grad, _reduce_grad_no_shard, _accumulate_sharded_grad; the concatenation is the backward
 * of torch.split in FunctionsManual.cpp).
 *
 * Unshard stream: G, one concatenation of all gradients, zeros for padding and for parameters
 * without one. Post-backward stream, behind it: G cast into C where the types differ, padded to the
 * ranks, divided, reduce-scattered into O; with replicas, all-reduce stream, behind that:
 * all-reduce in place. Then divided again, cast into the stored type and added to an older
 * gradient. The division is in two kernels, one before and one after, left out where the factor
 * is 1.
 */
#pragma once

#include "fsdp/fsdp1_context.h"

/* All gradients of STATE's unit are computed when the compute stream has come to here. */
void sim_fsdp1_reduce_record(SimFsdp1Context *context, SimFsdp1State *state);

/* G, new or added to the one of earlier microbatches. */
void sim_fsdp1_reduce_concatenate(SimFsdp1Context *context, SimFsdp1State *state);

/* What was added dies after the flat parameter's hook (torch/csrc/autograd/engine.cpp,
 * call_function: the inputs of a node with hooks are kept for them). */
void sim_fsdp1_reduce_drop_added(SimFsdp1Context *context, SimFsdp1State *state);

/* Reduces G. */
void sim_fsdp1_reduce_start(SimFsdp1Context *context, SimFsdp1State *state);

/* keep_low_precision_grads: a gradient of before takes the stored type again, to be added to
 * (prepare_gradient_for_backward). */
void sim_fsdp1_reduce_raise(SimFsdp1Context *context, SimFsdp1State *state);

/* keep_low_precision_grads: the reduced gradient goes back into the type that parameters are
 * computed with (prepare_gradient_for_optim). */
void sim_fsdp1_reduce_lower(SimFsdp1Context *context, SimFsdp1State *state);
