/* SPDX-License-Identifier: Apache-2.0
 *
 * Max-min fair sharing of links by progressive filling: all flows grow together until a link is
 * full or a flow has reached its own bound; those stop, the others grow on.
 *
 * Arrays only: it knows neither collectives nor time. Everything is an integer, so the result
 * depends on nothing but the input. Rates are whole bytes a second, rounded down; weights are in
 * 1/65536, so that K flows of weight w fill a link exactly as one flow of weight K*w does (that is
 * what makes a folded run equal to an unfolded one).
 *
 * Guaranteed: on every link sum(weight * rate) <= capacity; and each flow either has its bound, or
 * crosses a full link on which no flow is faster than it (to within the rounding of one byte a
 * second for each flow of the link).
 *
 * Time O(crossings + links + flows log flows). The algorithm is the one of SimGrid's linear max-min
 * solver (Bertsekas and Gallager, Data Networks, section 6.5.2).
 */
#pragma once

#include <glib.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A weight of one: the flow's bytes cross the link once. */
#define SIM_MAXMIN_WEIGHT UINT32_C(65536)

/* No bound of its own (a flow must then cross a link). */
#define SIM_MAXMIN_UNBOUNDED UINT64_MAX

/* The problem: flow f crosses links[first[f]] .. links[first[f + 1] - 1], each once. All borrowed.
 */
typedef struct SimMaxminProblem {
    size_t flows;
    size_t links;
    const uint64_t *capacity; /* [links] bytes a second, 1 .. 2^46 */
    const uint64_t *bound;    /* [flows] bytes a second, at least 1, or SIM_MAXMIN_UNBOUNDED */
    const uint32_t *first;    /* [flows + 1] */
    const uint32_t *link;     /* [first[flows]] */
    const uint32_t *weight;   /* [first[flows]] in 1/65536, at least 1 */
} SimMaxminProblem;

/* Scratch memory, kept between solves. */
typedef struct SimMaxmin SimMaxmin;

SimMaxmin *sim_maxmin_new(void);
void sim_maxmin_free(SimMaxmin *maxmin);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(SimMaxmin, sim_maxmin_free)

/* Fills RATE [flows]. A rate is at least 1, even where a link has less for each of its flows. */
void sim_maxmin_compute(SimMaxmin *maxmin, const SimMaxminProblem *problem, uint64_t *rate);

/* True if RATE satisfies the guarantee above: for tests. O(crossings). */
bool sim_maxmin_check(const SimMaxminProblem *problem, const uint64_t *rate);
