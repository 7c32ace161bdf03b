/* SPDX-License-Identifier: Apache-2.0
 *
 * Pins closed-form shares, and on random problems what the header guarantees: nothing above its
 * capacity, nothing that could go faster, and no dependence on the order of flows and links.
 */
#include <glib.h>
#include <stdlib.h>

#include <check.h>

#include "fabric/maxmin.h"

#define ONE SIM_MAXMIN_WEIGHT
#define FREE SIM_MAXMIN_UNBOUNDED

enum { MOST_FLOWS = 40, MOST_LINKS = 12, MOST_CROSSINGS = 5 };

typedef struct Network {
    SimMaxminProblem problem;
    uint64_t capacity[MOST_LINKS];
    uint64_t bound[MOST_FLOWS];
    uint32_t first[MOST_FLOWS + 1];
    uint32_t link[MOST_FLOWS * MOST_CROSSINGS];
    uint32_t weight[MOST_FLOWS * MOST_CROSSINGS];
} Network;

static void init_network(Network *network, size_t links, const uint64_t *capacity)
{
    *network = (Network){0};
    for (size_t l = 0; l < links; l++)
        network->capacity[l] = capacity[l];
    network->problem.links = links;
}

static void add_flow(Network *network, uint64_t bound)
{
    size_t f = network->problem.flows++;
    network->bound[f] = bound;
    network->first[f + 1] = network->first[f];
}

/* To the flow added last. */
static void add_crossing(Network *network, uint32_t link, uint32_t weight)
{
    uint32_t at = network->first[network->problem.flows]++;
    network->link[at] = link;
    network->weight[at] = weight;
}

static void solve(Network *network, uint64_t *rate)
{
    network->problem.capacity = network->capacity;
    network->problem.bound = network->bound;
    network->problem.first = network->first;
    network->problem.link = network->link;
    network->problem.weight = network->weight;
    g_autoptr(SimMaxmin) maxmin = sim_maxmin_new();
    sim_maxmin_compute(maxmin, &network->problem, rate);
}

/* 100 / 2 = 50 each; three flows get floor(100 / 3) = 33. */
START_TEST(flows_of_one_link_share_it_equally)
{
    Network network;
    uint64_t rate[3];
    init_network(&network, 1, (const uint64_t[]){100});
    add_flow(&network, FREE);
    add_crossing(&network, 0, ONE);
    add_flow(&network, FREE);
    add_crossing(&network, 0, ONE);
    solve(&network, rate);
    ck_assert_uint_eq(rate[0], 50);
    ck_assert_uint_eq(rate[1], 50);
    add_flow(&network, FREE);
    add_crossing(&network, 0, ONE);
    solve(&network, rate);
    for (int f = 0; f < 3; f++)
        ck_assert_uint_eq(rate[f], 33);
}
END_TEST

/* Rates are equal, loads are not: r + 3r = 100. */
START_TEST(a_flow_of_weight_three_takes_three_parts_of_the_link)
{
    Network network;
    uint64_t rate[2];
    init_network(&network, 1, (const uint64_t[]){100});
    add_flow(&network, FREE);
    add_crossing(&network, 0, ONE);
    add_flow(&network, FREE);
    add_crossing(&network, 0, 3 * ONE);
    solve(&network, rate);
    ck_assert_uint_eq(rate[0], 25);
    ck_assert_uint_eq(rate[1], 25);
}
END_TEST

/* Link 0 has 10, link 1 has 30; flow 0 crosses both. Link 0 fills at 5 (flows 0 and 1); flow 2 gets
 * the 25 that flow 0 leaves on link 1. */
START_TEST(a_flow_takes_what_others_cannot_use)
{
    Network network;
    uint64_t rate[3];
    init_network(&network, 2, (const uint64_t[]){10, 30});
    add_flow(&network, FREE);
    add_crossing(&network, 0, ONE);
    add_crossing(&network, 1, ONE);
    add_flow(&network, FREE);
    add_crossing(&network, 0, ONE);
    add_flow(&network, FREE);
    add_crossing(&network, 1, ONE);
    solve(&network, rate);
    ck_assert_uint_eq(rate[0], 5);
    ck_assert_uint_eq(rate[1], 5);
    ck_assert_uint_eq(rate[2], 25);
}
END_TEST

/* A flow that cannot use its half of 100 leaves the rest: 20 and 80. Both below their halves: each
 * its own bound, and 50 of the link stay unused. */
START_TEST(a_bound_leaves_the_rest_to_others)
{
    Network network;
    uint64_t rate[2];
    init_network(&network, 1, (const uint64_t[]){100});
    add_flow(&network, FREE);
    add_crossing(&network, 0, ONE);
    add_flow(&network, 20);
    add_crossing(&network, 0, ONE);
    solve(&network, rate);
    ck_assert_uint_eq(rate[0], 80);
    ck_assert_uint_eq(rate[1], 20);
    network.bound[0] = 30;
    solve(&network, rate);
    ck_assert_uint_eq(rate[0], 30);
    ck_assert_uint_eq(rate[1], 20);
}
END_TEST

START_TEST(a_flow_without_links_has_its_bound)
{
    Network network;
    uint64_t rate[1];
    init_network(&network, 0, NULL);
    add_flow(&network, 17);
    solve(&network, rate);
    ck_assert_uint_eq(rate[0], 17);
}
END_TEST

/* Link 0: 6 for two flows, link 1: 11 for three, one of them common. Both have share 3. One after
 * the other, link 1's other two would get (11 - 3) / 2 = 4 if link 0 came first and 3 if link 1
 * did. */
START_TEST(links_that_fill_together_do_not_depend_on_their_order)
{
    for (uint32_t swap = 0; swap < 2; swap++) {
        Network network;
        uint64_t rate[4];
        const uint64_t capacity[2] = {swap ? 11 : 6, swap ? 6 : 11};
        init_network(&network, 2, capacity);
        add_flow(&network, FREE);
        add_crossing(&network, 0, ONE);
        add_crossing(&network, 1, ONE);
        add_flow(&network, FREE);
        add_crossing(&network, swap, ONE);
        for (int i = 0; i < 2; i++) {
            add_flow(&network, FREE);
            add_crossing(&network, 1 - swap, ONE);
        }
        solve(&network, rate);
        for (int f = 0; f < 4; f++)
            ck_assert_uint_eq(rate[f], 3);
    }
}
END_TEST

/* What makes folding exact: K flows of weight w on a link get what one of weight K * w gets. */
START_TEST(many_equal_flows_are_one_flow_of_their_weight)
{
    for (uint32_t k = 1; k < 30; k++) {
        Network unfolded, folded;
        uint64_t many[MOST_FLOWS], one[2];
        const uint64_t capacity = 47999999987;
        init_network(&unfolded, 1, &capacity);
        init_network(&folded, 1, &capacity);
        add_flow(&unfolded, FREE);
        add_crossing(&unfolded, 0, 12345);
        add_flow(&folded, FREE);
        add_crossing(&folded, 0, 12345);
        for (uint32_t i = 0; i < k; i++) {
            add_flow(&unfolded, FREE);
            add_crossing(&unfolded, 0, 21846);
        }
        add_flow(&folded, FREE);
        add_crossing(&folded, 0, 21846 * k);
        solve(&unfolded, many);
        solve(&folded, one);
        ck_assert_uint_eq(many[0], one[0]);
        for (uint32_t i = 1; i <= k; i++)
            ck_assert_uint_eq(many[i], one[1]);
    }
}
END_TEST

/* Small capacities, so that rounding and ties are frequent. */
static void init_random(Network *network, GRand *rand)
{
    uint64_t capacity[MOST_LINKS];
    size_t links = (size_t)g_rand_int_range(rand, 1, MOST_LINKS + 1);
    for (size_t l = 0; l < links; l++)
        capacity[l] = (uint64_t)g_rand_int_range(rand, 200, g_rand_boolean(rand) ? 300 : 1000000);
    init_network(network, links, capacity);
    int flows = g_rand_int_range(rand, 1, MOST_FLOWS + 1);
    for (int f = 0; f < flows; f++) {
        add_flow(network, g_rand_boolean(rand) ? FREE : (uint64_t)g_rand_int_range(rand, 1, 500));
        uint32_t step = (uint32_t)g_rand_int_range(rand, 1, 4);
        uint32_t link = (uint32_t)g_rand_int_range(rand, 0, (gint32)links);
        for (int i = 0; i < MOST_CROSSINGS && link < links; i++, link += step)
            add_crossing(network, link, (uint32_t)g_rand_int_range(rand, 1, 4) * ONE / 3);
    }
}

START_TEST(no_link_is_overloaded_and_no_flow_could_go_faster)
{
    g_autoptr(GRand) rand = g_rand_new_with_seed((guint32)_i);
    Network network;
    uint64_t rate[MOST_FLOWS];
    init_random(&network, rand);
    solve(&network, rate);
    ck_assert(sim_maxmin_check(&network.problem, rate));
    /* The check can fail: one byte a second more is too much somewhere, a flow at zero too little.
     */
    size_t f = (size_t)g_rand_int_range(rand, 0, (gint32)network.problem.flows);
    uint64_t right = rate[f];
    rate[f] = right + 1000000;
    ck_assert(!sim_maxmin_check(&network.problem, rate));
    rate[f] = 0;
    ck_assert(!sim_maxmin_check(&network.problem, rate));
}
END_TEST

/* The same problem with flows and links numbered backwards. */
START_TEST(the_order_of_flows_and_links_does_not_matter)
{
    g_autoptr(GRand) rand = g_rand_new_with_seed((guint32)_i);
    Network network, reversed;
    uint64_t rate[MOST_FLOWS], again[MOST_FLOWS], capacity[MOST_LINKS];
    init_random(&network, rand);
    solve(&network, rate);
    size_t links = network.problem.links, flows = network.problem.flows;
    for (size_t l = 0; l < links; l++)
        capacity[links - 1 - l] = network.capacity[l];
    init_network(&reversed, links, capacity);
    for (size_t f = flows; f-- > 0;) {
        add_flow(&reversed, network.bound[f]);
        for (uint32_t i = network.first[f]; i < network.first[f + 1]; i++)
            add_crossing(&reversed, (uint32_t)links - 1 - network.link[i], network.weight[i]);
    }
    solve(&reversed, again);
    for (size_t f = 0; f < flows; f++)
        ck_assert_uint_eq(rate[f], again[flows - 1 - f]);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("maxmin");
    TCase *shares = tcase_create("shares");
    tcase_add_test(shares, flows_of_one_link_share_it_equally);
    tcase_add_test(shares, a_flow_of_weight_three_takes_three_parts_of_the_link);
    tcase_add_test(shares, a_flow_takes_what_others_cannot_use);
    tcase_add_test(shares, a_bound_leaves_the_rest_to_others);
    tcase_add_test(shares, a_flow_without_links_has_its_bound);
    suite_add_tcase(suite, shares);
    TCase *properties = tcase_create("properties");
    tcase_add_test(properties, links_that_fill_together_do_not_depend_on_their_order);
    tcase_add_test(properties, many_equal_flows_are_one_flow_of_their_weight);
    tcase_add_loop_test(properties, no_link_is_overloaded_and_no_flow_could_go_faster, 0, 500);
    tcase_add_loop_test(properties, the_order_of_flows_and_links_does_not_matter, 0, 500);
    suite_add_tcase(suite, properties);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
