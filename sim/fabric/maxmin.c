/* SPDX-License-Identifier: Apache-2.0 */
#include "fabric/maxmin.h"

#include <string.h>

#define LARGEST_CAPACITY (UINT64_C(1) << 46)

/* An entry of one of two heaps: a link, by the share its growing flows had when it was put there
 * (shares only ever grow, so the first link has the least share once its own is brought up to
 * date); or a flow, by its bound. */
typedef struct Candidate {
    uint64_t rate;
    uint32_t id;
} Candidate;

/* Together, since every crossing needs both. */
typedef struct LinkState {
    uint64_t left;  /* capacity not yet given away, in 1/65536 */
    uint64_t usage; /* sum of the weights of growing flows */
} LinkState;

struct SimMaxmin {
    size_t n_flows, n_links, n_crossings; /* what the arrays have room for */
    LinkState *states;                    /* [links] */
    uint32_t *first;                      /* [links + 1] crossings of a link */
    uint32_t *flow;                       /* [crossings] by link */
    uint32_t *weight;                     /* [crossings] by link */
    Candidate *shares;                    /* [links] heap */
    size_t n_shares;
    Candidate *bounds;  /* [flows] ascending */
    Candidate *sorting; /* [flows] */
    uint32_t *full;     /* [links] links that fill up in this round */
    bool *is_fixed;     /* [flows] */
};

SimMaxmin *sim_maxmin_new(void)
{
    return g_new0(SimMaxmin, 1);
}

void sim_maxmin_free(SimMaxmin *maxmin)
{
    if (!maxmin)
        return;
    g_free(maxmin->states);
    g_free(maxmin->first);
    g_free(maxmin->flow);
    g_free(maxmin->weight);
    g_free(maxmin->shares);
    g_free(maxmin->bounds);
    g_free(maxmin->sorting);
    g_free(maxmin->full);
    g_free(maxmin->is_fixed);
    g_free(maxmin);
}

static void reserve(SimMaxmin *maxmin, const SimMaxminProblem *problem)
{
    if (problem->links >= maxmin->n_links) {
        size_t n = maxmin->n_links = 2 * problem->links + 1;
        maxmin->states = g_renew(LinkState, maxmin->states, n);
        maxmin->first = g_renew(uint32_t, maxmin->first, n + 1);
        maxmin->shares = g_renew(Candidate, maxmin->shares, n);
        maxmin->full = g_renew(uint32_t, maxmin->full, n);
    }
    if (problem->flows > maxmin->n_flows) {
        size_t n = maxmin->n_flows = 2 * problem->flows;
        maxmin->bounds = g_renew(Candidate, maxmin->bounds, n);
        maxmin->sorting = g_renew(Candidate, maxmin->sorting, n);
        maxmin->is_fixed = g_renew(bool, maxmin->is_fixed, n);
    }
    if (problem->first[problem->flows] > maxmin->n_crossings) {
        maxmin->n_crossings = 2 * (size_t)problem->first[problem->flows];
        maxmin->flow = g_renew(uint32_t, maxmin->flow, maxmin->n_crossings);
        maxmin->weight = g_renew(uint32_t, maxmin->weight, maxmin->n_crossings);
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
        maxmin->states[l] = (LinkState){problem->capacity[l] * SIM_MAXMIN_WEIGHT, 0};
    }
    for (uint32_t i = 0; i < crossings; i++) {
        maxmin->first[problem->link[i] + 1]++;
        maxmin->states[problem->link[i]].usage += problem->weight[i];
    }
    for (size_t l = 0; l < links; l++)
        maxmin->first[l + 1] += maxmin->first[l];
    /* Filling moves first[l] to the end of l, which is where l + 1 begins: so shift back after. */
    for (size_t f = 0; f < problem->flows; f++) {
        for (uint32_t i = problem->first[f]; i < problem->first[f + 1]; i++) {
            uint32_t at = maxmin->first[problem->link[i]]++;
            maxmin->flow[at] = (uint32_t)f;
            maxmin->weight[at] = problem->weight[i];
        }
    }
    memmove(maxmin->first + 1, maxmin->first, links * sizeof(*maxmin->first));
    maxmin->first[0] = 0;
}

static uint64_t share_of(const SimMaxmin *maxmin, uint32_t link)
{
    return maxmin->states[link].left / maxmin->states[link].usage;
}

/* Without a branch, which would be as good as random. */
static bool before(Candidate a, Candidate b)
{
    return (a.rate < b.rate) | ((a.rate == b.rate) & (a.id < b.id));
}

static void sift_down(SimMaxmin *maxmin, size_t hole, Candidate candidate)
{
    Candidate *heap = maxmin->shares;
    for (;;) {
        size_t child = 2 * hole + 1;
        if (child >= maxmin->n_shares)
            break;
        if (child + 1 < maxmin->n_shares)
            child += (size_t)before(heap[child + 1], heap[child]);
        if (!before(heap[child], candidate))
            break;
        heap[hole] = heap[child];
        hole = child;
    }
    heap[hole] = candidate;
}

static void pop_first(SimMaxmin *maxmin)
{
    Candidate last = maxmin->shares[--maxmin->n_shares];
    if (maxmin->n_shares > 0)
        sift_down(maxmin, 0, last);
}

/* Whether LINK can fill up at all: not if it carries all its flows at their bounds. Then its share
 * is never below the least bound of a growing flow, and it need not be looked at. Most links are
 * such. */
static bool can_fill(const SimMaxmin *maxmin, const SimMaxminProblem *problem, uint32_t link)
{
    const double rounding = 1e-9; /* of the sum; to look at a link in vain does no harm */
    double most = (double)maxmin->states[link].left * (1 - rounding);
    double demand = 0;
    for (uint32_t i = maxmin->first[link]; i < maxmin->first[link + 1]; i++)
        demand += maxmin->weight[i] * (double)problem->bound[maxmin->flow[i]];
    return demand > most;
}

static void build_heap(SimMaxmin *maxmin, const SimMaxminProblem *problem)
{
    maxmin->n_shares = 0;
    for (uint32_t l = 0; l < problem->links; l++) {
        if (maxmin->states[l].usage > 0 && can_fill(maxmin, problem, l))
            maxmin->shares[maxmin->n_shares++] = (Candidate){share_of(maxmin, l), l};
    }
    for (size_t i = maxmin->n_shares / 2; i-- > 0;)
        sift_down(maxmin, i, maxmin->shares[i]);
}

/* Sorts the flows by one byte of their bounds, and keeps their order where it is equal. */
static void sort_by_byte(SimMaxmin *maxmin, size_t flows, unsigned shift)
{
    uint32_t end[257] = {0};
    for (size_t i = 0; i < flows; i++)
        end[(maxmin->bounds[i].rate >> shift & 255) + 1]++;
    if (end[(maxmin->bounds[0].rate >> shift & 255) + 1] == flows)
        return;
    for (size_t byte = 0; byte < 256; byte++)
        end[byte + 1] += end[byte];
    for (size_t i = 0; i < flows; i++)
        maxmin->sorting[end[maxmin->bounds[i].rate >> shift & 255]++] = maxmin->bounds[i];
    Candidate *sorted = maxmin->sorting;
    maxmin->sorting = maxmin->bounds;
    maxmin->bounds = sorted;
}

/* Mostly they are equal, or nearly: so byte by byte, of which few differ. */
static void sort_bounds(SimMaxmin *maxmin, const SimMaxminProblem *problem)
{
    bool is_sorted = true;
    for (uint32_t f = 0; f < problem->flows; f++) {
        g_assert(problem->bound[f] >= 1);
        maxmin->bounds[f] = (Candidate){problem->bound[f], f};
        maxmin->is_fixed[f] = false;
        is_sorted = is_sorted && (f == 0 || problem->bound[f - 1] <= problem->bound[f]);
    }
    for (unsigned shift = 0; shift < 64 && !is_sorted; shift += 8)
        sort_by_byte(maxmin, problem->flows, shift);
}

/* Brings the first link up to date; SIM_MAXMIN_UNBOUNDED if no link has growing flows. */
static uint64_t find_least_share(SimMaxmin *maxmin)
{
    while (maxmin->n_shares > 0) {
        Candidate first = maxmin->shares[0];
        if (maxmin->states[first.id].usage == 0) {
            pop_first(maxmin);
            continue;
        }
        uint64_t share = share_of(maxmin, first.id);
        if (share == first.rate)
            return share;
        sift_down(maxmin, 0, (Candidate){share, first.id});
    }
    return SIM_MAXMIN_UNBOUNDED;
}

static void fix(SimMaxmin *maxmin, const SimMaxminProblem *problem, uint32_t flow, uint64_t rate,
                uint64_t *rates)
{
    rates[flow] = rate;
    maxmin->is_fixed[flow] = true;
    for (uint32_t i = problem->first[flow]; i < problem->first[flow + 1]; i++) {
        LinkState *state = &maxmin->states[problem->link[i]];
        /* Only where a link has less than one byte a second for each flow can it be too little. */
        state->left -= MIN(state->left, problem->weight[i] * rate);
        state->usage -= problem->weight[i];
    }
}

/* Fixes the flows of all links that have just this share, together: one after the other, what the
 * first leaves by rounding would go to the next, and the result depend on the links' order. */
static void fill_links(SimMaxmin *maxmin, const SimMaxminProblem *problem, uint64_t share,
                       uint64_t *rates)
{
    size_t n = 0;
    while (find_least_share(maxmin) == share) {
        maxmin->full[n++] = maxmin->shares[0].id;
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

void sim_maxmin_compute(SimMaxmin *maxmin, const SimMaxminProblem *problem, uint64_t *rate)
{
    reserve(maxmin, problem);
    index_links(maxmin, problem);
    build_heap(maxmin, problem);
    sort_bounds(maxmin, problem);
    size_t next = 0;
    for (;;) {
        while (next < problem->flows && maxmin->is_fixed[maxmin->bounds[next].id])
            next++;
        if (next == problem->flows)
            break;
        uint64_t share = find_least_share(maxmin);
        Candidate bounded = maxmin->bounds[next];
        if (bounded.rate <= share) {
            g_assert(bounded.rate != SIM_MAXMIN_UNBOUNDED);
            fix(maxmin, problem, bounded.id, bounded.rate, rate);
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
