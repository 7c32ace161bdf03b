/* SPDX-License-Identifier: Apache-2.0 */
#include "check/hang.h"

#include "check/rank_play.h"

#define NONE SIM_RANK_PLAY_THROUGH

typedef struct Node {
    uint32_t rank_class, lane;
} Node;

typedef struct Hang {
    const SimRankSetup *setup;
    const SimRankPlay *play;
} Hang;

static const SimSyncProgram *program_of(const Hang *hang, uint32_t rank_class)
{
    return sim_matching_program(hang->setup, rank_class);
}

/* The step at which NODE stands; NONE if it is through. */
static uint32_t stand_of(const Hang *hang, Node node)
{
    return sim_rank_play_stand(hang->play, node.rank_class, node.lane);
}

/* The lane that holds step INDEX up: the host if it was not issued yet. */
static Node holder_of(const Hang *hang, uint32_t rank_class, uint32_t index)
{
    if (index >= sim_rank_play_issued(hang->play, rank_class))
        return (Node){rank_class, SIM_CLOCKS_HOST};
    return (Node){rank_class, sim_sync_program_step(program_of(hang, rank_class), index)->lane};
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
static bool find_absent(const Hang *hang, uint32_t rank_class, const SimSyncCollective *collective,
                        uint32_t *other)
{
    const SimMeeting *meeting =
        sim_rank_meetings_meeting(hang->setup->ranks, rank_class, collective->group);
    if (sim_rank_play_completed(hang->play, rank_class, collective->group) < collective->ordinal)
        return false;
    for (int pass = 0; pass < 2; pass++) {
        for (guint i = 0; i < meeting->classes->len; i++) {
            uint32_t member = g_array_index(meeting->classes, uint32_t, i);
            bool has_arrived = sim_rank_play_has_arrived(hang->play, member, collective->group);
            /* First who is not there, then who is there with another operation. */
            if (member == rank_class || (pass == 0) == has_arrived)
                continue;
            *other = member;
            return true;
        }
    }
    return false;
}

/* Whom NODE waits for; false if nobody ever comes. WHY (owned by the caller) says it in words. */
static bool find_blocker(const Hang *hang, Node node, Node *blocker, char **why)
{
    const SimSyncProgram *own = program_of(hang, node.rank_class);
    const SimStrings *strings = hang->setup->strings;
    uint32_t index = stand_of(hang, node);
    const SimSyncStep *step = sim_sync_program_step(own, index);
    if (node.lane != SIM_CLOCKS_HOST &&
        index >= sim_rank_play_issued(hang->play, node.rank_class)) {
        *why = g_strdup("the host has not issued its next row");
        *blocker = (Node){node.rank_class, SIM_CLOCKS_HOST};
        return true;
    }
    if (step->op == SIM_SYNC_WAIT) {
        uint32_t record;
        const char *event = sim_strings_get(strings, step->label);
        if (!find_record(own, step->target, &record)) {
            *why = g_strdup_printf("waits for event %s, which is never recorded", event);
            return false;
        }
        *why = g_strdup_printf("waits for event %s of row %u", event,
                               sim_sync_program_step(own, record)->row + 1);
        *blocker = holder_of(hang, node.rank_class, record);
        return true;
    }
    if (step->op == SIM_SYNC_WAIT_LANE) {
        *why = g_strdup_printf("waits for stream %s",
                               sim_strings_get(strings, own->lanes[step->target]));
        *blocker = (Node){node.rank_class, step->target};
        return true;
    }
    const SimSyncCollective *collective = sim_sync_program_collective(own, step->target);
    g_autofree char *what = sim_matching_describe(hang->setup, collective);
    const char *group = hang->setup->groups[collective->group];
    uint32_t other = node.rank_class, ordinal = collective->ordinal;
    if (!find_absent(hang, node.rank_class, collective, &other))
        ordinal = sim_rank_play_completed(hang->play, node.rank_class, collective->group);
    const SimSyncProgram *program = program_of(hang, other);
    const GArray *of_group = sim_sync_program_of_group(program, collective->group);
    g_autofree char *name = sim_matching_class_name(hang->setup, other);
    if (of_group == NULL || ordinal >= of_group->len) {
        *why = g_strdup_printf("waits in %s, communicator %s, for %s, which has no such collective",
                               what, group, name);
        return false;
    }
    const SimSyncCollective *theirs =
        sim_sync_program_collective(program, g_array_index(of_group, uint32_t, ordinal));
    if (other == node.rank_class)
        *why = g_strdup_printf("waits in %s for row %u, issued earlier on communicator %s", what,
                               theirs->row + 1, group);
    else
        *why = g_strdup_printf("waits in %s, communicator %s, for %s", what, group, name);
    *blocker = holder_of(hang, other, theirs->step_index);
    return true;
}

static void tell(const Hang *hang, SimFinding *finding, GString *story, Node node, const char *why)
{
    const SimSyncProgram *own = program_of(hang, node.rank_class);
    const SimSyncStep *step = sim_sync_program_step(own, stand_of(hang, node));
    g_autofree char *name = sim_matching_class_name(hang->setup, node.rank_class);
    g_autofree char *text = g_strdup_printf(
        "%s, %s at row %u, %s", name, sim_strings_get(hang->setup->strings, own->lanes[node.lane]),
        step->row + 1, why);
    g_string_append_printf(story, "%s%s", story->len > 0 ? "; " : "", text);
    if (finding->n_places < SIM_FINDING_PLACES)
        finding->places[finding->n_places++] =
            (SimFindingPlace){.source = own->source,
                              .rank = hang->setup->ranks->rank_of[node.rank_class],
                              .row = step->row,
                              .role = "waits",
                              .text = g_strdup(why)};
    if (finding->unit == NULL && step->op == SIM_SYNC_COLLECTIVE) {
        const SimSyncCollective *c = sim_sync_program_collective(own, step->target);
        finding->unit = g_strdup(sim_strings_get(hang->setup->strings, c->unit));
        finding->phase = sim_plan_phase_name((SimPhase)c->phase);
        finding->step = c->step;
    }
}

/* Follows whom each waits for from the first that is stuck until someone comes twice. */
static void report_stuck(const Hang *hang, Node start, SimFindings *findings)
{
    g_autoptr(GArray) path = g_array_new(FALSE, FALSE, sizeof(Node));
    g_autoptr(GPtrArray) reasons = g_ptr_array_new_with_free_func(g_free);
    g_autoptr(GHashTable) seen = g_hash_table_new_full(g_int64_hash, g_int64_equal, g_free, NULL);
    Node node = start;
    guint first = 0;
    bool is_circle = false, has_blocker = true;
    while (has_blocker) {
        gint64 key = (gint64)node.rank_class << 32 | node.lane;
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
        has_blocker = find_blocker(hang, node, &next, &why);
        g_ptr_array_add(reasons, why);
        if (has_blocker && stand_of(hang, next) == NONE)
            break;
        node = next;
    }
    SimFinding finding = {
        .rule = SIM_RULE_DEADLOCK, .buffer_id = NONE, .free_row = NONE, .step = -1};
    g_autoptr(GString) story = g_string_new(NULL);
    for (guint i = first; i < path->len && i < first + SIM_HANG_TOLD; i++)
        tell(hang, &finding, story, g_array_index(path, Node, i), g_ptr_array_index(reasons, i));
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
    g_autoptr(SimRankPlay) play = sim_rank_play_new(setup);
    sim_rank_play_run(play);
    Hang hang = {.setup = setup, .play = play};
    for (uint32_t rank_class = 0; rank_class < setup->ranks->n_classes; rank_class++) {
        for (uint32_t lane = 0; lane < program_of(&hang, rank_class)->n_lanes; lane++) {
            Node node = {rank_class, lane};
            if (stand_of(&hang, node) == NONE)
                continue;
            report_stuck(&hang, node, findings);
            return false;
        }
    }
    return true;
}
