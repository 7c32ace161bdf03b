/* SPDX-License-Identifier: Apache-2.0
 *
 * malloc/free pairs a second of the caching allocator on recorded histories of FSDP2 steps, beside
 * the same allocator over GLib's GTree (the program of this name with _gtree behind, same source).
 * "--rates" prints the rates alone, one a line.
 */
#include "../support/allocator_history.h"

#include <stdio.h>
#include <string.h>

#define ROUNDS 300
#define TRIES 3

static const char *const names[] = {"fsdp2_1b", "fsdp2_1b_expandable", "magma"};

/* Plays the history once and frees what it leaves, so that each round begins alike. Returns pairs.
 */
static unsigned play(const History *history, SimAllocator *allocator, SimBlock **blocks,
                     unsigned n_restored)
{
    const HistoryEvent *events = (const HistoryEvent *)(void *)history->events->data;
    unsigned n = 0;

    for (unsigned i = 0; i < history->events->len; i++) {
        const HistoryEvent *event = &events[i];
        if (event->action == SIM_ALLOCATOR_ALLOC) {
            blocks[event->slot] = sim_allocator_malloc(allocator, event->bytes, event->stream);
            n++;
        } else if (event->action == SIM_ALLOCATOR_FREE_REQUESTED && event->slot >= n_restored) {
            sim_allocator_free(allocator, blocks[event->slot]);
            blocks[event->slot] = NULL;
        }
    }
    for (unsigned slot = n_restored; slot < history->n_slots; slot++) {
        if (blocks[slot] != NULL) {
            sim_allocator_free(allocator, blocks[slot]);
            blocks[slot] = NULL;
        }
    }
    return n;
}

/* The best of some tries: other programs only ever slow it down. */
static double measure_rate(const char *name)
{
    History *history = history_load(name);
    g_autofree SimBlock **blocks = g_new0(SimBlock *, history->n_slots);
    SimAllocatorConfig config;
    double best = 0;

    sim_allocator_config_init(&config);
    config.expandable_segments = history->is_expandable;
    SimAllocator *allocator = sim_allocator_new(&config, UINT64_MAX, NULL);
    const unsigned n_restored = history_restore(history, allocator, blocks);
    play(history, allocator, blocks, n_restored);
    for (unsigned try = 0; try < TRIES; try++) {
        const int64_t start = g_get_monotonic_time();
        unsigned pairs = 0;
        for (unsigned round = 0; round < ROUNDS; round++) {
            pairs += play(history, allocator, blocks, n_restored);
        }
        const double seconds = (double)(g_get_monotonic_time() - start) / G_USEC_PER_SEC;
        best = MAX(best, pairs / seconds);
    }
    sim_allocator_destroy(allocator);
    history_free(history);
    return best;
}

/* The lines that PROGRAM_gtree prints, or NULL if it is not there. */
static char **run_gtree(const char *program)
{
    g_autofree char *other = g_strconcat(program, "_gtree", NULL);
    g_autofree char *output = NULL;
    char *arguments[] = {other, (char *)"--rates", NULL};

    if (!g_spawn_sync(NULL, arguments, NULL, G_SPAWN_DEFAULT, NULL, NULL, &output, NULL, NULL,
                      NULL)) {
        return NULL;
    }
    return g_strsplit(output, "\n", -1);
}

int main(int argc, char **argv)
{
    const bool rates_only = argc > 1 && strcmp(argv[1], "--rates") == 0;
    g_auto(GStrv) others = rates_only ? NULL : run_gtree(argv[0]);

    for (unsigned i = 0; i < G_N_ELEMENTS(names); i++) {
        const double rate = measure_rate(names[i]);
        if (rates_only) {
            printf("%.0f\n", rate);
            continue;
        }
        printf("%-20s %6.2f million pairs/s", names[i], rate / 1e6);
        if (others != NULL && g_strv_length(others) > i) {
            const double other = g_ascii_strtod(others[i], NULL);
            printf(", over GTree %6.2f: %.2f times as many", other / 1e6, rate / other);
        }
        printf("\n");
    }
    return 0;
}
