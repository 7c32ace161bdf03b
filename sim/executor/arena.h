/* SPDX-License-Identifier: Apache-2.0
 *
 * The device's memory, for real: sim/hbm's allocator decides where a block goes, and the address it
 * gives is one of this process's. Segments are laid out upwards and their addresses never come
 * again, as in the simulator, so best fit decides alike.
 *
 * Host thread only, but for the callbacks of SimArenaDevice, which it calls on the host thread too.
 */
#pragma once

#include "hbm/allocator.h"
#include "plan/plan.h"

#include <glib.h>
#include <stdbool.h>
#include <stdint.h>

typedef struct SimArena SimArena;

/* What the arena tells and asks. */
typedef struct SimArenaDevice {
    SimAllocatorRecordEventFunc record_event;
    SimAllocatorIsCompleteFunc is_complete;
    SimAllocatorSynchronizeFunc synchronize;
    void (*segment)(uint64_t address, uint64_t bytes, void *user_data); /* a new segment */
    /* a block with that tag is really free, and may be handed out to STREAM again */
    void (*freed)(uint64_t tag, uint32_t stream, void *user_data);
    void *user_data;
} SimArenaDevice;

/* CONFIG as PYTORCH_ALLOC_CONF; DEVICE_BYTES may be UINT64_MAX. Errors PARSE, IO. */
SimArena *sim_arena_new(const char *config, uint64_t device_bytes, const SimArenaDevice *device,
                        GError **error);
void sim_arena_free(SimArena *arena);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(SimArena, sim_arena_free)

void *sim_arena_base(const SimArena *arena);
uint64_t sim_arena_bytes(const SimArena *arena); /* of address space */

/* NULL if out of memory. TAG is not 0. */
SimBlock *sim_arena_malloc(SimArena *arena, uint64_t bytes, uint32_t stream, uint64_t tag);
void sim_arena_release(SimArena *arena, SimBlock *block);
void sim_arena_record_stream(SimArena *arena, SimBlock *block, uint32_t stream);

const SimAllocatorStatistics *sim_arena_statistics(const SimArena *arena);
