/* SPDX-License-Identifier: Apache-2.0 */
#include "hbm/allocator_config.h"

#include <string.h>

/* Division counts start at the power of two 1 MiB. */
#define FIRST_DIVISION_LOG2 20

void sim_allocator_config_init(SimAllocatorConfig *config)
{
    memset(config, 0, sizeof *config);
    config->max_split_size_bytes = UINT64_MAX;
    config->max_non_split_rounding_bytes = SIM_ALLOCATOR_LARGE_SEGMENT;
    config->large_segment_size_bytes = SIM_ALLOCATOR_LARGE_SEGMENT;
}

static unsigned floor_log2(uint64_t value)
{
    return 63 - (unsigned)__builtin_clzll(value);
}

static uint64_t round_up(uint64_t bytes, uint64_t step)
{
    return (bytes + step - 1) / step * step;
}

/* Up to the next of DIVISIONS equal steps between powers of two; a step is >= 512 bytes, since only
 * sizes above 512 * DIVISIONS come here. */
static uint64_t round_up_to_division(uint64_t bytes, uint32_t divisions)
{
    return round_up(bytes, (UINT64_C(1) << floor_log2(bytes)) >> floor_log2(divisions));
}

uint64_t sim_allocator_config_compute_block(const SimAllocatorConfig *config, uint64_t bytes)
{
    if (bytes < SIM_ALLOCATOR_MIN_BLOCK) {
        return SIM_ALLOCATOR_MIN_BLOCK;
    }
    const unsigned log2 = floor_log2(bytes);
    const unsigned index = log2 > FIRST_DIVISION_LOG2 ? log2 - FIRST_DIVISION_LOG2 : 0;
    const uint32_t divisions =
        config->roundup_power2_divisions[MIN(index, SIM_ALLOCATOR_DIVISIONS - 1)];
    if (divisions > 1 && bytes > SIM_ALLOCATOR_MIN_BLOCK * divisions) {
        return round_up_to_division(bytes, divisions);
    }
    return round_up(bytes, SIM_ALLOCATOR_MIN_BLOCK);
}

uint64_t sim_allocator_config_compute_segment(const SimAllocatorConfig *config,
                                              uint64_t block_bytes)
{
    if (block_bytes <= SIM_ALLOCATOR_SMALL_SIZE) {
        return SIM_ALLOCATOR_SMALL_SEGMENT;
    }
    if (block_bytes < SIM_ALLOCATOR_MIN_LARGE) {
        return config->large_segment_size_bytes;
    }
    return round_up(block_bytes, SIM_ALLOCATOR_ROUND_LARGE);
}
