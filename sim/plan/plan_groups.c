/* SPDX-License-Identifier: Apache-2.0
 *
 * Who: communicators and rank sets, which are both written as ranks and ranges ("0-3", "7").
 */
#include "plan/plan.h"

#include <string.h>

#include "base/error.h"
#include "plan/plan_private.h"

/* A decimal rank at *TEXT, which moves behind it. */
static bool parse_rank(const SimPlan *plan, const char **text, uint32_t *rank, GError **error)
{
    const char *p = *text;
    uint64_t value = 0;

    while (g_ascii_isdigit(*p) && value <= SIM_PLAN_MAX_RANKS)
        value = value * 10 + (uint64_t)(*p++ - '0');
    if (p == *text) {
        g_set_error(error, SIM_ERROR, SIM_ERROR_PARSE,
                    "expected a rank or a range as in 0-3, found '%s'", *text);
        return false;
    }
    if (value >= plan->ranks) {
        g_set_error(error, SIM_ERROR, SIM_ERROR_RANGE, "rank %.*s is outside the plan's ranks 0-%u",
                    (int)(p - *text), *text, plan->ranks - 1);
        return false;
    }
    *rank = (uint32_t)value;
    *text = p;
    return true;
}

static bool parse_range(const SimPlan *plan, const char **text, SimRange *range, GError **error)
{
    const char *start = *text;

    if (!parse_rank(plan, text, &range->first, error))
        return false;
    range->last = range->first;
    if (**text != '-')
        return true;
    ++*text;
    if (!parse_rank(plan, text, &range->last, error))
        return false;
    if (range->last < range->first) {
        g_set_error(error, SIM_ERROR, SIM_ERROR_RANGE, "range '%.*s' ends before it begins",
                    (int)(*text - start), start);
        return false;
    }
    return true;
}

static const char *skip_spaces(const char *text)
{
    while (*text == ' ')
        text++;
    return text;
}

/* The ranges of all lists, and each list's size, onto RANGES and LISTS. */
static bool parse_lists(const SimPlan *plan, const char *text, GArray *ranges, GArray *lists,
                        GError **error)
{
    for (text = skip_spaces(text); *text != '\0'; text = skip_spaces(text)) {
        SimRankList list = {.first_range = plan->ranges->len + ranges->len};
        do {
            SimRange range;
            if (list.n_ranges > 0)
                text++;
            if (!parse_range(plan, &text, &range, error))
                return false;
            g_array_append_val(ranges, range);
            list.n_ranges++;
            list.members += range.last - range.first + 1;
        } while (*text == ',');
        if (*text != ' ' && *text != '\0') {
            g_set_error(error, SIM_ERROR, SIM_ERROR_PARSE,
                        "expected rank lists as in '0-3 4-7' or '0,8 1,9', found '%s'", text);
            return false;
        }
        g_array_append_val(lists, list);
    }
    if (lists->len == 0) {
        g_set_error(error, SIM_ERROR, SIM_ERROR_SCHEMA, "expected rank lists as in '0-3 4-7'");
        return false;
    }
    return true;
}

static bool check_no_rank_twice(const GArray *ranges, GError **error)
{
    g_autoptr(GArray) joined = g_array_copy((GArray *)ranges);
    uint64_t named = 0, distinct = 0;

    for (guint i = 0; i < ranges->len; i++)
        named += g_array_index(ranges, SimRange, i).last - g_array_index(ranges, SimRange, i).first;
    named += ranges->len;
    sim_rank_cover_join(joined);
    for (guint i = 0; i < joined->len; i++)
        distinct +=
            g_array_index(joined, SimRange, i).last - g_array_index(joined, SimRange, i).first + 1;
    if (named == distinct)
        return true;
    g_set_error(error, SIM_ERROR, SIM_ERROR_SCHEMA,
                "a rank stands twice in the rank lists (%" G_GUINT64_FORMAT
                " named, %" G_GUINT64_FORMAT " different)",
                named, distinct);
    return false;
}

bool sim_plan_add_group(SimPlan *plan, const char *name, const char *lists, GError **error)
{
    g_autoptr(GArray) new_ranges = g_array_new(FALSE, FALSE, sizeof(SimRange));
    g_autoptr(GArray) new_lists = g_array_new(FALSE, FALSE, sizeof(SimRankList));

    if (*name == '\0') {
        g_set_error(error, SIM_ERROR, SIM_ERROR_SCHEMA, "group: expected a name");
        return false;
    }
    if (sim_plan_find_group(plan, name) != SIM_PLAN_NONE) {
        g_set_error(error, SIM_ERROR, SIM_ERROR_SCHEMA, "group '%s' is defined twice", name);
        return false;
    }
    if (!parse_lists(plan, lists, new_ranges, new_lists, error) ||
        !check_no_rank_twice(new_ranges, error)) {
        g_prefix_error(error, "group '%s': ", name);
        return false;
    }
    SimGroup group = {.name = sim_strings_intern(plan->strings, name),
                      .first_list = plan->lists->len,
                      .n_lists = new_lists->len};
    g_array_append_vals(plan->ranges, new_ranges->data, new_ranges->len);
    g_array_append_vals(plan->lists, new_lists->data, new_lists->len);
    g_array_append_val(plan->groups, group);
    return true;
}

uint32_t sim_plan_find_group(const SimPlan *plan, const char *name)
{
    for (guint i = 0; i < plan->groups->len; i++) {
        if (strcmp(sim_plan_group_name(plan, i), name) == 0)
            return i;
    }
    return SIM_PLAN_NONE;
}

uint32_t sim_plan_group_count(const SimPlan *plan)
{
    return plan->groups->len;
}

static const SimGroup *get_group(const SimPlan *plan, uint32_t group)
{
    g_assert(group < plan->groups->len);
    return &g_array_index(plan->groups, SimGroup, group);
}

static const SimRankList *get_list(const SimPlan *plan, uint32_t group, uint32_t list)
{
    g_assert(list < get_group(plan, group)->n_lists);
    return &g_array_index(plan->lists, SimRankList, get_group(plan, group)->first_list + list);
}

const char *sim_plan_group_name(const SimPlan *plan, uint32_t group)
{
    return sim_plan_string(plan, get_group(plan, group)->name);
}

uint32_t sim_plan_group_lists(const SimPlan *plan, uint32_t group)
{
    return get_group(plan, group)->n_lists;
}

const SimRange *sim_plan_group_ranges(const SimPlan *plan, uint32_t group, uint32_t list,
                                      uint32_t *n_ranges)
{
    const SimRankList *found = get_list(plan, group, list);

    *n_ranges = found->n_ranges;
    return &g_array_index(plan->ranges, SimRange, found->first_range);
}

bool sim_plan_group_of_rank(const SimPlan *plan, uint32_t group, uint32_t rank, uint32_t *list,
                            uint32_t *place, uint32_t *members)
{
    for (uint32_t i = 0; i < sim_plan_group_lists(plan, group); i++) {
        uint32_t n_ranges, before = 0;
        const SimRange *ranges = sim_plan_group_ranges(plan, group, i, &n_ranges);
        for (uint32_t j = 0; j < n_ranges; j++) {
            if (rank >= ranges[j].first && rank <= ranges[j].last) {
                *list = i;
                *place = before + rank - ranges[j].first;
                *members = get_list(plan, group, i)->members;
                return true;
            }
            before += ranges[j].last - ranges[j].first + 1;
        }
    }
    return false;
}

static void append_range(GString *text, char separator, SimRange range)
{
    if (separator != '\0')
        g_string_append_c(text, separator);
    if (range.first == range.last)
        g_string_append_printf(text, "%u", range.first);
    else
        g_string_append_printf(text, "%u-%u", range.first, range.last);
}

char *sim_plan_print_group(const SimPlan *plan, uint32_t group)
{
    GString *text = g_string_new(NULL);

    for (uint32_t i = 0; i < sim_plan_group_lists(plan, group); i++) {
        uint32_t n_ranges;
        const SimRange *ranges = sim_plan_group_ranges(plan, group, i, &n_ranges);
        for (uint32_t j = 0; j < n_ranges; j++)
            append_range(text, j > 0 ? ',' : i > 0 ? ' ' : '\0', ranges[j]);
    }
    return g_string_free(text, FALSE);
}

/* --- rank sets -----------------------------------------------------------------------------------
 */

/* The set of RANGES, which are sorted and joined. */
static uint32_t intern_rank_set(SimPlan *plan, const GArray *ranges)
{
    const SimRange *first = (const SimRange *)(const void *)ranges->data;

    if (ranges->len == 0 ||
        (ranges->len == 1 && first->first == 0 && first->last == plan->ranks - 1))
        return 0;
    g_autoptr(GString) text = g_string_new(NULL);
    for (guint i = 0; i < ranges->len; i++)
        append_range(text, i > 0 ? ' ' : '\0', first[i]);
    SimStringId id = sim_strings_intern(plan->strings, text->str);
    gpointer known = g_hash_table_lookup(plan->set_ids, GUINT_TO_POINTER(id));
    if (known != NULL)
        return GPOINTER_TO_UINT(known);
    SimRankSet set = {.text = id, .first_range = plan->ranges->len, .n_ranges = ranges->len};
    uint32_t index = plan->rank_sets->len;
    g_array_append_vals(plan->ranges, ranges->data, ranges->len);
    g_array_append_val(plan->rank_sets, set);
    g_hash_table_insert(plan->set_ids, GUINT_TO_POINTER(id), GUINT_TO_POINTER(index));
    return index;
}

bool sim_plan_add_rank_set(SimPlan *plan, const char *text, uint32_t *rank_set, GError **error)
{
    g_autoptr(GArray) ranges = NULL;

    text = skip_spaces(text);
    if (*text == '\0') {
        *rank_set = 0;
        return true;
    }
    ranges = g_array_new(FALSE, FALSE, sizeof(SimRange));
    for (; *text != '\0'; text = skip_spaces(text)) {
        SimRange range;
        if (!parse_range(plan, &text, &range, error))
            return false;
        if (*text != ' ' && *text != '\0') {
            g_set_error(error, SIM_ERROR, SIM_ERROR_PARSE,
                        "expected ranks and ranges as in '0-3 7', found '%s'", text);
            return false;
        }
        g_array_append_val(ranges, range);
    }
    sim_rank_cover_join(ranges);
    *rank_set = intern_rank_set(plan, ranges);
    return true;
}

static const SimRankSet *get_rank_set(const SimPlan *plan, uint32_t rank_set)
{
    g_assert(rank_set < plan->rank_sets->len);
    return &g_array_index(plan->rank_sets, SimRankSet, rank_set);
}

const char *sim_plan_rank_set_text(const SimPlan *plan, uint32_t rank_set)
{
    return sim_plan_string(plan, get_rank_set(plan, rank_set)->text);
}

bool sim_plan_rank_set_has(const SimPlan *plan, uint32_t rank_set, uint32_t rank)
{
    uint32_t n_ranges;
    const SimRange *ranges = sim_plan_rank_set_ranges(plan, rank_set, &n_ranges);
    uint32_t low = 0, high = n_ranges;

    while (low < high) {
        uint32_t middle = (low + high) / 2;
        if (ranges[middle].last < rank)
            low = middle + 1;
        else
            high = middle;
    }
    return low < n_ranges && ranges[low].first <= rank;
}

uint32_t sim_plan_rank_set_count(const SimPlan *plan)
{
    return plan->rank_sets->len;
}

const SimRange *sim_plan_rank_set_ranges(const SimPlan *plan, uint32_t rank_set, uint32_t *n_ranges)
{
    const SimRankSet *set = get_rank_set(plan, rank_set);

    *n_ranges = set->n_ranges;
    return &g_array_index(plan->ranges, SimRange, set->first_range);
}
