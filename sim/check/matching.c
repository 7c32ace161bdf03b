/* SPDX-License-Identifier: Apache-2.0 */
#include "check/matching.h"

const SimSyncProgram *sim_matching_program(const SimRankSetup *setup, uint32_t rank_class)
{
    return g_ptr_array_index(setup->programs, setup->program_of[rank_class]);
}

char *sim_matching_class_name(const SimRankSetup *setup, uint32_t rank_class)
{
    uint32_t n = setup->ranks->size_of[rank_class];
    uint32_t rank = setup->ranks->rank_of[rank_class];
    return n == 1 ? g_strdup_printf("rank %u", rank)
                  : g_strdup_printf("rank %u (and %u like it)", rank, n - 1);
}

char *sim_matching_describe(const SimRankSetup *setup, const SimSyncCollective *c)
{
    const char *unit = sim_strings_get(setup->strings, c->unit);
    g_autofree char *step = c->step >= 0 ? g_strdup_printf(", step %d", c->step) : g_strdup("");
    const char *phase = sim_plan_phase_name((SimPhase)c->phase);
    return g_strdup_printf(
        "%s%s%s (%" G_GUINT64_FORMAT " B%s%s, row %u%s%s%s)",
        sim_plan_collective_name((SimCollectiveKind)c->kind), *unit != '\0' ? " of " : "", unit,
        c->bytes, c->dtype != SIM_DTYPE_NONE ? " " : "", sim_dtype_name((SimDtype)c->dtype),
        c->row + 1, step, *phase != '\0' ? " " : "", phase);
}

static const SimSyncCollective *collective_at(const SimSyncProgram *program, uint32_t group,
                                              uint32_t ordinal)
{
    const GArray *of_group = sim_sync_program_of_group(program, group);
    if (of_group == NULL || ordinal >= of_group->len)
        return NULL;
    return sim_sync_program_collective(program, g_array_index(of_group, uint32_t, ordinal));
}

static SimFindingPlace place_of(const SimSyncProgram *program, uint32_t rank, uint32_t row,
                                const char *role, char *text)
{
    return (SimFindingPlace){
        .source = program->source, .rank = rank, .row = row, .role = role, .text = text};
}

/* Fills in the two sides; the second may have nothing left (B NULL). */
static void report(const SimRankSetup *setup, SimFindings *findings, SimRuleId rule, uint32_t x,
                   uint32_t y, const SimSyncCollective *a, const SimSyncCollective *b,
                   const char *format)
{
    const SimSyncCollective *there = a != NULL ? a : b;
    const char *group = setup->groups[there->group];
    SimFinding finding = {
        .rule = rule, .buffer_id = UINT32_MAX, .free_row = UINT32_MAX, .step = there->step};
    char *first = a != NULL ? sim_matching_describe(setup, a) : g_strdup("no more");
    char *second = b != NULL ? sim_matching_describe(setup, b) : g_strdup("no more");
    g_autofree char *first_owned = g_strdup(first);
    g_autofree char *second_owned = g_strdup(second);
    const uint32_t *rank_of = setup->ranks->rank_of;
    if (a != NULL)
        finding.places[finding.n_places++] =
            place_of(sim_matching_program(setup, x), rank_of[x], a->row, "one", first);
    else
        g_free(first);
    if (b != NULL)
        finding.places[finding.n_places++] =
            place_of(sim_matching_program(setup, y), rank_of[y], b->row, "other", second);
    else
        g_free(second);
    finding.unit = g_strdup(sim_strings_get(setup->strings, there->unit));
    finding.phase = sim_plan_phase_name((SimPhase)there->phase);
    g_autofree char *one = sim_matching_class_name(setup, x);
    g_autofree char *other = sim_matching_class_name(setup, y);
    finding.message =
        g_strdup_printf("collective %u of communicator %s: %s issues %s, %s issues %s: %s",
                        there->ordinal + 1, group, one, first_owned, other, second_owned, format);
    g_autofree char *key = g_strdup_printf("match %u %s %u %s %u", rule, group, x, finding.unit,
                                           rule == SIM_RULE_SAME_SEQUENCE ? 0 : there->phase);
    sim_findings_add(findings, finding, key);
}

/* Compares what X and Y bring at one place; false if the sequences have parted. */
static bool compare(const SimRankSetup *setup, SimFindings *findings, uint32_t x, uint32_t y,
                    const SimSyncCollective *a, const SimSyncCollective *b)
{
    if (a == NULL || b == NULL) {
        report(setup, findings, SIM_RULE_SAME_SEQUENCE, x, y, a, b,
               "the one that issues waits for ever");
        return false;
    }
    if (a->kind != b->kind) {
        report(setup, findings, SIM_RULE_SAME_SEQUENCE, x, y, a, b, "both wait for ever");
        return false;
    }
    if (a->unit != b->unit) {
        report(setup, findings, SIM_RULE_SAME_SEQUENCE, x, y, a, b,
               a->bytes == b->bytes ? "the sizes agree, so nothing hangs, and each gets the other "
                                      "unit's data"
                                    : "a hang, or data of the wrong unit");
        return false;
    }
    if (a->bytes != b->bytes)
        report(setup, findings, SIM_RULE_SAME_SIZES, x, y, a, b,
               "the sizes differ: a hang, or wrong data");
    else if (a->dtype != b->dtype)
        report(setup, findings, SIM_RULE_SAME_SIZES, x, y, a, b,
               "the element types differ: a hang, or wrong data");
    return true;
}

/* The meeting's first class is the measure; each other is compared with it. */
static uint64_t check_meeting(const SimRankSetup *setup, const SimMeeting *meeting,
                              SimFindings *findings)
{
    uint64_t compared = 0;
    uint32_t first = g_array_index(meeting->classes, uint32_t, 0);
    for (guint i = 1; i < meeting->classes->len; i++) {
        uint32_t other = g_array_index(meeting->classes, uint32_t, i);
        bool is_going = true;
        for (uint32_t ordinal = 0; is_going; ordinal++) {
            const SimSyncCollective *a =
                collective_at(sim_matching_program(setup, first), meeting->group, ordinal);
            const SimSyncCollective *b =
                collective_at(sim_matching_program(setup, other), meeting->group, ordinal);
            if (a == NULL && b == NULL)
                break;
            compared++;
            is_going = compare(setup, findings, first, other, a, b);
        }
    }
    return compared;
}

uint64_t sim_matching_check(const SimRankSetup *setup, SimFindings *findings)
{
    uint64_t compared = 0;
    for (guint i = 0; i < setup->ranks->meetings->len; i++)
        compared += check_meeting(setup, g_ptr_array_index(setup->ranks->meetings, i), findings);
    return compared;
}
