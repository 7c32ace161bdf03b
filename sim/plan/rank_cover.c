/* SPDX-License-Identifier: Apache-2.0 */
#include "plan/rank_cover.h"

void sim_rank_cover_done(SimRankCover *cover)
{
    g_clear_pointer(&cover->ranges, g_array_unref);
    cover->rank_set = SIM_PLAN_NONE;
}

SimRankCover sim_rank_cover_copy(const SimRankCover *cover)
{
    return (SimRankCover){.rank_set = cover->rank_set,
                          .ranges = cover->ranges != NULL ? g_array_copy(cover->ranges) : NULL};
}

bool sim_rank_cover_is_empty(const SimRankCover *cover)
{
    return cover->rank_set == SIM_PLAN_NONE && cover->ranges == NULL;
}

static const SimRange *cover_ranges(const SimRankCover *cover, const SimPlan *plan, uint32_t *n)
{
    if (cover->rank_set != SIM_PLAN_NONE)
        return sim_plan_rank_set_ranges(plan, cover->rank_set, n);
    if (cover->ranges == NULL) {
        *n = 0;
        return NULL;
    }
    *n = cover->ranges->len;
    return (const SimRange *)(const void *)cover->ranges->data;
}

bool sim_rank_cover_has(const SimRankCover *cover, const SimPlan *plan, uint32_t rank_set)
{
    if (cover->rank_set == rank_set || cover->rank_set == 0)
        return true;
    uint32_t n_own, n_other, i = 0;
    const SimRange *own = cover_ranges(cover, plan, &n_own);
    const SimRange *other = sim_plan_rank_set_ranges(plan, rank_set, &n_other);
    for (uint32_t j = 0; j < n_other; j++) {
        while (i < n_own && own[i].last < other[j].first)
            i++;
        if (i == n_own || own[i].first > other[j].first || own[i].last < other[j].last)
            return false;
    }
    return true;
}

bool sim_rank_cover_meets(const SimRankCover *cover, const SimPlan *plan, uint32_t rank_set)
{
    if (sim_rank_cover_is_empty(cover))
        return false;
    if (cover->rank_set == rank_set || cover->rank_set == 0 || rank_set == 0)
        return true;
    uint32_t n_own, n_other, i = 0;
    const SimRange *own = cover_ranges(cover, plan, &n_own);
    const SimRange *other = sim_plan_rank_set_ranges(plan, rank_set, &n_other);
    for (uint32_t j = 0; j < n_other; j++) {
        while (i < n_own && own[i].last < other[j].first)
            i++;
        if (i < n_own && own[i].first <= other[j].last)
            return true;
    }
    return false;
}

static gint compare_ranges(gconstpointer a, gconstpointer b)
{
    const SimRange *left = a, *right = b;
    if (left->first != right->first)
        return left->first < right->first ? -1 : 1;
    return left->last < right->last ? -1 : left->last > right->last;
}

void sim_rank_cover_join(GArray *ranges)
{
    guint n = 0;

    g_array_sort(ranges, compare_ranges);
    SimRange *range = (SimRange *)(void *)ranges->data;
    for (guint i = 0; i < ranges->len; i++) {
        if (n > 0 && range[i].first <= range[n - 1].last + 1)
            range[n - 1].last = MAX(range[n - 1].last, range[i].last);
        else
            range[n++] = range[i];
    }
    g_array_set_size(ranges, n);
}

/* Makes COVER own RANGES, which are joined already. */
static void take_ranges(SimRankCover *cover, GArray *ranges)
{
    sim_rank_cover_done(cover);
    if (ranges->len == 0)
        g_array_unref(ranges);
    else
        cover->ranges = ranges;
}

void sim_rank_cover_add(SimRankCover *cover, const SimPlan *plan, uint32_t rank_set)
{
    if (sim_rank_cover_has(cover, plan, rank_set))
        return;
    if (sim_rank_cover_is_empty(cover) || rank_set == 0) {
        sim_rank_cover_done(cover);
        cover->rank_set = rank_set;
        return;
    }
    uint32_t n_own, n_other;
    const SimRange *own = cover_ranges(cover, plan, &n_own);
    const SimRange *other = sim_plan_rank_set_ranges(plan, rank_set, &n_other);
    GArray *ranges = g_array_new(FALSE, FALSE, sizeof(SimRange));
    g_array_append_vals(ranges, own, n_own);
    g_array_append_vals(ranges, other, n_other);
    sim_rank_cover_join(ranges);
    take_ranges(cover, ranges);
}

void sim_rank_cover_remove(SimRankCover *cover, const SimPlan *plan, uint32_t rank_set)
{
    if (cover->rank_set == rank_set || rank_set == 0) {
        sim_rank_cover_done(cover);
        return;
    }
    uint32_t n_own, n_other, j = 0;
    const SimRange *own = cover_ranges(cover, plan, &n_own);
    const SimRange *other = sim_plan_rank_set_ranges(plan, rank_set, &n_other);
    GArray *ranges = g_array_new(FALSE, FALSE, sizeof(SimRange));
    for (uint32_t i = 0; i < n_own; i++) {
        uint32_t first = own[i].first;
        while (j < n_other && other[j].last < first)
            j++;
        for (uint32_t k = j; k < n_other && other[k].first <= own[i].last; k++) {
            if (other[k].first > first) {
                SimRange before = {first, other[k].first - 1};
                g_array_append_val(ranges, before);
            }
            first = other[k].last + 1;
        }
        if (first <= own[i].last) {
            SimRange rest = {first, own[i].last};
            g_array_append_val(ranges, rest);
        }
    }
    take_ranges(cover, ranges);
}
