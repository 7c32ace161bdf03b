/* SPDX-License-Identifier: Apache-2.0 */
#include "hbm/block_store.h"

#define BLOCKS_A_SLAB 256

void sim_block_store_init(SimBlockStore *store)
{
    store->slabs = g_ptr_array_new_with_free_func(g_free);
    store->unused = NULL;
}

void sim_block_store_done(SimBlockStore *store)
{
    g_ptr_array_unref(store->slabs);
}

static void add_slab(SimBlockStore *store)
{
    SimBlock *slab = g_new0(SimBlock, BLOCKS_A_SLAB);

    g_ptr_array_add(store->slabs, slab);
    for (size_t i = BLOCKS_A_SLAB; i-- > 0;) {
        slab[i].next = store->unused;
        store->unused = &slab[i];
    }
}

SimBlock *sim_block_store_take(SimBlockStore *store, SimSegment *segment, uint64_t address,
                               uint64_t size)
{
    if (G_UNLIKELY(store->unused == NULL)) {
        add_slab(store);
    }
    SimBlock *block = store->unused;
    store->unused = block->next;
    *block = (SimBlock){
        .address = address,
        .size = size,
        .segment = segment,
        .mapped = true,
    };
    return block;
}

void sim_block_store_return(SimBlockStore *store, SimBlock *block)
{
    g_assert(block->stream_uses == NULL);
    block->next = store->unused;
    store->unused = block;
}
