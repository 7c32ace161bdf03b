/* SPDX-License-Identifier: Apache-2.0
 *
 * Max-min solves: flows between random hosts of a leaf-and-spine network (four links a flow: two
 * ports, two uplinks, 4:1 oversubscribed), nanoseconds a flow; and what starting and finishing a
 * flow costs where each shares its links with a few others only.
 */
#include <glib.h>
#include <stdio.h>
#include <time.h>

#include "engine/clock.h"
#include "fabric/flows.h"
#include "fabric/maxmin.h"

#define LINKS_A_FLOW 4
#define HOSTS_A_LEAF 32

/* Of this process on the CPU, so that other programs on the machine count for less. */
static double seconds_since(clock_t start)
{
    return (double)(clock() - start) / CLOCKS_PER_SEC;
}

/* Ports out, ports in, uplinks, downlinks. */
static void route(GRand *rand, uint32_t hosts, uint32_t *links)
{
    uint32_t from = (uint32_t)g_rand_int_range(rand, 0, (gint32)hosts);
    uint32_t to = (uint32_t)g_rand_int_range(rand, 0, (gint32)hosts);
    uint32_t leaves = hosts / HOSTS_A_LEAF;
    links[0] = from;
    links[1] = hosts + to;
    links[2] = 2 * hosts + from / HOSTS_A_LEAF;
    links[3] = 2 * hosts + leaves + to / HOSTS_A_LEAF;
}

static double measure_solve(uint32_t flows, int repeats)
{
    uint32_t leaves = flows / HOSTS_A_LEAF;
    size_t links = 2 * (size_t)flows + 2 * (size_t)leaves;
    g_autofree uint64_t *capacity = g_new(uint64_t, links);
    g_autofree uint64_t *bound = g_new(uint64_t, flows);
    g_autofree uint64_t *rate = g_new(uint64_t, flows);
    g_autofree uint32_t *first = g_new(uint32_t, flows + 1);
    g_autofree uint32_t *link = g_new(uint32_t, flows * LINKS_A_FLOW);
    g_autofree uint32_t *weight = g_new(uint32_t, flows * LINKS_A_FLOW);
    g_autoptr(GRand) rand = g_rand_new_with_seed(1);
    for (size_t l = 0; l < links; l++)
        capacity[l] = l < 2 * (size_t)flows ? 50000000000 : 50000000000 * HOSTS_A_LEAF / 4;
    for (uint32_t f = 0; f <= flows; f++)
        first[f] = f * LINKS_A_FLOW;
    for (uint32_t f = 0; f < flows; f++) {
        bound[f] = 48000000000 - f % 7;
        route(rand, flows, link + f * LINKS_A_FLOW);
        for (int i = 0; i < LINKS_A_FLOW; i++)
            weight[f * LINKS_A_FLOW + (uint32_t)i] = SIM_MAXMIN_WEIGHT;
    }
    const SimMaxminProblem problem = {flows, links, capacity, bound, first, link, weight};
    g_autoptr(SimMaxmin) maxmin = sim_maxmin_new();
    sim_maxmin_compute(maxmin, &problem, rate);
    clock_t start = clock();
    for (int i = 0; i < repeats; i++)
        sim_maxmin_compute(maxmin, &problem, rate);
    return 1e9 * seconds_since(start) / repeats / flows;
}

/* GROUPS of four flows, each group on a link of its own, all of them always running. */
static double measure_flows(uint32_t groups, uint32_t finished)
{
    uint32_t flows_count = 4 * groups;
    g_autofree uint64_t *capacity = g_new(uint64_t, groups);
    for (uint32_t i = 0; i < groups; i++)
        capacity[i] = 50000000000;
    g_autoptr(SimFlows) flows = sim_flows_new(capacity, groups);
    g_autoptr(GRand) rand = g_rand_new_with_seed(1);
    const uint32_t weight = SIM_MAXMIN_WEIGHT;
    SimCollectiveCost cost = {.latency = SIM_MICROSECOND, .rate = 48000000000};
    SimTime now = 0;
    for (uint32_t id = 0; id < flows_count; id++) {
        uint32_t link = id / 4;
        cost.volume.bytes = (uint64_t)g_rand_int_range(rand, 1000000, 2000000);
        sim_flows_start(flows, now, id, &cost, (SimRoute){&link, &weight, 1});
    }
    clock_t start = clock();
    for (uint32_t done = 0; done < finished;) {
        now = sim_flows_next_time(flows);
        uint32_t id;
        while (sim_flows_finish(flows, now, &id)) {
            uint32_t link = id / 4;
            cost.volume.bytes = 1000000 + id * 7919 % 1000000;
            sim_flows_start(flows, now, id, &cost, (SimRoute){&link, &weight, 1});
            done++;
        }
    }
    return 1e9 * seconds_since(start) / finished;
}

int main(void)
{
    printf("max-min solver, four links a flow\n%10s %16s\n", "flows", "ns a flow");
    for (uint32_t flows = 1024; flows <= 65536; flows *= 4)
        printf("%10u %16.1f\n", flows, measure_solve(flows, (int)(1u << 20) / (int)flows));
    printf("flows in virtual time, four on a link\n%10s %16s\n", "running", "ns a flow");
    for (uint32_t groups = 256; groups <= 4096; groups *= 4)
        printf("%10u %16.1f\n", 4 * groups, measure_flows(groups, 1u << 20));
    return 0;
}
