/* SPDX-License-Identifier: Apache-2.0 */
#include "predict/memory_settings.h"

#include <string.h>

#include "base/units.h"
#include "predict/summary.h"

bool sim_memory_settings_read(const SimPlan *plan, const SimCluster *cluster,
                              const SimSettings *settings, SimAllocatorConfig *allocator,
                              uint64_t *hbm_bytes, GError **error)
{
    sim_allocator_config_init(allocator);
    if (settings->allocator != NULL &&
        !sim_allocator_config_parse(allocator, settings->allocator, error)) {
        g_prefix_error(error, "--allocator: ");
        return false;
    }
    if (settings->hbm == NULL) {
        *hbm_bytes = sim_cluster_usable_bytes(cluster, sim_summary_communicators(plan));
        return true;
    }
    if (strcmp(settings->hbm, "unlimited") == 0) {
        *hbm_bytes = UINT64_MAX;
        return true;
    }
    if (!sim_units_parse_bytes(settings->hbm, hbm_bytes, error)) {
        g_prefix_error(error, "--hbm: ");
        return false;
    }
    return true;
}
