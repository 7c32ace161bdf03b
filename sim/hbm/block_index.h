/* SPDX-License-Identifier: Apache-2.0
 *
 * Blocks of one stream in order of (size, address), or of address alone: a B+ tree. Nodes hold
 * their keys, so a search reads a few cache lines and no block; leaves are linked for walks. A node
 * is split when full and evened out or merged with its neighbour below a quarter, so the depth is
 * at most log_8 of the count. Holds each block at most once; a block's key must not change inside.
 */
#pragma once

#include "hbm/block.h"

#include <stddef.h>

typedef struct SimBlockIndexNode SimBlockIndexNode;

typedef enum SimBlockIndexOrder {
    SIM_BLOCK_INDEX_BY_SIZE, /* then by address */
    SIM_BLOCK_INDEX_BY_ADDRESS,
} SimBlockIndexOrder;

typedef struct SimBlockIndex {
    SimBlockIndexNode *root;  /* NULL if nothing was ever inserted */
    SimBlockIndexNode *spare; /* unused nodes, linked by parent */
    size_t count;             /* blocks */
    SimBlockIndexOrder order;
} SimBlockIndex;

/* A place in an index, valid until the next insert or remove. */
typedef struct SimBlockIndexCursor {
    SimBlockIndexNode *leaf;
    unsigned position;
} SimBlockIndexCursor;

void sim_block_index_init(SimBlockIndex *index, SimBlockIndexOrder order);
void sim_block_index_done(SimBlockIndex *index);

/* O(log n). */
void sim_block_index_insert(SimBlockIndex *index, SimBlock *block);
void sim_block_index_remove(SimBlockIndex *index, const SimBlock *block);

/* The first block with a key >= (SIZE, ADDRESS), or the end. By address, SIZE must be 0. O(log n).
 */
SimBlockIndexCursor sim_block_index_lower_bound(const SimBlockIndex *index, uint64_t size,
                                                uint64_t address);

/* The place of the first and the last block, or the end if there is none. O(log n). */
SimBlockIndexCursor sim_block_index_first(const SimBlockIndex *index);
SimBlockIndexCursor sim_block_index_last(const SimBlockIndex *index);

/* The block at the cursor, NULL at the end. O(1). */
SimBlock *sim_block_index_get(SimBlockIndexCursor cursor);

/* The neighbouring places; the end lies after the last and before the first block. O(1). */
SimBlockIndexCursor sim_block_index_next(SimBlockIndexCursor cursor);
SimBlockIndexCursor sim_block_index_previous(SimBlockIndexCursor cursor);

/* Removes the block at the cursor. O(1) amortised. */
void sim_block_index_remove_at(SimBlockIndex *index, SimBlockIndexCursor cursor);

/* Asserts order, links, fill and count. O(n). */
void sim_block_index_check(const SimBlockIndex *index);
