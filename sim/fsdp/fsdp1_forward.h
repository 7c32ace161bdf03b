/* SPDX-License-Identifier: Apache-2.0
 *
 * What FSDP1 does around modules' forward (torch/distributed/fsdp/_runtime_utils.py:
 * _root_pre_forward, _pre_forward, _post_forward; _exec_order_utils.py).
 *
 * The root's forward begins with both unshard streams waiting for the compute stream (the
 * optimizer's writes) and, with use_orig_params, the gradients that zero_grad has dropped being
 * given back. The root keeps its parameters after forward whatever the strategy.
 */
#pragma once

#include "fsdp/fsdp1_context.h"

/* Each returns the unit's index as autograd's token, or SIM_AUTOGRAD_NO_TOKEN. MODULE is any
 * module. */
uint32_t sim_fsdp1_forward_start(SimFsdp1Context *context, uint32_t module);
uint32_t sim_fsdp1_forward_finish(SimFsdp1Context *context, uint32_t module);

/* _reset_flat_param_grad_info_if_needed of all units. */
void sim_fsdp1_forward_drop_zeroed(SimFsdp1Context *context);
