/* SPDX-License-Identifier: Apache-2.0
 *
 * The functions of hbm/block_index.h over GLib's GTree: linked in its place, it shows what an index
 * of our own is worth. Lacks only what the benchmark does not call.
 */
#include "hbm/block_index.h"

#include <glib.h>

#include "hbm/block_private.h"

static int compare_by_size(const void *a, const void *b)
{
    const SimBlock *left = a;
    const SimBlock *right = b;

    if (left->size != right->size) {
        return left->size < right->size ? -1 : 1;
    }
    return left->address < right->address ? -1 : left->address > right->address;
}

static int compare_by_address(const void *a, const void *b)
{
    const SimBlock *left = a;
    const SimBlock *right = b;

    return left->address < right->address ? -1 : left->address > right->address;
}

static GTree *get_tree(const SimBlockIndex *index)
{
    return (GTree *)(void *)index->root;
}

static SimBlockIndexCursor make_cursor(GTreeNode *node)
{
    return (SimBlockIndexCursor){(SimBlockIndexNode *)(void *)node, 0};
}

static GTreeNode *get_node(SimBlockIndexCursor cursor)
{
    return (GTreeNode *)(void *)cursor.leaf;
}

void sim_block_index_init(SimBlockIndex *index, SimBlockIndexOrder order)
{
    GTree *tree =
        g_tree_new(order == SIM_BLOCK_INDEX_BY_SIZE ? compare_by_size : compare_by_address);

    *index = (SimBlockIndex){.root = (SimBlockIndexNode *)(void *)tree, .order = order};
}

void sim_block_index_done(SimBlockIndex *index)
{
    g_tree_unref(get_tree(index));
}

void sim_block_index_insert(SimBlockIndex *index, SimBlock *block)
{
    g_tree_insert(get_tree(index), block, block);
    index->count++;
}

void sim_block_index_remove(SimBlockIndex *index, const SimBlock *block)
{
    g_tree_remove(get_tree(index), block);
    index->count--;
}

void sim_block_index_remove_at(SimBlockIndex *index, SimBlockIndexCursor cursor)
{
    sim_block_index_remove(index, sim_block_index_get(cursor));
}

SimBlockIndexCursor sim_block_index_lower_bound(const SimBlockIndex *index, uint64_t size,
                                                uint64_t address)
{
    const SimBlock key = {.size = size, .address = address};

    return make_cursor(g_tree_lower_bound(get_tree(index), &key));
}

SimBlockIndexCursor sim_block_index_first(const SimBlockIndex *index)
{
    return make_cursor(g_tree_node_first(get_tree(index)));
}

SimBlockIndexCursor sim_block_index_last(const SimBlockIndex *index)
{
    return make_cursor(g_tree_node_last(get_tree(index)));
}

SimBlock *sim_block_index_get(SimBlockIndexCursor cursor)
{
    return cursor.leaf == NULL ? NULL : g_tree_node_value(get_node(cursor));
}

SimBlockIndexCursor sim_block_index_next(SimBlockIndexCursor cursor)
{
    return make_cursor(g_tree_node_next(get_node(cursor)));
}

SimBlockIndexCursor sim_block_index_previous(SimBlockIndexCursor cursor)
{
    return make_cursor(g_tree_node_previous(get_node(cursor)));
}

void sim_block_index_check(const SimBlockIndex *index)
{
    g_assert((size_t)g_tree_nnodes(get_tree(index)) == index->count);
}
