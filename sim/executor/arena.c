/* SPDX-License-Identifier: Apache-2.0 */
#define _DEFAULT_SOURCE /* MAP_ANONYMOUS */
#include "executor/arena.h"

#include <sys/mman.h>

#include "base/error.h"
#include "base/units.h"

/* Address space; pages come when they are touched. */
#define ARENA_BYTES (UINT64_C(64) * SIM_GIB)
#define SEGMENT_ALIGNMENT (UINT64_C(2) * SIM_MIB)

struct SimArena {
    SimAllocator *allocator;
    SimArenaDevice device;
    unsigned char *mapped;
    uint64_t base, used;
};

static uint64_t reserve(uint64_t bytes, uint32_t stream, void *user_data)
{
    SimArena *arena = user_data;
    (void)stream;
    uint64_t address = arena->base + arena->used;
    arena->used += (bytes + SEGMENT_ALIGNMENT - 1) / SEGMENT_ALIGNMENT * SEGMENT_ALIGNMENT;
    g_assert(arena->used <= ARENA_BYTES);
    return address;
}

static uint64_t record_event(uint32_t stream, void *user_data)
{
    SimArena *arena = user_data;
    return arena->device.record_event(stream, arena->device.user_data);
}

static bool is_complete(uint64_t event, void *user_data)
{
    SimArena *arena = user_data;
    return arena->device.is_complete(event, arena->device.user_data);
}

static void synchronize(uint64_t event, void *user_data)
{
    SimArena *arena = user_data;
    arena->device.synchronize(event, arena->device.user_data);
}

static void observe(const SimAllocatorEvent *event, void *user_data)
{
    SimArena *arena = user_data;
    if (event->action == SIM_ALLOCATOR_FREE_COMPLETED)
        arena->device.freed(sim_block_tag(event->block), event->stream, arena->device.user_data);
    else if (event->action == SIM_ALLOCATOR_SEGMENT_ALLOC ||
             event->action == SIM_ALLOCATOR_SEGMENT_MAP)
        arena->device.segment(event->address, event->bytes, arena->device.user_data);
}

SimArena *sim_arena_new(const char *config, uint64_t device_bytes, const SimArenaDevice *device,
                        GError **error)
{
    SimAllocatorConfig settings;
    sim_allocator_config_init(&settings);
    if (!sim_allocator_config_parse(&settings, config, error))
        return NULL;
    void *mapped = mmap(NULL, ARENA_BYTES + SEGMENT_ALIGNMENT, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (mapped == MAP_FAILED) {
        g_set_error(error, SIM_ERROR, SIM_ERROR_IO,
                    "cannot reserve %" G_GUINT64_FORMAT " B of address space", ARENA_BYTES);
        return NULL;
    }
    SimArena *arena = g_new0(SimArena, 1);
    arena->mapped = mapped;
    arena->device = *device;
    uint64_t start = (uint64_t)(uintptr_t)mapped;
    arena->base = (start + SEGMENT_ALIGNMENT - 1) / SEGMENT_ALIGNMENT * SEGMENT_ALIGNMENT;
    const SimAllocatorDevice callbacks = {record_event, is_complete, synchronize, reserve, arena};
    arena->allocator = sim_allocator_new(&settings, device_bytes, &callbacks);
    sim_allocator_set_observer(arena->allocator, observe, arena);
    return arena;
}

void sim_arena_free(SimArena *arena)
{
    if (arena == NULL)
        return;
    sim_allocator_destroy(arena->allocator);
    munmap(arena->mapped, ARENA_BYTES + SEGMENT_ALIGNMENT);
    g_free(arena);
}

void *sim_arena_base(const SimArena *arena)
{
    return (void *)(uintptr_t)arena->base;
}

uint64_t sim_arena_bytes(const SimArena *arena)
{
    (void)arena;
    return ARENA_BYTES;
}

SimBlock *sim_arena_malloc(SimArena *arena, uint64_t bytes, uint32_t stream, uint64_t tag)
{
    SimBlock *block = sim_allocator_malloc(arena->allocator, bytes, stream);
    if (block != NULL)
        sim_block_set_tag(block, tag);
    return block;
}

void sim_arena_release(SimArena *arena, SimBlock *block)
{
    sim_allocator_free(arena->allocator, block);
}

void sim_arena_record_stream(SimArena *arena, SimBlock *block, uint32_t stream)
{
    sim_allocator_record_stream(arena->allocator, block, stream);
}

const SimAllocatorStatistics *sim_arena_statistics(const SimArena *arena)
{
    return sim_allocator_statistics(arena->allocator);
}
