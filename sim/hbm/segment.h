/* SPDX-License-Identifier: Apache-2.0
 *
 * What one cudaMalloc returned, or the address range of an expandable segment. Belongs to one
 * stream and one pool for life. Owned by the allocator. All O(1).
 */
#pragma once

#include "hbm/block.h"

#include <stdbool.h>
#include <stdint.h>

uint64_t sim_segment_address(const SimSegment *segment);
uint64_t sim_segment_size(const SimSegment *segment);   /* address range, bytes */
uint64_t sim_segment_mapped(const SimSegment *segment); /* bytes that count as reserved */
uint32_t sim_segment_stream(const SimSegment *segment);
bool sim_segment_is_small(const SimSegment *segment);
bool sim_segment_is_expandable(const SimSegment *segment);

/* The block at the lowest address. */
const SimBlock *sim_segment_first_block(const SimSegment *segment);

/* The next in order of creation, or NULL. */
const SimSegment *sim_segment_next(const SimSegment *segment);
