/* SPDX-License-Identifier: Apache-2.0
 *
 * --allocator and --hbm as numbers.
 */
#pragma once

#include "hardware/cluster.h"
#include "hbm/allocator_config.h"
#include "job/settings.h"
#include "plan/plan.h"

#include <glib.h>
#include <stdbool.h>
#include <stdint.h>

/* HBM_BYTES: what the allocator may reserve, UINT64_MAX = unlimited; by default what CLUSTER's GPU
 * leaves beside the context and PLAN's communicators. Errors PARSE, SCHEMA, RANGE, naming the
 * option. */
bool sim_memory_settings_read(const SimPlan *plan, const SimCluster *cluster,
                              const SimSettings *settings, SimAllocatorConfig *allocator,
                              uint64_t *hbm_bytes, GError **error);
