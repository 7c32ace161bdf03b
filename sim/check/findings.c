/* SPDX-License-Identifier: Apache-2.0 */
#include "check/findings.h"

struct SimFindings {
    GArray *kept;     /* of SimFinding */
    GHashTable *keys; /* owned text -> index + 1 in KEPT, or a number beyond it; look-up only */
    uint64_t by_rule[SIM_RULE_END];
};

void sim_findings_clear(SimFinding *finding)
{
    for (uint32_t i = 0; i < finding->n_places; i++)
        g_free(finding->places[i].text);
    g_free(finding->buffer);
    g_free(finding->first_stream);
    g_free(finding->second_stream);
    g_free(finding->unit);
    g_free(finding->message);
    g_free(finding->remedy);
    *finding = (SimFinding){0};
}

static void clear_element(gpointer element)
{
    sim_findings_clear(element);
}

SimFindings *sim_findings_new(void)
{
    SimFindings *findings = g_new0(SimFindings, 1);
    findings->kept = g_array_new(FALSE, FALSE, sizeof(SimFinding));
    g_array_set_clear_func(findings->kept, clear_element);
    findings->keys = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL);
    return findings;
}

void sim_findings_free(SimFindings *findings)
{
    if (findings == NULL)
        return;
    g_array_unref(findings->kept);
    g_hash_table_unref(findings->keys);
    g_free(findings);
}

void sim_findings_add(SimFindings *findings, SimFinding finding, const char *key)
{
    g_assert(finding.message != NULL && finding.n_places <= SIM_FINDING_PLACES);
    gpointer known = g_hash_table_lookup(findings->keys, key);
    if (known != NULL) {
        if (GPOINTER_TO_UINT(known) <= findings->kept->len)
            g_array_index(findings->kept, SimFinding, GPOINTER_TO_UINT(known) - 1).times++;
        sim_findings_clear(&finding);
        return;
    }
    findings->by_rule[finding.rule]++;
    finding.times = 1;
    if (findings->kept->len >= SIM_FINDINGS_KEPT) {
        g_hash_table_insert(findings->keys, g_strdup(key), GUINT_TO_POINTER(UINT32_MAX));
        sim_findings_clear(&finding);
        return;
    }
    g_array_append_val(findings->kept, finding);
    g_hash_table_insert(findings->keys, g_strdup(key), GUINT_TO_POINTER(findings->kept->len));
}

void sim_findings_remove(SimFindings *findings, size_t index)
{
    findings->by_rule[sim_findings_get(findings, index)->rule]--;
    g_array_remove_index(findings->kept, (guint)index);
}

size_t sim_findings_count(const SimFindings *findings)
{
    return findings->kept->len;
}

SimFinding *sim_findings_get(const SimFindings *findings, size_t index)
{
    g_assert(index < findings->kept->len);
    return &g_array_index(findings->kept, SimFinding, index);
}

static uint64_t sum(const SimFindings *findings, bool is_slow)
{
    uint64_t total = 0;
    for (SimRuleId rule = 1; rule < SIM_RULE_END; rule++)
        if ((sim_rules_get(rule)->severity == SIM_SEVERITY_SLOW) == is_slow)
            total += findings->by_rule[rule];
    return total;
}

uint64_t sim_findings_violations(const SimFindings *findings)
{
    return sum(findings, false);
}

uint64_t sim_findings_remarks(const SimFindings *findings)
{
    return sum(findings, true);
}

uint64_t sim_findings_of_rule(const SimFindings *findings, SimRuleId rule)
{
    g_assert(rule >= 1 && rule < SIM_RULE_END);
    return findings->by_rule[rule];
}
