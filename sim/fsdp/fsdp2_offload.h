/* SPDX-License-Identifier: Apache-2.0
 *
 * CPUOffloadPolicy (torch/distributed/fsdp/_fully_shard/_fsdp_param.py: all_gather_inputs;
 * _fsdp_collectives.py: foreach_reduce; _fsdp_param_group.py: finalize_backward): shards, sharded
 * gradients and optimizer states live in host memory.
 *
 * Before an all-gather every shard is copied to the device in its stored type, on the copy-in
 * stream, and cast there; one buffer a parameter. After a reduction every parameter's part is
 * copied to the host on the stream of the reduction, pinned and without waiting unless it is added
 * to an older gradient; the reduced buffer is dropped at once, since what that stream does next
 * comes after the copies. At the end of backward the host waits for the copies. The optimizer runs
 * on the host; how long it takes there is not modelled (its row has no duration).
 */
#pragma once

#include "fsdp/fsdp2_context.h"

#include <stdbool.h>

bool sim_fsdp2_offload_is_on(const SimFsdp2State *state);

/* Device copies of all shards, in the type in which they are gathered; owned by the caller, who
 * frees the buffers once they are read. */
uint32_t *sim_fsdp2_offload_load(SimFsdp2Context *context, SimFsdp2State *state, uint32_t stream);

/* Parameter PLACE's part of REDUCED becomes its gradient on the host, or is added to it. */
void sim_fsdp2_offload_store(SimFsdp2Context *context, SimFsdp2State *state, uint32_t place,
                             uint32_t reduced, uint64_t offset, uint32_t stream);

/* The host waits for the unit's copies that are still under way. */
void sim_fsdp2_offload_wait(SimFsdp2Context *context, SimFsdp2State *state);
