/* SPDX-License-Identifier: Apache-2.0 */
#include "hbm/allocator.h"

#include "hbm/allocator_private.h"
#include "hbm/device_memory.h"
#include "hbm/expandable.h"
#include "hbm/free_block.h"
#include "hbm/release.h"

#define FIRST_ADDRESS (UINT64_C(1) << 40)
/* Address space of an expandable segment where the device has no end. */
#define MAX_EXPANDABLE_RANGE (UINT64_C(1) << 44)
/* Stands for "without end": sums and rounded sizes of what fits stay far from overflow. */
#define MAX_DEVICE (UINT64_C(1) << 60)

/* A malloc under way. */
typedef struct Request {
    uint64_t bytes;         /* as asked for */
    uint64_t block_bytes;   /* rounded */
    uint64_t segment_bytes; /* if a new segment is needed */
    uint32_t stream;
    SimBlockPool *pool;
    SimStreamPool *part;
} Request;

static void set_limits(SimAllocator *allocator)
{
    const SimAllocatorConfig *config = &allocator->config;
    const double fraction = config->per_process_memory_fraction;
    const uint64_t total =
        config->total_memory_bytes > 0 ? config->total_memory_bytes : allocator->device_bytes;

    allocator->allowed_bytes = UINT64_MAX;
    allocator->gc_start_bytes = UINT64_MAX;
    if (fraction > 0 && fraction < 1) {
        allocator->allowed_bytes = (uint64_t)(fraction * (double)total);
        if (config->garbage_collection_threshold > 0) {
            allocator->gc_start_bytes =
                (uint64_t)(config->garbage_collection_threshold * (double)allocator->allowed_bytes);
        }
    }
    /* "1 1/8 of the total memory", c10/cuda/CUDACachingAllocator.cpp, ExpandableSegment */
    allocator->expandable_range =
        total < MAX_EXPANDABLE_RANGE ? total + total / 8 : MAX_EXPANDABLE_RANGE;
}

SimAllocator *sim_allocator_new(const SimAllocatorConfig *config, uint64_t device_bytes,
                                const SimAllocatorDevice *device)
{
    SimAllocator *allocator = g_new0(SimAllocator, 1);

    sim_allocator_config_init(&allocator->config);
    if (config != NULL) {
        allocator->config = *config;
    }
    if (device != NULL) {
        g_assert(device->record_event == NULL ||
                 (device->is_complete != NULL && device->synchronize != NULL));
        allocator->device = *device;
    }
    allocator->device_bytes = MIN(device_bytes, MAX_DEVICE);
    allocator->next_address = FIRST_ADDRESS;
    set_limits(allocator);
    sim_block_pool_init(&allocator->small, SIM_POOL_SMALL);
    sim_block_pool_init(&allocator->large, SIM_POOL_LARGE);
    sim_block_store_init(&allocator->store);
    sim_pending_events_init(&allocator->pending);
    return allocator;
}

static void free_stream_uses(SimSegment *segment)
{
    for (SimBlock *block = segment->first; block != NULL; block = block->next) {
        g_clear_pointer(&block->stream_uses, g_array_unref);
    }
}

void sim_allocator_destroy(SimAllocator *allocator)
{
    if (allocator == NULL) {
        return;
    }
    while (allocator->first_segment != NULL) {
        SimSegment *segment = allocator->first_segment;
        allocator->first_segment = segment->next;
        free_stream_uses(segment);
        g_free(segment);
    }
    sim_block_pool_done(&allocator->small);
    sim_block_pool_done(&allocator->large);
    sim_pending_events_done(&allocator->pending);
    sim_block_store_done(&allocator->store);
    g_free(allocator);
}

void sim_allocator_set_observer(SimAllocator *allocator, SimAllocatorObserverFunc observer,
                                void *user_data)
{
    allocator->observer = observer;
    allocator->observer_data = user_data;
}

/* What best fit takes a block of an expandable segment for: what it can grow to. */
static uint64_t reachable_size(const SimBlock *block)
{
    const SimBlock *next = block->next;

    return block->size + (next != NULL && !next->mapped ? next->size : 0);
}

/* Among candidates from CURSOR on, the first after which the reachable size does not fall. */
static SimBlockIndexCursor skip_growable(SimBlockIndexCursor cursor)
{
    while (sim_block_index_get(cursor)->segment->is_expandable) {
        const SimBlockIndexCursor next = sim_block_index_next(cursor);
        const SimBlock *block = sim_block_index_get(next);
        if (block == NULL || reachable_size(block) >= reachable_size(sim_block_index_get(cursor))) {
            break;
        }
        cursor = next;
    }
    return cursor;
}

/* The first block of a cudaMalloc'd segment from CURSOR on: restored expandable segments are left
 * alone while the option is off. */
static SimBlockIndexCursor skip_expandable(SimBlockIndexCursor cursor)
{
    while (sim_block_index_get(cursor) != NULL &&
           sim_block_index_get(cursor)->segment->is_expandable) {
        cursor = sim_block_index_next(cursor);
    }
    return cursor;
}

/* get_free_block: best fit, taken out of its index, or NULL. A rejected candidate ends the search.
 */
static SimBlock *take_free_block(SimAllocator *allocator, const Request *request)
{
    const SimAllocatorConfig *config = &allocator->config;
    const uint64_t size = request->block_bytes;

    if (allocator->gc_start_bytes != UINT64_MAX) {
        request->pool->n_searches++;
    }
    SimBlockIndexCursor cursor = sim_block_index_lower_bound(&request->part->free, size, 0);
    SimBlock *block = sim_block_index_get(cursor);
    if (block != NULL && block->segment->is_expandable) {
        cursor = config->expandable_segments ? skip_growable(cursor) : skip_expandable(cursor);
        block = sim_block_index_get(cursor);
    }
    if (block == NULL) {
        return NULL;
    }
    if (size < config->max_split_size_bytes && block->size >= config->max_split_size_bytes) {
        return NULL;
    }
    if (size >= config->max_split_size_bytes &&
        block->size - size >= config->max_non_split_rounding_bytes) {
        return NULL;
    }
    sim_block_index_remove_at(&request->part->free, cursor);
    return block;
}

/* alloc_block: new memory from the device, or NULL. */
static SimBlock *add_memory(SimAllocator *allocator, const Request *request)
{
    const uint64_t reserved = sim_allocator_reserved(allocator);

    if (reserved > allocator->allowed_bytes ||
        request->segment_bytes > allocator->allowed_bytes - reserved) {
        return NULL;
    }
    if (allocator->config.expandable_segments) {
        return sim_expandable_malloc(allocator, request->pool, request->stream,
                                     request->block_bytes);
    }
    return sim_device_memory_malloc(allocator, request->pool, request->stream,
                                    request->segment_bytes);
}

/* No cached block fits: garbage collection, then new memory, each time after giving more back. */
static SimBlock *find_memory(SimAllocator *allocator, const Request *request)
{
    sim_release_old(allocator);
    SimBlock *block = add_memory(allocator, request);
    if (block == NULL &&
        sim_release_available(allocator, request->pool, request->stream, request->block_bytes)) {
        block = add_memory(allocator, request);
    }
    if (block == NULL) {
        sim_release_cached(allocator);
        allocator->statistics.num_alloc_retries++;
        block = add_memory(allocator, request);
    }
    return block;
}

static bool should_split(const SimAllocator *allocator, const SimBlock *block, uint64_t size)
{
    const SimAllocatorConfig *config = &allocator->config;
    const uint64_t remaining = block->size - size;

    if (block->segment->pool->kind == SIM_POOL_SMALL || config->expandable_segments) {
        return remaining >= SIM_ALLOCATOR_MIN_BLOCK;
    }
    return size < config->max_split_size_bytes && remaining > SIM_ALLOCATOR_SMALL_SIZE;
}

static void count_malloc(SimPoolStatistics *statistics, uint64_t size, uint64_t requested)
{
    sim_allocator_statistics_increase(&statistics->allocation, 1);
    sim_allocator_statistics_increase(&statistics->allocated_bytes, size);
    sim_allocator_statistics_increase(&statistics->active, 1);
    sim_allocator_statistics_increase(&statistics->active_bytes, size);
    sim_allocator_statistics_increase(&statistics->requested_bytes, requested);
}

/* A cached block becomes active; REST is what was split off it, or NULL. */
static void count_use_of_split(SimPoolStatistics *statistics, const SimBlock *block,
                               const SimBlock *rest, bool was_split)
{
    if (was_split) {
        sim_allocator_statistics_decrease(&statistics->inactive_split_bytes, block->size);
        if (rest == NULL) {
            sim_allocator_statistics_decrease(&statistics->inactive_split, 1);
        }
    } else if (rest != NULL) {
        sim_allocator_statistics_increase(&statistics->inactive_split_bytes, rest->size);
        sim_allocator_statistics_increase(&statistics->inactive_split, 1);
    }
}

/* alloc_found_block: the request takes the front of BLOCK, or all of it. */
static SimBlock *place_request(SimAllocator *allocator, SimBlock *block, const Request *request)
{
    SimPoolStatistics *pools = allocator->statistics.pools;
    const SimPoolKind kind = request->pool->kind;
    const bool was_split = sim_block_is_split(block);
    SimBlock *rest = NULL;

    if (should_split(allocator, block, request->block_bytes)) {
        rest = sim_free_block_cut(allocator, block, request->block_bytes);
        sim_block_pool_insert(request->pool, rest);
    }
    if (!block->segment->is_expandable) {
        count_use_of_split(&pools[SIM_POOL_ALL], block, rest, was_split);
        count_use_of_split(&pools[kind], block, rest, was_split);
    }
    block->allocated = true;
    block->requested = request->bytes;
    block->tag = 0;
    sim_allocator_observe(allocator, SIM_ALLOCATOR_ALLOC, block->address, request->bytes, block,
                          block->segment);
    count_malloc(&pools[SIM_POOL_ALL], block->size, request->bytes);
    count_malloc(&pools[kind], block->size, request->bytes);
    if (block->size >= allocator->config.max_split_size_bytes) {
        sim_allocator_statistics_increase(&allocator->statistics.oversize_allocations, 1);
    }
    return block;
}

static void record_oom(SimAllocator *allocator, const Request *request)
{
    const SimPoolStatistics *all = &allocator->statistics.pools[SIM_POOL_ALL];

    allocator->statistics.num_ooms++;
    allocator->oom = (SimAllocatorOom){
        .requested_bytes = request->bytes,
        .segment_bytes = request->segment_bytes,
        .stream = request->stream,
        .allocated_bytes = all->allocated_bytes.current,
        .active_bytes = all->active_bytes.current,
        .reserved_bytes = all->reserved_bytes.current,
        .device_free_bytes = sim_allocator_device_free(allocator),
        .largest_free_block_bytes = MAX(sim_block_pool_largest(&allocator->small),
                                        sim_block_pool_largest(&allocator->large)),
    };
    if (allocator->observer != NULL) {
        const SimAllocatorEvent event = {
            .action = SIM_ALLOCATOR_OOM, .stream = request->stream, .bytes = request->bytes};
        allocator->observer(&event, allocator->observer_data);
    }
}

SimBlock *sim_allocator_malloc(SimAllocator *allocator, uint64_t bytes, uint32_t stream)
{
    const SimAllocatorConfig *config = &allocator->config;

    if (bytes == 0) {
        return &allocator->null_block;
    }
    if (allocator->pending.count > 0) {
        sim_pending_events_poll(allocator);
    }
    /* Of a request larger than any device it does not matter by how much. */
    Request request = {.bytes = bytes, .stream = stream};
    request.block_bytes = sim_allocator_config_compute_block(config, MIN(bytes, MAX_DEVICE + 1));
    request.segment_bytes = sim_allocator_config_compute_segment(config, request.block_bytes);
    request.pool =
        request.block_bytes <= SIM_ALLOCATOR_SMALL_SIZE ? &allocator->small : &allocator->large;
    request.part = sim_block_pool_get(request.pool, stream);

    SimBlock *block = take_free_block(allocator, &request);
    if (block == NULL) {
        block = find_memory(allocator, &request);
    }
    if (block == NULL) {
        record_oom(allocator, &request);
        return NULL;
    }
    return place_request(allocator, block, &request);
}

static void count_free(SimPoolStatistics *statistics, uint64_t size)
{
    sim_allocator_statistics_decrease(&statistics->allocation, 1);
    sim_allocator_statistics_decrease(&statistics->allocated_bytes, size);
}

void sim_allocator_free(SimAllocator *allocator, SimBlock *block)
{
    SimPoolStatistics *pools = allocator->statistics.pools;

    if (block == &allocator->null_block) {
        return;
    }
    g_assert(block->allocated);
    sim_allocator_observe(allocator, SIM_ALLOCATOR_FREE_REQUESTED, block->address, block->requested,
                          block, block->segment);
    block->allocated = false;
    count_free(&pools[SIM_POOL_ALL], block->size);
    count_free(&pools[block->segment->pool->kind], block->size);
    if (block->size >= allocator->config.max_split_size_bytes) {
        sim_allocator_statistics_decrease(&allocator->statistics.oversize_allocations, 1);
    }
    if (block->stream_uses != NULL) {
        sim_pending_events_push(allocator, block);
    } else {
        sim_free_block(allocator, block);
    }
}

void sim_allocator_record_stream(SimAllocator *allocator, SimBlock *block, uint32_t stream)
{
    if (block == &allocator->null_block) {
        return;
    }
    g_assert(block->allocated);
    if (stream == block->segment->stream) {
        return;
    }
    if (block->stream_uses == NULL) {
        block->stream_uses = g_array_new(false, false, sizeof(uint32_t));
    }
    unsigned position = 0;
    while (position < block->stream_uses->len &&
           g_array_index(block->stream_uses, uint32_t, position) < stream) {
        position++;
    }
    if (position == block->stream_uses->len ||
        g_array_index(block->stream_uses, uint32_t, position) != stream) {
        g_array_insert_val(block->stream_uses, position, stream);
    }
}

void sim_allocator_empty_cache(SimAllocator *allocator)
{
    sim_release_cached(allocator);
}

void sim_allocator_reset_peaks(SimAllocator *allocator)
{
    sim_allocator_statistics_reset_peaks(&allocator->statistics);
}

const SimAllocatorStatistics *sim_allocator_statistics(const SimAllocator *allocator)
{
    return &allocator->statistics;
}

const SimAllocatorConfig *sim_allocator_config(const SimAllocator *allocator)
{
    return &allocator->config;
}

uint64_t sim_allocator_device_bytes(const SimAllocator *allocator)
{
    return allocator->device_bytes;
}

const SimAllocatorOom *sim_allocator_get_oom(const SimAllocator *allocator)
{
    return allocator->statistics.num_ooms > 0 ? &allocator->oom : NULL;
}

const SimSegment *sim_allocator_first_segment(const SimAllocator *allocator)
{
    return allocator->first_segment;
}
