/* SPDX-License-Identifier: Apache-2.0 */
#include "executor/faults.h"

#define KEPT 8

struct SimFaults {
    GMutex lock;
    uint32_t rank, count;
    GPtrArray *texts;
};

SimFaults *sim_faults_new(uint32_t rank)
{
    SimFaults *faults = g_new0(SimFaults, 1);
    g_mutex_init(&faults->lock);
    faults->rank = rank;
    faults->texts = g_ptr_array_new_with_free_func(g_free);
    return faults;
}

void sim_faults_free(SimFaults *faults)
{
    if (faults == NULL)
        return;
    g_mutex_clear(&faults->lock);
    g_ptr_array_unref(faults->texts);
    g_free(faults);
}

void sim_faults_push(SimFaults *faults, size_t row, char *text)
{
    g_mutex_lock(&faults->lock);
    if (faults->count++ < KEPT)
        g_ptr_array_add(faults->texts, g_strdup_printf("rank %u, row %" G_GSIZE_FORMAT ": %s",
                                                       faults->rank, row + 1, text));
    g_mutex_unlock(&faults->lock);
    g_free(text);
}

uint32_t sim_faults_count(SimFaults *faults)
{
    g_mutex_lock(&faults->lock);
    uint32_t count = faults->count;
    g_mutex_unlock(&faults->lock);
    return count;
}

char *sim_faults_print(SimFaults *faults)
{
    GString *text = g_string_new(NULL);
    g_mutex_lock(&faults->lock);
    for (guint i = 0; i < faults->texts->len; i++)
        g_string_append_printf(text, "%s\n", (const char *)g_ptr_array_index(faults->texts, i));
    if (faults->count > KEPT)
        g_string_append_printf(text, "rank %u: and %u more\n", faults->rank, faults->count - KEPT);
    g_mutex_unlock(&faults->lock);
    return g_string_free(text, FALSE);
}
