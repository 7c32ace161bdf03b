/* SPDX-License-Identifier: Apache-2.0 */
#include "fsdp/rank_classes.h"

SimRankClass sim_rank_classes_make(SimPlan *plan, uint32_t size, uint32_t first, uint32_t end)
{
    SimRankClass made = {.first = first, .end = end, .rank_set = 0};
    if (first == 0 && end == size)
        return made;
    g_autoptr(GString) text = g_string_new(NULL);
    for (uint32_t start = 0; start < sim_plan_ranks(plan); start += size) {
        g_string_append_printf(text, start == 0 ? "%u" : " %u", start + first);
        if (end - first > 1)
            g_string_append_printf(text, "-%u", start + end - 1);
    }
    bool is_added = sim_plan_add_rank_set(plan, text->str, &made.rank_set, NULL);
    g_assert(is_added);
    return made;
}

static int compare_places(gconstpointer a, gconstpointer b)
{
    uint32_t left = *(const uint32_t *)a, right = *(const uint32_t *)b;
    return (left > right) - (left < right);
}

GArray *sim_rank_classes_compute(SimPlan *plan, uint32_t size, const GArray *shards)
{
    g_autoptr(GArray) breaks = g_array_new(FALSE, FALSE, sizeof(uint32_t));
    uint32_t last[2] = {size, size}; /* mostly all shards break at the same places */
    for (uint32_t i = 0; i < shards->len; i++) {
        uint32_t found[2];
        sim_shard_find_breaks(&g_array_index(shards, SimShard, i), size, &found[0], &found[1]);
        if (found[0] == last[0] && found[1] == last[1])
            continue;
        g_array_append_vals(breaks, found, 2);
        last[0] = found[0];
        last[1] = found[1];
    }
    g_array_append_val(breaks, size);
    g_array_sort(breaks, compare_places);
    GArray *classes = g_array_new(FALSE, FALSE, sizeof(SimRankClass));
    uint32_t first = 0;
    for (uint32_t i = 0; i < breaks->len; i++) {
        uint32_t end = g_array_index(breaks, uint32_t, i);
        if (end == first)
            continue;
        SimRankClass made = sim_rank_classes_make(plan, size, first, end);
        g_array_append_val(classes, made);
        first = end;
    }
    return classes;
}
