/* SPDX-License-Identifier: Apache-2.0 */
#include "fabric/links.h"

#include <stdlib.h>
#include <string.h>

#include "fabric/group_shape.h"
#include "fabric/maxmin.h"
#include "hardware/slow_link.h"

#define MOST_CAPACITY (UINT64_C(1) << 46) /* of the solver */

/* The kinds of links, in the order in which physical ones are numbered: ports by rank, NICs by
 * node, PCIe links by rank, leaf switches' uplinks by leaf and rail. */
typedef enum LinkKind { LINK_PORT, LINK_NIC, LINK_PCIE, LINK_LEAF, LINK_KINDS } LinkKind;

static const char *const kind_names[] = {"nvlink", "nic", "pcie", "leaf"};

/* A flow crosses a physical link. */
typedef struct Crossing {
    uint32_t physical;
    uint32_t flow;
    uint32_t weight;
} Crossing;

/* All crossings of one physical link, by flow: what makes two links equal. */
typedef struct Load {
    const Crossing *crossings;
    uint32_t count;
    uint64_t capacity;
    LinkKind kind;
} Load;

struct SimLinks {
    GArray *capacity;     /* uint64_t, a class */
    GArray *multiplicity; /* uint32_t, a class */
    GArray *kind;         /* LinkKind, a class */
    uint32_t flows;
    uint32_t *first;  /* [flows + 1] */
    uint32_t *link;   /* by flow */
    uint32_t *weight; /* by flow */
};

static uint32_t inverse_weight(uint32_t parts)
{
    return (SIM_MAXMIN_WEIGHT + parts - 1) / parts;
}

/* Where one group's ranks sit in one node. */
typedef struct Members {
    const uint32_t *ranks;
    uint32_t count;
} Members;

/* In one node the ring uses every port; across nodes it leaves the node once, so of g ports g - 1.
 */
static void add_ports(GArray *crossings, Members members, uint32_t flow, bool is_alone)
{
    if (members.count < 2)
        return;
    uint32_t weight =
        is_alone ? SIM_MAXMIN_WEIGHT : SIM_MAXMIN_WEIGHT - SIM_MAXMIN_WEIGHT / members.count;
    for (uint32_t i = 0; i < members.count; i++) {
        Crossing crossing = {members.ranks[i], flow, weight};
        g_array_append_val(crossings, crossing);
    }
}

/* The number of the first physical link of KIND. */
static uint32_t first_link(const SimCluster *cluster, LinkKind kind)
{
    uint32_t nics = (cluster->gpus + cluster->gpus_per_node - 1) / cluster->gpus_per_node *
                    cluster->nics_per_node;
    const uint32_t first[] = {0, cluster->gpus, cluster->gpus + nics, 2 * cluster->gpus + nics};
    return first[kind];
}

static LinkKind find_kind(const SimCluster *cluster, uint32_t physical)
{
    LinkKind kind = LINK_PORT;
    while (kind + 1 < LINK_KINDS && physical >= first_link(cluster, kind + 1))
        kind++;
    return kind;
}

/* The stream that enters and leaves the node, spread over the NICs next to the members' GPUs, each
 * behind its GPU's PCIe link. */
static void add_nics(GArray *crossings, const SimCluster *cluster, Members members, uint32_t flow)
{
    uint32_t node = members.ranks[0] / cluster->gpus_per_node;
    uint32_t base = first_link(cluster, LINK_NIC) + node * cluster->nics_per_node;
    uint32_t nics = 0;
    uint32_t begin = crossings->len;
    uint32_t next = 0;
    for (uint32_t i = 0; i < members.count; i++) {
        uint32_t first, end;
        sim_group_shape_nics(cluster, members.ranks[i], &first, &end);
        for (uint32_t nic = MAX(first, next); nic < end; nic++, nics++) {
            Crossing crossing = {base + nic, flow, 0};
            g_array_append_val(crossings, crossing);
            crossing.physical = first_link(cluster, LINK_PCIE) + members.ranks[i];
            if (cluster->pcie_bytes_per_s > 0)
                g_array_append_val(crossings, crossing);
        }
        next = end;
    }
    for (uint32_t i = begin; i < crossings->len; i++)
        g_array_index(crossings, Crossing, i).weight = inverse_weight(nics);
}

/* The stream leaves each leaf once, over all rails that the node's members use. */
static void add_leaf(GArray *crossings, const SimCluster *cluster, Members members, uint32_t flow)
{
    uint32_t leaf = members.ranks[0] / cluster->gpus_per_node / cluster->leaf_nodes;
    uint32_t base = first_link(cluster, LINK_LEAF);
    if (!cluster->has_rails) {
        Crossing crossing = {base + leaf, flow, SIM_MAXMIN_WEIGHT};
        g_array_append_val(crossings, crossing);
        return;
    }
    uint32_t begin = crossings->len;
    add_nics(crossings, cluster, members, flow);
    uint32_t node = members.ranks[0] / cluster->gpus_per_node;
    uint32_t nics = first_link(cluster, LINK_NIC) + node * cluster->nics_per_node;
    for (uint32_t i = begin; i < crossings->len; i++) {
        Crossing *crossing = &g_array_index(crossings, Crossing, i);
        if (find_kind(cluster, crossing->physical) == LINK_NIC)
            crossing->physical = base + leaf * cluster->nics_per_node + (crossing->physical - nics);
        else
            g_array_remove_index(crossings, i--);
    }
}

static int compare_ranks(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

static void add_group(GArray *crossings, const SimCluster *cluster, const SimLinkGroup *group)
{
    if (group->count < 2)
        return;
    g_autofree uint32_t *ranks = g_memdup2(group->ranks, group->count * sizeof(*ranks));
    qsort(ranks, group->count, sizeof(*ranks), compare_ranks);
    uint32_t size = cluster->gpus_per_node;
    uint32_t leaf_size = cluster->leaf_nodes * size;
    uint32_t last = ranks[group->count - 1];
    bool is_alone = ranks[0] / size == last / size;
    bool is_below_leaf = leaf_size == 0 || ranks[0] / leaf_size == last / leaf_size;
    for (uint32_t begin = 0, end; begin < group->count; begin = end) {
        for (end = begin; end < group->count && ranks[end] / size == ranks[begin] / size; end++)
            ;
        Members members = {ranks + begin, end - begin};
        add_ports(crossings, members, group->flow, is_alone);
        if (!is_alone)
            add_nics(crossings, cluster, members, group->flow);
        if (!is_below_leaf &&
            (begin == 0 || ranks[begin - 1] / leaf_size != ranks[begin] / leaf_size))
            add_leaf(crossings, cluster, members, group->flow);
    }
}

static int compare_crossings(const void *a, const void *b)
{
    const Crossing *x = a, *y = b;
    if (x->physical != y->physical)
        return x->physical < y->physical ? -1 : 1;
    if (x->flow != y->flow)
        return x->flow < y->flow ? -1 : 1;
    return (x->weight > y->weight) - (x->weight < y->weight);
}

/* Sorts them, and joins those of the same flow over the same link: several groups of one class. */
static void join_crossings(GArray *crossings)
{
    if (crossings->len == 0)
        return;
    Crossing *all = (Crossing *)(void *)crossings->data;
    qsort(all, crossings->len, sizeof(Crossing), compare_crossings);
    guint last = 0;
    for (guint i = 1; i < crossings->len; i++) {
        if (all[i].physical == all[last].physical && all[i].flow == all[last].flow)
            all[last].weight += all[i].weight;
        else
            all[++last] = all[i];
    }
    g_array_set_size(crossings, last + 1);
}

static guint hash_load(gconstpointer key)
{
    const Load *load = key;
    guint hash = load->count + (guint)load->capacity;
    for (uint32_t i = 0; i < load->count; i++)
        hash = hash * 31U + load->crossings[i].flow * 7U + load->crossings[i].weight;
    return hash;
}

static gboolean equal_loads(gconstpointer a, gconstpointer b)
{
    const Load *x = a, *y = b;
    if (x->count != y->count || x->capacity != y->capacity || x->kind != y->kind)
        return FALSE;
    for (uint32_t i = 0; i < x->count; i++) {
        if (x->crossings[i].flow != y->crossings[i].flow ||
            x->crossings[i].weight != y->crossings[i].weight)
            return FALSE;
    }
    return TRUE;
}

/* What a port carries: what copies reach, or what a collective has been measured to, if more. */
static uint64_t compute_port_capacity(const SimCluster *cluster)
{
    double capacity = cluster->nvlink_bytes_per_s * cluster->nvlink_fraction;
    const GArray *rows = cluster->comm->node;
    for (guint i = 0; i < rows->len; i++)
        capacity = MAX(capacity, g_array_index(rows, SimCommRow, i).rate);
    return (uint64_t)MAX(capacity, 1);
}

static uint64_t compute_capacity(const SimCluster *cluster, LinkKind kind)
{
    double nic = cluster->nic_bytes_per_s * cluster->nic_fraction;
    double leaf = 0;
    /* A cluster without leaf switches has no oversubscription either. */
    if (kind == LINK_LEAF && cluster->oversubscription > 0)
        leaf = nic * cluster->leaf_nodes * (cluster->has_rails ? 1 : cluster->nics_per_node) /
               cluster->oversubscription;
    const double capacities[] = {0, nic, cluster->pcie_bytes_per_s, leaf};
    if (kind == LINK_PORT)
        return compute_port_capacity(cluster);
    return (uint64_t)CLAMP(capacities[kind], 1, (double)MOST_CAPACITY);
}

static void add_class(SimLinks *links, const Load *load)
{
    const uint32_t one = 1;
    g_array_append_val(links->capacity, load->capacity);
    g_array_append_val(links->multiplicity, one);
    g_array_append_val(links->kind, load->kind);
}

/* Counts the physical links of each class; returns the loads of the classes, in order of their
 * first link. */
static GArray *build_classes(SimLinks *links, const SimCluster *cluster, const GArray *crossings)
{
    uint64_t capacity[LINK_KINDS];
    for (unsigned kind = LINK_PORT; kind < LINK_KINDS; kind++)
        capacity[kind] = compute_capacity(cluster, (LinkKind)kind);
    const Crossing *all = (const Crossing *)(const void *)crossings->data;
    g_autofree Load *loads = g_new(Load, crossings->len + 1);
    g_autoptr(GHashTable) known = g_hash_table_new(hash_load, equal_loads);
    GArray *classes = g_array_new(FALSE, FALSE, sizeof(Load));
    size_t n = 0;
    for (guint begin = 0, end; begin < crossings->len; begin = end) {
        for (end = begin; end < crossings->len && all[end].physical == all[begin].physical; end++)
            ;
        LinkKind kind = find_kind(cluster, all[begin].physical);
        uint64_t rate = capacity[kind];
        if (cluster->slow_links) {
            uint32_t number = all[begin].physical - first_link(cluster, kind);
            rate = (uint64_t)MAX(
                (double)rate * sim_slow_link_find(cluster, (SimLinkKind)kind, number), 1);
        }
        Load *load = &loads[n++];
        *load = (Load){all + begin, end - begin, rate, kind};
        gpointer class;
        if (g_hash_table_lookup_extended(known, load, NULL, &class)) {
            g_array_index(links->multiplicity, uint32_t, GPOINTER_TO_UINT(class))++;
            continue;
        }
        g_hash_table_insert(known, load, GUINT_TO_POINTER(classes->len));
        g_array_append_val(classes, *load);
        add_class(links, load);
    }
    return classes;
}

/* Turns the classes' loads around: from class -> flows to flow -> classes. */
static void build_routes(SimLinks *links, const GArray *classes)
{
    links->first = g_new0(uint32_t, links->flows + 1);
    size_t total = 0;
    for (guint c = 0; c < classes->len; c++) {
        const Load *load = &g_array_index(classes, Load, c);
        for (uint32_t i = 0; i < load->count; i++)
            links->first[load->crossings[i].flow + 1]++;
        total += load->count;
    }
    for (uint32_t f = 0; f < links->flows; f++)
        links->first[f + 1] += links->first[f];
    links->link = g_new(uint32_t, total + 1);
    links->weight = g_new(uint32_t, total + 1);
    g_autofree uint32_t *filled = g_memdup2(links->first, links->flows * sizeof(uint32_t));
    for (guint c = 0; c < classes->len; c++) {
        const Load *load = &g_array_index(classes, Load, c);
        for (uint32_t i = 0; i < load->count; i++) {
            uint32_t at = filled[load->crossings[i].flow]++;
            links->link[at] = c;
            links->weight[at] = load->crossings[i].weight;
        }
    }
}

SimLinks *sim_links_new(const SimCluster *cluster, const SimLinkGroup *groups, size_t n_groups,
                        size_t flows)
{
    SimLinks *links = g_new0(SimLinks, 1);
    links->capacity = g_array_new(FALSE, FALSE, sizeof(uint64_t));
    links->multiplicity = g_array_new(FALSE, FALSE, sizeof(uint32_t));
    links->kind = g_array_new(FALSE, FALSE, sizeof(LinkKind));
    links->flows = (uint32_t)flows;
    g_autoptr(GArray) crossings = g_array_new(FALSE, FALSE, sizeof(Crossing));
    for (size_t i = 0; i < n_groups; i++) {
        g_assert(groups[i].flow < flows);
        add_group(crossings, cluster, &groups[i]);
    }
    join_crossings(crossings);
    g_autoptr(GArray) classes = build_classes(links, cluster, crossings);
    build_routes(links, classes);
    return links;
}

void sim_links_free(SimLinks *links)
{
    if (!links)
        return;
    g_array_unref(links->capacity);
    g_array_unref(links->multiplicity);
    g_array_unref(links->kind);
    g_free(links->first);
    g_free(links->link);
    g_free(links->weight);
    g_free(links);
}

size_t sim_links_count(const SimLinks *links)
{
    return links->capacity->len;
}

const uint64_t *sim_links_capacities(const SimLinks *links)
{
    return (const uint64_t *)(const void *)links->capacity->data;
}

uint32_t sim_links_multiplicity(const SimLinks *links, uint32_t link)
{
    g_assert(link < links->multiplicity->len);
    return g_array_index(links->multiplicity, uint32_t, link);
}

const char *sim_links_kind(const SimLinks *links, uint32_t link)
{
    g_assert(link < links->kind->len);
    return kind_names[g_array_index(links->kind, LinkKind, link)];
}

SimRoute sim_links_route(const SimLinks *links, uint32_t flow)
{
    g_assert(flow < links->flows);
    uint32_t first = links->first[flow];
    return (SimRoute){links->link + first, links->weight + first, links->first[flow + 1] - first};
}
