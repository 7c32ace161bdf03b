/* SPDX-License-Identifier: Apache-2.0 */
#include "hbm/segment.h"

#include <glib.h>

#include "hbm/segment_private.h"

uint64_t sim_segment_address(const SimSegment *segment)
{
    return segment->address;
}

uint64_t sim_segment_size(const SimSegment *segment)
{
    return segment->size;
}

uint64_t sim_segment_mapped(const SimSegment *segment)
{
    return segment->mapped;
}

uint32_t sim_segment_stream(const SimSegment *segment)
{
    return segment->stream;
}

bool sim_segment_is_small(const SimSegment *segment)
{
    return segment->pool->kind == SIM_POOL_SMALL;
}

bool sim_segment_is_expandable(const SimSegment *segment)
{
    return segment->is_expandable;
}

const SimBlock *sim_segment_first_block(const SimSegment *segment)
{
    return segment->first;
}

const SimSegment *sim_segment_next(const SimSegment *segment)
{
    return segment->next;
}
