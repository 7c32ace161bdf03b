/* SPDX-License-Identifier: Apache-2.0
 *
 * Pins which link classes a communicator crosses and with what weight, on nodes of 8 GPUs with 8
 * NICs of 50 GB/s (48 usable) and ports of 450 GB/s (396 usable).
 */
#include <glib.h>
#include <stdlib.h>

#include <check.h>

#include "fabric/links.h"

#define MODELS SIM_SOURCE_DIR "/models"
#define ONE 65536U

static SimCluster *load(const char *description, uint64_t gpus)
{
    g_autoptr(GError) error = NULL;
    SimCluster *cluster = sim_cluster_load(MODELS, description, &error);
    ck_assert_msg(cluster != NULL, "%s", error ? error->message : "");
    ck_assert(sim_cluster_choose_gpus(cluster, gpus, NULL));
    return cluster;
}

static void fill_range(uint32_t *ranks, uint32_t count, uint32_t first, uint32_t stride)
{
    for (uint32_t i = 0; i < count; i++)
        ranks[i] = first + i * stride;
}

/* The weight with which FLOW crosses class LINK; 0 if it does not. */
static uint32_t weight_of(const SimLinks *links, uint32_t flow, uint32_t link)
{
    SimRoute route = sim_links_route(links, flow);
    for (uint32_t i = 0; i < route.count; i++) {
        if (route.link[i] == link)
            return route.weight[i];
    }
    return 0;
}

static void assert_class(const SimLinks *links, uint32_t link, const char *kind,
                         uint32_t multiplicity, uint64_t capacity)
{
    ck_assert_str_eq(sim_links_kind(links, link), kind);
    ck_assert_uint_eq(sim_links_multiplicity(links, link), multiplicity);
    ck_assert_uint_eq(sim_links_capacities(links)[link], capacity);
}

START_TEST(a_ring_in_one_node_crosses_each_port_once)
{
    g_autoptr(SimCluster) cluster = load("h100", 8);
    const uint32_t ranks[] = {0, 1, 2, 3, 4, 5, 6, 7};
    const SimLinkGroup group = {ranks, 8, 0};
    g_autoptr(SimLinks) links = sim_links_new(cluster, &group, 1, 1);
    ck_assert_uint_eq(sim_links_count(links), 1);
    assert_class(links, 0, "nvlink", 8, UINT64_C(396000000000));
    ck_assert_uint_eq(weight_of(links, 0, 0), ONE);
}
END_TEST

/* Of 8 ports 7 carry the stream on: weight 7/8. It enters and leaves by 8 NICs: 1/8 each. */
START_TEST(a_ring_over_nodes_spreads_over_the_nics)
{
    g_autoptr(SimCluster) cluster = load("h100", 32);
    uint32_t ranks[32];
    fill_range(ranks, 32, 0, 1);
    const SimLinkGroup group = {ranks, 32, 0};
    g_autoptr(SimLinks) links = sim_links_new(cluster, &group, 1, 1);
    ck_assert_uint_eq(sim_links_count(links), 2);
    assert_class(links, 0, "nvlink", 32, UINT64_C(396000000000));
    assert_class(links, 1, "nic", 32, UINT64_C(48000000000));
    ck_assert_uint_eq(weight_of(links, 0, 0), ONE * 7 / 8);
    ck_assert_uint_eq(weight_of(links, 0, 1), ONE / 8);
}
END_TEST

/* HSDP on 4 nodes: 4 shard groups of 8 in a node, 8 replicate groups of 4, one rank a node each. */
static void fill_hybrid(SimLinkGroup *groups, uint32_t *ranks, bool folded)
{
    for (uint32_t node = 0; node < 4; node++) {
        fill_range(ranks, 8, node * 8, 1);
        groups[node] = (SimLinkGroup){ranks, 8, folded ? 0 : node};
        ranks += 8;
    }
    for (uint32_t local = 0; local < 8; local++) {
        fill_range(ranks, 4, local, 8);
        groups[4 + local] = (SimLinkGroup){ranks, 4, folded ? 1 : 4 + local};
        ranks += 4;
    }
}

START_TEST(shard_groups_use_ports_and_replicate_groups_their_rail)
{
    g_autoptr(SimCluster) cluster = load("h100", 32);
    SimLinkGroup groups[12];
    uint32_t ranks[64];
    fill_hybrid(groups, ranks, false);
    g_autoptr(SimLinks) links = sim_links_new(cluster, groups, 12, 12);
    ck_assert_uint_eq(sim_links_count(links), 12);
    for (uint32_t node = 0; node < 4; node++) {
        assert_class(links, node, "nvlink", 8, UINT64_C(396000000000));
        ck_assert_uint_eq(sim_links_route(links, node).count, 1);
        ck_assert_uint_eq(weight_of(links, node, node), ONE);
    }
    for (uint32_t rail = 0; rail < 8; rail++) {
        assert_class(links, 4 + rail, "nic", 4, UINT64_C(48000000000));
        ck_assert_uint_eq(sim_links_route(links, 4 + rail).count, 1);
        ck_assert_uint_eq(weight_of(links, 4 + rail, 4 + rail), ONE);
    }
}
END_TEST

START_TEST(folded_groups_are_one_flow_on_one_class_a_kind)
{
    g_autoptr(SimCluster) cluster = load("h100", 32);
    SimLinkGroup groups[12];
    uint32_t ranks[64];
    fill_hybrid(groups, ranks, true);
    g_autoptr(SimLinks) links = sim_links_new(cluster, groups, 12, 2);
    ck_assert_uint_eq(sim_links_count(links), 2);
    assert_class(links, 0, "nvlink", 32, UINT64_C(396000000000));
    assert_class(links, 1, "nic", 32, UINT64_C(48000000000));
    ck_assert_uint_eq(weight_of(links, 0, 0), ONE);
    ck_assert_uint_eq(weight_of(links, 0, 1), 0);
    ck_assert_uint_eq(weight_of(links, 1, 1), ONE);
}
END_TEST

/* 4 NICs for 8 GPUs: two replicate groups on each, so the folded flow crosses it twice. */
START_TEST(folded_groups_that_share_a_nic_add_up)
{
    g_autoptr(SimCluster) cluster = load("node:4 gpu:8 type:h100 nics:4", 32);
    SimLinkGroup groups[12];
    uint32_t ranks[64];
    fill_hybrid(groups, ranks, true);
    g_autoptr(SimLinks) links = sim_links_new(cluster, groups, 12, 2);
    ck_assert_uint_eq(sim_links_count(links), 2);
    assert_class(links, 1, "nic", 16, UINT64_C(48000000000));
    ck_assert_uint_eq(weight_of(links, 1, 1), 2 * ONE);
}
END_TEST

/* 12 ranks: node 0 has 8 (7/8 of a port, 1/8 of a NIC), node 1 has 4 (3/4 and 1/4). */
START_TEST(an_uneven_last_node_has_classes_of_its_own)
{
    g_autoptr(SimCluster) cluster = load("h100", 12);
    uint32_t ranks[12];
    fill_range(ranks, 12, 0, 1);
    const SimLinkGroup group = {ranks, 12, 0};
    g_autoptr(SimLinks) links = sim_links_new(cluster, &group, 1, 1);
    ck_assert_uint_eq(sim_links_count(links), 4);
    ck_assert_uint_eq(weight_of(links, 0, 0), ONE * 7 / 8);
    ck_assert_uint_eq(weight_of(links, 0, 1), ONE * 3 / 4);
    ck_assert_uint_eq(weight_of(links, 0, 2), ONE / 8);
    ck_assert_uint_eq(weight_of(links, 0, 3), ONE / 4);
    ck_assert_uint_eq(sim_links_multiplicity(links, 3), 4);
}
END_TEST

/* 16 NICs for 8 GPUs: two next to each, so a replicate group has two of half its stream. */
START_TEST(a_gpu_with_two_nics_uses_both)
{
    g_autoptr(SimCluster) cluster = load("node:4 gpu:8 type:h100 nics:16", 32);
    const uint32_t ranks[] = {3, 11, 19, 27};
    const SimLinkGroup group = {ranks, 4, 0};
    g_autoptr(SimLinks) links = sim_links_new(cluster, &group, 1, 1);
    ck_assert_uint_eq(sim_links_count(links), 1);
    ck_assert_uint_eq(sim_links_multiplicity(links, 0), 8);
    ck_assert_uint_eq(weight_of(links, 0, 0), ONE / 2);
}
END_TEST

START_TEST(sixteen_thousand_ranks_make_a_handful_of_classes)
{
    g_autoptr(SimCluster) cluster = load("h100", 16384);
    g_autofree uint32_t *ranks = g_new(uint32_t, 16384);
    fill_range(ranks, 16384, 0, 1);
    const SimLinkGroup groups[] = {{ranks, 16384, 0}, {ranks, 16384, 1}};
    g_autoptr(SimLinks) links = sim_links_new(cluster, groups, 2, 2);
    ck_assert_uint_eq(sim_links_count(links), 2);
    ck_assert_uint_eq(sim_links_multiplicity(links, 0), 16384);
    ck_assert_uint_eq(sim_links_route(links, 0).count, 2);
    ck_assert_uint_eq(sim_links_route(links, 1).count, 2);
}
END_TEST

START_TEST(a_group_of_one_crosses_nothing)
{
    g_autoptr(SimCluster) cluster = load("h100", 8);
    const uint32_t rank = 3;
    const SimLinkGroup group = {&rank, 1, 0};
    g_autoptr(SimLinks) links = sim_links_new(cluster, &group, 1, 1);
    ck_assert_uint_eq(sim_links_count(links), 0);
    ck_assert_uint_eq(sim_links_route(links, 0).count, 0);
}
END_TEST

/* The shipped H100 cluster with 2 nodes below a leaf switch, oversubscribed 4 to 1. */
static SimCluster *load_with_leaves(bool has_rails, uint64_t gpus)
{
    SimCluster *cluster = load("h100", gpus);
    cluster->leaf_nodes = 2;
    cluster->oversubscription = 4;
    cluster->has_rails = has_rails;
    return cluster;
}

/* A leaf takes 2 nodes * 8 NICs * 48 GB/s = 768 down and 192 up, which the ring crosses once; on
 * rails 8 leaves take an eighth each. */
START_TEST(a_ring_leaves_each_leaf_once)
{
    for (int has_rails = 0; has_rails <= 1; has_rails++) {
        g_autoptr(SimCluster) cluster = load_with_leaves(has_rails, 64);
        uint32_t ranks[64];
        fill_range(ranks, 64, 0, 1);
        const SimLinkGroup group = {ranks, 64, 0};
        g_autoptr(SimLinks) links = sim_links_new(cluster, &group, 1, 1);
        ck_assert_uint_eq(sim_links_count(links), 3);
        assert_class(links, 2, "leaf", has_rails ? 32 : 4,
                     has_rails ? UINT64_C(24000000000) : UINT64_C(192000000000));
        ck_assert_uint_eq(weight_of(links, 0, 2), has_rails ? ONE / 8 : ONE);
    }
}
END_TEST

/* Nodes 0 and 1 are below one leaf. */
START_TEST(a_ring_below_one_leaf_does_not_use_its_uplink)
{
    g_autoptr(SimCluster) cluster = load_with_leaves(true, 16);
    uint32_t ranks[16];
    fill_range(ranks, 16, 0, 1);
    const SimLinkGroup group = {ranks, 16, 0};
    g_autoptr(SimLinks) links = sim_links_new(cluster, &group, 1, 1);
    ck_assert_uint_eq(sim_links_count(links), 2);
}
END_TEST

/* 8 replicate groups over 4 leaves: on rails each has its own, else all share one uplink a leaf. */
START_TEST(replicate_groups_keep_to_their_rail)
{
    uint32_t ranks[64];
    SimLinkGroup groups[8];
    for (uint32_t local = 0; local < 8; local++) {
        fill_range(ranks + local * 8, 8, local, 8);
        groups[local] = (SimLinkGroup){ranks + local * 8, 8, 0};
    }
    for (int has_rails = 0; has_rails <= 1; has_rails++) {
        g_autoptr(SimCluster) cluster = load_with_leaves(has_rails, 64);
        g_autoptr(SimLinks) links = sim_links_new(cluster, groups, 8, 1);
        ck_assert_uint_eq(sim_links_count(links), 2);
        assert_class(links, 1, "leaf", has_rails ? 32 : 4,
                     has_rails ? UINT64_C(24000000000) : UINT64_C(192000000000));
        ck_assert_uint_eq(weight_of(links, 0, 1), has_rails ? ONE : 8 * ONE);
    }
}
END_TEST

START_TEST(a_stated_pcie_link_stands_before_each_nic)
{
    g_autoptr(SimCluster) cluster = load("h100", 16);
    cluster->pcie_bytes_per_s = 25e9;
    uint32_t ranks[16];
    fill_range(ranks, 16, 0, 1);
    const SimLinkGroup group = {ranks, 16, 0};
    g_autoptr(SimLinks) links = sim_links_new(cluster, &group, 1, 1);
    ck_assert_uint_eq(sim_links_count(links), 3);
    assert_class(links, 2, "pcie", 16, UINT64_C(25000000000));
    ck_assert_uint_eq(weight_of(links, 0, 2), ONE / 8);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("links");
    TCase *links = tcase_create("links");
    tcase_add_test(links, a_ring_in_one_node_crosses_each_port_once);
    tcase_add_test(links, a_ring_over_nodes_spreads_over_the_nics);
    tcase_add_test(links, shard_groups_use_ports_and_replicate_groups_their_rail);
    tcase_add_test(links, folded_groups_are_one_flow_on_one_class_a_kind);
    tcase_add_test(links, folded_groups_that_share_a_nic_add_up);
    tcase_add_test(links, an_uneven_last_node_has_classes_of_its_own);
    tcase_add_test(links, a_gpu_with_two_nics_uses_both);
    tcase_add_test(links, sixteen_thousand_ranks_make_a_handful_of_classes);
    tcase_add_test(links, a_group_of_one_crosses_nothing);
    TCase *switches = tcase_create("switches");
    tcase_add_test(switches, a_ring_leaves_each_leaf_once);
    tcase_add_test(switches, a_ring_below_one_leaf_does_not_use_its_uplink);
    tcase_add_test(switches, replicate_groups_keep_to_their_rail);
    tcase_add_test(switches, a_stated_pcie_link_stands_before_each_nic);
    suite_add_tcase(suite, switches);
    suite_add_tcase(suite, links);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
