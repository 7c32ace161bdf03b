/* SPDX-License-Identifier: Apache-2.0 */
#include "check/verdict.h"

SimVerdict *sim_verdict_new(void)
{
    SimVerdict *verdict = g_new0(SimVerdict, 1);
    verdict->findings = sim_findings_new();
    verdict->sources = g_ptr_array_new_with_free_func(g_free);
    return verdict;
}

void sim_verdict_free(SimVerdict *verdict)
{
    if (verdict == NULL)
        return;
    sim_findings_free(verdict->findings);
    g_ptr_array_unref(verdict->sources);
    g_free(verdict);
}

bool sim_verdict_is_safe(const SimVerdict *verdict)
{
    return sim_findings_violations(verdict->findings) == 0;
}

static bool is_slow(const SimFinding *finding)
{
    return sim_rules_get(finding->rule)->severity == SIM_SEVERITY_SLOW;
}

static void print_finding(GString *text, const SimFinding *finding, bool with_rule)
{
    const SimRule *rule = sim_rules_get(finding->rule);
    g_string_append_printf(text, "%s [%s] %s: %s", sim_rules_severity_name(rule->severity),
                           rule->id, rule->name, finding->message);
    if (finding->times > 1)
        g_string_append_printf(text, " (%" G_GUINT64_FORMAT " times)", finding->times);
    g_string_append_c(text, '\n');
    if (finding->remedy != NULL)
        g_string_append_printf(text, "    repair: %s\n", finding->remedy);
    if (with_rule && *rule->evidence != '\0')
        g_string_append_printf(text, "    rule: %s (%s)\n", rule->sentence, rule->evidence);
}

static void print_kind(GString *text, const SimVerdict *verdict, bool slow, uint32_t most)
{
    uint32_t printed = 0;
    bool is_told[SIM_RULE_END] = {false}; /* each rule's sentence once */
    uint64_t total =
        slow ? sim_findings_remarks(verdict->findings) : sim_findings_violations(verdict->findings);
    for (size_t i = 0; i < sim_findings_count(verdict->findings) && printed < most; i++) {
        const SimFinding *finding = sim_findings_get(verdict->findings, i);
        if (is_slow(finding) != slow)
            continue;
        print_finding(text, finding, !is_told[finding->rule]);
        is_told[finding->rule] = true;
        printed++;
    }
    if (total > printed)
        g_string_append_printf(text, "... and %" G_GUINT64_FORMAT " more\n", total - printed);
}

static void print_proof(GString *text, const SimVerdict *verdict)
{
    const SimProof *p = &verdict->proof;
    g_string_append_printf(
        text,
        "looked at: %" G_GUINT64_FORMAT " rows of %u ranks in %u classes; %" G_GUINT64_FORMAT
        " accesses to %" G_GUINT64_FORMAT " buffers, %" G_GUINT64_FORMAT
        " of them the first after a reuse; %" G_GUINT64_FORMAT " events, %" G_GUINT64_FORMAT
        " waits; %" G_GUINT64_FORMAT " collectives, %" G_GUINT64_FORMAT
        " compared between ranks; %" G_GUINT64_FORMAT " gradients applied\n",
        p->rows, p->ranks, p->classes, p->accesses, p->buffers, p->reuses, p->events, p->waits,
        p->collectives, p->matched, p->gradients);
    for (SimRuleId rule = 1; rule < SIM_RULE_END; rule++)
        if (sim_rules_get(rule)->method == NULL)
            g_string_append_printf(text, "not judged: [%s] %s\n", sim_rules_get(rule)->id,
                                   sim_rules_get(rule)->sentence);
}

char *sim_verdict_print(const SimVerdict *verdict, uint32_t most)
{
    GString *text = g_string_new(NULL);
    uint64_t violations = sim_findings_violations(verdict->findings);
    uint64_t remarks = sim_findings_remarks(verdict->findings);
    if (violations == 0)
        g_string_append(text, "safe: no violation found\n");
    else
        g_string_append_printf(text, "not safe: %" G_GUINT64_FORMAT " violation%s\n", violations,
                               violations == 1 ? "" : "s");
    print_kind(text, verdict, false, most);
    if (remarks > 0) {
        g_string_append_printf(text, "%" G_GUINT64_FORMAT " remark%s on time and memory\n", remarks,
                               remarks == 1 ? "" : "s");
        print_kind(text, verdict, true, most);
    }
    print_proof(text, verdict);
    return g_string_free(text, FALSE);
}
