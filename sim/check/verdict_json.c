/* SPDX-License-Identifier: Apache-2.0
 *
 * The two machine-readable forms of a verdict.
 */
#include "check/verdict.h"

#define SARIF_SCHEMA                                                                               \
    "https://raw.githubusercontent.com/oasis-tcs/sarif-spec/main/sarif-2.1/schema/"                \
    "sarif-schema-2.1.0.json"

static void add_number(cJSON *object, const char *key, uint64_t value)
{
    /* Counts stay far below 2^53, up to which a double is exact. */
    cJSON_AddNumberToObject(object, key, (double)value);
}

static void add_text(cJSON *object, const char *key, const char *value)
{
    if (value != NULL && *value != '\0')
        cJSON_AddStringToObject(object, key, value);
    else
        cJSON_AddNullToObject(object, key);
}

static const char *source_name(const SimVerdict *verdict, uint32_t source)
{
    return source < verdict->sources->len ? g_ptr_array_index(verdict->sources, source) : "";
}

static cJSON *places_to_json(const SimVerdict *verdict, const SimFinding *finding)
{
    cJSON *places = cJSON_CreateArray();
    for (uint32_t i = 0; i < finding->n_places; i++) {
        const SimFindingPlace *place = &finding->places[i];
        cJSON *item = cJSON_CreateObject();
        cJSON_AddStringToObject(item, "role", place->role);
        cJSON_AddStringToObject(item, "plan", source_name(verdict, place->source));
        add_number(item, "rank", place->rank);
        add_number(item, "row", (uint64_t)place->row + 1);
        cJSON_AddStringToObject(item, "text", place->text);
        cJSON_AddItemToArray(places, item);
    }
    return places;
}

static cJSON *finding_to_json(const SimVerdict *verdict, const SimFinding *finding)
{
    const SimRule *rule = sim_rules_get(finding->rule);
    cJSON *item = cJSON_CreateObject();
    cJSON_AddStringToObject(item, "rule", rule->id);
    if (sim_rules_number(finding->rule) != 0)
        add_number(item, "number", sim_rules_number(finding->rule));
    else
        cJSON_AddNullToObject(item, "number");
    cJSON_AddStringToObject(item, "name", rule->name);
    cJSON_AddStringToObject(item, "severity", sim_rules_severity_name(rule->severity));
    cJSON_AddStringToObject(item, "sentence", rule->sentence);
    add_text(item, "evidence", rule->evidence);
    cJSON_AddStringToObject(item, "message", finding->message);
    add_text(item, "repair", finding->remedy);
    add_text(item, "buffer", finding->buffer);
    add_text(item, "first_stream", finding->first_stream);
    add_text(item, "second_stream", finding->second_stream);
    add_text(item, "unit", finding->unit);
    add_text(item, "phase", finding->phase);
    cJSON_AddNumberToObject(item, "step", finding->step);
    add_number(item, "times", finding->times);
    cJSON_AddItemToObject(item, "places", places_to_json(verdict, finding));
    return item;
}

static cJSON *proof_to_json(const SimProof *proof)
{
    cJSON *item = cJSON_CreateObject();
    add_number(item, "ranks", proof->ranks);
    add_number(item, "classes", proof->classes);
    add_number(item, "rows", proof->rows);
    add_number(item, "accesses", proof->accesses);
    add_number(item, "buffers", proof->buffers);
    add_number(item, "reuses", proof->reuses);
    add_number(item, "events", proof->events);
    add_number(item, "waits", proof->waits);
    add_number(item, "collectives", proof->collectives);
    add_number(item, "collectives_compared", proof->matched);
    add_number(item, "gradients", proof->gradients);
    return item;
}

cJSON *sim_verdict_to_json(const SimVerdict *verdict)
{
    cJSON *root = cJSON_CreateObject();
    cJSON_AddStringToObject(root, "schema", "fsdpsim.check/1");
    cJSON_AddStringToObject(root, "version", FSDPSIM_VERSION);
    cJSON_AddBoolToObject(root, "safe", sim_verdict_is_safe(verdict));
    cJSON *plans = cJSON_AddArrayToObject(root, "plans");
    for (guint i = 0; i < verdict->sources->len; i++)
        cJSON_AddItemToArray(plans, cJSON_CreateString(source_name(verdict, i)));
    add_number(root, "violations", sim_findings_violations(verdict->findings));
    add_number(root, "remarks", sim_findings_remarks(verdict->findings));
    cJSON *findings = cJSON_AddArrayToObject(root, "findings");
    for (size_t i = 0; i < sim_findings_count(verdict->findings); i++)
        cJSON_AddItemToArray(findings,
                             finding_to_json(verdict, sim_findings_get(verdict->findings, i)));
    cJSON_AddItemToObject(root, "proof", proof_to_json(&verdict->proof));
    cJSON *skipped = cJSON_AddArrayToObject(root, "not_judged");
    for (SimRuleId rule = 1; rule < SIM_RULE_END; rule++)
        if (sim_rules_get(rule)->method == NULL)
            cJSON_AddItemToArray(skipped, cJSON_CreateString(sim_rules_get(rule)->id));
    return root;
}

/* --- SARIF --------------------------------------------------------------------------------------
 */

static cJSON *add_message(cJSON *object, const char *key, const char *text)
{
    cJSON *message = cJSON_AddObjectToObject(object, key);
    cJSON_AddStringToObject(message, "text", text);
    return message;
}

static const char *sarif_level(SimRuleId rule)
{
    return sim_rules_get(rule)->severity == SIM_SEVERITY_SLOW ? "note" : "error";
}

static cJSON *rules_to_sarif(void)
{
    cJSON *rules = cJSON_CreateArray();
    for (SimRuleId id = 1; id < SIM_RULE_END; id++) {
        const SimRule *rule = sim_rules_get(id);
        cJSON *item = cJSON_CreateObject();
        cJSON_AddStringToObject(item, "id", rule->id);
        cJSON_AddStringToObject(item, "name", rule->name);
        add_message(item, "shortDescription", rule->sentence);
        if (*rule->evidence != '\0')
            add_message(item, "help", rule->evidence);
        cJSON *configuration = cJSON_AddObjectToObject(item, "defaultConfiguration");
        cJSON_AddStringToObject(configuration, "level", sarif_level(id));
        cJSON_AddItemToArray(rules, item);
    }
    return rules;
}

static uint32_t line_of(const SimFindingPlace *place, GPtrArray *lines)
{
    const GArray *of_source = lines != NULL && place->source < lines->len
                                  ? g_ptr_array_index(lines, place->source)
                                  : NULL;
    if (of_source != NULL && place->row < of_source->len)
        return g_array_index(of_source, uint32_t, place->row);
    return place->row + 2;
}

static cJSON *location_to_sarif(const SimVerdict *verdict, const SimFindingPlace *place,
                                GPtrArray *lines)
{
    cJSON *location = cJSON_CreateObject();
    cJSON *physical = cJSON_AddObjectToObject(location, "physicalLocation");
    cJSON *artifact = cJSON_AddObjectToObject(physical, "artifactLocation");
    cJSON_AddStringToObject(artifact, "uri", source_name(verdict, place->source));
    cJSON *region = cJSON_AddObjectToObject(physical, "region");
    add_number(region, "startLine", line_of(place, lines));
    g_autofree char *text =
        g_strdup_printf("rank %u, %s: %s", place->rank, place->role, place->text);
    add_message(location, "message", text);
    return location;
}

static cJSON *finding_to_sarif(const SimVerdict *verdict, const SimFinding *finding,
                               GPtrArray *lines)
{
    cJSON *result = cJSON_CreateObject();
    cJSON_AddStringToObject(result, "ruleId", sim_rules_get(finding->rule)->id);
    cJSON_AddNumberToObject(result, "ruleIndex", (int)finding->rule - 1);
    cJSON_AddStringToObject(result, "level", sarif_level(finding->rule));
    add_message(result, "message", finding->message);
    add_number(result, "occurrenceCount", finding->times);
    /* Code scanning shows one place; it is the row that comes too early. */
    uint32_t main_place = finding->n_places > 1 ? 1 : 0;
    cJSON *locations = cJSON_AddArrayToObject(result, "locations");
    cJSON *related = cJSON_AddArrayToObject(result, "relatedLocations");
    for (uint32_t i = 0; i < finding->n_places; i++)
        cJSON_AddItemToArray(i == main_place ? locations : related,
                             location_to_sarif(verdict, &finding->places[i], lines));
    return result;
}

cJSON *sim_verdict_to_sarif(const SimVerdict *verdict, GPtrArray *lines)
{
    cJSON *root = cJSON_CreateObject();
    cJSON_AddStringToObject(root, "$schema", SARIF_SCHEMA);
    cJSON_AddStringToObject(root, "version", "2.1.0");
    cJSON *runs = cJSON_AddArrayToObject(root, "runs");
    cJSON *run = cJSON_CreateObject();
    cJSON_AddItemToArray(runs, run);
    cJSON *tool = cJSON_AddObjectToObject(run, "tool");
    cJSON *driver = cJSON_AddObjectToObject(tool, "driver");
    cJSON_AddStringToObject(driver, "name", "fsdpsim check");
    cJSON_AddStringToObject(driver, "version", FSDPSIM_VERSION);
    cJSON_AddItemToObject(driver, "rules", rules_to_sarif());
    cJSON *results = cJSON_AddArrayToObject(run, "results");
    for (size_t i = 0; i < sim_findings_count(verdict->findings); i++)
        cJSON_AddItemToArray(
            results, finding_to_sarif(verdict, sim_findings_get(verdict->findings, i), lines));
    return root;
}
