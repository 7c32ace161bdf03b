/* SPDX-License-Identifier: Apache-2.0
 *
 * The members of a segment.
 */
#pragma once

#include "hbm/block_pool.h"
#include "hbm/segment.h"

struct SimSegment {
    uint64_t address;
    uint64_t size;
    uint64_t mapped; /* = size unless expandable */
    uint32_t stream;
    bool is_expandable;
    SimBlockPool *pool;
    SimStreamPool *stream_pool; /* of POOL and STREAM */
    SimBlock *first;            /* lowest address */
    SimSegment *prev;           /* in order of creation */
    SimSegment *next;
};
