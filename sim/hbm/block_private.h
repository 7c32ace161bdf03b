/* SPDX-License-Identifier: Apache-2.0
 *
 * The members of a block. States:
 *   allocated                          between malloc and free
 *   !allocated, n_pending_events > 0   freed, waits for other streams
 *   neither, mapped                    cached: in the free index of its stream
 *   !mapped                            bare address space: in the unmapped index of its stream
 */
#pragma once

#include "hbm/block.h"

#include <glib.h>

struct SimBlock {
    uint64_t address;
    uint64_t size;
    uint64_t requested; /* 0 unless active */
    SimBlock *prev;     /* lower neighbour in the segment, NULL at its start */
    SimBlock *next;     /* higher neighbour; in the store, the next unused block */
    SimSegment *segment;
    GArray *stream_uses; /* uint32_t, ascending; NULL: record_stream was not called */
    uint64_t tag;
    uint64_t age_base; /* the pool's count of searches when the block became free */
    uint32_t n_pending_events;
    bool allocated;
    bool mapped;
};

/* True if the block is not the whole of its segment: cudaFree cannot have it. */
static inline bool sim_block_is_split(const SimBlock *block)
{
    return block->prev != NULL || block->next != NULL;
}

/* True if neither a user nor a pending event holds the block. */
static inline bool sim_block_is_idle(const SimBlock *block)
{
    return !block->allocated && block->n_pending_events == 0;
}
