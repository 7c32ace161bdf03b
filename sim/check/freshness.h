/* SPDX-License-Identifier: Apache-2.0
 *
 * Stale weights: a version of its shards travels with each copy of a parameter.
 *
 * A write of a parameter shard makes a new version of it. What copies shards, or copies of them (a
 * cast, a copy-in, an all-gather, a copy-out), passes on which shards it holds and which version of
 * each. A use of a copy whose shard has been written since is a use of old weights: rule 2.
 *
 * What a copy holds is kept once for all buffers that hold the same (a whole unit's parameters
 * share the origin of its all-gather output). Memory: O(units * parameters a unit) a step.
 */
#pragma once

#include "check/rank_view.h"

#include <glib.h>
#include <stdint.h>

typedef struct SimFreshness SimFreshness;

/* Both borrowed. */
SimFreshness *sim_freshness_new(const SimRankView *view, SimFindings *findings);
void sim_freshness_free(SimFreshness *freshness);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(SimFreshness, sim_freshness_free)

/* Row INDEX, a kernel, copy or collective with N spans, reads first. */
void sim_freshness_run(SimFreshness *freshness, uint32_t index, const SimByteRange *spans,
                       uint32_t n_reads, uint32_t n_writes);
/* The buffer's memory is new, or gone. */
void sim_freshness_forget(SimFreshness *freshness, uint32_t buffer);
