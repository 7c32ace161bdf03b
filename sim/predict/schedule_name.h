/* SPDX-License-Identifier: Apache-2.0
 *
 * What a run shards, in the words of PyTorch and of the ZeRO paper (arXiv 1910.02054): stage 3
 * shards parameters, gradients and optimizer states, stage 2 the last two, stage 1 optimizer
 * states, stage 0 nothing.
 */
#pragma once

#include "base/json.h"

/* "FSDP1 hybrid_shard, ZeRO-3 in groups of 8" from a summary's config (job/settings.h); CONFIG may
 * be NULL. Owned by the caller. */
char *sim_schedule_name_print(const cJSON *config);
