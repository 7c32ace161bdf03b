/* SPDX-License-Identifier: Apache-2.0 */
#include "fsdp/mesh_groups.h"

static uint32_t add_group(SimPlan *plan, const char *name, const char *lists)
{
    bool is_added = sim_plan_add_group(plan, name, lists, NULL);
    g_assert(is_added);
    return sim_plan_find_group(plan, name);
}

uint32_t sim_mesh_groups_add_neighbours(SimPlan *plan, const char *name, uint32_t size)
{
    g_assert(size > 0 && sim_plan_ranks(plan) % size == 0);
    g_autoptr(GString) lists = g_string_new(NULL);
    for (uint32_t first = 0; first < sim_plan_ranks(plan); first += size) {
        g_string_append_printf(lists, first == 0 ? "%u" : " %u", first);
        if (size > 1)
            g_string_append_printf(lists, "-%u", first + size - 1);
    }
    return add_group(plan, name, lists->str);
}

uint32_t sim_mesh_groups_add_replicas(SimPlan *plan, const char *name, uint32_t size)
{
    g_assert(size > 0 && sim_plan_ranks(plan) % size == 0);
    if (size == 1)
        return sim_mesh_groups_add_neighbours(plan, name, sim_plan_ranks(plan));
    g_autoptr(GString) lists = g_string_new(NULL);
    for (uint32_t place = 0; place < size; place++) {
        g_string_append(lists, place == 0 ? "" : " ");
        for (uint32_t rank = place; rank < sim_plan_ranks(plan); rank += size)
            g_string_append_printf(lists, rank == place ? "%u" : ",%u", rank);
    }
    return add_group(plan, name, lists->str);
}
