/* SPDX-License-Identifier: Apache-2.0
 *
 * Who bears a name, on which ranks. Entries are numbered as they are added (buffers, or events); a
 * name may be borne by several: one after the other, or at the same time on different ranks. Each
 * has a cover: where the buffer lives, or the event has been recorded.
 *
 * An open hash table over names that leads to the youngest entry, from which a chain leads to the
 * older ones. About 40 instructions a look-up.
 */
#pragma once

#include "plan/plan.h"
#include "plan/rank_cover.h"

typedef struct SimNameEntry {
    SimName name;
    uint32_t older; /* next of this name, or SIM_PLAN_NONE */
    SimRankCover cover;
} SimNameEntry;

typedef struct SimNameTable SimNameTable;

SimNameTable *sim_name_table_new(void);
void sim_name_table_free(SimNameTable *table);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(SimNameTable, sim_name_table_free)
SimNameTable *sim_name_table_copy(const SimNameTable *table);

/* A new entry, the youngest of its name, with an empty cover. */
uint32_t sim_name_table_add(SimNameTable *table, SimName name);

uint32_t sim_name_table_count(const SimNameTable *table);
/* Borrowed until the next add. */
SimNameEntry *sim_name_table_entry(const SimNameTable *table, uint32_t entry);

/* The youngest of that name that is still listed, or SIM_PLAN_NONE. KNOWN (may be NULL): whether
 * the name was ever added. */
uint32_t sim_name_table_youngest(const SimNameTable *table, SimName name, bool *known);

/* The youngest of that name whose cover holds a rank of the set, or SIM_PLAN_NONE. */
uint32_t sim_name_table_find(const SimNameTable *table, const SimPlan *plan, SimName name,
                             uint32_t rank_set);

/* Takes the entry out of its name's chain: no look-up finds it any more. */
void sim_name_table_unlist(SimNameTable *table, uint32_t entry);
