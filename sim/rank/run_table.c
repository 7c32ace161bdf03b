/* SPDX-License-Identifier: Apache-2.0 */
#include "rank/run_table.h"

#include <string.h>

/* gcc's and clang's on every 64-bit machine. */
__extension__ typedef unsigned __int128 Wide;

#define GIGA 1e9

typedef struct Run {
    uint32_t first, count;
} Run;

typedef struct State {
    SimLoad load;
    SimTime *durations; /* [classes] */
    SimRunTime **rests; /* [runs]; NULL = not computed yet */
} State;

struct SimRunTable {
    const SimGpu *gpu;
    GArray *kernels;     /* of SimRunKernel */
    GArray *runs;        /* of Run */
    GArray *classes;     /* of SimKernelCost */
    GHashTable *numbers; /* bytes of a SimKernelCost -> its class + 1 */
    GArray *states;      /* of State */
    GHashTable *loads;   /* load as one word -> state + 1 */
};

static uint64_t pack(SimLoad load)
{
    return (uint64_t)load.sms << 32 | load.hbm_gbps;
}

static guint hash_load(gconstpointer key)
{
    uint64_t word = GPOINTER_TO_SIZE(key) * UINT64_C(0x9E3779B97F4A7C15);
    return (guint)(word >> 32);
}

SimRunTable *sim_run_table_new(const SimGpu *gpu)
{
    SimRunTable *table = g_new0(SimRunTable, 1);
    table->gpu = gpu;
    table->kernels = g_array_new(FALSE, FALSE, sizeof(SimRunKernel));
    table->runs = g_array_new(FALSE, FALSE, sizeof(Run));
    table->classes = g_array_new(FALSE, FALSE, sizeof(SimKernelCost));
    table->numbers =
        g_hash_table_new_full(g_bytes_hash, g_bytes_equal, (GDestroyNotify)g_bytes_unref, NULL);
    table->states = g_array_new(FALSE, FALSE, sizeof(State));
    table->loads = g_hash_table_new(hash_load, NULL);
    return table;
}

static void free_rests(SimRunTime **rests, guint runs)
{
    for (guint run = 0; run < runs; run++) {
        g_free(rests[run]);
    }
    g_free(rests);
}

void sim_run_table_free(SimRunTable *table)
{
    if (table == NULL) {
        return;
    }
    for (guint i = 0; i < table->states->len; i++) {
        g_free(g_array_index(table->states, State, i).durations);
        free_rests(g_array_index(table->states, State, i).rests, table->runs->len);
    }
    g_hash_table_unref(table->loads);
    g_array_unref(table->states);
    g_hash_table_unref(table->numbers);
    g_array_unref(table->classes);
    g_array_unref(table->runs);
    g_array_unref(table->kernels);
    g_free(table);
}

uint32_t sim_run_table_add_class(SimRunTable *table, const SimKernelCost *cost)
{
    g_assert(table->states->len == 0);
    SimKernelCost key;
    memset(&key, 0, sizeof key);
    key.duration = cost->duration;
    key.is_memory_bound = cost->is_memory_bound;
    key.tiles = cost->tiles;
    key.lone_tile = cost->lone_tile;
    key.hbm_bytes_per_s = cost->hbm_bytes_per_s;
    g_autoptr(GBytes) bytes = g_bytes_new(&key, sizeof key);
    uint32_t number = GPOINTER_TO_UINT(g_hash_table_lookup(table->numbers, bytes));
    if (number == 0) {
        g_array_append_val(table->classes, *cost);
        number = table->classes->len;
        g_hash_table_insert(table->numbers, g_steal_pointer(&bytes), GUINT_TO_POINTER(number));
    }
    return number - 1;
}

uint32_t sim_run_table_add_run(SimRunTable *table, const SimRunKernel *kernels, uint32_t count)
{
    g_assert(table->states->len == 0);
    Run run = {table->kernels->len, count};
    g_array_append_vals(table->kernels, kernels, count);
    g_array_append_val(table->runs, run);
    return table->runs->len - 1;
}

const SimRunKernel *sim_run_table_kernels(const SimRunTable *table, uint32_t run, uint32_t *count)
{
    const Run *at = &g_array_index(table->runs, Run, run);
    *count = at->count;
    return &g_array_index(table->kernels, SimRunKernel, at->first);
}

static State new_state(const SimRunTable *table, SimLoad load)
{
    State state = {load, g_new(SimTime, table->classes->len),
                   g_new0(SimRunTime *, table->runs->len)};
    for (guint i = 0; i < table->classes->len; i++) {
        state.durations[i] =
            sim_kernel_cost_slowed(table->gpu, &g_array_index(table->classes, SimKernelCost, i),
                                   load.sms, (double)load.hbm_gbps * GIGA);
    }
    return state;
}

static uint32_t add_state(SimRunTable *table, SimLoad load)
{
    State state = new_state(table, load);
    g_array_append_val(table->states, state);
    g_hash_table_insert(table->loads, GSIZE_TO_POINTER(pack(load)),
                        GUINT_TO_POINTER(table->states->len));
    return table->states->len - 1;
}

uint32_t sim_run_table_find_state(SimRunTable *table, SimLoad load)
{
    if (table->states->len == 0) {
        add_state(table, (SimLoad){0});
    }
    if (pack(load) == 0) {
        return 0;
    }
    uint32_t number =
        GPOINTER_TO_UINT(g_hash_table_lookup(table->loads, GSIZE_TO_POINTER(pack(load))));
    return number > 0 ? number - 1 : add_state(table, load);
}

static SimTime duration_of(const SimRunTable *table, const SimRunKernel *kernel, uint32_t state)
{
    if (state == 0 || kernel->class_ == SIM_KERNEL_CLASS_FIXED) {
        return kernel->duration;
    }
    return g_array_index(table->states, State, state).durations[kernel->class_];
}

SimTime sim_run_table_duration(const SimRunTable *table, const SimRunKernel *kernel, uint32_t state)
{
    return duration_of(table, kernel, state);
}

const SimRunTime *sim_run_table_rest(SimRunTable *table, uint32_t run, uint32_t state)
{
    SimRunTime **rest = &g_array_index(table->states, State, state).rests[run];
    if (*rest == NULL) {
        uint32_t count;
        const SimRunKernel *kernels = sim_run_table_kernels(table, run, &count);
        *rest = g_new(SimRunTime, count + 1);
        SimRunTime sum = {0, 0};
        (*rest)[count] = sum;
        for (uint32_t i = count; i-- > 0;) {
            sum.duration += duration_of(table, &kernels[i], state);
            sum.tail = MAX(sum.tail, kernels[i].issued + sum.duration);
            (*rest)[i] = sum;
        }
    }
    return *rest;
}

SimTime sim_run_table_rescale(const SimRunTable *table, const SimRunKernel *kernel, uint32_t from,
                              uint32_t to, SimTime left)
{
    SimTime before = duration_of(table, kernel, from);
    SimTime after = duration_of(table, kernel, to);
    if (before == after) {
        return left;
    }
    Wide scaled = (Wide)(uint64_t)left * (uint64_t)after + (uint64_t)before - 1;
    return (SimTime)(scaled / (uint64_t)before);
}

SimTime sim_run_table_wave_rest(const SimRunTable *table, const SimRunKernel *kernel,
                                uint32_t state, SimTime elapsed)
{
    if (kernel->class_ == SIM_KERNEL_CLASS_FIXED) {
        return 0;
    }
    const SimKernelCost *cost = &g_array_index(table->classes, SimKernelCost, kernel->class_);
    uint32_t held = g_array_index(table->states, State, state).load.sms;
    uint32_t sms = table->gpu->sms > held ? table->gpu->sms - held : 1;
    if (cost->tiles < sms) {
        return 0;
    }
    SimTime duration = duration_of(table, kernel, state);
    SimTime waves = (SimTime)((cost->tiles + sms - 1) / sms);
    SimTime wave = MAX(duration / waves, 1);
    return MIN(wave - elapsed % wave, MAX(duration - elapsed, 0));
}
