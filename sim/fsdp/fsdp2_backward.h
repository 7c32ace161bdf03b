/* SPDX-License-Identifier: Apache-2.0
 *
 * What a unit does around its modules' backward
 * (torch/distributed/fsdp/_fully_shard/_fsdp_state.py: _pre_backward,
 * _root_post_backward_final_callback; _fsdp_param_group.py: pre_backward, _backward_prefetch,
 * post_backward, finalize_backward).
 *
 * Pre-backward gathers the unit again and prefetches the one whose forward ended just before. Post-
 * backward drops the parameters, recycles the previous reduce-scatter's input and reduces. What no
 * hook has reached (units whose inputs need no gradient) is reduced in the final callback, in the
 * order of root.modules().
 */
#pragma once

#include "fsdp/fsdp2_context.h"

void sim_fsdp2_backward_start(SimFsdp2Context *context, uint32_t unit);

/* grad_dtype of the unsharded PARAMETER (_set_unsharded_grad_dtypes): a gradient that starts to add
 * up over several backwards is kept in the wider type; else NONE, as autograd makes it. */
SimDtype sim_fsdp2_backward_gradient_dtype(const SimFsdp2Context *context, uint32_t parameter);

/* AccumulateGrad of the model's parameter PARAMETER: BUFFER is its whole gradient. */
void sim_fsdp2_backward_add_gradient(SimFsdp2Context *context, uint32_t parameter, uint32_t buffer);

void sim_fsdp2_backward_finish(SimFsdp2Context *context, uint32_t unit);

/* At the end of backward(). */
void sim_fsdp2_backward_finish_all(SimFsdp2Context *context);
