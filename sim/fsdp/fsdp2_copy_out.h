/* SPDX-License-Identifier: Apache-2.0
 *
 * From a unit's all-gather output to its parameters, on the compute stream
 * (torch/distributed/fsdp/_fully_shard/_fsdp_collectives.py: foreach_all_gather_copy_out).
 *
 * The output is rank by rank, a parameter's pieces lie apart in it, so one kernel copies all of
 * them into storages of their own (U). A parameter that is cut in another dimension than 0 is put
 * together in a second step: the kernel writes its pieces into a temporary (T), and a concatenation
 * along that dimension makes U.
 *
 * Where one rank has everything no output exists, and parameter by parameter the shard, cast if it
 * must be, is copied into U (_fsdp_param_group.py: wait_for_unshard). The cast lives until the next
 * parameter's exists.
 */
#pragma once

#include "fsdp/fsdp2_context.h"

/* STATE->all_gather_output, or the shards, into new U. */
void sim_fsdp2_copy_out_run(SimFsdp2Context *context, SimFsdp2State *state);
