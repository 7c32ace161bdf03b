/* SPDX-License-Identifier: Apache-2.0 */
#include "check/rank_play.h"

#define NONE UINT32_MAX

/* A list of lanes that wait for the same thing, linked through Lane.next_waiter. */
typedef struct Lane {
    GArray *queue;         /* of uint32_t: its steps, shared by the classes of a program */
    uint32_t next;         /* place in queue */
    uint32_t first_waiter; /* lanes that wait for this one to move on */
    uint32_t next_waiter;  /* in the list this lane is in */
    bool is_queued;        /* on the ready stack */
    bool is_waiting;       /* in a list */
} Lane;

typedef struct Player {
    const SimSyncProgram *program;
    uint32_t n_lanes;
    Lane *lanes;
    uint32_t issued;        /* steps; == steps->len: the host is through */
    bool *is_recorded;      /* by event */
    uint32_t *event_waiter; /* by event: first lane that waits, or NONE */
    uint32_t *done;         /* by group: collectives completed */
    GArray *ready;          /* of uint32_t: lanes to look at */
} Player;

/* One communicator: who has arrived at its present collective. */
typedef struct Rendezvous {
    uint32_t ordinal;
    uint32_t n_arrived;
    uint8_t kind;
    bool is_mixed; /* arrivals differ in operation: it never completes */
} Rendezvous;

struct SimRankPlay {
    const SimRankSetup *setup;
    uint32_t n_classes, n_groups;
    Player *players;
    Rendezvous *rendezvous; /* by meeting */
    bool *has_arrived;      /* by class * n_groups + group */
    GArray *ready;          /* of uint32_t: classes to look at */
    bool *is_queued;        /* by class */
};

/* --- setting up ---------------------------------------------------------------------------------
 */

static void init_player(Player *player, const SimSyncProgram *program, uint32_t n_groups)
{
    player->program = program;
    player->n_lanes = program->n_lanes;
    player->lanes = g_new0(Lane, player->n_lanes);
    for (uint32_t lane = 0; lane < player->n_lanes; lane++) {
        player->lanes[lane].queue = g_array_new(FALSE, FALSE, sizeof(uint32_t));
        player->lanes[lane].first_waiter = player->lanes[lane].next_waiter = NONE;
    }
    for (uint32_t i = 0; i < program->steps->len; i++) {
        uint32_t lane = sim_sync_program_step(program, i)->lane;
        g_array_append_val(player->lanes[lane].queue, i);
    }
    size_t n = MAX(program->n_events, 1);
    player->is_recorded = g_new0(bool, n);
    player->event_waiter = g_new(uint32_t, n);
    for (size_t i = 0; i < n; i++)
        player->event_waiter[i] = NONE;
    player->done = g_new0(uint32_t, MAX(n_groups, 1));
    player->ready = g_array_new(FALSE, FALSE, sizeof(uint32_t));
}

static void clear_player(Player *player)
{
    for (uint32_t lane = 0; lane < player->n_lanes; lane++)
        g_array_unref(player->lanes[lane].queue);
    g_free(player->lanes);
    g_free(player->is_recorded);
    g_free(player->event_waiter);
    g_free(player->done);
    g_array_unref(player->ready);
}

SimRankPlay *sim_rank_play_new(const SimRankSetup *setup)
{
    SimRankPlay *play = g_new0(SimRankPlay, 1);
    const SimRankMeetings *ranks = setup->ranks;
    *play =
        (SimRankPlay){.setup = setup, .n_classes = ranks->n_classes, .n_groups = ranks->n_groups};
    play->players = g_new0(Player, MAX(play->n_classes, 1));
    for (uint32_t rank_class = 0; rank_class < play->n_classes; rank_class++)
        init_player(&play->players[rank_class], sim_matching_program(setup, rank_class),
                    play->n_groups);
    play->rendezvous = g_new0(Rendezvous, MAX(ranks->meetings->len, 1));
    play->has_arrived = g_new0(bool, MAX((gsize)play->n_classes * play->n_groups, 1));
    play->ready = g_array_new(FALSE, FALSE, sizeof(uint32_t));
    play->is_queued = g_new0(bool, MAX(play->n_classes, 1));
    return play;
}

void sim_rank_play_free(SimRankPlay *play)
{
    if (play == NULL)
        return;
    for (uint32_t rank_class = 0; rank_class < play->n_classes; rank_class++)
        clear_player(&play->players[rank_class]);
    g_free(play->players);
    g_free(play->rendezvous);
    g_free(play->has_arrived);
    g_array_unref(play->ready);
    g_free(play->is_queued);
    g_free(play);
}

/* --- moving -------------------------------------------------------------------------------------
 */

static void wake_class(SimRankPlay *play, uint32_t rank_class)
{
    if (play->is_queued[rank_class])
        return;
    play->is_queued[rank_class] = true;
    g_array_append_val(play->ready, rank_class);
}

static void wake_lane(Player *player, uint32_t lane)
{
    if (player->lanes[lane].is_queued)
        return;
    player->lanes[lane].is_queued = true;
    g_array_append_val(player->ready, lane);
}

static void wake_list(Player *player, uint32_t *first)
{
    uint32_t lane = *first;
    *first = NONE;
    while (lane != NONE) {
        uint32_t next = player->lanes[lane].next_waiter;
        player->lanes[lane].next_waiter = NONE;
        player->lanes[lane].is_waiting = false;
        wake_lane(player, lane);
        lane = next;
    }
}

static void join_list(Player *player, uint32_t *first, uint32_t lane)
{
    if (player->lanes[lane].is_waiting)
        return;
    player->lanes[lane].is_waiting = true;
    player->lanes[lane].next_waiter = *first;
    *first = lane;
}

/* The step that LANE runs next, or NONE. */
static uint32_t head_of(const Player *player, uint32_t lane)
{
    const Lane *l = &player->lanes[lane];
    return l->next < l->queue->len ? g_array_index(l->queue, uint32_t, l->next) : NONE;
}

/* True if the collective is done and the lane may go on. */
static bool try_collective(SimRankPlay *play, uint32_t rank_class,
                           const SimSyncCollective *collective)
{
    Player *player = &play->players[rank_class];
    uint32_t group = collective->group;
    if (player->done[group] > collective->ordinal)
        return true;
    const SimRankMeetings *ranks = play->setup->ranks;
    uint32_t meeting = ranks->meetings_of[(gsize)rank_class * play->n_groups + group];
    if (meeting == NONE)
        return true;
    Rendezvous *here = &play->rendezvous[meeting];
    bool *has_arrived = &play->has_arrived[(gsize)rank_class * play->n_groups + group];
    if (*has_arrived || here->ordinal != collective->ordinal)
        return false;
    *has_arrived = true;
    if (here->n_arrived == 0)
        here->kind = collective->kind;
    here->is_mixed |= here->kind != collective->kind;
    here->n_arrived++;
    const SimMeeting *m = g_ptr_array_index(ranks->meetings, meeting);
    if (here->n_arrived < m->classes->len || here->is_mixed)
        return false;
    *here = (Rendezvous){.ordinal = here->ordinal + 1};
    for (guint i = 0; i < m->classes->len; i++) {
        uint32_t member = g_array_index(m->classes, uint32_t, i);
        play->has_arrived[(gsize)member * play->n_groups + group] = false;
        play->players[member].done[group]++;
        /* Any lane of it may hold this collective, or the next. */
        for (uint32_t lane = 0; lane < play->players[member].n_lanes; lane++) {
            uint32_t head = head_of(&play->players[member], lane);
            if (head != NONE && head < play->players[member].issued &&
                sim_sync_program_step(play->players[member].program, head)->op ==
                    SIM_SYNC_COLLECTIVE)
                wake_lane(&play->players[member], lane);
        }
        wake_class(play, member);
    }
    return true;
}

/* True if STEP, the head of LANE, is done. */
static bool try_step(SimRankPlay *play, uint32_t rank_class, uint32_t lane, uint32_t index)
{
    Player *player = &play->players[rank_class];
    const SimSyncStep *step = sim_sync_program_step(player->program, index);
    switch ((SimSyncOp)step->op) {
    case SIM_SYNC_RECORD:
        player->is_recorded[step->target] = true;
        wake_list(player, &player->event_waiter[step->target]);
        return true;
    case SIM_SYNC_WAIT:
        if (player->is_recorded[step->target])
            return true;
        join_list(player, &player->event_waiter[step->target], lane);
        return false;
    case SIM_SYNC_WAIT_LANE: {
        uint32_t head = head_of(player, step->target);
        if (head == NONE || head > index)
            return true;
        join_list(player, &player->lanes[step->target].first_waiter, lane);
        return false;
    }
    case SIM_SYNC_COLLECTIVE:
        return try_collective(play, rank_class,
                              sim_sync_program_collective(player->program, step->target));
    }
    return true;
}

/* The host issues up to its next wait, and past it if that is over. */
static void issue(SimRankPlay *play, uint32_t rank_class)
{
    Player *player = &play->players[rank_class];
    while (player->issued < player->program->steps->len) {
        const SimSyncStep *step = sim_sync_program_step(player->program, player->issued);
        if (step->lane == SIM_CLOCKS_HOST) {
            if (!try_step(play, rank_class, SIM_CLOCKS_HOST, player->issued))
                return;
            player->lanes[SIM_CLOCKS_HOST].next++;
            wake_list(player, &player->lanes[SIM_CLOCKS_HOST].first_waiter);
        } else {
            wake_lane(player, step->lane);
        }
        player->issued++;
    }
}

static void run_lane(SimRankPlay *play, uint32_t rank_class, uint32_t lane)
{
    Player *player = &play->players[rank_class];
    uint32_t head = head_of(player, lane);
    bool has_moved = false;
    while (head != NONE && head < player->issued && try_step(play, rank_class, lane, head)) {
        player->lanes[lane].next++;
        has_moved = true;
        head = head_of(player, lane);
    }
    if (has_moved)
        wake_list(player, &player->lanes[lane].first_waiter);
}

static void run_class(SimRankPlay *play, uint32_t rank_class)
{
    Player *player = &play->players[rank_class];
    issue(play, rank_class);
    while (player->ready->len > 0) {
        uint32_t lane = g_array_index(player->ready, uint32_t, player->ready->len - 1);
        g_array_set_size(player->ready, player->ready->len - 1);
        player->lanes[lane].is_queued = false;
        if (lane == SIM_CLOCKS_HOST)
            issue(play, rank_class);
        else
            run_lane(play, rank_class, lane);
    }
}

void sim_rank_play_run(SimRankPlay *play)
{
    for (uint32_t rank_class = play->n_classes; rank_class > 0; rank_class--)
        wake_class(play, rank_class - 1);
    while (play->ready->len > 0) {
        uint32_t rank_class = g_array_index(play->ready, uint32_t, play->ready->len - 1);
        g_array_set_size(play->ready, play->ready->len - 1);
        play->is_queued[rank_class] = false;
        run_class(play, rank_class);
    }
}

/* --- where everyone is --------------------------------------------------------------------------
 */

uint32_t sim_rank_play_stand(const SimRankPlay *play, uint32_t rank_class, uint32_t lane)
{
    const Player *player = &play->players[rank_class];
    if (lane != SIM_CLOCKS_HOST)
        return head_of(player, lane);
    return player->issued < player->program->steps->len ? player->issued : NONE;
}

uint32_t sim_rank_play_issued(const SimRankPlay *play, uint32_t rank_class)
{
    return play->players[rank_class].issued;
}

uint32_t sim_rank_play_completed(const SimRankPlay *play, uint32_t rank_class, uint32_t group)
{
    return play->players[rank_class].done[group];
}

bool sim_rank_play_has_arrived(const SimRankPlay *play, uint32_t rank_class, uint32_t group)
{
    return play->has_arrived[(gsize)rank_class * play->n_groups + group];
}
