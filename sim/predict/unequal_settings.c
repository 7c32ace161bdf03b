/* SPDX-License-Identifier: Apache-2.0 */
#include "predict/unequal_settings.h"

#include <string.h>

#include "base/error.h"
#include "hardware/slow_link.h"

/* "3:1.2", whose form has been checked. */
static bool read_slow_rank(const char *text, const SimCluster *cluster, GArray *slow_ranks,
                           GError **error)
{
    SimSlowRank slow = {0};
    char *end;
    uint64_t rank = g_ascii_strtoull(text, &end, 10);
    slow.factor = g_ascii_strtod(end + 1, NULL);
    if (rank >= cluster->gpus) {
        g_set_error(error, SIM_ERROR, SIM_ERROR_RANGE,
                    "--slow-rank %s: expected a rank from 0 to %u", text, cluster->gpus - 1);
        return false;
    }
    slow.rank = (uint32_t)rank;
    g_array_append_val(slow_ranks, slow);
    return true;
}

static bool read_slow_ranks(const char *list, const SimCluster *cluster,
                            SimSimulationOptions *options, GError **error)
{
    if (list == NULL) {
        return true;
    }
    g_auto(GStrv) items = g_strsplit(list, ",", -1);
    g_autoptr(GArray) slow_ranks = g_array_new(FALSE, FALSE, sizeof(SimSlowRank));
    for (char **item = items; *item != NULL; item++) {
        if (!read_slow_rank(*item, cluster, slow_ranks, error)) {
            return false;
        }
    }
    options->slow_ranks = g_steal_pointer(&slow_ranks);
    return true;
}

static bool read_slow_links(const char *list, SimCluster *cluster, GError **error)
{
    if (list == NULL) {
        return true;
    }
    g_auto(GStrv) items = g_strsplit(list, ",", -1);
    g_autoptr(GArray) links = g_array_new(FALSE, FALSE, sizeof(SimSlowLink));
    for (char **item = items; *item != NULL; item++) {
        SimSlowLink link;
        if (!sim_slow_link_parse(*item, cluster, &link, error)) {
            g_prefix_error(error, "--slow-link ");
            return false;
        }
        g_array_append_val(links, link);
    }
    g_clear_pointer(&cluster->slow_links, g_array_unref);
    cluster->slow_links = g_steal_pointer(&links);
    return true;
}

bool sim_unequal_settings_read(const SimSettings *settings, SimCluster *cluster,
                               SimSimulationOptions *options, GError **error)
{
    options->jitter = g_ascii_strtod(settings->jitter, NULL);
    options->seed = (uint64_t)settings->seed;
    return read_slow_links(settings->slow_link, cluster, error) &&
           read_slow_ranks(settings->slow_rank, cluster, options, error);
}
