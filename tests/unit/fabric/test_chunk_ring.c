/* SPDX-License-Identifier: Apache-2.0
 *
 * Compares the two levels: a ring as one flow (latency, then volume) and slice by slice. With v a
 * step's volume time and a a hop's latency, the flow takes (N-1)(a + v); two slices a step overlap
 * one's latency with the other's transfer, so they take at least (N-1) max(v, a + v/2).
 */
#include <glib.h>
#include <stdlib.h>

#include <check.h>

#include "fabric/chunk_ring.h"
#include "fabric/flows.h"

/* An edge of one channel: 30 GB/s (24 of them are an H100 node's 720 both ways), 3.4 us a hop. */
#define RATE UINT64_C(30000000000)
#define LATENCY (3400 * SIM_NANOSECOND)
#define MOST_RANKS 64

typedef struct Edges {
    SimTime latency[MOST_RANKS];
    uint64_t rate[MOST_RANKS];
} Edges;

static Edges even_edges(void)
{
    Edges edges;
    for (size_t i = 0; i < MOST_RANKS; i++) {
        edges.latency[i] = LATENCY;
        edges.rate[i] = RATE;
    }
    return edges;
}

static SimTime compute_chunks(const Edges *edges, uint32_t ranks, uint64_t shard, uint32_t slices)
{
    const SimChunkRing ring = {.ranks = ranks,
                               .slices = slices,
                               .shard = shard,
                               .latency = edges->latency,
                               .rate = edges->rate};
    return sim_chunk_ring_compute(&ring);
}

/* The same alone on its links, as the simulation runs it. */
static SimTime compute_flow(uint32_t ranks, uint64_t shard)
{
    const uint64_t capacity = RATE;
    const uint32_t link = 0, weight = 65536;
    g_autoptr(SimFlows) flows = sim_flows_new(&capacity, 1);
    const SimCollectiveCost cost = {
        .latency = (ranks - 1) * LATENCY, .volume = {.bytes = (ranks - 1) * shard}, .rate = RATE};
    SimTime now = 0;
    uint32_t id;
    sim_flows_start(flows, now, 0, &cost, (SimRoute){&link, &weight, 1});
    do
        now = sim_flows_next_time(flows);
    while (!sim_flows_finish(flows, now, &id));
    return now;
}

static const uint32_t ranks[] = {2, 3, 8, 16, 64};

START_TEST(with_one_slice_a_step_the_levels_agree)
{
    Edges edges = even_edges();
    for (size_t i = 0; i < G_N_ELEMENTS(ranks); i++) {
        for (uint64_t shard = 1; shard <= SIM_CHUNK_RING_BYTES; shard *= 8) {
            SimTime chunks = compute_chunks(&edges, ranks[i], shard, 1);
            SimTime flow = compute_flow(ranks[i], shard);
            ck_assert_double_eq_tol((double)chunks / (double)flow, 1, 0.001);
        }
    }
}
END_TEST

START_TEST(two_slices_a_step_lie_between_the_bounds)
{
    Edges edges = even_edges();
    for (size_t i = 0; i < G_N_ELEMENTS(ranks); i++) {
        for (uint64_t shard = 2; shard <= SIM_CHUNK_RING_BYTES; shard *= 4) {
            SimTime chunks = compute_chunks(&edges, ranks[i], shard, 2);
            SimTime v = sim_volume_time((SimVolume){.bytes = shard}, RATE);
            SimTime least = (ranks[i] - 1) * MAX(v, LATENCY + v / 2);
            ck_assert_int_ge(chunks, least);
            /* Each slice is rounded up to a picosecond. */
            ck_assert_int_le(chunks, compute_flow(ranks[i], shard) + 2 * ranks[i]);
        }
    }
}
END_TEST

/* 64 MiB a rank on one channel, as on the 24 of a node 1.5 GiB. */
START_TEST(large_shards_take_what_the_flow_takes)
{
    Edges edges = even_edges();
    for (size_t i = 0; i < G_N_ELEMENTS(ranks); i++) {
        for (uint64_t shard = 64 * SIM_MIB; shard <= 256 * SIM_MIB; shard *= 2) {
            SimTime chunks = compute_chunks(&edges, ranks[i], shard, 2);
            SimTime flow = compute_flow(ranks[i], shard);
            ck_assert_double_eq_tol((double)chunks / (double)flow, 1, 0.03);
        }
    }
}
END_TEST

/* 7 steps of 1 MiB at 30 GB/s, 34.953 us and 3.4 us each, after the last rank comes at 1 ms: it
 * still has to send its own shard round, and nobody is done before. */
START_TEST(a_late_rank_delays_everybody)
{
    Edges edges = even_edges();
    SimTime arrival[8] = {0};
    arrival[5] = SIM_MILLISECOND;
    SimChunkRing ring = {.ranks = 8,
                         .slices = 1,
                         .shard = SIM_MIB,
                         .arrival = arrival,
                         .latency = edges.latency,
                         .rate = edges.rate};
    SimTime end = sim_chunk_ring_compute(&ring);
    SimTime step = sim_volume_time((SimVolume){.bytes = SIM_MIB}, RATE) + LATENCY;
    ck_assert_int_eq(end, SIM_MILLISECOND + 7 * step);
}
END_TEST

/* One edge at half the rate: the others wait for it, so that each step takes its time. 7 steps of
 * 2 MiB: 139.81 us each on the slow edge, and on the way to it and from it at most one fast step.
 */
START_TEST(the_slowest_edge_sets_the_pace)
{
    Edges edges = even_edges();
    edges.rate[3] = RATE / 2;
    SimTime slow = sim_volume_time((SimVolume){.bytes = SIM_CHUNK_RING_BYTES}, RATE / 2);
    SimTime end = compute_chunks(&edges, 8, SIM_CHUNK_RING_BYTES, 2);
    ck_assert_int_ge(end, 7 * slow);
    ck_assert_int_le(end, 8 * slow + 7 * LATENCY);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("chunk_ring");
    TCase *tcase = tcase_create("against the flow");
    tcase_add_test(tcase, with_one_slice_a_step_the_levels_agree);
    tcase_add_test(tcase, two_slices_a_step_lie_between_the_bounds);
    tcase_add_test(tcase, large_shards_take_what_the_flow_takes);
    tcase_add_test(tcase, a_late_rank_delays_everybody);
    tcase_add_test(tcase, the_slowest_edge_sets_the_pace);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
