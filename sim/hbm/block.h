/* SPDX-License-Identifier: Apache-2.0
 *
 * A piece of a segment: allocated, waiting for events after its free, or cached. Blocks of a
 * segment tile it in address order. Owned by the allocator; a user's pointer is valid from malloc
 * until the block is really free (FREE_COMPLETED). All O(1).
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

typedef struct SimBlock SimBlock;
typedef struct SimSegment SimSegment;

uint64_t sim_block_address(const SimBlock *block);
uint64_t sim_block_size(const SimBlock *block);      /* what allocated_bytes counts */
uint64_t sim_block_requested(const SimBlock *block); /* as asked for; 0 if cached */
uint32_t sim_block_stream(const SimBlock *block);
const SimSegment *sim_block_segment(const SimBlock *block);

bool sim_block_is_allocated(const SimBlock *block); /* between malloc and free */
bool sim_block_is_active(const SimBlock *block);    /* until really free */
bool sim_block_is_mapped(const SimBlock *block); /* false: address space of an expandable segment */

/* The neighbour at the higher address, or NULL. */
const SimBlock *sim_block_next(const SimBlock *block);

/* A number of the user's, 0 after malloc; observers find it in their events. */
void sim_block_set_tag(SimBlock *block, uint64_t tag);
uint64_t sim_block_tag(const SimBlock *block);
