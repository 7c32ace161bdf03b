/* SPDX-License-Identifier: Apache-2.0
 *
 * What a unit does around its modules' forward (torch/distributed/fsdp/_fully_shard/_fsdp_state.py:
 * _root_pre_forward, _pre_forward, _post_forward; _fsdp_param_group.py: pre_forward, post_forward).
 *
 * The unit whose forward begins outside any other is the forward root: at its beginning both
 * all-gather streams wait for the compute stream (the optimizer's writes), at its end the last
 * parked all-gather output is dropped. A unit of several modules gathers at the first of them that
 * runs and reshards after the last.
 */
#pragma once

#include "fsdp/fsdp2_context.h"

/* Each returns the unit's index as autograd's token, or SIM_AUTOGRAD_NO_TOKEN. MODULE is any
 * module. */
uint32_t sim_fsdp2_forward_start(SimFsdp2Context *context, uint32_t module);
uint32_t sim_fsdp2_forward_finish(SimFsdp2Context *context, uint32_t module);
