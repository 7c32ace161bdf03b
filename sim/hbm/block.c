/* SPDX-License-Identifier: Apache-2.0 */
#include "hbm/block.h"

#include <glib.h>

#include "hbm/block_private.h"
#include "hbm/segment.h"

uint64_t sim_block_address(const SimBlock *block)
{
    return block->address;
}

uint64_t sim_block_size(const SimBlock *block)
{
    return block->size;
}

uint64_t sim_block_requested(const SimBlock *block)
{
    return block->requested;
}

uint32_t sim_block_stream(const SimBlock *block)
{
    return block->segment == NULL ? 0 : sim_segment_stream(block->segment);
}

const SimSegment *sim_block_segment(const SimBlock *block)
{
    return block->segment;
}

bool sim_block_is_allocated(const SimBlock *block)
{
    return block->allocated;
}

bool sim_block_is_active(const SimBlock *block)
{
    return !sim_block_is_idle(block);
}

bool sim_block_is_mapped(const SimBlock *block)
{
    return block->mapped;
}

const SimBlock *sim_block_next(const SimBlock *block)
{
    return block->next;
}

void sim_block_set_tag(SimBlock *block, uint64_t tag)
{
    block->tag = tag;
}

uint64_t sim_block_tag(const SimBlock *block)
{
    return block->tag;
}
