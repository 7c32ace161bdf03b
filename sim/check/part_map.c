/* SPDX-License-Identifier: Apache-2.0 */
#include "check/part_map.h"

struct SimPartMap {
    uint32_t *first;    /* by buffer */
    size_t buffers;     /* how many */
    GArray *parts;      /* of SimPart */
    uint32_t free_part; /* first of those given back */
};

SimPartMap *sim_part_map_new(size_t buffers)
{
    SimPartMap *map = g_new0(SimPartMap, 1);
    map->first = g_new(uint32_t, MAX(buffers, 1));
    map->buffers = buffers;
    for (size_t i = 0; i < buffers; i++)
        map->first[i] = SIM_PART_MAP_NONE;
    map->parts = g_array_new(FALSE, FALSE, sizeof(SimPart));
    map->free_part = SIM_PART_MAP_NONE;
    return map;
}

void sim_part_map_free(SimPartMap *map)
{
    if (map == NULL)
        return;
    g_free(map->first);
    g_array_unref(map->parts);
    g_free(map);
}

static SimPart *part_at(const SimPartMap *map, uint32_t part)
{
    return &g_array_index(map->parts, SimPart, part);
}

static uint32_t new_part(SimPartMap *map, SimPart value)
{
    uint32_t part = map->free_part;
    if (part == SIM_PART_MAP_NONE) {
        g_array_append_val(map->parts, value);
        return map->parts->len - 1;
    }
    map->free_part = part_at(map, part)->next;
    *part_at(map, part) = value;
    return part;
}

static void give_back(SimPartMap *map, uint32_t part)
{
    part_at(map, part)->next = map->free_part;
    map->free_part = part;
}

void sim_part_map_clear(SimPartMap *map, uint32_t buffer)
{
    g_assert(buffer < map->buffers);
    uint32_t part = map->first[buffer];
    while (part != SIM_PART_MAP_NONE) {
        uint32_t next = part_at(map, part)->next;
        give_back(map, part);
        part = next;
    }
    map->first[buffer] = SIM_PART_MAP_NONE;
}

uint32_t sim_part_map_find(const SimPartMap *map, uint32_t buffer, uint64_t begin)
{
    g_assert(buffer < map->buffers);
    uint32_t part = map->first[buffer];
    while (part != SIM_PART_MAP_NONE && part_at(map, part)->end <= begin)
        part = part_at(map, part)->next;
    return part;
}

/* Cuts PART at AT, strictly inside it; returns the upper half. */
static uint32_t split(SimPartMap *map, uint32_t part, uint64_t at)
{
    SimPart upper = *part_at(map, part);
    upper.begin = at;
    uint32_t second = new_part(map, upper);
    part_at(map, part)->end = at;
    part_at(map, part)->next = second;
    return second;
}

uint32_t sim_part_map_cut(SimPartMap *map, uint32_t buffer, uint64_t begin, uint64_t end)
{
    g_assert(buffer < map->buffers && begin < end);
    if (map->first[buffer] == SIM_PART_MAP_NONE) {
        SimPart whole = {.begin = 0, .end = UINT64_MAX, .next = SIM_PART_MAP_NONE};
        map->first[buffer] = new_part(map, whole);
    }
    uint32_t part = sim_part_map_find(map, buffer, begin);
    if (part_at(map, part)->begin < begin)
        part = split(map, part, begin);
    uint32_t last = part;
    while (part_at(map, last)->end < end)
        last = part_at(map, last)->next;
    if (part_at(map, last)->end > end)
        split(map, last, end);
    return part;
}

void sim_part_map_put(SimPartMap *map, uint32_t buffer, uint64_t begin, uint64_t end,
                      uint32_t value)
{
    uint32_t part = sim_part_map_cut(map, buffer, begin, end);
    part_at(map, part)->value = value;
    while (part_at(map, part)->end < end) {
        uint32_t next = part_at(map, part)->next;
        part_at(map, part)->end = part_at(map, next)->end;
        part_at(map, part)->next = part_at(map, next)->next;
        give_back(map, next);
    }
}

SimPart sim_part_map_get(const SimPartMap *map, uint32_t part)
{
    return *part_at(map, part);
}

void sim_part_map_set(SimPartMap *map, uint32_t part, uint32_t value)
{
    part_at(map, part)->value = value;
}
