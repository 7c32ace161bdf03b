/* SPDX-License-Identifier: Apache-2.0
 *
 * Runs in which every rank is simulated: seconds on the CPU, memory, collectives' events a second.
 *
 *     bench_ranks              all of the below
 *     bench_ranks ring         one ring step of 32 layers (support/known_plans.h), 64 to 1,024
 * ranks bench_ranks model        one step of Llama-3.1-405B, 1,024 to 16,384 ranks; then folded
 *
 * bench_ring_simgrid, built where SimGrid is installed, simulates the same ring message by message.
 */
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#include "known_plans.h"
#include "predict/plan_source.h"
#include "rank/simulation.h"

static const char *const models = SIM_SOURCE_DIR "/models";

/* Of this process on the CPU, so that other programs on the machine count for less. */
static double seconds_since(clock_t start)
{
    return (double)(clock() - start) / CLOCKS_PER_SEC;
}

static long resident_mib(void)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return usage.ru_maxrss / 1024;
}

static double play(const SimPlan *plan, const char *cluster_name, bool fold)
{
    g_autoptr(SimCluster) cluster = sim_cluster_load(models, cluster_name, NULL);
    SimSimulationOptions options = {.hbm_bytes = UINT64_MAX, .fold = fold};
    sim_cluster_choose_gpus(cluster, sim_plan_ranks(plan), NULL);
    clock_t start = clock();
    g_autoptr(SimSimulation) simulation = sim_simulation_new(plan, cluster, &options, NULL);
    const SimResult *result = sim_simulation_run(simulation);
    double seconds = seconds_since(start);
    printf("  %6u ranks%s %8.3f s  %9.0f ns a rank  %9" G_GUINT64_FORMAT " events  %5ld MiB\n",
           sim_plan_ranks(plan), fold ? ", folded:" : ":       ", seconds,
           1e9 * seconds / sim_plan_ranks(plan), result->events, resident_mib());
    return seconds;
}

static void measure_ring(void)
{
    static const uint32_t ranks[] = {64, 256, 1024};
    printf("a ring step of 96 collectives, every rank simulated\n");
    for (size_t i = 0; i < G_N_ELEMENTS(ranks); i++) {
        g_autoptr(SimPlan) plan = known_plans_ring_step(ranks[i]);
        play(plan, "flat", false);
    }
}

static SimPlan *build_model(uint32_t ranks)
{
    static const char *const given[][2] = {
        {"steps", "1"}, {"checkpoint", "full"}, {"hbm", "unlimited"}};
    g_autoptr(SimSettings) settings = sim_settings_new();
    g_autoptr(SimCluster) cluster = sim_cluster_load(models, "h100", NULL);
    for (size_t i = 0; i < G_N_ELEMENTS(given); i++) {
        sim_settings_set(settings, given[i][0], given[i][1], given[i][0], NULL);
    }
    settings->gpus = ranks;
    return sim_plan_source_build(settings, cluster,
                                 SIM_SOURCE_DIR "/models/nets/llama-3.1-405b.json", NULL);
}

static void measure_model(void)
{
    printf("a step of Llama-3.1-405B, every rank simulated; the last line folded\n");
    for (uint32_t ranks = 1024; ranks <= 16384; ranks *= 2) {
        g_autoptr(SimPlan) plan = build_model(ranks);
        play(plan, "h100", false);
        if (ranks == 16384) {
            play(plan, "h100", true);
        }
    }
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "all";
    if (strcmp(what, "model") != 0) {
        measure_ring();
    }
    if (strcmp(what, "ring") != 0) {
        measure_model();
    }
    return 0;
}
