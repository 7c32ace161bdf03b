/* SPDX-License-Identifier: Apache-2.0 */
#include "rank/partition.h"

#include <string.h>

#include "fabric/group_shape.h"
#include "hardware/slow_link.h"

/* The work of one refinement: colours, and words that become the next colours. */
typedef struct Refinement {
    const SimPlan *plan;
    const SimCluster *cluster;
    uint32_t ranks, groups;
    uint32_t *colour;     /* [ranks] */
    uint32_t *next;       /* [ranks] */
    uint32_t **list_word; /* [groups][lists]: composition of each list, as a number */
    GArray *scratch;      /* of uint32_t */
} Refinement;

/* The number of a sequence of words, in order of first appearance. */
static uint32_t intern(GHashTable *words, const uint32_t *word, size_t count)
{
    g_autoptr(GBytes) key = g_bytes_new(word, count * sizeof *word);
    uint32_t number = GPOINTER_TO_UINT(g_hash_table_lookup(words, key));
    if (number == 0) {
        number = g_hash_table_size(words) + 1;
        g_hash_table_insert(words, g_steal_pointer(&key), GUINT_TO_POINTER(number));
    }
    return number - 1;
}

static GHashTable *new_words(void)
{
    return g_hash_table_new_full(g_bytes_hash, g_bytes_equal, (GDestroyNotify)g_bytes_unref, NULL);
}

static int compare_words(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a;
    uint32_t y = *(const uint32_t *)b;
    return x < y ? -1 : x > y;
}

/* The composition of a set whose colours lie in SCRATCH: sorted, as a number. */
static uint32_t intern_composition(Refinement *work, GHashTable *words)
{
    g_array_sort(work->scratch, compare_words);
    return intern(words, (const uint32_t *)(void *)work->scratch->data, work->scratch->len);
}

/* Ranks begin with the colour of the rank sets they are in. Returns how many colours there are. */
static uint32_t colour_by_rows(Refinement *work)
{
    uint32_t sets = sim_plan_rank_set_count(work->plan);
    g_autoptr(GHashTable) words = new_words();
    for (uint32_t rank = 0; rank < work->ranks; rank++) {
        g_array_set_size(work->scratch, 0);
        for (uint32_t set = 1; set < sets; set++) {
            if (sim_plan_rank_set_has(work->plan, set, rank)) {
                g_array_append_val(work->scratch, set);
            }
        }
        work->colour[rank] =
            intern(words, (const uint32_t *)(void *)work->scratch->data, work->scratch->len);
    }
    return g_hash_table_size(words);
}

static void append_factor(GArray *words, double factor)
{
    uint64_t bits;
    memcpy(&bits, &factor, sizeof bits);
    uint32_t halves[] = {(uint32_t)(bits >> 32), (uint32_t)bits};
    g_array_append_vals(words, halves, 2);
}

/* What RANK's own links have of their rate. */
static void append_links(const SimCluster *cluster, uint32_t rank, GArray *words)
{
    uint32_t node = rank / cluster->gpus_per_node, first, end;
    sim_group_shape_nics(cluster, rank, &first, &end);
    append_factor(words, sim_slow_link_find(cluster, SIM_LINK_NVLINK, rank));
    append_factor(words, sim_slow_link_find(cluster, SIM_LINK_PCIE, rank));
    for (uint32_t nic = first; nic < end; nic++) {
        append_factor(
            words, sim_slow_link_find(cluster, SIM_LINK_NIC, node * cluster->nics_per_node + nic));
    }
    uint32_t rails = cluster->has_rails ? cluster->nics_per_node : 1;
    for (uint32_t rail = 0; cluster->leaf_nodes > 0 && rail < rails; rail++) {
        append_factor(words, sim_slow_link_find(cluster, SIM_LINK_LEAF,
                                                node / cluster->leaf_nodes * rails + rail));
    }
}

/* Splits the colours by what else makes ranks unequal. Returns how many there are. */
static uint32_t colour_by_pace(Refinement *work, const uint64_t *slowness, bool has_jitter)
{
    g_autoptr(GHashTable) words = new_words();
    for (uint32_t rank = 0; rank < work->ranks; rank++) {
        uint64_t pace = slowness != NULL ? slowness[rank] : 0;
        uint32_t word[] = {work->colour[rank], (uint32_t)(pace >> 32), (uint32_t)pace,
                           has_jitter ? rank : 0};
        g_array_set_size(work->scratch, 0);
        g_array_append_vals(work->scratch, word, G_N_ELEMENTS(word));
        if (work->cluster->slow_links != NULL) {
            append_links(work->cluster, rank, work->scratch);
        }
        work->next[rank] =
            intern(words, (const uint32_t *)(void *)work->scratch->data, work->scratch->len);
    }
    memcpy(work->colour, work->next, work->ranks * sizeof *work->colour);
    return g_hash_table_size(words);
}

static void compute_list_words(Refinement *work)
{
    g_autoptr(GHashTable) words = new_words();
    for (uint32_t group = 0; group < work->groups; group++) {
        for (uint32_t list = 0; list < sim_plan_group_lists(work->plan, group); list++) {
            uint32_t n_ranges;
            const SimRange *ranges = sim_plan_group_ranges(work->plan, group, list, &n_ranges);
            g_array_set_size(work->scratch, 0);
            for (uint32_t i = 0; i < n_ranges; i++) {
                g_array_append_vals(work->scratch, work->colour + ranges[i].first,
                                    ranges[i].last - ranges[i].first + 1);
            }
            work->list_word[group][list] = intern_composition(work, words);
        }
    }
}

/* One round: each rank's next colour from its own, its node's and its lists' composition. Returns
 * how many colours there are. */
static uint32_t refine(Refinement *work)
{
    g_autoptr(GHashTable) words = new_words();
    g_autoptr(GHashTable) nodes = new_words();
    uint32_t gpus = work->cluster->gpus_per_node;
    g_autofree uint32_t *word = g_new(uint32_t, work->groups + 2);
    uint32_t node_word = 0;

    compute_list_words(work);
    for (uint32_t rank = 0; rank < work->ranks; rank++) {
        if (rank % gpus == 0) {
            g_array_set_size(work->scratch, 0);
            g_array_append_vals(work->scratch, work->colour + rank, MIN(gpus, work->ranks - rank));
            node_word = intern_composition(work, nodes);
        }
        word[0] = work->colour[rank];
        word[1] = node_word;
        for (uint32_t group = 0; group < work->groups; group++) {
            uint32_t list, place, members;
            bool is_in = sim_plan_group_of_rank(work->plan, group, rank, &list, &place, &members);
            word[group + 2] = is_in ? work->list_word[group][list] : SIM_PLAN_NONE;
        }
        work->next[rank] = intern(words, word, work->groups + 2);
    }
    memcpy(work->colour, work->next, work->ranks * sizeof *work->colour);
    return g_hash_table_size(words);
}

static void add_entities(SimPartition *partition, const uint32_t *program_of_rank, bool fold)
{
    for (uint32_t rank = 0; rank < partition->ranks; rank++) {
        uint32_t class_ = partition->class_of_rank[rank];
        if (fold && class_ < partition->entities->len) {
            g_array_index(partition->entities, SimEntity, class_).count++;
            partition->entity_of_rank[rank] = class_;
            continue;
        }
        SimEntity entity = {rank, 1, class_, program_of_rank[rank]};
        partition->entity_of_rank[rank] = partition->entities->len;
        g_array_append_val(partition->entities, entity);
    }
}

/* Appends the members of one list, by entity, and returns how many ranks it has. */
static uint32_t add_members(SimPartition *partition, const SimPlan *plan, uint32_t group,
                            uint32_t list, uint32_t *count_of_entity)
{
    uint32_t n_ranges, total = 0;
    guint first = partition->members->len;
    const SimRange *ranges = sim_plan_group_ranges(plan, group, list, &n_ranges);
    for (uint32_t i = 0; i < n_ranges; i++) {
        for (uint32_t rank = ranges[i].first; rank <= ranges[i].last; rank++, total++) {
            uint32_t entity = partition->entity_of_rank[rank];
            if (count_of_entity[entity]++ == 0) {
                SimMember member = {entity, 0};
                g_array_append_val(partition->members, member);
            }
        }
    }
    for (guint i = first; i < partition->members->len; i++) {
        SimMember *member = &g_array_index(partition->members, SimMember, i);
        member->count = count_of_entity[member->entity];
        count_of_entity[member->entity] = 0;
    }
    return total;
}

static void add_communicators(SimPartition *partition, const SimPlan *plan, uint32_t **list_word,
                              bool fold)
{
    g_autofree uint32_t *count_of_entity = g_new0(uint32_t, partition->entities->len);
    for (uint32_t group = 0; group < partition->groups; group++) {
        uint32_t lists = sim_plan_group_lists(plan, group);
        g_autoptr(GHashTable) first_of_word = g_hash_table_new(NULL, NULL);
        for (uint32_t list = 0; list < lists; list++) {
            void *word = GUINT_TO_POINTER(list_word[group][list]);
            void *known;
            if (fold && g_hash_table_lookup_extended(first_of_word, word, NULL, &known)) {
                partition->communicator_of_list[group][list] = GPOINTER_TO_UINT(known);
                g_array_index(partition->communicators, SimCommunicator, GPOINTER_TO_UINT(known))
                    .lists++;
                continue;
            }
            SimCommunicator communicator = {
                .group = group, .list = list, .lists = 1, .first_member = partition->members->len};
            communicator.ranks = add_members(partition, plan, group, list, count_of_entity);
            communicator.n_members = partition->members->len - communicator.first_member;
            uint32_t number = partition->communicators->len;
            g_hash_table_insert(first_of_word, word, GUINT_TO_POINTER(number));
            partition->communicator_of_list[group][list] = number;
            g_array_append_val(partition->communicators, communicator);
        }
    }
}

static void find_communicators(SimPartition *partition, const SimPlan *plan)
{
    for (uint32_t e = 0; e < partition->entities->len; e++) {
        uint32_t rank = g_array_index(partition->entities, SimEntity, e).rank;
        for (uint32_t group = 0; group < partition->groups; group++) {
            uint32_t list, place, members;
            bool is_in = sim_plan_group_of_rank(plan, group, rank, &list, &place, &members);
            partition->communicator_of[e * partition->groups + group] =
                is_in ? partition->communicator_of_list[group][list] : SIM_PLAN_NONE;
        }
    }
}

/* [groups][lists] numbers. */
static uint32_t **new_list_numbers(const SimPlan *plan)
{
    uint32_t groups = sim_plan_group_count(plan);
    uint32_t **numbers = g_new(uint32_t *, groups);
    for (uint32_t group = 0; group < groups; group++) {
        numbers[group] = g_new0(uint32_t, sim_plan_group_lists(plan, group));
    }
    return numbers;
}

static void free_list_numbers(uint32_t **numbers, uint32_t groups)
{
    for (uint32_t group = 0; group < groups; group++) {
        g_free(numbers[group]);
    }
    g_free(numbers);
}

static SimPartition *new_partition(const SimPlan *plan)
{
    SimPartition *partition = g_new0(SimPartition, 1);
    partition->ranks = sim_plan_ranks(plan);
    partition->groups = sim_plan_group_count(plan);
    partition->entities = g_array_new(FALSE, FALSE, sizeof(SimEntity));
    partition->communicators = g_array_new(FALSE, FALSE, sizeof(SimCommunicator));
    partition->members = g_array_new(FALSE, FALSE, sizeof(SimMember));
    partition->class_of_rank = g_new0(uint32_t, partition->ranks);
    partition->entity_of_rank = g_new0(uint32_t, partition->ranks);
    partition->communicator_of_list = new_list_numbers(plan);
    return partition;
}

SimPartition *sim_partition_new(const SimPlan *plan, const SimCluster *cluster,
                                const uint64_t *slowness, bool has_jitter, bool fold)
{
    SimPartition *partition = new_partition(plan);
    uint32_t ranks = partition->ranks;
    g_autofree uint32_t *program_of_rank = g_new(uint32_t, ranks);
    g_autofree uint32_t *next = g_new(uint32_t, ranks);
    g_autoptr(GArray) scratch = g_array_new(FALSE, FALSE, sizeof(uint32_t));
    Refinement work = {plan,
                       cluster,
                       ranks,
                       partition->groups,
                       partition->class_of_rank,
                       next,
                       new_list_numbers(plan),
                       scratch};

    uint32_t colours = colour_by_rows(&work);
    partition->programs = colours;
    memcpy(program_of_rank, work.colour, ranks * sizeof *program_of_rank);
    if (slowness != NULL || has_jitter || cluster->slow_links != NULL) {
        colours = colour_by_pace(&work, slowness, has_jitter);
    }
    for (uint32_t more = refine(&work); more != colours; more = refine(&work)) {
        colours = more;
    }
    partition->classes = colours;

    add_entities(partition, program_of_rank, fold);
    add_communicators(partition, plan, work.list_word, fold);
    partition->communicator_of = g_new(uint32_t, partition->entities->len * partition->groups);
    find_communicators(partition, plan);
    free_list_numbers(work.list_word, partition->groups);
    return partition;
}

void sim_partition_free(SimPartition *partition)
{
    if (partition == NULL) {
        return;
    }
    free_list_numbers(partition->communicator_of_list, partition->groups);
    g_free(partition->communicator_of);
    g_free(partition->entity_of_rank);
    g_free(partition->class_of_rank);
    g_array_unref(partition->members);
    g_array_unref(partition->communicators);
    g_array_unref(partition->entities);
    g_free(partition);
}

const SimEntity *sim_partition_entity(const SimPartition *partition, uint32_t entity)
{
    g_assert(entity < partition->entities->len);
    return &g_array_index(partition->entities, SimEntity, entity);
}

const SimCommunicator *sim_partition_communicator(const SimPartition *partition,
                                                  uint32_t communicator)
{
    g_assert(communicator < partition->communicators->len);
    return &g_array_index(partition->communicators, SimCommunicator, communicator);
}

const SimMember *sim_partition_members(const SimPartition *partition,
                                       const SimCommunicator *communicator)
{
    return &g_array_index(partition->members, SimMember, communicator->first_member);
}
