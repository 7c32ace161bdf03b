/* SPDX-License-Identifier: Apache-2.0
 *
 * Where blocks come from: slabs, and a list of unused ones, so that malloc and free never call the
 * host's allocator in a steady step. Blocks stay at their place.
 */
#pragma once

#include "hbm/block_private.h"

#include <glib.h>

typedef struct SimBlockStore {
    GPtrArray *slabs;
    SimBlock *unused; /* linked by next */
} SimBlockStore;

void sim_block_store_init(SimBlockStore *store);
void sim_block_store_done(SimBlockStore *store);

/* An idle, mapped block over [ADDRESS, ADDRESS + SIZE) of SEGMENT without neighbours. O(1)
 * amortised. */
SimBlock *sim_block_store_take(SimBlockStore *store, SimSegment *segment, uint64_t address,
                               uint64_t size);

/* Gives the block back; it must not be in an index. O(1). */
void sim_block_store_return(SimBlockStore *store, SimBlock *block);
