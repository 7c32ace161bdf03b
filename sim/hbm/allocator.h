/* SPDX-License-Identifier: Apache-2.0
 *
 * PyTorch's CUDA caching allocator for one device, decision by decision: every block gets the place
 * in the segment that PyTorch gives it. It deals in addresses only and touches no memory.
 * Source of all rules: c10/cuda/CUDACachingAllocator.cpp.
 *
 *   device memory -> segments (cudaMalloc, or pages of an expandable segment)
 *                 -> blocks (split at the front, merged with free neighbours)
 *                 -> two pools (small up to 1 MiB, large), apart for each stream, best fit
 *
 * malloc and free happen at the time the host issues them. What the GPU does matters in one place:
 * a block that record_stream lent to another stream comes back only when the events recorded at its
 * free are complete; the allocator asks SimAllocatorDevice for that.
 *
 * Bytes are bytes, streams small integers from 0 (memory grows with the largest). Out of memory is
 * a result (NULL, sim_allocator_get_oom), not an error. Cost: malloc and free O(log blocks of the
 * stream) and one step for each event asked; giving cached memory back is linear in cached blocks.
 */
#pragma once

#include "hbm/allocator_config.h"
#include "hbm/allocator_statistics.h"
#include "hbm/block.h"
#include "hbm/segment.h"

#include <glib.h>
#include <stdbool.h>
#include <stdint.h>

typedef struct SimAllocator SimAllocator;

/* Records an event on STREAM after everything issued there so far; returns its number. */
typedef uint64_t (*SimAllocatorRecordEventFunc)(uint32_t stream, void *user_data);
/* True if the event is complete at the host's present time. */
typedef bool (*SimAllocatorIsCompleteFunc)(uint64_t event, void *user_data);
/* Makes the host wait until the event is complete. */
typedef void (*SimAllocatorSynchronizeFunc)(uint64_t event, void *user_data);
/* The address of a new segment: aligned to 2 MiB, not 0, and no overlap with a live one. */
typedef uint64_t (*SimAllocatorReserveAddressFunc)(uint64_t bytes, uint32_t stream,
                                                   void *user_data);

/* What the allocator asks of its surroundings. A NULL record_event makes events that are complete
 * at once (then the next two are not called). A NULL reserve_address lays segments out upwards in
 * order of creation and never reuses an address: this decides best fit among blocks of equal size.
 */
typedef struct SimAllocatorDevice {
    SimAllocatorRecordEventFunc record_event;
    SimAllocatorIsCompleteFunc is_complete;
    SimAllocatorSynchronizeFunc synchronize;
    SimAllocatorReserveAddressFunc reserve_address;
    void *user_data;
} SimAllocatorDevice;

/* Named as in PyTorch's memory snapshot. */
typedef enum SimAllocatorAction {
    SIM_ALLOCATOR_ALLOC,
    SIM_ALLOCATOR_FREE_REQUESTED,
    SIM_ALLOCATOR_FREE_COMPLETED,
    SIM_ALLOCATOR_SEGMENT_ALLOC,
    SIM_ALLOCATOR_SEGMENT_FREE,
    SIM_ALLOCATOR_SEGMENT_MAP,
    SIM_ALLOCATOR_SEGMENT_UNMAP,
    SIM_ALLOCATOR_OOM,
} SimAllocatorAction;

typedef struct SimAllocatorEvent {
    SimAllocatorAction action;
    uint32_t stream;
    uint64_t address;      /* of the block, segment or mapped range; 0 for OOM */
    uint64_t bytes;        /* requested for block actions and OOM, else of the segment or range */
    const SimBlock *block; /* ALLOC, FREE_*: the block, else NULL; in ALLOC its tag is still 0 */
    const SimSegment *segment; /* NULL for OOM */
} SimAllocatorEvent;

/* Called at each action, in PyTorch's order; statistics are those before the action for FREE_* and
 * ALLOC, after it for SEGMENT_*. Must not call back into the allocator except for getters. */
typedef void (*SimAllocatorObserverFunc)(const SimAllocatorEvent *event, void *user_data);

/* The last malloc that failed. */
typedef struct SimAllocatorOom {
    uint64_t requested_bytes;
    uint64_t segment_bytes; /* what was asked of the device */
    uint32_t stream;
    uint64_t allocated_bytes;
    uint64_t active_bytes;
    uint64_t reserved_bytes;
    uint64_t device_free_bytes;        /* not reserved, but less than needed or not allowed */
    uint64_t largest_free_block_bytes; /* cached, in any pool and stream; 0 if none */
} SimAllocatorOom;

/* DEVICE_BYTES: what cudaMalloc may hand out in all (UINT64_MAX: without end, taken as 2^60).
 * Copies CONFIG and DEVICE; CONFIG NULL means PyTorch's defaults, DEVICE NULL all members NULL. */
SimAllocator *sim_allocator_new(const SimAllocatorConfig *config, uint64_t device_bytes,
                                const SimAllocatorDevice *device);

/* Frees the allocator with all its segments and blocks; no events are observed. */
void sim_allocator_destroy(SimAllocator *allocator);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(SimAllocator, sim_allocator_destroy)

void sim_allocator_set_observer(SimAllocator *allocator, SimAllocatorObserverFunc observer,
                                void *user_data);

/* A block of at least BYTES on STREAM, or NULL when out of memory. 0 bytes give the null block, as
 * PyTorch gives a null pointer: size and address 0, no statistics, not observed; free and
 * record_stream of it do nothing. */
SimBlock *sim_allocator_malloc(SimAllocator *allocator, uint64_t bytes, uint32_t stream);

/* The block must be allocated. Reusable at once, or after the events of its record_streams. */
void sim_allocator_free(SimAllocator *allocator, SimBlock *block);

/* STREAM uses the block too: its free waits for what STREAM has been given by then. No effect for
 * the stream that allocated it. O(streams of the block). */
void sim_allocator_record_stream(SimAllocator *allocator, SimBlock *block, uint32_t stream);

/* torch.cuda.empty_cache(): synchronises pending events, then gives back what can be given back. */
void sim_allocator_empty_cache(SimAllocator *allocator);

/* torch.cuda.reset_peak_memory_stats(). */
void sim_allocator_reset_peaks(SimAllocator *allocator);

/* Borrowed, always up to date. */
const SimAllocatorStatistics *sim_allocator_statistics(const SimAllocator *allocator);
const SimAllocatorConfig *sim_allocator_config(const SimAllocator *allocator);
uint64_t sim_allocator_device_bytes(const SimAllocator *allocator);

/* The last out of memory, or NULL if there was none. Borrowed. */
const SimAllocatorOom *sim_allocator_get_oom(const SimAllocator *allocator);

/* The first segment in order of creation, or NULL; sim_segment_next goes on. */
const SimSegment *sim_allocator_first_segment(const SimAllocator *allocator);

/* A piece of a segment that was allocated before a recorded history begins. */
typedef struct SimAllocatorPiece {
    uint64_t offset_bytes;
    uint64_t size_bytes; /* the block's, a multiple of 512 */
} SimAllocatorPiece;

/* Adds a segment as it was when a recording began: PIECES (ascending, no overlap) are allocated,
 * the rest is free. An expandable segment is mapped up to SIZE_BYTES, its address range is what a
 * new one gets. Writes the block of each piece to BLOCKS. The address comes as for a new segment.
 * Nothing is observed; device memory is not checked. O(pieces * log blocks). */
const SimSegment *sim_allocator_restore_segment(SimAllocator *allocator, uint64_t size_bytes,
                                                uint32_t stream, bool is_small, bool is_expandable,
                                                const SimAllocatorPiece *pieces, size_t n_pieces,
                                                SimBlock **blocks);

/* Asserts every invariant: blocks tile their segments, no two free neighbours, indexes complete and
 * ordered, statistics equal the sums, nothing reserved beyond the device. For tests: O(blocks * log
 * blocks). malloc and free themselves assert only what is O(1). */
void sim_allocator_check(const SimAllocator *allocator);
