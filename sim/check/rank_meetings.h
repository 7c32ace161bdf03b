/* SPDX-License-Identifier: Apache-2.0
 *
 * Which ranks meet which, folded. Ranks that play the same rows and whose communicators hold the
 * same kinds of ranks have the same future: one of each kind (a class) stands for all.
 *
 * Classes are found by refinement: ranks begin apart where their programs differ, and are parted
 * again wherever the classes in one of their communicators differ, until nothing changes. Then each
 * class meets, in each group, one fixed set of classes: a meeting. With every rank the same there
 * is one class, and each meeting is of that class with itself.
 *
 * O(rounds * ranks * groups), rounds <= 3 in practice.
 */
#pragma once

#include <glib.h>
#include <stdint.h>

#define SIM_RANK_MEETINGS_NONE UINT32_MAX

/* One communicator as given: the ranks in it, in order. */
typedef struct SimMeetingList {
    uint32_t group;
    const uint32_t *ranks;
    uint32_t n_ranks;
} SimMeetingList;

/* All communicators of one group that join the same classes. */
typedef struct SimMeeting {
    uint32_t group;
    GArray *classes; /* of uint32_t, ascending */
    uint32_t list;   /* the first such communicator */
} SimMeeting;

typedef struct SimRankMeetings {
    uint32_t n_classes;
    uint32_t n_groups;
    uint32_t *class_of;    /* by rank; NONE = takes no part */
    uint32_t *rank_of;     /* by class: its first rank */
    uint32_t *size_of;     /* by class: its ranks */
    uint32_t *meetings_of; /* by class * n_groups + group: index, or NONE */
    GPtrArray *meetings;   /* of SimMeeting */
} SimRankMeetings;

/* PROGRAM_OF: by rank, the number of its program, or NONE. */
SimRankMeetings *sim_rank_meetings_new(const uint32_t *program_of, uint32_t n_ranks,
                                       uint32_t n_groups, const SimMeetingList *lists,
                                       uint32_t n_lists);
void sim_rank_meetings_free(SimRankMeetings *ranks);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(SimRankMeetings, sim_rank_meetings_free)

const SimMeeting *sim_rank_meetings_meeting(const SimRankMeetings *ranks, uint32_t rank_class,
                                            uint32_t group);
