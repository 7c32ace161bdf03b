/* SPDX-License-Identifier: Apache-2.0 */
#include "hardware/slow_link.h"

#include <string.h>

#include "base/error.h"

static const char *const kinds[] = {"nvlink", "nic", "pcie", "leaf", NULL};

/* How many links of KIND there are: one number (`nvlink5`), or two (`nic2.3`) if *SECOND > 0. */
static uint32_t count_links(const SimCluster *cluster, SimLinkKind kind, uint32_t *second)
{
    uint32_t nodes = (cluster->gpus + cluster->gpus_per_node - 1) / cluster->gpus_per_node;
    *second = 0;
    switch (kind) {
    case SIM_LINK_NVLINK:
    case SIM_LINK_PCIE:
        return cluster->gpus;
    case SIM_LINK_NIC:
        *second = cluster->nics_per_node;
        return nodes;
    case SIM_LINK_LEAF:
        *second = cluster->has_rails ? cluster->nics_per_node : 0;
        return cluster->leaf_nodes > 0 ? (nodes + cluster->leaf_nodes - 1) / cluster->leaf_nodes
                                       : 0;
    }
    g_assert_not_reached();
}

/* "2.3" after a kind's name. */
static bool parse_number(const char *text, const SimCluster *cluster, SimSlowLink *link,
                         GError **error)
{
    uint32_t second, first = count_links(cluster, (SimLinkKind)link->kind, &second);
    g_auto(GStrv) parts = g_strsplit(text, ".", 2);
    int64_t a = 0, b = 0;
    if (first == 0) {
        g_set_error(error, SIM_ERROR, SIM_ERROR_RANGE, "the cluster '%s' has no leaf switches",
                    cluster->name);
        return false;
    }
    if ((parts[0] != NULL && parts[1] != NULL) != (second > 0)) {
        g_set_error(error, SIM_ERROR, SIM_ERROR_PARSE, "expected %s%s, found '%s%s'",
                    kinds[link->kind], second > 0 ? "N.M" : "N", kinds[link->kind], text);
        return false;
    }
    if (!sim_units_parse_int64(parts[0] != NULL ? parts[0] : "", 0, first - 1, &a, error) ||
        (second > 0 && !sim_units_parse_int64(parts[1], 0, second - 1, &b, error))) {
        return false;
    }
    link->number = (uint32_t)(second > 0 ? a * second + b : a);
    return true;
}

static bool parse_factor(const char *text, double *factor, GError **error)
{
    char *end;
    *factor = g_ascii_strtod(text, &end);
    if (end == text || *end != '\0' || !(*factor > 0 && *factor <= 1)) {
        g_autofree char *quoted = sim_error_quote(text);
        g_set_error(error, SIM_ERROR, SIM_ERROR_RANGE,
                    "expected a factor above 0 and at most 1, found %s", quoted);
        return false;
    }
    return true;
}

bool sim_slow_link_parse(const char *text, const SimCluster *cluster, SimSlowLink *link,
                         GError **error)
{
    const char *colon = strrchr(text, ':');
    size_t letters = strcspn(text, "0123456789.:");
    g_autofree char *word = g_strndup(text, letters);
    g_autofree char *quoted = sim_error_quote(text);
    *link = (SimSlowLink){0};
    if (colon == NULL) {
        g_set_error(error, SIM_ERROR, SIM_ERROR_PARSE, "expected NAME:FACTOR, found %s", quoted);
        return false;
    }
    while (kinds[link->kind] != NULL && strcmp(kinds[link->kind], word) != 0) {
        link->kind++;
    }
    if (kinds[link->kind] == NULL) {
        sim_error_set_unknown(error, quoted, "link", word, kinds);
        return false;
    }
    g_autofree char *number = g_strndup(text + letters, (size_t)(colon - text) - letters);
    if (!parse_number(number, cluster, link, error) ||
        !parse_factor(colon + 1, &link->factor, error)) {
        g_prefix_error(error, "%s: ", quoted);
        return false;
    }
    return true;
}

double sim_slow_link_find(const SimCluster *cluster, SimLinkKind kind, uint32_t number)
{
    double factor = 1;
    for (guint i = 0; cluster->slow_links != NULL && i < cluster->slow_links->len; i++) {
        const SimSlowLink *link = &g_array_index(cluster->slow_links, SimSlowLink, i);
        if (link->kind == kind && link->number == number) {
            factor *= link->factor;
        }
    }
    return factor;
}
