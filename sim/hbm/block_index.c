/* SPDX-License-Identifier: Apache-2.0 */
#include "hbm/block_index.h"

#include <string.h>

#include <glib.h>

#include "hbm/block_private.h"

#define CAPACITY 32u
#define MIN_COUNT (CAPACITY / 4)

/* (size, address) as one number, so that a comparison is two instructions and no branch. */
__extension__ typedef unsigned __int128 Key;

typedef struct Entry {
    Key key;
    void *
        item; /* leaf: SimBlock; above: the node of the keys from here on, for entry 0 also below */
} Entry;

struct SimBlockIndexNode {
    SimBlockIndexNode *parent;
    SimBlockIndexNode *prev; /* leaves only */
    SimBlockIndexNode *next;
    unsigned count;
    bool is_leaf;
    Entry entries[CAPACITY];
};

static void split_node(SimBlockIndex *index, SimBlockIndexNode *node);
static void refill_node(SimBlockIndex *index, SimBlockIndexNode *node);

void sim_block_index_init(SimBlockIndex *index, SimBlockIndexOrder order)
{
    *index = (SimBlockIndex){.order = order};
}

static void free_node(SimBlockIndexNode *node)
{
    for (unsigned i = 0; !node->is_leaf && i < node->count; i++) {
        free_node(node->entries[i].item);
    }
    g_free(node);
}

void sim_block_index_done(SimBlockIndex *index)
{
    if (index->root != NULL) {
        free_node(index->root);
    }
    while (index->spare != NULL) {
        SimBlockIndexNode *node = index->spare;
        index->spare = node->parent;
        g_free(node);
    }
    *index = (SimBlockIndex){.order = index->order};
}

static SimBlockIndexNode *take_node(SimBlockIndex *index, bool is_leaf)
{
    SimBlockIndexNode *node = index->spare;

    if (node != NULL) {
        index->spare = node->parent;
    } else {
        node = g_new(SimBlockIndexNode, 1);
    }
    node->parent = NULL;
    node->prev = NULL;
    node->next = NULL;
    node->count = 0;
    node->is_leaf = is_leaf;
    return node;
}

static void return_node(SimBlockIndex *index, SimBlockIndexNode *node)
{
    node->parent = index->spare;
    index->spare = node;
}

static Key make_key(uint64_t size, uint64_t address)
{
    return (Key)size << 64 | address;
}

static Key get_key(const SimBlockIndex *index, const SimBlock *block)
{
    return make_key(index->order == SIM_BLOCK_INDEX_BY_SIZE ? block->size : 0, block->address);
}

/* The first entry from FROM on that is >= the key. Without branches on keys: which way a search
 * goes cannot be predicted, and a wrong guess costs more than the search. */
static unsigned find_entry(const SimBlockIndexNode *node, unsigned from, Key key)
{
    unsigned n = node->count - from;

    while (n > 0) {
        const unsigned half = (n + 1) / 2;
        const unsigned is_less = node->entries[from + half - 1].key < key;
        from += half & -is_less;
        n -= half;
    }
    return from;
}

/* The leaf in which the key is or belongs. */
static SimBlockIndexNode *find_leaf(const SimBlockIndex *index, Key key)
{
    SimBlockIndexNode *node = index->root;

    while (!node->is_leaf) {
        /* Entry 0 has no lower bound; key + 1 makes "first >=" a "first >". */
        node = node->entries[find_entry(node, 1, key + 1) - 1].item;
    }
    return node;
}

static void insert_entry(SimBlockIndexNode *node, unsigned position, Entry entry)
{
    memmove(&node->entries[position + 1], &node->entries[position],
            (node->count - position) * sizeof entry);
    node->entries[position] = entry;
    node->count++;
}

void sim_block_index_insert(SimBlockIndex *index, SimBlock *block)
{
    const Entry entry = {get_key(index, block), block};

    if (index->root == NULL) {
        index->root = take_node(index, true);
    }
    SimBlockIndexNode *leaf = find_leaf(index, entry.key);
    insert_entry(leaf, find_entry(leaf, 0, entry.key), entry);
    index->count++;
    if (leaf->count == CAPACITY) {
        split_node(index, leaf);
    }
}

/* Moves N entries from the start of FROM to the end of TO, or from its end to the start of TO. */
static void move_entries(SimBlockIndexNode *from, SimBlockIndexNode *to, unsigned n, bool to_end)
{
    Entry *source = to_end ? from->entries : &from->entries[from->count - n];
    Entry *target = to_end ? &to->entries[to->count] : to->entries;

    if (!to_end) {
        memmove(&to->entries[n], to->entries, to->count * sizeof(Entry));
    }
    memcpy(target, source, n * sizeof(Entry));
    for (unsigned i = 0; !to->is_leaf && i < n; i++) {
        ((SimBlockIndexNode *)target[i].item)->parent = to;
    }
    to->count += n;
    from->count -= n;
    if (to_end) {
        memmove(from->entries, &from->entries[n], from->count * sizeof(Entry));
    }
}

static unsigned position_in_parent(const SimBlockIndexNode *node)
{
    unsigned position = 0;

    while (node->parent->entries[position].item != node) {
        position++;
    }
    return position;
}

static void split_node(SimBlockIndex *index, SimBlockIndexNode *node)
{
    SimBlockIndexNode *right = take_node(index, node->is_leaf);

    if (node->parent == NULL) {
        SimBlockIndexNode *root = take_node(index, false);
        insert_entry(root, 0, (Entry){0, node});
        node->parent = root;
        index->root = root;
    }
    move_entries(node, right, CAPACITY / 2, false);
    right->parent = node->parent;
    if (node->is_leaf) {
        right->prev = node;
        right->next = node->next;
        node->next = right;
        if (right->next != NULL) {
            right->next->prev = right;
        }
    }
    insert_entry(node->parent, position_in_parent(node) + 1, (Entry){right->entries[0].key, right});
    if (node->parent->count == CAPACITY) {
        split_node(index, node->parent);
    }
}

static void remove_entry(SimBlockIndex *index, SimBlockIndexNode *node, unsigned position)
{
    node->count--;
    memmove(&node->entries[position], &node->entries[position + 1],
            (node->count - position) * sizeof(Entry));
    if (node->count < MIN_COUNT) {
        refill_node(index, node);
    }
}

/* Merges the two neighbours if they fit in one node with room to spare, else shares evenly. */
static void balance_nodes(SimBlockIndex *index, SimBlockIndexNode *left, SimBlockIndexNode *right,
                          unsigned right_position)
{
    const unsigned total = left->count + right->count;

    if (total <= CAPACITY - MIN_COUNT) {
        move_entries(right, left, right->count, true);
        if (left->is_leaf) {
            left->next = right->next;
            if (left->next != NULL) {
                left->next->prev = left;
            }
        }
        return_node(index, right);
        remove_entry(index, left->parent, right_position);
        return;
    }
    if (left->count < right->count) {
        move_entries(right, left, right->count - total / 2, true);
    } else {
        move_entries(left, right, left->count - total / 2, false);
    }
    left->parent->entries[right_position].key = right->entries[0].key;
}

static void refill_node(SimBlockIndex *index, SimBlockIndexNode *node)
{
    if (node->parent == NULL) {
        if (!node->is_leaf && node->count == 1) {
            index->root = node->entries[0].item;
            index->root->parent = NULL;
            return_node(index, node);
        }
        return;
    }
    const unsigned position = position_in_parent(node);
    if (position > 0) {
        balance_nodes(index, node->parent->entries[position - 1].item, node, position);
    } else {
        balance_nodes(index, node, node->parent->entries[1].item, 1);
    }
}

static SimBlockIndexCursor find_cursor(const SimBlockIndex *index, Key key)
{
    if (index->root == NULL) {
        return (SimBlockIndexCursor){NULL, 0};
    }
    SimBlockIndexNode *leaf = find_leaf(index, key);
    const unsigned position = find_entry(leaf, 0, key);
    if (position == leaf->count) { /* the next leaf is not empty: only a root may be */
        return (SimBlockIndexCursor){leaf->next, 0};
    }
    return (SimBlockIndexCursor){leaf, position};
}

void sim_block_index_remove(SimBlockIndex *index, const SimBlock *block)
{
    const SimBlockIndexCursor cursor = find_cursor(index, get_key(index, block));

    g_assert(sim_block_index_get(cursor) == block);
    sim_block_index_remove_at(index, cursor);
}

void sim_block_index_remove_at(SimBlockIndex *index, SimBlockIndexCursor cursor)
{
    index->count--;
    remove_entry(index, cursor.leaf, cursor.position);
}

SimBlockIndexCursor sim_block_index_lower_bound(const SimBlockIndex *index, uint64_t size,
                                                uint64_t address)
{
    return find_cursor(index, make_key(size, address));
}

SimBlockIndexCursor sim_block_index_first(const SimBlockIndex *index)
{
    return sim_block_index_lower_bound(index, 0, 0);
}

SimBlockIndexCursor sim_block_index_last(const SimBlockIndex *index)
{
    SimBlockIndexNode *node = index->root;

    if (index->count == 0) {
        return (SimBlockIndexCursor){NULL, 0};
    }
    while (!node->is_leaf) {
        node = node->entries[node->count - 1].item;
    }
    return (SimBlockIndexCursor){node, node->count - 1};
}

SimBlock *sim_block_index_get(SimBlockIndexCursor cursor)
{
    if (cursor.leaf == NULL || cursor.position >= cursor.leaf->count) {
        return NULL;
    }
    return cursor.leaf->entries[cursor.position].item;
}

SimBlockIndexCursor sim_block_index_next(SimBlockIndexCursor cursor)
{
    if (cursor.position + 1 < cursor.leaf->count) {
        return (SimBlockIndexCursor){cursor.leaf, cursor.position + 1};
    }
    return (SimBlockIndexCursor){cursor.leaf->next, 0};
}

SimBlockIndexCursor sim_block_index_previous(SimBlockIndexCursor cursor)
{
    if (cursor.position > 0) {
        return (SimBlockIndexCursor){cursor.leaf, cursor.position - 1};
    }
    SimBlockIndexNode *leaf = cursor.leaf->prev;
    return (SimBlockIndexCursor){leaf, leaf == NULL ? 0 : leaf->count - 1};
}

/* Asserts the subtree's entries to lie in [LOW, HIGH), NULL being open. Returns its blocks. */
static size_t check_node(const SimBlockIndex *index, const SimBlockIndexNode *node,
                         const Entry *low, const Entry *high)
{
    size_t n = node->is_leaf ? node->count : 0;

    g_assert(node->count < CAPACITY);
    g_assert(node->parent == NULL || node->count >= MIN_COUNT);
    for (unsigned i = 0; i < node->count; i++) {
        const Entry *entry = &node->entries[i];
        const Entry *after = i + 1 < node->count ? &node->entries[i + 1] : high;
        if (node->is_leaf) {
            const SimBlock *block = entry->item;
            g_assert(entry->key == get_key(index, block));
            g_assert(low == NULL || entry->key >= low->key);
            g_assert(after == NULL || entry->key < after->key);
        } else {
            const SimBlockIndexNode *child = entry->item;
            g_assert(child->parent == node);
            g_assert(i > 0 || low == NULL || entry->key == low->key);
            n += check_node(index, child, i == 0 ? low : entry, after);
        }
    }
    return n;
}

void sim_block_index_check(const SimBlockIndex *index)
{
    if (index->root == NULL) {
        g_assert(index->count == 0);
        return;
    }
    g_assert(index->root->parent == NULL);
    g_assert(check_node(index, index->root, NULL, NULL) == index->count);
    size_t n = 0;
    for (SimBlockIndexCursor cursor = sim_block_index_first(index);
         sim_block_index_get(cursor) != NULL; cursor = sim_block_index_next(cursor)) {
        n++;
    }
    g_assert(n == index->count);
}
