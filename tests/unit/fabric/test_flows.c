/* SPDX-License-Identifier: Apache-2.0
 *
 * Pins when flows that share links finish, in closed form, and that folded groups finish when
 * unfolded ones do. Most tests use links of 1000 bytes/s and write times in milliseconds.
 */
#include <glib.h>
#include <stdlib.h>

#include <check.h>

#include "engine/clock.h"
#include "fabric/flows.h"
#include "fabric/maxmin.h"

#define MODELS SIM_SOURCE_DIR "/models"
#define ONE SIM_MAXMIN_WEIGHT
#define MS SIM_MILLISECOND

static SimCollectiveCost cost(SimTime latency, uint64_t bytes, uint64_t rate)
{
    return (SimCollectiveCost){.latency = latency, .volume = {.bytes = bytes}, .rate = rate};
}

/* A flow over one link with weight one. */
static void start(SimFlows *flows, SimTime now, uint32_t id, SimCollectiveCost its, uint32_t link)
{
    const uint32_t weight = ONE;
    sim_flows_start(flows, now, id, &its, (SimRoute){&link, &weight, 1});
}

/* Runs until all is done; END[id] is when each finished. */
static void run(SimFlows *flows, SimTime *end)
{
    SimTime now;
    while ((now = sim_flows_next_time(flows)) != SIM_TIME_NEVER) {
        uint32_t id;
        while (sim_flows_finish(flows, now, &id))
            end[id] = now;
        ck_assert(sim_flows_check(flows));
    }
    ck_assert_uint_eq(sim_flows_count(flows), 0);
}

/* 5 ms, then 1000 bytes at 500 bytes/s, its own bound: 2 s. */
START_TEST(alone_a_flow_takes_its_latency_and_its_volume)
{
    const uint64_t capacity = 1000;
    g_autoptr(SimFlows) flows = sim_flows_new(&capacity, 1);
    start(flows, 7 * MS, 0, cost(5 * MS, 1000, 500), 0);
    SimTime end[1];
    run(flows, end);
    ck_assert_int_eq(end[0], 2012 * MS);
}
END_TEST

/* A: 1000 bytes from 0; B: 1000 bytes from 500 ms. A has 500 left when B comes; both at 500 bytes/s
 * until A is through at 1500 ms; B then has 500 left for itself: 2000 ms. */
START_TEST(a_second_flow_halves_the_rate_while_both_move)
{
    const uint64_t capacity = 1000;
    g_autoptr(SimFlows) flows = sim_flows_new(&capacity, 1);
    start(flows, 0, 0, cost(0, 1000, 1000), 0);
    SimTime now = sim_flows_next_time(flows); /* latency of zero ends */
    uint32_t id;
    ck_assert_int_eq(now, 0);
    ck_assert(!sim_flows_finish(flows, now, &id));
    ck_assert_int_eq(sim_flows_next_time(flows), 1000 * MS);
    start(flows, 500 * MS, 1, cost(0, 1000, 1000), 0);
    ck_assert(!sim_flows_finish(flows, 500 * MS, &id));
    ck_assert_uint_eq(sim_flows_rate(flows, 0), 500);
    ck_assert_uint_eq(sim_flows_rate(flows, 1), 500);
    SimTime end[2];
    run(flows, end);
    ck_assert_int_eq(end[0], 1500 * MS);
    ck_assert_int_eq(end[1], 2000 * MS);
}
END_TEST

/* B waits out 1 s before it moves; by then A is through: neither slows the other. */
START_TEST(the_latency_part_uses_no_link)
{
    const uint64_t capacity = 1000;
    g_autoptr(SimFlows) flows = sim_flows_new(&capacity, 1);
    start(flows, 0, 0, cost(0, 1000, 1000), 0);
    start(flows, 0, 1, cost(1000 * MS, 1000, 1000), 0);
    SimTime end[2];
    run(flows, end);
    ck_assert_int_eq(end[0], 1000 * MS);
    ck_assert_int_eq(end[1], 2000 * MS);
}
END_TEST

/* Two reduce-scatters of 600 bytes and an all-reduce of 1200 on one NIC of 900 bytes/s: 300 each,
 * so the reduce-scatters end at 2 s; the all-reduce has 600 left, alone at 900: 2.667 s. The
 * all-reduce bound to 200 gives 350 to each of the others (600 / 350 = 1.714 s) and itself takes 6
 * s. */
START_TEST(two_reduce_scatters_and_an_all_reduce_share_a_nic)
{
    const uint64_t capacity = 900;
    SimTime end[3];
    g_autoptr(SimFlows) flows = sim_flows_new(&capacity, 1);
    start(flows, 0, 0, cost(0, 600, 900), 0);
    start(flows, 0, 1, cost(0, 600, 900), 0);
    start(flows, 0, 2, cost(0, 1200, 900), 0);
    run(flows, end);
    ck_assert_int_eq(end[0], 2000 * MS);
    ck_assert_int_eq(end[1], 2000 * MS);
    ck_assert_int_eq(end[2], INT64_C(2666666666667));
    SimTime now = end[2];
    start(flows, now, 0, cost(0, 600, 900), 0);
    start(flows, now, 1, cost(0, 600, 900), 0);
    start(flows, now, 2, cost(0, 1200, 200), 0);
    run(flows, end);
    ck_assert_int_eq(end[0] - now, INT64_C(1714285714286));
    ck_assert_int_eq(end[1] - now, INT64_C(1714285714286));
    ck_assert_int_eq(end[2] - now, 6000 * MS);
}
END_TEST

START_TEST(flows_of_one_instant_finish_in_order_of_id)
{
    const uint64_t capacity[] = {1000, 1000, 1000};
    g_autoptr(SimFlows) flows = sim_flows_new(capacity, 3);
    start(flows, 0, 2, cost(0, 1000, 1000), 0);
    start(flows, 0, 0, cost(0, 1000, 1000), 1);
    start(flows, 0, 1, cost(1000 * MS, 0, 1), 2);
    uint32_t id;
    ck_assert_int_eq(sim_flows_next_time(flows), 0);
    ck_assert(!sim_flows_finish(flows, 0, &id));
    ck_assert_int_eq(sim_flows_next_time(flows), 1000 * MS);
    for (uint32_t i = 0; i < 3; i++) {
        ck_assert(sim_flows_finish(flows, 1000 * MS, &id));
        ck_assert_uint_eq(id, i);
    }
    ck_assert(!sim_flows_finish(flows, 1000 * MS, &id));
    ck_assert_int_eq(sim_flows_next_time(flows), SIM_TIME_NEVER);
}
END_TEST

START_TEST(a_flow_without_volume_or_links_ends_all_the_same)
{
    g_autoptr(SimFlows) flows = sim_flows_new(NULL, 0);
    const SimRoute none = {0};
    SimCollectiveCost only_latency = cost(3 * MS, 0, 1), both = cost(3 * MS, 1000, 1000);
    sim_flows_start(flows, MS, 0, &only_latency, none);
    sim_flows_start(flows, MS, 1, &both, none);
    SimTime end[2];
    run(flows, end);
    ck_assert_int_eq(end[0], 4 * MS);
    ck_assert_int_eq(end[1], 1004 * MS);
}
END_TEST

START_TEST(an_id_runs_once_at_a_time)
{
    const uint64_t capacity = 1000;
    g_autoptr(SimFlows) flows = sim_flows_new(&capacity, 1);
    start(flows, 0, 0, cost(0, 1000, 1000), 0);
    start(flows, 0, 0, cost(0, 1000, 1000), 0);
}
END_TEST

/* Random flows over random links: after every event no link is overloaded and no flow could go
 * faster, and starting the flows of an instant in another order changes nothing. */
static void run_random(guint32 seed, bool backwards, SimTime *end)
{
    enum { FLOWS = 60, LINKS = 6 };
    g_autoptr(GRand) rand = g_rand_new_with_seed(seed);
    const uint64_t capacity[LINKS] = {1000, 1500, 700, 3000, 999, 1001};
    g_autoptr(SimFlows) flows = sim_flows_new(capacity, LINKS);
    SimTime when[FLOWS];
    SimCollectiveCost costs[FLOWS];
    uint32_t links[FLOWS][2], weights[FLOWS][2];
    for (uint32_t f = 0; f < FLOWS; f++) {
        when[f] = (f / 10) * 700 * MS;
        costs[f] =
            cost(g_rand_int_range(rand, 0, 3) * 100 * MS, (uint64_t)g_rand_int_range(rand, 1, 2000),
                 (uint64_t)g_rand_int_range(rand, 50, 3000));
        links[f][0] = (uint32_t)g_rand_int_range(rand, 0, LINKS - 1);
        links[f][1] = (uint32_t)g_rand_int_range(rand, (gint32)links[f][0] + 1, LINKS);
        weights[f][0] = ONE / (uint32_t)g_rand_int_range(rand, 1, 4);
        weights[f][1] = ONE * (uint32_t)g_rand_int_range(rand, 1, 4);
    }
    for (uint32_t batch = 0; batch < FLOWS / 10; batch++) {
        SimTime now = when[batch * 10], next;
        uint32_t id;
        while ((next = sim_flows_next_time(flows)) <= now) {
            while (sim_flows_finish(flows, next, &id))
                end[id] = next;
            ck_assert(sim_flows_check(flows));
        }
        for (uint32_t i = 0; i < 10; i++) {
            uint32_t f = batch * 10 + (backwards ? 9 - i : i);
            sim_flows_start(flows, now, f, &costs[f], (SimRoute){links[f], weights[f], 2});
        }
    }
    run(flows, end);
}

START_TEST(the_order_in_which_flows_start_does_not_matter)
{
    SimTime forwards[60], backwards[60];
    run_random((guint32)_i, false, forwards);
    run_random((guint32)_i, true, backwards);
    for (int f = 0; f < 60; f++)
        ck_assert_int_eq(forwards[f], backwards[f]);
}
END_TEST

/* HSDP on 4 nodes of 8 GPUs with 4 NICs, so that two replicate groups share a NIC: all-reduce of
 * all replicate groups, and beside it another ring over everything. Unfolded 9 flows, folded 2. */
static void run_hybrid(bool folded, SimTime *replicate, SimTime *world)
{
    g_autoptr(SimCluster) cluster =
        sim_cluster_load(MODELS, "node:4 gpu:8 type:h100 nics:4 nic:300Gb/s", NULL);
    ck_assert_ptr_nonnull(cluster);
    uint32_t ranks[8][4], all[32];
    SimLinkGroup groups[9];
    uint32_t flows_count = folded ? 2 : 9;
    for (uint32_t i = 0; i < 32; i++) {
        all[i] = i;
        ranks[i % 8][i / 8] = i;
    }
    for (uint32_t i = 0; i < 8; i++)
        groups[i] = (SimLinkGroup){ranks[i], 4, folded ? 0 : i};
    groups[8] = (SimLinkGroup){all, 32, flows_count - 1};
    g_autoptr(SimLinks) links = sim_links_new(cluster, groups, 9, flows_count);
    g_autoptr(SimFlows) flows = sim_flows_new(sim_links_capacities(links), sim_links_count(links));
    const SimCollectiveRequest reduce = {SIM_COMM_ALL_REDUCE, 100 * SIM_MIB + 12, true,
                                         sim_group_shape_compute(cluster, ranks[0], 4)};
    const SimCollectiveRequest gather = {SIM_COMM_ALL_GATHER, SIM_GIB + 4, true,
                                         sim_group_shape_compute(cluster, all, 32)};
    SimCollectiveCost costs[2] = {sim_collective_compute(cluster, &reduce),
                                  sim_collective_compute(cluster, &gather)};
    for (uint32_t f = 0; f < flows_count; f++)
        sim_flows_start(flows, 0, f, &costs[f == flows_count - 1], sim_links_route(links, f));
    SimTime end[9];
    run(flows, end);
    for (uint32_t f = 1; f + 1 < flows_count; f++)
        ck_assert_int_eq(end[f], end[0]);
    *replicate = end[0];
    *world = end[flows_count - 1];
    ck_assert_int_gt(*replicate, sim_collective_alone(&costs[0]));
    ck_assert_int_gt(*world, sim_collective_alone(&costs[1]));
}

START_TEST(folded_groups_finish_when_unfolded_ones_do)
{
    SimTime replicate[2], world[2];
    for (int folded = 0; folded < 2; folded++)
        run_hybrid(folded, &replicate[folded], &world[folded]);
    ck_assert_int_eq(replicate[0], replicate[1]);
    ck_assert_int_eq(world[0], world[1]);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("flows");
    TCase *closed = tcase_create("closed form");
    tcase_add_test(closed, alone_a_flow_takes_its_latency_and_its_volume);
    tcase_add_test(closed, a_second_flow_halves_the_rate_while_both_move);
    tcase_add_test(closed, the_latency_part_uses_no_link);
    tcase_add_test(closed, two_reduce_scatters_and_an_all_reduce_share_a_nic);
    tcase_add_test(closed, flows_of_one_instant_finish_in_order_of_id);
    tcase_add_test(closed, a_flow_without_volume_or_links_ends_all_the_same);
    tcase_add_test_raise_signal(closed, an_id_runs_once_at_a_time, SIGABRT);
    suite_add_tcase(suite, closed);
    TCase *properties = tcase_create("properties");
    tcase_add_loop_test(properties, the_order_in_which_flows_start_does_not_matter, 0, 30);
    tcase_add_test(properties, folded_groups_finish_when_unfolded_ones_do);
    suite_add_tcase(suite, properties);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
