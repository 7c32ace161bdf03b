/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/action_name.h"

const char *sim_action_name_get(SimAllocatorAction action)
{
    switch (action) {
    case SIM_ALLOCATOR_ALLOC:
        return "alloc";
    case SIM_ALLOCATOR_FREE_REQUESTED:
        return "free_requested";
    case SIM_ALLOCATOR_FREE_COMPLETED:
        return "free_completed";
    case SIM_ALLOCATOR_SEGMENT_ALLOC:
        return "segment_alloc";
    case SIM_ALLOCATOR_SEGMENT_FREE:
        return "segment_free";
    case SIM_ALLOCATOR_SEGMENT_MAP:
        return "segment_map";
    case SIM_ALLOCATOR_SEGMENT_UNMAP:
        return "segment_unmap";
    case SIM_ALLOCATOR_OOM:
        return "oom";
    }
    g_assert_not_reached();
}
