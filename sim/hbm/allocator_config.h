/* SPDX-License-Identifier: Apache-2.0
 *
 * Settings of the caching allocator, as PYTORCH_ALLOC_CONF sets them, and the two computations that
 * depend on nothing else: the block size and the segment size of a request.
 *
 * All sizes in bytes. Sources: c10/core/AllocatorConfig.cpp, c10/cuda/CUDAAllocatorConfig.cpp (keys
 * and verdicts), c10/cuda/CUDACachingAllocator.cpp (round_size, get_allocation_size).
 */
#pragma once

#include <glib.h>
#include <stdbool.h>
#include <stdint.h>

#define SIM_ALLOCATOR_MIN_BLOCK UINT64_C(512)      /* kMinBlockSize */
#define SIM_ALLOCATOR_SMALL_SIZE UINT64_C(1048576) /* kSmallSize: up to it, the small pool */
#define SIM_ALLOCATOR_SMALL_SEGMENT                                                                \
    UINT64_C(2097152)                                  /* kSmallBuffer, also the small pool's page \
                                                        */
#define SIM_ALLOCATOR_LARGE_SEGMENT UINT64_C(20971520) /* kLargeBuffer, default */
#define SIM_ALLOCATOR_MIN_LARGE UINT64_C(10485760)     /* kMinLargeAlloc: from it, an own segment */
#define SIM_ALLOCATOR_ROUND_LARGE UINT64_C(2097152)    /* kRoundLarge */
#define SIM_ALLOCATOR_DIVISIONS 16                     /* powers of two from 1 MiB to 64 GiB */

typedef struct SimAllocatorConfig {
    uint64_t max_split_size_bytes; /* UINT64_MAX: off */
    uint64_t
        max_non_split_rounding_bytes;  /* what a block >= max_split_size may exceed a request by */
    uint64_t large_segment_size_bytes; /* segment of a request in (1 MiB, 10 MiB); large page */
    uint32_t roundup_power2_divisions[SIM_ALLOCATOR_DIVISIONS]; /* 0, 1: off; else a power of two */
    double garbage_collection_threshold; /* of what the fraction allows; 0: off */
    double per_process_memory_fraction;  /* 0 or 1: no limit */
    uint64_t total_memory_bytes; /* what the fraction, and 9/8 of an expandable segment, are taken
                                    of; 0: the device_bytes of the allocator */
    bool expandable_segments;
} SimAllocatorConfig;

/* PyTorch's defaults. */
void sim_allocator_config_init(SimAllocatorConfig *config);

/* Reads TEXT ("expandable_segments:True,max_split_size_mb:128", spaces ignored) into CONFIG with
 * PyTorch's verdicts. As there, each parse first sets max_split_size, the divisions and the garbage
 * collection threshold back to their defaults. Keys that concern pinned host memory or locks are
 * checked for a value and change nothing. CONFIG is untouched on failure.
 * Errors: PARSE (syntax, not a number, not True/False), SCHEMA (unknown key), RANGE (a value
 * PyTorch refuses), UNSUPPORTED (backend other than native, throw_on_cudamalloc_oom). */
bool sim_allocator_config_parse(SimAllocatorConfig *config, const char *text, GError **error);

/* The size of the block for a request of BYTES > 0: a multiple of 512, or the next division between
 * powers of two. O(1). */
uint64_t sim_allocator_config_compute_block(const SimAllocatorConfig *config, uint64_t bytes);

/* The size of a new segment for a block of BLOCK_BYTES. O(1). */
uint64_t sim_allocator_config_compute_segment(const SimAllocatorConfig *config,
                                              uint64_t block_bytes);
