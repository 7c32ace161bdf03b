/* SPDX-License-Identifier: Apache-2.0 */
#include "fabric/maxmin.h"

#include <stdlib.h>
#include <string.h>

#define LARGEST_CAPACITY (UINT64_C(1) << 46)

/* A link and the share its growing flows had when it was put into the heap. Shares only ever grow,
 * so the first link of the heap has the least share once its own is brought up to date. */
typedef struct Candidate {
    uint64_t share;
    uint32_t link;
} Candidate;

typedef struct Bounded {
    uint64_t bound;
    uint32_t flow;
} Bounded;

struct SimMaxmin {
    size_t n_flows, n_links, n_crossings; /* what the arrays have room for */
    uint64_t *left;                       /* [links] capacity not yet given away, in 1/65536 */
    uint64_t *usage;                      /* [links] sum of the weights of growing flows */
    uint32_t *first;                      /* [links + 1] crossings of a link */
    uint32_t *flow;                       /* [crossings] by link */
    Candidate *heap;                      /* [links] */
    size_t heap_size;
    uint32_t *full;   /* [links] links that fill up in this round */
    Bounded *bounded; /* [flows] ascending by bound */
    bool *is_fixed;   /* [flows] */
};

SimMaxmin *sim_maxmin_new(void)
{
    return g_new0(SimMaxmin, 1);
}

void sim_maxmin_free(SimMaxmin *maxmin)
{
    if (!maxmin)
        return;
    g_free(maxmin->left);
    g_free(maxmin->usage);
    g_free(maxmin->first);
    g_free(maxmin->flow);
    g_free(maxmin->heap);
    g_free(maxmin->full);
    g_free(maxmin->bounded);
    g_free(maxmin->is_fixed);
    g_free(maxmin);
}

static void reserve(SimMaxmin *maxmin, const SimMaxminProblem *problem)
{
    if (problem->links >= maxmin->n_links) {
        size_t n = maxmin->n_links = 2 * problem->links + 1;
        maxmin->left = g_renew(uint64_t, maxmin->left, n);
        maxmin->usage = g_renew(uint64_t, maxmin->usage, n);
        maxmin->first = g_renew(uint32_t, maxmin->first, n + 1);
        maxmin->heap = g_renew(Candidate, maxmin->heap, n);
        maxmin->full = g_renew(uint32_t, maxmin->full, n);
    }
    if (problem->flows > maxmin->n_flows) {
        size_t n = maxmin->n_flows = 2 * problem->flows;
        maxmin->bounded = g_renew(Bounded, maxmin->bounded, n);
        maxmin->is_fixed = g_renew(bool, maxmin->is_fixed, n);
    }
    if (problem->first[problem->flows] > maxmin->n_crossings) {
        maxmin->n_crossings = 2 * (size_t)problem->first[problem->flows];
        maxmin->flow = g_renew(uint32_t, maxmin->flow, maxmin->n_crossings);
    }
}

/* Turns the crossings around, from flow -> links to link -> flows, and adds up the weights. */
static void index_links(SimMaxmin *maxmin, const SimMaxminProblem *problem)
{
    size_t links = problem->links;
    uint32_t crossings = problem->first[problem->flows];
    memset(maxmin->first, 0, (links + 1) * sizeof(*maxmin->first));
    for (size_t l = 0; l < links; l++) {
        g_assert(problem->capacity[l] >= 1 && problem->capacity[l] <= LARGEST_CAPACITY);
        maxmin->left[l] = problem->capacity[l] * SIM_MAXMIN_WEIGHT;
        maxmin->usage[l] = 0;
    }
    for (uint32_t i = 0; i < crossings; i++) {
        maxmin->first[problem->link[i] + 1]++;
        maxmin->usage[problem->link[i]] += problem->weight[i];
    }
    for (size_t l = 0; l < links; l++)
        maxmin->first[l + 1] += maxmin->first[l];
    /* Filling moves first[l] to the end of l, which is where l + 1 begins: so shift back after. */
    for (size_t f = 0; f < problem->flows; f++) {
        for (uint32_t i = problem->first[f]; i < problem->first[f + 1]; i++)
            maxmin->flow[maxmin->first[problem->link[i]]++] = (uint32_t)f;
    }
    memmove(maxmin->first + 1, maxmin->first, links * sizeof(*maxmin->first));
    maxmin->first[0] = 0;
}

static uint64_t share_of(const SimMaxmin *maxmin, uint32_t link)
{
    return maxmin->left[link] / maxmin->usage[link];
}

static bool before(Candidate a, Candidate b)
{
    return a.share != b.share ? a.share < b.share : a.link < b.link;
}

static void sift_down(SimMaxmin *maxmin, size_t hole, Candidate candidate)
{
    Candidate *heap = maxmin->heap;
    for (;;) {
        size_t child = 2 * hole + 1;
        if (child >= maxmin->heap_size)
            break;
        if (child + 1 < maxmin->heap_size && before(heap[child + 1], heap[child]))
            child++;
        if (!before(heap[child], candidate))
            break;
        heap[hole] = heap[child];
        hole = child;
    }
    heap[hole] = candidate;
}

static void pop_first(SimMaxmin *maxmin)
{
    Candidate last = maxmin->heap[--maxmin->heap_size];
    if (maxmin->heap_size > 0)
        sift_down(maxmin, 0, last);
}

static void build_heap(SimMaxmin *maxmin, const SimMaxminProblem *problem)
{
    maxmin->heap_size = 0;
    for (uint32_t l = 0; l < problem->links; l++) {
        if (maxmin->usage[l] > 0)
            maxmin->heap[maxmin->heap_size++] = (Candidate){share_of(maxmin, l), l};
    }
    for (size_t i = maxmin->heap_size / 2; i-- > 0;)
        sift_down(maxmin, i, maxmin->heap[i]);
}

/* Brings the first link up to date; SIM_MAXMIN_UNBOUNDED if no link has growing flows. */
static uint64_t find_least_share(SimMaxmin *maxmin)
{
    while (maxmin->heap_size > 0) {
        Candidate first = maxmin->heap[0];
        if (maxmin->usage[first.link] == 0) {
            pop_first(maxmin);
            continue;
        }
        uint64_t share = share_of(maxmin, first.link);
        if (share == first.share)
            return share;
        sift_down(maxmin, 0, (Candidate){share, first.link});
    }
    return SIM_MAXMIN_UNBOUNDED;
}

static void fix(SimMaxmin *maxmin, const SimMaxminProblem *problem, uint32_t flow, uint64_t rate,
                uint64_t *rates)
{
    rates[flow] = rate;
    maxmin->is_fixed[flow] = true;
    for (uint32_t i = problem->first[flow]; i < problem->first[flow + 1]; i++) {
        uint32_t link = problem->link[i];
        /* Only where a link has less than one byte a second for each flow can it be too little. */
        maxmin->left[link] -= MIN(maxmin->left[link], problem->weight[i] * rate);
        maxmin->usage[link] -= problem->weight[i];
    }
}

/* Fixes the flows of all links that have just this share, together: one after the other, what the
 * first leaves by rounding would go to the next, and the result depend on the links' order. */
static void fill_links(SimMaxmin *maxmin, const SimMaxminProblem *problem, uint64_t share,
                       uint64_t *rates)
{
    size_t n = 0;
    while (find_least_share(maxmin) == share) {
        maxmin->full[n++] = maxmin->heap[0].link;
        pop_first(maxmin);
    }
    for (size_t i = 0; i < n; i++) {
        uint32_t link = maxmin->full[i];
        for (uint32_t j = maxmin->first[link]; j < maxmin->first[link + 1]; j++) {
            if (!maxmin->is_fixed[maxmin->flow[j]])
                fix(maxmin, problem, maxmin->flow[j], MAX(share, 1), rates);
        }
    }
}

static int compare_bounded(const void *a, const void *b)
{
    const Bounded *x = a, *y = b;
    if (x->bound != y->bound)
        return x->bound < y->bound ? -1 : 1;
    return (x->flow > y->flow) - (x->flow < y->flow);
}

static void sort_bounds(SimMaxmin *maxmin, const SimMaxminProblem *problem)
{
    bool is_sorted = true;
    for (size_t f = 0; f < problem->flows; f++) {
        g_assert(problem->bound[f] >= 1);
        maxmin->bounded[f] = (Bounded){problem->bound[f], (uint32_t)f};
        maxmin->is_fixed[f] = false;
        is_sorted = is_sorted && (f == 0 || problem->bound[f - 1] <= problem->bound[f]);
    }
    if (!is_sorted)
        qsort(maxmin->bounded, problem->flows, sizeof(Bounded), compare_bounded);
}

void sim_maxmin_compute(SimMaxmin *maxmin, const SimMaxminProblem *problem, uint64_t *rate)
{
    reserve(maxmin, problem);
    index_links(maxmin, problem);
    build_heap(maxmin, problem);
    sort_bounds(maxmin, problem);
    size_t next = 0;
    for (;;) {
        while (next < problem->flows && maxmin->is_fixed[maxmin->bounded[next].flow])
            next++;
        if (next == problem->flows)
            break;
        uint64_t share = find_least_share(maxmin);
        Bounded bounded = maxmin->bounded[next];
        if (bounded.bound <= share) {
            g_assert(bounded.bound != SIM_MAXMIN_UNBOUNDED);
            fix(maxmin, problem, bounded.flow, bounded.bound, rate);
        } else {
            fill_links(maxmin, problem, share, rate);
        }
    }
}

bool sim_maxmin_check(const SimMaxminProblem *problem, const uint64_t *rate)
{
    size_t links = problem->links;
    g_autofree uint64_t *used = g_new0(uint64_t, links);
    g_autofree uint64_t *weights = g_new0(uint64_t, links);
    g_autofree uint64_t *fastest = g_new0(uint64_t, links);
    for (size_t f = 0; f < problem->flows; f++) {
        for (uint32_t i = problem->first[f]; i < problem->first[f + 1]; i++) {
            uint32_t link = problem->link[i];
            used[link] += problem->weight[i] * rate[f];
            weights[link] += problem->weight[i];
            fastest[link] = MAX(fastest[link], rate[f]);
        }
    }
    for (size_t l = 0; l < links; l++) {
        if (used[l] > problem->capacity[l] * SIM_MAXMIN_WEIGHT)
            return false;
    }
    for (size_t f = 0; f < problem->flows; f++) {
        bool is_held = rate[f] == problem->bound[f];
        for (uint32_t i = problem->first[f]; i < problem->first[f + 1] && !is_held; i++) {
            uint32_t link = problem->link[i];
            uint64_t left = problem->capacity[link] * SIM_MAXMIN_WEIGHT - used[link];
            is_held = left < weights[link] && rate[f] == fastest[link];
        }
        if (!is_held || rate[f] > problem->bound[f])
            return false;
    }
    return true;
}
