/* SPDX-License-Identifier: Apache-2.0
 *
 * Pins what OpenMPI and Gloo take, and what that costs on cluster `flat`: 2 us a message, 50 GB/s.
 */
#include <glib.h>
#include <stdlib.h>

#include <check.h>

#include "fabric/host_algorithm.h"

#define MODELS SIM_SOURCE_DIR "/models"

/* Lines of ompi/mca/coll/tuned/coll_tuned_decision_fixed.c; an all-gather's bytes count a rank. */
static const struct {
    SimCommOperation operation;
    uint32_t ranks;
    uint64_t bytes;
    SimCommAlgorithm algorithm;
} choices[] = {
    {SIM_COMM_ALL_GATHER, 2, SIM_GIB, SIM_COMM_RING},
    {SIM_COMM_ALL_GATHER, 8, SIM_GIB, SIM_COMM_RECURSIVE_DOUBLING},
    {SIM_COMM_ALL_GATHER, 6, SIM_GIB, SIM_COMM_BRUCK}, /* not a power of two */
    {SIM_COMM_ALL_GATHER, 32, 32 * SIM_KIB, SIM_COMM_NEIGHBOR_EXCHANGE},
    {SIM_COMM_ALL_GATHER, 33, 66 * SIM_KIB, SIM_COMM_RING}, /* not even */
    {SIM_COMM_ALL_GATHER, 32, 2 * SIM_MIB, SIM_COMM_RING},
    {SIM_COMM_ALL_GATHER, 128, 64 * SIM_MIB, SIM_COMM_NEIGHBOR_EXCHANGE},
    {SIM_COMM_REDUCE_SCATTER, 2, 64 * SIM_KIB, SIM_COMM_BUTTERFLY},
    {SIM_COMM_REDUCE_SCATTER, 8, 256 * SIM_KIB - 1, SIM_COMM_RECURSIVE_HALVING},
    {SIM_COMM_REDUCE_SCATTER, 8, 256 * SIM_KIB, SIM_COMM_RING},
    {SIM_COMM_REDUCE_SCATTER, 64, SIM_GIB, SIM_COMM_BUTTERFLY},
    {SIM_COMM_REDUCE_SCATTER, 4, 4, SIM_COMM_LINEAR},
    {SIM_COMM_ALL_REDUCE, 8, 8191, SIM_COMM_RECURSIVE_DOUBLING},
    {SIM_COMM_ALL_REDUCE, 8, 8192, SIM_COMM_RABENSEIFNER},
    {SIM_COMM_ALL_REDUCE, 16, 32, SIM_COMM_RING},
    {SIM_COMM_ALL_REDUCE, 5000, SIM_GIB, SIM_COMM_RABENSEIFNER},
    {SIM_COMM_BROADCAST, 8, SIM_MIB, SIM_COMM_BINOMIAL},
};

START_TEST(openmpi_decides_by_ranks_and_bytes)
{
    SimCommAlgorithm algorithm = sim_host_algorithm_find_openmpi(
        choices[_i].operation, choices[_i].ranks, choices[_i].bytes);
    ck_assert_str_eq(sim_comm_algorithm_name(algorithm),
                     sim_comm_algorithm_name(choices[_i].algorithm));
}
END_TEST

/* 8 ranks, 8 MB: a shard of 1 MB moves in 20 us. */
static const struct {
    SimCommLibrary library;
    SimCommOperation operation;
    SimTime us;
} costs[] = {
    /* recursive doubling: 3 messages, 1 + 2 + 4 shards */
    {SIM_COMM_OPENMPI, SIM_COMM_ALL_GATHER, 3 * 2 + 7 * 20},
    /* ring */
    {SIM_COMM_OPENMPI, SIM_COMM_REDUCE_SCATTER, 7 * 2 + 7 * 20},
    /* halving, then doubling */
    {SIM_COMM_OPENMPI, SIM_COMM_ALL_REDUCE, 6 * 2 + 14 * 20},
    /* binomial: 3 messages of everything */
    {SIM_COMM_OPENMPI, SIM_COMM_BROADCAST, 3 * 2 + 3 * 160},
    {SIM_COMM_GLOO, SIM_COMM_ALL_GATHER, 7 * 2 + 7 * 20},
    {SIM_COMM_GLOO, SIM_COMM_ALL_REDUCE, 14 * 2 + 14 * 20},
    /* as an all-reduce */
    {SIM_COMM_GLOO, SIM_COMM_REDUCE_SCATTER, 14 * 2 + 14 * 20},
    {SIM_COMM_NCCL, SIM_COMM_ALL_GATHER, 7 * 2 + 7 * 20},
};

START_TEST(costs_are_hockneys)
{
    g_autoptr(GError) error = NULL;
    g_autoptr(SimCluster) cluster = sim_cluster_load(MODELS, "flat", &error);
    ck_assert_ptr_nonnull(cluster);
    cluster->library = costs[_i].library;
    const SimCollectiveRequest request = {
        .operation = costs[_i].operation, .bytes = 8000000, .shape = {8, 1, 8, 8, 1}};
    SimCollectiveCost cost = sim_collective_compute(cluster, &request);
    ck_assert_int_eq(sim_collective_alone(&cost), costs[_i].us * SIM_MICROSECOND);
    ck_assert_uint_eq(cost.channels, 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("host_algorithm");
    TCase *tcase = tcase_create("mpi and gloo");
    tcase_add_loop_test(tcase, openmpi_decides_by_ranks_and_bytes, 0, G_N_ELEMENTS(choices));
    tcase_add_loop_test(tcase, costs_are_hockneys, 0, G_N_ELEMENTS(costs));
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
