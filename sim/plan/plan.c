/* SPDX-License-Identifier: Apache-2.0
 *
 * The plan itself: its life and its tables of texts. Groups and rank sets: plan_groups.c; rows:
 * plan_rows.c; words and names: plan_words.c; soundness: plan_check.c.
 */
#include "plan/plan.h"

#include <string.h>

#include "plan/plan_private.h"

/* With room for one more, so that there is always an array to point into. */
static void *copy_elements(const void *elements, size_t n, size_t size)
{
    void *copy = g_malloc_n(n + 1, size);

    if (n > 0)
        memcpy(copy, elements, n * size);
    return copy;
}

SimPlan *sim_plan_new(uint32_t ranks)
{
    g_assert(ranks > 0 && ranks <= SIM_PLAN_MAX_RANKS);
    SimPlan *plan = g_new0(SimPlan, 1);
    const SimRange whole = {0, ranks - 1};
    const SimRankSet all = {.text = 0, .first_range = 0, .n_ranges = 1};

    plan->ranks = ranks;
    plan->strings = sim_strings_new();
    plan->meta = g_ptr_array_new_with_free_func(g_free);
    plan->streams = g_array_new(FALSE, FALSE, sizeof(SimStringId));
    plan->groups = g_array_new(FALSE, FALSE, sizeof(SimGroup));
    plan->lists = g_array_new(FALSE, FALSE, sizeof(SimRankList));
    plan->ranges = g_array_new(FALSE, FALSE, sizeof(SimRange));
    plan->rank_sets = g_array_new(FALSE, FALSE, sizeof(SimRankSet));
    plan->set_ids = g_hash_table_new(NULL, NULL);
    plan->events = sim_name_table_new();
    plan->touches = copy_elements(NULL, 0, sizeof *plan->touches);
    plan->touches_capacity = 1;
    plan->context = (SimPlanContext){.step = -1, .microbatch = -1};
    g_array_append_val(plan->ranges, whole);
    g_array_append_val(plan->rank_sets, all);
    sim_plan_stream(plan, "compute");
    return plan;
}

void sim_plan_free(SimPlan *plan)
{
    if (plan == NULL)
        return;
    sim_strings_free(plan->strings);
    g_ptr_array_unref(plan->meta);
    g_array_unref(plan->streams);
    g_array_unref(plan->groups);
    g_array_unref(plan->lists);
    g_array_unref(plan->ranges);
    g_array_unref(plan->rank_sets);
    g_hash_table_unref(plan->set_ids);
    sim_name_table_free(plan->events);
    g_free(plan->rows);
    g_free(plan->buffers);
    g_free(plan->touches);
    g_free(plan);
}

/* Ids are given in order of appearance, so texts interned again in order keep theirs. */
static SimStrings *copy_strings(const SimStrings *strings)
{
    SimStrings *copy = sim_strings_new();

    for (size_t i = 1; i < sim_strings_count(strings); i++)
        sim_strings_intern(copy, sim_strings_get(strings, (SimStringId)i));
    return copy;
}

SimPlan *sim_plan_copy(const SimPlan *plan)
{
    SimPlan *copy = g_new0(SimPlan, 1);

    copy->ranks = plan->ranks;
    copy->context = plan->context;
    copy->strings = copy_strings(plan->strings);
    copy->meta = g_ptr_array_new_with_free_func(g_free);
    for (guint i = 0; i < plan->meta->len; i++)
        g_ptr_array_add(copy->meta, g_strdup(g_ptr_array_index(plan->meta, i)));
    copy->streams = g_array_copy(plan->streams);
    copy->groups = g_array_copy(plan->groups);
    copy->lists = g_array_copy(plan->lists);
    copy->ranges = g_array_copy(plan->ranges);
    copy->rank_sets = g_array_copy(plan->rank_sets);
    copy->set_ids = g_hash_table_new(NULL, NULL);
    for (guint i = 1; i < copy->rank_sets->len; i++) {
        SimStringId text = g_array_index(copy->rank_sets, SimRankSet, i).text;
        g_hash_table_insert(copy->set_ids, GUINT_TO_POINTER(text), GUINT_TO_POINTER(i));
    }
    copy->events = sim_name_table_copy(plan->events);
    copy->n_rows = plan->n_rows;
    copy->rows_capacity = plan->n_rows + 1;
    copy->rows = copy_elements(plan->rows, plan->n_rows, sizeof *plan->rows);
    copy->n_buffers = plan->n_buffers;
    copy->buffers_capacity = plan->n_buffers + 1;
    copy->buffers = copy_elements(plan->buffers, plan->n_buffers, sizeof *plan->buffers);
    copy->n_touches = plan->n_touches;
    copy->touches_capacity = plan->n_touches + 1;
    copy->touches = copy_elements(plan->touches, plan->n_touches, sizeof *plan->touches);
    return copy;
}

SimStrings *sim_plan_strings(SimPlan *plan)
{
    return plan->strings;
}

const char *sim_plan_string(const SimPlan *plan, SimStringId id)
{
    return sim_strings_get(plan->strings, id);
}

uint32_t sim_plan_ranks(const SimPlan *plan)
{
    return plan->ranks;
}

void sim_plan_set_meta(SimPlan *plan, const char *key, const char *value)
{
    for (guint i = 0; i < plan->meta->len; i += 2) {
        if (strcmp(g_ptr_array_index(plan->meta, i), key) == 0) {
            g_free(g_ptr_array_index(plan->meta, i + 1));
            g_ptr_array_index(plan->meta, i + 1) = g_strdup(value);
            return;
        }
    }
    g_ptr_array_add(plan->meta, g_strdup(key));
    g_ptr_array_add(plan->meta, g_strdup(value));
}

const char *sim_plan_get_meta(const SimPlan *plan, const char *key)
{
    for (guint i = 0; i < plan->meta->len; i += 2) {
        if (strcmp(g_ptr_array_index(plan->meta, i), key) == 0)
            return g_ptr_array_index(plan->meta, i + 1);
    }
    return NULL;
}

size_t sim_plan_meta_count(const SimPlan *plan)
{
    return plan->meta->len / 2;
}

const char *sim_plan_meta_key(const SimPlan *plan, size_t index)
{
    g_assert(index < sim_plan_meta_count(plan));
    return g_ptr_array_index(plan->meta, 2 * index);
}

uint32_t sim_plan_stream(SimPlan *plan, const char *name)
{
    SimStringId id = sim_strings_intern(plan->strings, name);

    for (guint i = 0; i < plan->streams->len; i++) {
        if (g_array_index(plan->streams, SimStringId, i) == id)
            return i;
    }
    g_assert(plan->streams->len < UINT16_MAX);
    g_array_append_val(plan->streams, id);
    return plan->streams->len - 1;
}

uint32_t sim_plan_stream_count(const SimPlan *plan)
{
    return plan->streams->len;
}

const char *sim_plan_stream_name(const SimPlan *plan, uint32_t stream)
{
    g_assert(stream < plan->streams->len);
    return sim_plan_string(plan, g_array_index(plan->streams, SimStringId, stream));
}

size_t sim_plan_length(const SimPlan *plan)
{
    return plan->n_rows;
}

const SimInstruction *sim_plan_instruction(const SimPlan *plan, size_t index)
{
    g_assert(index < plan->n_rows);
    return &plan->rows[index];
}

size_t sim_plan_buffer_count(const SimPlan *plan)
{
    return plan->n_buffers;
}

const SimBuffer *sim_plan_buffer(const SimPlan *plan, uint32_t buffer)
{
    g_assert(buffer < plan->n_buffers);
    return &plan->buffers[buffer];
}

size_t sim_plan_event_count(const SimPlan *plan)
{
    return sim_name_table_count(plan->events);
}

SimName sim_plan_event_name(const SimPlan *plan, uint32_t event)
{
    return sim_name_table_entry(plan->events, event)->name;
}

const SimTouch *sim_plan_touches(const SimPlan *plan, const SimInstruction *instruction)
{
    g_assert((size_t)instruction->touches + instruction->n_reads + instruction->n_writes <=
             plan->n_touches);
    return plan->touches + instruction->touches;
}

uint32_t sim_plan_root_buffer(const SimPlan *plan, uint32_t buffer)
{
    while (sim_plan_buffer(plan, buffer)->parent != SIM_PLAN_NONE)
        buffer = plan->buffers[buffer].parent;
    return buffer;
}

SimPlanContext *sim_plan_context(SimPlan *plan)
{
    return &plan->context;
}
