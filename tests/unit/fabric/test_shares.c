/* SPDX-License-Identifier: Apache-2.0
 *
 * Pins how collectives of several communicators share links, by closed forms worked out here, on
 * nodes of 8 GPUs (ports 396 GB/s) with 8 NICs of 48 GB/s. After each step no link carries more
 * than it can and no flow could go faster.
 */
#include <glib.h>
#include <stdlib.h>

#include <check.h>

#include "fabric/flows.h"

#define MODELS SIM_SOURCE_DIR "/models"
#define VOLUME (UINT64_C(384) * 1000000) /* 1 ms over 8 NICs together */
#define MOST_FLOWS 12

typedef struct Scene {
    SimCluster *cluster;
    SimLinks *links;
    SimFlows *flows;
    SimTime end[MOST_FLOWS];
} Scene;

static void build(Scene *scene, const SimLinkGroup *groups, size_t n_groups, size_t n_flows)
{
    g_autoptr(GError) error = NULL;
    scene->cluster = sim_cluster_load(MODELS, "h100", &error);
    ck_assert_ptr_nonnull(scene->cluster);
    ck_assert(sim_cluster_choose_gpus(scene->cluster, 32, NULL));
    scene->links = sim_links_new(scene->cluster, groups, n_groups, n_flows);
    scene->flows = sim_flows_new(sim_links_capacities(scene->links), sim_links_count(scene->links));
}

static void clear(Scene *scene)
{
    sim_flows_free(scene->flows);
    sim_links_free(scene->links);
    sim_cluster_free(scene->cluster);
}

static void start(Scene *scene, SimTime now, uint32_t flow, uint64_t bytes, uint64_t rate)
{
    const SimCollectiveCost cost = {.volume = {.bytes = bytes}, .rate = rate};
    sim_flows_start(scene->flows, now, flow, &cost, sim_links_route(scene->links, flow));
}

static void run(Scene *scene)
{
    while (sim_flows_count(scene->flows) > 0) {
        SimTime now = sim_flows_next_time(scene->flows);
        ck_assert(sim_flows_check(scene->flows));
        uint32_t id;
        while (sim_flows_finish(scene->flows, now, &id))
            scene->end[id] = now;
    }
}

static void fill(uint32_t *ranks, uint32_t count, uint32_t first, uint32_t stride)
{
    for (uint32_t i = 0; i < count; i++)
        ranks[i] = first + i * stride;
}

/* An all-gather and a reduce-scatter of all ranks, each 384 GB/s alone. On one communicator they
 * follow each other: 1 and 2 ms. On two they share the NICs, half each, so that both take 2 ms. */
START_TEST(two_communicators_share_where_one_takes_turns)
{
    uint32_t ranks[32];
    fill(ranks, 32, 0, 1);
    const SimLinkGroup groups[] = {{ranks, 32, 0}, {ranks, 32, 1}};
    Scene one = {0};
    build(&one, groups, 1, 1);
    start(&one, 0, 0, VOLUME, UINT64_C(384000000000));
    run(&one);
    ck_assert_int_eq(one.end[0], SIM_MILLISECOND);
    start(&one, one.end[0], 0, VOLUME, UINT64_C(384000000000));
    run(&one);
    ck_assert_int_eq(one.end[0], 2 * SIM_MILLISECOND);
    clear(&one);
    Scene two = {0};
    build(&two, groups, 2, 2);
    start(&two, 0, 0, VOLUME, UINT64_C(384000000000));
    start(&two, 0, 1, VOLUME, UINT64_C(384000000000));
    run(&two);
    ck_assert_int_eq(two.end[0], 2 * SIM_MILLISECOND);
    ck_assert_int_eq(two.end[1], 2 * SIM_MILLISECOND);
    clear(&two);
}
END_TEST

/* HSDP: shard groups stay on their node's ports, replicate groups on their rail's NICs (48 GB/s
 * each), so that neither slows the other: 384 MB at 384 GB/s, 48 MB at 48 GB/s, 1 ms both. */
START_TEST(shard_and_replicate_groups_do_not_meet)
{
    uint32_t ranks[64];
    SimLinkGroup groups[12];
    for (uint32_t node = 0; node < 4; node++) {
        fill(ranks + node * 8, 8, node * 8, 1);
        groups[node] = (SimLinkGroup){ranks + node * 8, 8, node};
    }
    for (uint32_t local = 0; local < 8; local++) {
        fill(ranks + 32 + local * 4, 4, local, 8);
        groups[4 + local] = (SimLinkGroup){ranks + 32 + local * 4, 4, 4 + local};
    }
    Scene scene = {0};
    build(&scene, groups, 12, 12);
    for (uint32_t flow = 0; flow < 12; flow++)
        start(&scene, 0, flow, flow < 4 ? VOLUME : VOLUME / 8, UINT64_C(384000000000));
    run(&scene);
    for (uint32_t flow = 0; flow < 12; flow++)
        ck_assert_int_eq(scene.end[flow], SIM_MILLISECOND);
    clear(&scene);
}
END_TEST

/* Two groups of all ranks and the 8 replicate groups on top. A NIC carries an eighth of each of the
 * first and all of one of the last: 2 r/8 + r = 48 GB/s, all at the same r = 38.4 GB/s, until the
 * replicate groups' 38.4 MB are through at 1 ms. */
START_TEST(a_ring_of_all_and_the_replicate_groups_share_each_nic)
{
    uint32_t all[32], ranks[32];
    SimLinkGroup groups[10] = {{all, 32, 0}, {all, 32, 1}};
    fill(all, 32, 0, 1);
    for (uint32_t local = 0; local < 8; local++) {
        fill(ranks + local * 4, 4, local, 8);
        groups[2 + local] = (SimLinkGroup){ranks + local * 4, 4, 2 + local};
    }
    Scene scene = {0};
    build(&scene, groups, 10, 10);
    for (uint32_t flow = 0; flow < 10; flow++)
        start(&scene, 0, flow, flow < 2 ? VOLUME : 38400000, UINT64_C(384000000000));
    run(&scene);
    for (uint32_t flow = 2; flow < 10; flow++)
        ck_assert_int_eq(scene.end[flow], SIM_MILLISECOND);
    /* What is left, 384 - 38.4 = 345.6 MB each, then moves at 192 GB/s: 1.8 ms more. */
    ck_assert_int_eq(scene.end[0], 2800 * SIM_MICROSECOND);
    ck_assert_int_eq(scene.end[1], 2800 * SIM_MICROSECOND);
    clear(&scene);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("shares");
    TCase *tcase = tcase_create("closed form");
    tcase_add_test(tcase, two_communicators_share_where_one_takes_turns);
    tcase_add_test(tcase, shard_and_replicate_groups_do_not_meet);
    tcase_add_test(tcase, a_ring_of_all_and_the_replicate_groups_share_each_nic);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
