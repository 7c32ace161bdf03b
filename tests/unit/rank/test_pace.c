/* SPDX-License-Identifier: Apache-2.0 */
#include <check.h>
#include <math.h>

#include "rank/pace.h"

/* Against libm's functions: exp(s z - s^2/2) with s^2 = ln(1 + P^2), at quantiles whose z is known
 * (tables of the normal distribution: 0.5 -> 0; 0.84134475 -> 1; 0.97724987 -> 2). */
START_TEST(quantiles_are_log_normal)
{
    SimPace pace;
    sim_pace_init(&pace, 20, 0);
    double s = sqrt(log1p(0.04));
    const double points[][2] = {{0.5, 0}, {0.84134475, 1}, {0.97724987, 2}, {0.15865525, -1}};
    for (size_t i = 0; i < sizeof points / sizeof points[0]; i++) {
        double expected = exp(s * points[i][1] - s * s / 2) * (double)SIM_PACE_ONE;
        int index = (int)(points[i][0] * SIM_PACE_QUANTILES);
        ck_assert_double_ge(expected, (double)pace.quantiles[index - 1]);
        ck_assert_double_le(expected, (double)pace.quantiles[index + 1]);
    }
}
END_TEST

/* Mean 1 and standard deviation P of 100,000 draws of 1 ms, within 1 %. */
START_TEST(draws_have_the_mean_and_spread_that_were_asked_for)
{
    SimPace pace;
    double sum = 0, squares = 0;
    enum { DRAWS = 100000 };
    sim_pace_init(&pace, 10, 3);
    for (uint32_t i = 0; i < DRAWS; i++) {
        double time = (double)sim_pace_apply(&pace, SIM_PACE_ONE, i % 100, i, SIM_MILLISECOND);
        sum += time / SIM_MILLISECOND;
        squares += time / SIM_MILLISECOND * time / SIM_MILLISECOND;
    }
    double mean = sum / DRAWS;
    ck_assert_double_eq_tol(mean, 1, 0.01);
    ck_assert_double_eq_tol(sqrt(squares / DRAWS - mean * mean), 0.10, 0.001);
}
END_TEST

START_TEST(a_draw_depends_on_seed_rank_and_place_and_on_nothing_else)
{
    SimPace one, other;
    sim_pace_init(&one, 10, 1);
    sim_pace_init(&other, 10, 2);
    SimTime first = sim_pace_apply(&one, SIM_PACE_ONE, 5, 7, SIM_SECOND);
    sim_pace_apply(&one, SIM_PACE_ONE, 6, 8, SIM_SECOND);
    ck_assert_int_eq(sim_pace_apply(&one, SIM_PACE_ONE, 5, 7, SIM_SECOND), first);
    ck_assert_int_ne(sim_pace_apply(&one, SIM_PACE_ONE, 5, 8, SIM_SECOND), first);
    ck_assert_int_ne(sim_pace_apply(&one, SIM_PACE_ONE, 6, 7, SIM_SECOND), first);
    ck_assert_int_ne(sim_pace_apply(&other, SIM_PACE_ONE, 5, 7, SIM_SECOND), first);
}
END_TEST

/* 1.5 is exact in units of 2^-32, and so is the product; 1.2 is not: 2^-32 below, rounded up. */
START_TEST(a_slow_rank_takes_its_factor_longer)
{
    SimPace pace;
    sim_pace_init(&pace, 0, 0);
    ck_assert_int_eq(sim_pace_apply(&pace, sim_pace_factor(1.5), 0, 0, 1001), 1502);
    ck_assert_int_eq(sim_pace_apply(&pace, sim_pace_factor(1.2), 0, 0, SIM_MILLISECOND),
                     1200000000);
    ck_assert_int_eq(sim_pace_apply(&pace, SIM_PACE_ONE, 0, 0, 1001), 1001);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("pace");
    TCase *all = tcase_create("all");
    tcase_add_test(all, quantiles_are_log_normal);
    tcase_add_test(all, draws_have_the_mean_and_spread_that_were_asked_for);
    tcase_add_test(all, a_draw_depends_on_seed_rank_and_place_and_on_nothing_else);
    tcase_add_test(all, a_slow_rank_takes_its_factor_longer);
    suite_add_tcase(suite, all);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed > 0;
}
