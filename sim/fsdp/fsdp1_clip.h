/* SPDX-License-Identifier: Apache-2.0
 *
 * FullyShardedDataParallel.clip_grad_norm_ (torch/distributed/fsdp/fully_sharded_data_parallel.py)
 * over sharded gradients, on the compute stream: the norm of each piece, one number of all of them,
 * its square summed over the shard group by one all-reduce of 4 bytes, the root, the coefficient;
 * then every piece is multiplied by it, kernel by kernel. The first call makes a zero that stays,
 * and waits for it on the host. (With NO_SHARD PyTorch calls torch.nn.utils.clip_grad_norm_
 * instead.)
 */
#pragma once

#include "fsdp/fsdp1_slices.h"
#include "plan/plan.h"

#include <stdint.h>

typedef struct SimFsdp1Clip SimFsdp1Clip;

/* SLICES is borrowed. */
SimFsdp1Clip *sim_fsdp1_clip_new(SimFsdp1Slices *slices);
void sim_fsdp1_clip_free(SimFsdp1Clip *clip);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(SimFsdp1Clip, sim_fsdp1_clip_free)

void sim_fsdp1_clip_run(SimFsdp1Clip *clip);
