/* SPDX-License-Identifier: Apache-2.0 */
#include "check/verifier.h"

#include <string.h>

#include "base/error.h"
#include "check/cross_rank_order.h"
#include "check/hang.h"
#include "check/matching.h"

typedef struct Group {
    char *name;
    char *source;   /* of the plan that gave it first */
    GArray *starts; /* of uint32_t: where each list begins in RANKS, and the end */
    GArray *ranks;  /* of uint32_t */
} Group;

struct SimVerifier {
    SimVerdict *verdict;
    SimStrings *strings;
    GPtrArray *programs;  /* of SimSyncProgram */
    GPtrArray *groups;    /* of Group */
    uint32_t ranks;       /* 0 = no plan yet */
    uint32_t *program_of; /* by rank */
    SimBoundsLimits limits;
    bool has_limits;
};

static void free_group(gpointer data)
{
    Group *group = data;
    g_free(group->name);
    g_free(group->source);
    g_array_unref(group->starts);
    g_array_unref(group->ranks);
    g_free(group);
}

static void free_program(gpointer data)
{
    sim_sync_program_free(data);
}

SimVerifier *sim_verifier_new(void)
{
    SimVerifier *verifier = g_new0(SimVerifier, 1);
    verifier->verdict = sim_verdict_new();
    verifier->strings = sim_strings_new();
    verifier->programs = g_ptr_array_new_with_free_func(free_program);
    verifier->groups = g_ptr_array_new_with_free_func(free_group);
    return verifier;
}

void sim_verifier_free(SimVerifier *verifier)
{
    if (verifier == NULL)
        return;
    sim_verdict_free(verifier->verdict);
    sim_strings_free(verifier->strings);
    g_ptr_array_unref(verifier->programs);
    g_ptr_array_unref(verifier->groups);
    g_free(verifier->program_of);
    g_free(verifier);
}

void sim_verifier_set_limits(SimVerifier *verifier, const SimBoundsLimits *limits)
{
    verifier->has_limits = limits != NULL;
    if (limits != NULL)
        verifier->limits = *limits;
}

/* --- groups -------------------------------------------------------------------------------------
 */

static Group *copy_group(const SimPlan *plan, uint32_t group, const char *source)
{
    Group *copy = g_new0(Group, 1);
    copy->name = g_strdup(sim_plan_group_name(plan, group));
    copy->source = g_strdup(source);
    copy->starts = g_array_new(FALSE, FALSE, sizeof(uint32_t));
    copy->ranks = g_array_new(FALSE, FALSE, sizeof(uint32_t));
    for (uint32_t list = 0; list < sim_plan_group_lists(plan, group); list++) {
        uint32_t n, start = copy->ranks->len;
        g_array_append_val(copy->starts, start);
        const SimRange *ranges = sim_plan_group_ranges(plan, group, list, &n);
        for (uint32_t i = 0; i < n; i++)
            for (uint32_t rank = ranges[i].first; rank <= ranges[i].last; rank++)
                g_array_append_val(copy->ranks, rank);
    }
    uint32_t end = copy->ranks->len;
    g_array_append_val(copy->starts, end);
    return copy;
}

static bool is_same_array(const GArray *a, const GArray *b)
{
    return a->len == b->len && memcmp(a->data, b->data, a->len * sizeof(uint32_t)) == 0;
}

/* The verifier's number of each of the plan's groups. Owned by the caller; NULL on a mismatch. */
static uint32_t *map_groups(SimVerifier *verifier, const SimPlan *plan, const char *source,
                            GError **error)
{
    uint32_t n = sim_plan_group_count(plan);
    g_autofree uint32_t *map = g_new0(uint32_t, MAX(n, 1));
    for (uint32_t group = 0; group < n; group++) {
        Group *copy = copy_group(plan, group, source);
        guint i = 0;
        const Group *known = NULL;
        for (; i < verifier->groups->len && known == NULL; i++) {
            const Group *g = g_ptr_array_index(verifier->groups, i);
            if (strcmp(g->name, copy->name) == 0)
                known = g;
        }
        if (known == NULL) {
            map[group] = verifier->groups->len;
            g_ptr_array_add(verifier->groups, copy);
            continue;
        }
        map[group] = i - 1;
        bool is_same =
            is_same_array(known->starts, copy->starts) && is_same_array(known->ranks, copy->ranks);
        if (!is_same)
            g_set_error(error, SIM_ERROR, SIM_ERROR_MISMATCH,
                        "%s: group '%s' has other rank lists than in %s", source, copy->name,
                        known->source);
        free_group(copy);
        if (!is_same)
            return NULL;
    }
    return g_steal_pointer(&map);
}

/* --- plans --------------------------------------------------------------------------------------
 */

static bool check_ranks(SimVerifier *verifier, const SimPlan *plan, const char *name,
                        uint32_t first, uint32_t last, GError **error)
{
    uint32_t ranks = sim_plan_ranks(plan);
    if (verifier->ranks == 0) {
        verifier->ranks = ranks;
        verifier->program_of = g_new(uint32_t, MAX(ranks, 1));
        for (uint32_t r = 0; r < ranks; r++)
            verifier->program_of[r] = SIM_RANK_MEETINGS_NONE;
    }
    if (ranks != verifier->ranks) {
        g_set_error(error, SIM_ERROR, SIM_ERROR_MISMATCH,
                    "%s: expected a plan of %u ranks like the first, found one of %u", name,
                    verifier->ranks, ranks);
        return false;
    }
    if (first > last || last >= ranks) {
        g_set_error(error, SIM_ERROR, SIM_ERROR_RANGE, "%s: expected ranks below %u, found %u-%u",
                    name, ranks, first, last);
        return false;
    }
    for (uint32_t r = first; r <= last; r++) {
        if (verifier->program_of[r] == SIM_RANK_MEETINGS_NONE)
            continue;
        g_set_error(error, SIM_ERROR, SIM_ERROR_MISMATCH, "%s: rank %u has a plan already", name,
                    r);
        return false;
    }
    return true;
}

/* What makes ranks play different rows of the same plan. Owned by the caller. */
static GBytes *signature_of(const SimPlan *plan, uint32_t rank)
{
    GByteArray *bytes = g_byte_array_new();
    for (uint32_t set = 1; set < sim_plan_rank_set_count(plan); set++) {
        guint8 has = sim_plan_rank_set_has(plan, set, rank);
        g_byte_array_append(bytes, &has, 1);
    }
    for (uint32_t group = 0; group < sim_plan_group_count(plan); group++) {
        uint32_t list, place, members = 0;
        if (!sim_plan_group_of_rank(plan, group, rank, &list, &place, &members))
            members = 0;
        g_byte_array_append(bytes, (const guint8 *)&members, sizeof members);
    }
    return g_byte_array_free_to_bytes(bytes);
}

static bool add_class(SimVerifier *verifier, const SimPlan *plan, uint32_t rank,
                      const uint32_t *groups, GError **error)
{
    SimVerdict *verdict = verifier->verdict;
    g_autoptr(SimRankView) view = sim_rank_view_new(plan, verdict->sources->len - 1, rank);
    SimBoundsLimits limits = verifier->limits;
    if (!verifier->has_limits)
        sim_bounds_read_limits(&limits, plan);
    if (!sim_rank_check_run(view, &limits, verdict->findings, &verdict->proof, error))
        return false;
    g_ptr_array_add(verifier->programs,
                    sim_sync_program_new(view, groups, verifier->groups->len, verifier->strings));
    return true;
}

bool sim_verifier_add(SimVerifier *verifier, const SimPlan *plan, const char *name, uint32_t first,
                      uint32_t last, GError **error)
{
    if (!check_ranks(verifier, plan, name, first, last, error))
        return false;
    g_autofree uint32_t *groups = map_groups(verifier, plan, name, error);
    if (groups == NULL)
        return false;
    g_ptr_array_add(verifier->verdict->sources, g_strdup(name));
    g_autoptr(GHashTable) classes =
        g_hash_table_new_full(g_bytes_hash, g_bytes_equal, (GDestroyNotify)g_bytes_unref, NULL);
    for (uint32_t rank = first; rank <= last; rank++) {
        g_autoptr(GBytes) signature = signature_of(plan, rank);
        gpointer known = g_hash_table_lookup(classes, signature);
        if (known == NULL) {
            if (!add_class(verifier, plan, rank, groups, error)) {
                g_prefix_error(error, "%s: ", name);
                return false;
            }
            known = GUINT_TO_POINTER(verifier->programs->len);
            g_hash_table_insert(classes, g_bytes_ref(signature), known);
        }
        verifier->program_of[rank] = GPOINTER_TO_UINT(known) - 1;
    }
    return true;
}

/* --- all together -------------------------------------------------------------------------------
 */

static GArray *list_communicators(const SimVerifier *verifier)
{
    GArray *lists = g_array_new(FALSE, FALSE, sizeof(SimMeetingList));
    for (guint g = 0; g < verifier->groups->len; g++) {
        const Group *group = g_ptr_array_index(verifier->groups, g);
        for (guint l = 0; l + 1 < group->starts->len; l++) {
            uint32_t start = g_array_index(group->starts, uint32_t, l);
            uint32_t end = g_array_index(group->starts, uint32_t, l + 1);
            SimMeetingList list = {.group = g,
                                   .ranks = (const uint32_t *)(void *)group->ranks->data + start,
                                   .n_ranks = end - start};
            if (end > start)
                g_array_append_val(lists, list);
        }
    }
    return lists;
}

static void judge_together(SimVerifier *verifier)
{
    SimVerdict *verdict = verifier->verdict;
    guint n_groups = verifier->groups->len;
    g_autoptr(GArray) lists = list_communicators(verifier);
    g_autoptr(SimRankMeetings) ranks =
        sim_rank_meetings_new(verifier->program_of, verifier->ranks, n_groups,
                              (const SimMeetingList *)(void *)lists->data, lists->len);
    g_autofree uint32_t *program_of = g_new(uint32_t, MAX(ranks->n_classes, 1));
    for (uint32_t rank_class = 0; rank_class < ranks->n_classes; rank_class++)
        program_of[rank_class] = verifier->program_of[ranks->rank_of[rank_class]];
    g_autofree const char **names = g_new0(const char *, MAX(n_groups, 1));
    for (guint g = 0; g < n_groups; g++)
        names[g] = ((const Group *)g_ptr_array_index(verifier->groups, g))->name;
    SimRankSetup setup = {.ranks = ranks,
                          .programs = verifier->programs,
                          .program_of = program_of,
                          .strings = verifier->strings,
                          .groups = names};
    verdict->proof.ranks = verifier->ranks;
    verdict->proof.classes = ranks->n_classes;
    verdict->proof.matched = sim_matching_check(&setup, verdict->findings);
    bool is_through = sim_hang_check(&setup, verdict->findings);
    /* Last: it takes findings out. */
    if (is_through && sim_findings_of_rule(verdict->findings, SIM_RULE_SAME_SEQUENCE) == 0)
        sim_cross_rank_order_filter(&setup, verdict->findings);
}

SimVerdict *sim_verifier_finish(SimVerifier *verifier, GError **error)
{
    for (uint32_t r = 0; r < verifier->ranks; r++) {
        if (verifier->program_of[r] != SIM_RANK_MEETINGS_NONE)
            continue;
        g_set_error(error, SIM_ERROR, SIM_ERROR_MISMATCH,
                    "rank %u of %u has no plan; expected one plan for all ranks, or one for each",
                    r, verifier->ranks);
        return NULL;
    }
    judge_together(verifier);
    return g_steal_pointer(&verifier->verdict);
}

SimVerdict *sim_verifier_check_plan(const SimPlan *plan, const char *name, GError **error)
{
    g_autoptr(SimVerifier) verifier = sim_verifier_new();
    if (!sim_verifier_add(verifier, plan, name, 0, sim_plan_ranks(plan) - 1, error))
        return NULL;
    return sim_verifier_finish(verifier, error);
}
