/* SPDX-License-Identifier: Apache-2.0 */
#include "check/hang.h"

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

typedef struct Play {
    const SimRankSetup *setup;
    uint32_t n_classes, n_groups;
    Player *players;
    Rendezvous *rendezvous; /* by meeting */
    bool *has_arrived;      /* by class * n_groups + group */
    GArray *ready;          /* of uint32_t: classes to look at */
    bool *is_queued;        /* by class */
} Play;

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

static void init_play(Play *play, const SimRankSetup *setup)
{
    const SimRankMeetings *ranks = setup->ranks;
    *play = (Play){.setup = setup, .n_classes = ranks->n_classes, .n_groups = ranks->n_groups};
    play->players = g_new0(Player, MAX(play->n_classes, 1));
    for (uint32_t class = 0; class < play->n_classes; class ++)
        init_player(&play->players[class], sim_matching_program(setup, class), play->n_groups);
    play->rendezvous = g_new0(Rendezvous, MAX(ranks->meetings->len, 1));
    play->has_arrived = g_new0(bool, MAX((gsize)play->n_classes * play->n_groups, 1));
    play->ready = g_array_new(FALSE, FALSE, sizeof(uint32_t));
    play->is_queued = g_new0(bool, MAX(play->n_classes, 1));
}

static void clear_play(Play *play)
{
    for (uint32_t class = 0; class < play->n_classes; class ++)
        clear_player(&play->players[class]);
    g_free(play->players);
    g_free(play->rendezvous);
    g_free(play->has_arrived);
    g_array_unref(play->ready);
    g_free(play->is_queued);
}

/* --- moving -------------------------------------------------------------------------------------
 */

static void wake_class(Play *play, uint32_t class)
{
    if (play->is_queued[class])
        return;
    play->is_queued[class] = true;
    g_array_append_val(play->ready, class);
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
static bool try_collective(Play *play, uint32_t class, const SimSyncCollective *collective)
{
    Player *player = &play->players[class];
    uint32_t group = collective->group;
    if (player->done[group] > collective->ordinal)
        return true;
    const SimRankMeetings *ranks = play->setup->ranks;
    uint32_t meeting = ranks->meetings_of[(gsize) class * play->n_groups + group];
    if (meeting == NONE)
        return true;
    Rendezvous *here = &play->rendezvous[meeting];
    bool *has_arrived = &play->has_arrived[(gsize) class * play->n_groups + group];
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
static bool try_step(Play *play, uint32_t class, uint32_t lane, uint32_t index)
{
    Player *player = &play->players[class];
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
        return try_collective(play, class,
                              sim_sync_program_collective(player->program, step->target));
    }
    return true;
}

/* The host issues up to its next wait, and past it if that is over. */
static void issue(Play *play, uint32_t class)
{
    Player *player = &play->players[class];
    while (player->issued < player->program->steps->len) {
        const SimSyncStep *step = sim_sync_program_step(player->program, player->issued);
        if (step->lane == SIM_CLOCKS_HOST) {
            if (!try_step(play, class, SIM_CLOCKS_HOST, player->issued))
                return;
            player->lanes[SIM_CLOCKS_HOST].next++;
            wake_list(player, &player->lanes[SIM_CLOCKS_HOST].first_waiter);
        } else {
            wake_lane(player, step->lane);
        }
        player->issued++;
    }
}

static void run_lane(Play *play, uint32_t class, uint32_t lane)
{
    Player *player = &play->players[class];
    uint32_t head = head_of(player, lane);
    bool has_moved = false;
    while (head != NONE && head < player->issued && try_step(play, class, lane, head)) {
        player->lanes[lane].next++;
        has_moved = true;
        head = head_of(player, lane);
    }
    if (has_moved)
        wake_list(player, &player->lanes[lane].first_waiter);
}

static void run_class(Play *play, uint32_t class)
{
    Player *player = &play->players[class];
    issue(play, class);
    while (player->ready->len > 0) {
        uint32_t lane = g_array_index(player->ready, uint32_t, player->ready->len - 1);
        g_array_set_size(player->ready, player->ready->len - 1);
        player->lanes[lane].is_queued = false;
        if (lane == SIM_CLOCKS_HOST)
            issue(play, class);
        else
            run_lane(play, class, lane);
    }
}

/* --- who waits for whom -------------------------------------------------------------------------
 */

typedef struct Node {
    uint32_t class, lane;
} Node;

/* The place where NODE stands; NONE if it is through. */
static uint32_t stand_of(const Play *play, Node node)
{
    const Player *player = &play->players[node.class];
    if (node.lane == SIM_CLOCKS_HOST)
        return player->issued < player->program->steps->len ? player->issued : NONE;
    uint32_t head = head_of(player, node.lane);
    return head;
}

/* The lane that holds step INDEX up: the host if it was not issued yet. */
static Node holder_of(const Play *play, uint32_t class, uint32_t index)
{
    const Player *player = &play->players[class];
    if (index >= player->issued)
        return (Node){class, SIM_CLOCKS_HOST};
    return (Node){class, sim_sync_program_step(player->program, index)->lane};
}

static bool find_record(const SimSyncProgram *program, uint32_t event, uint32_t *index)
{
    for (uint32_t i = 0; i < program->steps->len; i++) {
        const SimSyncStep *step = sim_sync_program_step(program, i);
        if (step->op == SIM_SYNC_RECORD && step->target == event) {
            *index = i;
            return true;
        }
    }
    return false;
}

/* The member that keeps COLLECTIVE of CLASS from starting; its class in *OTHER. False: the class
 * itself, at an earlier collective of the same communicator. */
static bool find_absent(const Play *play, uint32_t class, const SimSyncCollective *collective,
                        uint32_t *other)
{
    const SimMeeting *meeting =
        sim_rank_meetings_meeting(play->setup->ranks, class, collective->group);
    if (play->players[class].done[collective->group] < collective->ordinal)
        return false;
    for (int pass = 0; pass < 2; pass++) {
        for (guint i = 0; i < meeting->classes->len; i++) {
            uint32_t member = g_array_index(meeting->classes, uint32_t, i);
            bool has_arrived =
                play->has_arrived[(gsize)member * play->n_groups + collective->group];
            /* First who is not there, then who is there with another operation. */
            if (member == class || (pass == 0) == has_arrived)
                continue;
            *other = member;
            return true;
        }
    }
    return false;
}

/* Whom NODE waits for; false if nobody ever comes. WHY (owned by the caller) says it in words. */
static bool find_blocker(const Play *play, Node node, Node *blocker, char **why)
{
    const Player *player = &play->players[node.class];
    const SimStrings *strings = play->setup->strings;
    uint32_t index = stand_of(play, node);
    const SimSyncStep *step = sim_sync_program_step(player->program, index);
    if (node.lane != SIM_CLOCKS_HOST && index >= player->issued) {
        *why = g_strdup("the host has not issued its next row");
        *blocker = (Node){node.class, SIM_CLOCKS_HOST};
        return true;
    }
    if (step->op == SIM_SYNC_WAIT) {
        uint32_t record;
        const char *event = sim_strings_get(strings, step->label);
        if (!find_record(player->program, step->target, &record)) {
            *why = g_strdup_printf("waits for event %s, which is never recorded", event);
            return false;
        }
        *why = g_strdup_printf("waits for event %s of row %u", event,
                               sim_sync_program_step(player->program, record)->row + 1);
        *blocker = holder_of(play, node.class, record);
        return true;
    }
    if (step->op == SIM_SYNC_WAIT_LANE) {
        *why = g_strdup_printf("waits for stream %s",
                               sim_strings_get(strings, player->program->lanes[step->target]));
        *blocker = (Node){node.class, step->target};
        return true;
    }
    const SimSyncCollective *collective =
        sim_sync_program_collective(player->program, step->target);
    g_autofree char *what = sim_matching_describe(play->setup, collective);
    const char *group = play->setup->groups[collective->group];
    uint32_t other = node.class, ordinal = collective->ordinal;
    if (!find_absent(play, node.class, collective, &other))
        ordinal = player->done[collective->group];
    const SimSyncProgram *program = play->players[other].program;
    const GArray *of_group = sim_sync_program_of_group(program, collective->group);
    g_autofree char *name = sim_matching_class_name(play->setup, other);
    if (of_group == NULL || ordinal >= of_group->len) {
        *why = g_strdup_printf("waits in %s, communicator %s, for %s, which has no such collective",
                               what, group, name);
        return false;
    }
    const SimSyncCollective *theirs =
        sim_sync_program_collective(program, g_array_index(of_group, uint32_t, ordinal));
    if (other == node.class)
        *why = g_strdup_printf("waits in %s for row %u, issued earlier on communicator %s", what,
                               theirs->row + 1, group);
    else
        *why = g_strdup_printf("waits in %s, communicator %s, for %s", what, group, name);
    *blocker = holder_of(play, other, theirs->step_index);
    return true;
}

static void tell(const Play *play, SimFinding *finding, GString *story, Node node, const char *why)
{
    const Player *player = &play->players[node.class];
    const SimSyncStep *step = sim_sync_program_step(player->program, stand_of(play, node));
    g_autofree char *name = sim_matching_class_name(play->setup, node.class);
    g_autofree char *text =
        g_strdup_printf("%s, %s at row %u, %s", name,
                        sim_strings_get(play->setup->strings, player->program->lanes[node.lane]),
                        step->row + 1, why);
    g_string_append_printf(story, "%s%s", story->len > 0 ? "; " : "", text);
    if (finding->n_places < SIM_FINDING_PLACES)
        finding->places[finding->n_places++] =
            (SimFindingPlace){.source = player->program->source,
                              .rank = play->setup->ranks->rank_of[node.class],
                              .row = step->row,
                              .role = "waits",
                              .text = g_strdup(why)};
    if (finding->unit == NULL && step->op == SIM_SYNC_COLLECTIVE) {
        const SimSyncCollective *c = sim_sync_program_collective(player->program, step->target);
        finding->unit = g_strdup(sim_strings_get(play->setup->strings, c->unit));
        finding->phase = sim_plan_phase_name((SimPhase)c->phase);
        finding->step = c->step;
    }
}

/* Follows whom each waits for from the first that is stuck until someone comes twice. */
static void report_stuck(const Play *play, Node start, SimFindings *findings)
{
    g_autoptr(GArray) path = g_array_new(FALSE, FALSE, sizeof(Node));
    g_autoptr(GPtrArray) reasons = g_ptr_array_new_with_free_func(g_free);
    g_autoptr(GHashTable) seen = g_hash_table_new_full(g_int64_hash, g_int64_equal, g_free, NULL);
    Node node = start;
    guint first = 0;
    bool is_circle = false, has_blocker = true;
    while (has_blocker) {
        gint64 key = (gint64)node.class << 32 | node.lane;
        gpointer place;
        is_circle = g_hash_table_lookup_extended(seen, &key, NULL, &place);
        if (is_circle) {
            first = GPOINTER_TO_UINT(place);
            break;
        }
        g_hash_table_insert(seen, g_memdup2(&key, sizeof key), GUINT_TO_POINTER(path->len));
        char *why = NULL;
        Node next = node;
        g_array_append_val(path, node);
        has_blocker = find_blocker(play, node, &next, &why);
        g_ptr_array_add(reasons, why);
        if (has_blocker && stand_of(play, next) == NONE)
            break;
        node = next;
    }
    SimFinding finding = {
        .rule = SIM_RULE_DEADLOCK, .buffer_id = NONE, .free_row = NONE, .step = -1};
    g_autoptr(GString) story = g_string_new(NULL);
    for (guint i = first; i < path->len && i < first + SIM_HANG_TOLD; i++)
        tell(play, &finding, story, g_array_index(path, Node, i), g_ptr_array_index(reasons, i));
    if (path->len - first > SIM_HANG_TOLD)
        g_string_append_printf(story, "; and %u more", path->len - first - SIM_HANG_TOLD);
    finding.message = g_strdup_printf("%s: %s",
                                      is_circle ? "they wait for each other"
                                                : "a wait "
                                                  "without "
                                                  "end",
                                      story->str);
    sim_findings_add(findings, finding, "deadlock");
}

bool sim_hang_check(const SimRankSetup *setup, SimFindings *findings)
{
    Play play;
    init_play(&play, setup);
    for (uint32_t class = play.n_classes; class > 0; class --)
        wake_class(&play, class - 1);
    while (play.ready->len > 0) {
        uint32_t class = g_array_index(play.ready, uint32_t, play.ready->len - 1);
        g_array_set_size(play.ready, play.ready->len - 1);
        play.is_queued[class] = false;
        run_class(&play, class);
    }
    bool is_through = true;
    for (uint32_t class = 0; class < play.n_classes && is_through; class ++) {
        for (uint32_t lane = 0; lane < play.players[class].n_lanes && is_through; lane++) {
            Node node = {class, lane};
            if (stand_of(&play, node) == NONE)
                continue;
            is_through = false;
            report_stuck(&play, node, findings);
        }
    }
    clear_play(&play);
    return is_through;
}
