/* SPDX-License-Identifier: Apache-2.0
 *
 * A number for each part of each buffer: 0 until it is set. A buffer is a list of parts in order of
 * address, cut where a range that somebody asks for begins or ends; one set as a whole is one part.
 * Memory: O(parts), given back when the buffer is cleared. Each call but get and set walks the
 * buffer's list from its start.
 */
#pragma once

#include <glib.h>
#include <stddef.h>
#include <stdint.h>

#define SIM_PART_MAP_NONE UINT32_MAX

typedef struct SimPartMap SimPartMap;

/* Bytes [begin, end) of a buffer. */
typedef struct SimPart {
    uint64_t begin, end;
    uint32_t value;
    uint32_t next; /* part, or SIM_PART_MAP_NONE */
} SimPart;

SimPartMap *sim_part_map_new(size_t buffers);
void sim_part_map_free(SimPartMap *map);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(SimPartMap, sim_part_map_free)

/* All of BUFFER is 0 again. */
void sim_part_map_clear(SimPartMap *map, uint32_t buffer);
/* [BEGIN, END) becomes one part. */
void sim_part_map_put(SimPartMap *map, uint32_t buffer, uint64_t begin, uint64_t end,
                      uint32_t value);
/* Cuts BUFFER at BEGIN and END; the part that begins at BEGIN. BEGIN < END. */
uint32_t sim_part_map_cut(SimPartMap *map, uint32_t buffer, uint64_t begin, uint64_t end);
/* The first part that reaches beyond BEGIN, or SIM_PART_MAP_NONE if nothing of BUFFER was set. */
uint32_t sim_part_map_find(const SimPartMap *map, uint32_t buffer, uint64_t begin);
SimPart sim_part_map_get(const SimPartMap *map, uint32_t part);
void sim_part_map_set(SimPartMap *map, uint32_t part, uint32_t value);
