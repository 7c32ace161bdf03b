/* SPDX-License-Identifier: Apache-2.0 */
#include "plan/name_table.h"

typedef struct NameSlot {
    SimName name;
    uint32_t youngest; /* SIM_PLAN_NONE: known, but none is listed */
    bool is_used;
} NameSlot;

struct SimNameTable {
    GArray *entries;
    NameSlot *slots;
    uint32_t n_slots; /* a power of two, at least twice n_used */
    uint32_t n_used;
};

SimNameTable *sim_name_table_new(void)
{
    SimNameTable *table = g_new0(SimNameTable, 1);

    table->entries = g_array_new(FALSE, FALSE, sizeof(SimNameEntry));
    table->n_slots = 64;
    table->slots = g_new0(NameSlot, table->n_slots);
    return table;
}

void sim_name_table_free(SimNameTable *table)
{
    if (table == NULL)
        return;
    for (uint32_t i = 0; i < table->entries->len; i++)
        sim_rank_cover_done(&sim_name_table_entry(table, i)->cover);
    g_array_unref(table->entries);
    g_free(table->slots);
    g_free(table);
}

SimNameTable *sim_name_table_copy(const SimNameTable *table)
{
    SimNameTable *copy = g_new0(SimNameTable, 1);

    copy->entries = g_array_copy(table->entries);
    for (uint32_t i = 0; i < copy->entries->len; i++) {
        SimNameEntry *entry = sim_name_table_entry(copy, i);
        entry->cover = sim_rank_cover_copy(&entry->cover);
    }
    copy->n_slots = table->n_slots;
    copy->n_used = table->n_used;
    copy->slots = g_memdup2(table->slots, table->n_slots * sizeof *table->slots);
    return copy;
}

static bool is_same_name(SimName a, SimName b)
{
    return a.stem == b.stem && a.tail == b.tail && a.serial == b.serial;
}

/* Mixing by odd constants (golden ratio and the two of MurmurHash3's finalizer). */
static NameSlot *find_slot(const SimNameTable *table, SimName name)
{
    uint32_t hash = name.stem * UINT32_C(0x9e3779b1) ^ name.tail * UINT32_C(0x85ebca6b) ^
                    (uint32_t)name.serial * UINT32_C(0xc2b2ae35);
    uint32_t i = (hash ^ hash >> 15) & (table->n_slots - 1);

    while (table->slots[i].is_used && !is_same_name(table->slots[i].name, name))
        i = (i + 1) & (table->n_slots - 1);
    return &table->slots[i];
}

static void double_slots(SimNameTable *table)
{
    g_autofree NameSlot *old = table->slots;
    uint32_t n_old = table->n_slots;

    table->n_slots *= 2;
    table->slots = g_new0(NameSlot, table->n_slots);
    for (uint32_t i = 0; i < n_old; i++) {
        if (old[i].is_used)
            *find_slot(table, old[i].name) = old[i];
    }
}

uint32_t sim_name_table_add(SimNameTable *table, SimName name)
{
    NameSlot *slot = find_slot(table, name);

    if (!slot->is_used) {
        if (table->n_used * 2 >= table->n_slots) {
            double_slots(table);
            slot = find_slot(table, name);
        }
        *slot = (NameSlot){.name = name, .youngest = SIM_PLAN_NONE, .is_used = true};
        table->n_used++;
    }
    SimNameEntry entry = {.name = name, .older = slot->youngest, .cover = SIM_RANK_COVER_EMPTY};
    slot->youngest = table->entries->len;
    g_array_append_val(table->entries, entry);
    return slot->youngest;
}

uint32_t sim_name_table_count(const SimNameTable *table)
{
    return table->entries->len;
}

SimNameEntry *sim_name_table_entry(const SimNameTable *table, uint32_t entry)
{
    g_assert(entry < table->entries->len);
    return &g_array_index(table->entries, SimNameEntry, entry);
}

uint32_t sim_name_table_youngest(const SimNameTable *table, SimName name, bool *known)
{
    const NameSlot *slot = find_slot(table, name);

    if (known != NULL)
        *known = slot->is_used;
    return slot->is_used ? slot->youngest : SIM_PLAN_NONE;
}

uint32_t sim_name_table_find(const SimNameTable *table, const SimPlan *plan, SimName name,
                             uint32_t rank_set)
{
    uint32_t i = sim_name_table_youngest(table, name, NULL);

    while (i != SIM_PLAN_NONE) {
        const SimNameEntry *entry = sim_name_table_entry(table, i);
        if (sim_rank_cover_meets(&entry->cover, plan, rank_set))
            return i;
        i = entry->older;
    }
    return SIM_PLAN_NONE;
}

void sim_name_table_unlist(SimNameTable *table, uint32_t entry)
{
    SimNameEntry *gone = sim_name_table_entry(table, entry);
    uint32_t *link = &find_slot(table, gone->name)->youngest;

    while (*link != SIM_PLAN_NONE && *link != entry)
        link = &sim_name_table_entry(table, *link)->older;
    if (*link == entry)
        *link = gone->older;
}
