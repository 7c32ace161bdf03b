/* SPDX-License-Identifier: Apache-2.0
 *
 * Communicators of a device mesh (replicate, shard): shard groups are neighbouring ranks, replicas
 * are the ranks with the same place in every shard group (torch/distributed/device_mesh.py: a mesh
 * is filled row by row).
 */
#pragma once

#include "plan/plan.h"

#include <glib.h>
#include <stdbool.h>
#include <stdint.h>

/* Adds communicator NAME: groups of SIZE neighbours; SIZE divides the plan's ranks. */
uint32_t sim_mesh_groups_add_neighbours(SimPlan *plan, const char *name, uint32_t size);

/* Adds communicator NAME: ranks with the same place in groups of SIZE neighbours. */
uint32_t sim_mesh_groups_add_replicas(SimPlan *plan, const char *name, uint32_t size);
