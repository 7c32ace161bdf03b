/* SPDX-License-Identifier: Apache-2.0
 *
 * The settings that make ranks unequal (jitter, slow-rank, slow-link, seed), as the simulation
 * takes them.
 */
#pragma once

#include "hardware/cluster.h"
#include "job/settings.h"
#include "rank/simulation.h"

#include <glib.h>
#include <stdbool.h>

/* Fills jitter, seed and slow_ranks of OPTIONS (the array is the caller's to free) and the slow
 * links of CLUSTER, whose GPUs in use are chosen. Errors PARSE, SCHEMA, RANGE, naming the option
 * and what is valid. */
bool sim_unequal_settings_read(const SimSettings *settings, SimCluster *cluster,
                               SimSimulationOptions *options, GError **error);
