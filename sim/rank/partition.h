/* SPDX-License-Identifier: Apache-2.0
 *
 * Which ranks nothing distinguishes, so that one of them stands for all.
 *
 * Ranks begin apart if their rows of the plan, the pace of their kernels or the links next to them
 * differ (with jitter all do), and are split until it holds that ranks of
 * one class sit in nodes and communicators of the same composition (how many members of each
 * class). That is the coarsest equitable partition, found by colour refinement: members of a class
 * then have the same history, because all that reaches a rank comes from its rows, its
 * communicators and the links of its nodes.
 *
 *     8 ranks in one node, one communicator, rank 7 has rows of its own
 *     rows:        a a a a a a a b
 *     refinement:  {0..6} sits with 7 a and 1 b; {7} sits with 7 a and 1 b: done, two classes
 *
 * Folded, a class is simulated once (an "entity" that counts its ranks) and so is a set of
 * communicators of one composition. Unfolded, every rank and every communicator is an entity, with
 * the same code and, by construction, the same result.
 *
 * Time O(rounds * ranks * groups), a handful of rounds.
 */
#pragma once

#include "hardware/cluster.h"
#include "plan/plan.h"

#include <glib.h>
#include <stdbool.h>
#include <stdint.h>

/* What is simulated: one rank, standing for COUNT. */
typedef struct SimEntity {
    uint32_t rank; /* the first it stands for */
    uint32_t count;
    uint32_t class_;  /* of ranks that nothing distinguishes, numbered by first rank */
    uint32_t program; /* of ranks that have the same rows, numbered by first rank */
} SimEntity;

typedef struct SimMember {
    uint32_t entity;
    uint32_t count; /* how many ranks of it are in the communicator */
} SimMember;

/* One rank list of a group, standing for all of its composition. */
typedef struct SimCommunicator {
    uint32_t group;                   /* of the plan */
    uint32_t list;                    /* the first it stands for */
    uint32_t ranks;                   /* members of that one list */
    uint32_t lists;                   /* how many it stands for */
    uint32_t first_member, n_members; /* in SimPartition.members, by entity */
} SimCommunicator;

typedef struct SimPartition {
    uint32_t ranks, groups;
    GArray *entities;          /* of SimEntity, by first rank */
    GArray *communicators;     /* of SimCommunicator, by group and list */
    GArray *members;           /* of SimMember */
    uint32_t *class_of_rank;   /* [ranks] */
    uint32_t *entity_of_rank;  /* [ranks] */
    uint32_t *communicator_of; /* [entities * groups]; SIM_PLAN_NONE = in no list of the group */
    uint32_t **communicator_of_list; /* [groups][lists] */
    uint32_t classes, programs;
} SimPartition;

/* PLAN's ranks on CLUSTER (whose gpus is the same number). SLOWNESS [ranks]: of their kernels
 * (pace.h); NULL: all alike. HAS_JITTER: no rank is like another. */
SimPartition *sim_partition_new(const SimPlan *plan, const SimCluster *cluster,
                                const uint64_t *slowness, bool has_jitter, bool fold);
void sim_partition_free(SimPartition *partition);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(SimPartition, sim_partition_free)

const SimEntity *sim_partition_entity(const SimPartition *partition, uint32_t entity);
const SimCommunicator *sim_partition_communicator(const SimPartition *partition,
                                                  uint32_t communicator);
/* The first member; n_members follow. */
const SimMember *sim_partition_members(const SimPartition *partition,
                                       const SimCommunicator *communicator);
