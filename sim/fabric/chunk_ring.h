/* SPDX-License-Identifier: Apache-2.0
 *
 * One ring all-gather or reduce-scatter, message by message: what the flow of fabric/collective.h
 * leaves out. For up to some hundred ranks: it checks the flow level, and says what late ranks or
 * slow edges do inside a collective.
 *
 * As NCCL's Simple protocol runs one channel (src/device/prims_simple.h, src/enqueue.cc): the shard
 * goes round in chunks of at most 2 MiB; a chunk makes ranks - 1 steps; a step is cut into slices,
 * which follow each other over an edge. A slice may leave a rank when the rank is there, the slice
 * has arrived from the left in the step before, the edge is free, and the right neighbour has a
 * free place in its buffer, which holds two chunks: it frees one when it has sent that slice on.
 */
#pragma once

#include "base/units.h"

#include <stdint.h>

#define SIM_CHUNK_RING_BYTES (UINT64_C(2) << 20)

typedef struct SimChunkRing {
    uint32_t ranks;         /* at least 2 */
    uint32_t slices;        /* of a step, at least 1: NCCL 2, of small shards 1 */
    uint64_t shard;         /* bytes of one rank's part that this channel carries */
    const SimTime *arrival; /* [ranks] when each rank begins; NULL = at 0 */
    const SimTime *latency; /* [ranks] of the edge from each rank to the next */
    const uint64_t *rate;   /* [ranks] of that edge, bytes a second, at least 1 */
} SimChunkRing;

/* When the last slice has arrived. Time O(ranks^2 slices shard / 2 MiB), memory O(ranks slices). */
SimTime sim_chunk_ring_compute(const SimChunkRing *ring);
