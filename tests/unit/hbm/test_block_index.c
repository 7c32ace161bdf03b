/* SPDX-License-Identifier: Apache-2.0
 *
 * The index against GLib's balanced tree: the same random operations, the same answers.
 */
#include "hbm/block_index.h"

#include <stdlib.h>

#include <check.h>

#include "hbm/block_private.h"

#define N_BLOCKS 3000
#define N_STEPS 40000

static int compare_blocks(const void *a, const void *b, void *user_data)
{
    const SimBlock *left = a;
    const SimBlock *right = b;

    (void)user_data;
    if (left->size != right->size) {
        return left->size < right->size ? -1 : 1;
    }
    return left->address < right->address ? -1 : left->address > right->address;
}

/* Blocks of SIZES different sizes at different addresses. */
static SimBlock *make_blocks(GRand *random, unsigned sizes)
{
    SimBlock *blocks = g_new0(SimBlock, N_BLOCKS);

    for (unsigned i = 0; i < N_BLOCKS; i++) {
        blocks[i].size = 512 * (1 + g_rand_int(random) % sizes);
        blocks[i].address = UINT64_C(4096) * (i + 1);
    }
    return blocks;
}

static void check_search(const SimBlockIndex *index, GTree *oracle, const SimBlock *key)
{
    GTreeNode *expected = g_tree_lower_bound(oracle, key);
    const SimBlock *found =
        sim_block_index_get(sim_block_index_lower_bound(index, key->size, key->address));

    ck_assert_ptr_eq(found, expected == NULL ? NULL : g_tree_node_key(expected));
}

static void check_walks(const SimBlockIndex *index, GTree *oracle)
{
    SimBlockIndexCursor cursor = sim_block_index_first(index);
    for (GTreeNode *node = g_tree_node_first(oracle); node != NULL; node = g_tree_node_next(node)) {
        ck_assert_ptr_eq(sim_block_index_get(cursor), g_tree_node_key(node));
        cursor = sim_block_index_next(cursor);
    }
    ck_assert_ptr_null(sim_block_index_get(cursor));

    cursor = sim_block_index_last(index);
    for (GTreeNode *node = g_tree_node_last(oracle); node != NULL;
         node = g_tree_node_previous(node)) {
        ck_assert_ptr_eq(sim_block_index_get(cursor), g_tree_node_key(node));
        cursor = sim_block_index_previous(cursor);
    }
    ck_assert_ptr_null(sim_block_index_get(cursor));
}

/* How many different sizes; few make the address decide. The count swings between 0 and all. */
static const unsigned size_counts[] = {1, 3, 50, 100000};

START_TEST(answers_like_a_balanced_tree)
{
    GRand *random = g_rand_new_with_seed(7);
    g_autofree SimBlock *blocks = make_blocks(random, size_counts[_i]);
    g_autofree bool *is_inside = g_new0(bool, N_BLOCKS);
    g_autoptr(GTree) oracle = g_tree_new_full(compare_blocks, NULL, NULL, NULL);
    SimBlockIndex index;

    sim_block_index_init(&index, SIM_BLOCK_INDEX_BY_SIZE);
    for (unsigned step = 0; step < N_STEPS; step++) {
        const unsigned i = g_rand_int(random) % N_BLOCKS;
        const bool should_grow = step / 5000 % 2 == 0;
        if (!is_inside[i] && (should_grow || g_rand_int(random) % 8 == 0)) {
            sim_block_index_insert(&index, &blocks[i]);
            g_tree_insert(oracle, &blocks[i], &blocks[i]);
            is_inside[i] = true;
        } else if (is_inside[i] && (!should_grow || g_rand_int(random) % 8 == 0)) {
            sim_block_index_remove(&index, &blocks[i]);
            g_tree_remove(oracle, &blocks[i]);
            is_inside[i] = false;
        }
        const SimBlock key = {.size = 512 * (g_rand_int(random) % (size_counts[_i] + 2)),
                              .address = UINT64_C(2048) * (g_rand_int(random) % (3 * N_BLOCKS))};
        check_search(&index, oracle, &key);
        if (step % 1000 == 0) {
            sim_block_index_check(&index);
            check_walks(&index, oracle);
        }
    }
    ck_assert_uint_eq(index.count, (size_t)g_tree_nnodes(oracle));
    sim_block_index_done(&index);
    g_rand_free(random);
}
END_TEST

START_TEST(an_empty_index_finds_nothing)
{
    SimBlock block = {.size = 512, .address = 4096};
    SimBlockIndex index;

    sim_block_index_init(&index, SIM_BLOCK_INDEX_BY_SIZE);
    ck_assert_ptr_null(sim_block_index_get(sim_block_index_first(&index)));
    sim_block_index_insert(&index, &block);
    sim_block_index_remove_at(&index, sim_block_index_first(&index));
    ck_assert_ptr_null(sim_block_index_get(sim_block_index_first(&index)));
    ck_assert_ptr_null(sim_block_index_get(sim_block_index_last(&index)));
    sim_block_index_check(&index);
    sim_block_index_done(&index);
}
END_TEST

START_TEST(by_address_the_size_does_not_matter)
{
    SimBlock blocks[] = {{.size = 512, .address = 8192}, {.size = 4096, .address = 4096}};
    SimBlockIndex index;

    sim_block_index_init(&index, SIM_BLOCK_INDEX_BY_ADDRESS);
    sim_block_index_insert(&index, &blocks[0]);
    sim_block_index_insert(&index, &blocks[1]);
    ck_assert_ptr_eq(sim_block_index_get(sim_block_index_first(&index)), &blocks[1]);
    ck_assert_ptr_eq(sim_block_index_get(sim_block_index_lower_bound(&index, 0, 4097)), &blocks[0]);
    sim_block_index_done(&index);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("block_index");
    TCase *tcase = tcase_create("index");

    tcase_add_loop_test(tcase, answers_like_a_balanced_tree, 0, (int)G_N_ELEMENTS(size_counts));
    tcase_add_test(tcase, an_empty_index_finds_nothing);
    tcase_add_test(tcase, by_address_the_size_does_not_matter);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    const int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
