/* SPDX-License-Identifier: Apache-2.0
 *
 * The hand-written plans have the dependencies that their known times follow from. A player of a
 * few lines (in-order streams, events, nothing else) must reach those times; the simulator's own
 * tests assert the same of the real one.
 */
#include "known_plans.h"

#include <check.h>

typedef struct Player {
    SimTime streams[8];
    SimTime events[512];
    SimTime collective_time; /* where the plan leaves it to the cost model */
} Player;

static void play(Player *player, const SimPlan *plan, const SimInstruction *row)
{
    SimTime *now = &player->streams[row->stream];

    ck_assert(sim_plan_event_count(plan) <= 512 && sim_plan_stream_count(plan) <= 8);
    switch ((SimPlanOp)row->op) {
    case SIM_PLAN_KERNEL:
        *now += row->duration;
        break;
    case SIM_PLAN_COLLECTIVE:
        *now += row->duration >= 0 ? row->duration : player->collective_time;
        break;
    case SIM_PLAN_RECORD:
        player->events[row->event] = *now;
        break;
    case SIM_PLAN_WAIT:
        *now = MAX(*now, player->events[row->event]);
        break;
    default:
        ck_assert_uint_eq(row->op, SIM_PLAN_MARK);
    }
}

/* When the last work ends that was issued up to the end of PHASE. */
static SimTime play_to_end_of(const SimPlan *plan, SimPhase phase, SimTime collective_time)
{
    Player player = {.collective_time = collective_time};
    SimTime end = 0;

    for (size_t i = 0; i < sim_plan_length(plan); i++) {
        const SimInstruction *row = sim_plan_instruction(plan, i);
        if (row->phase > phase)
            break;
        play(&player, plan, row);
    }
    for (int i = 0; i < 8; i++)
        end = MAX(end, player.streams[i]);
    return end;
}

/* c = (N-1) (436e6/N/50e9 + 2e-6) s = (N-1) (8,720,000,000/N + 2,000,000) ps;
 * step = 96 c + 4.5 ms + 2 max(0, 9 ms - c). N = 8: c = 7.644 ms, step = 733.824 + 4.5 + 2.712. */
static const struct {
    uint32_t ranks;
    double step_ms; /* as printed with the closed form, three decimals */
} ring_steps[] = {{8, 741.036},   {64, 841.217},  {128, 859.652},
                  {256, 887.310}, {512, 938.097}, {1024, 1037.218}};

START_TEST(a_ring_step_takes_the_time_of_the_closed_form)
{
    const uint32_t ranks = ring_steps[_i].ranks;
    const SimTime c = (SimTime)((double)(ranks - 1) * (8.72e9 / ranks + 2e6));
    g_autoptr(SimPlan) plan = known_plans_ring_step(ranks);
    GError *error = NULL;

    ck_assert_msg(sim_plan_check(plan, &error), "%s", error != NULL ? error->message : "");
    SimTime step = play_to_end_of(plan, SIM_PHASE_COUNT, c);
    SimTime gap = 9 * SIM_MILLISECOND - c;
    ck_assert_int_eq(step, 96 * c + 9 * SIM_MILLISECOND / 2 + 2 * MAX(0, gap));
    ck_assert_double_eq_tol((double)step / (double)SIM_MILLISECOND, ring_steps[_i].step_ms, 0.0006);
}
END_TEST

START_TEST(the_overlap_test_takes_pytorchs_times)
{
    const SimTime forward = (_i == 0 ? 85 : 105) * SIM_MILLISECOND;
    const SimTime backward = (_i == 0 ? 170 : 210) * SIM_MILLISECOND;
    g_autoptr(SimPlan) plan = known_plans_overlap_test(_i == 0);
    GError *error = NULL;

    ck_assert_msg(sim_plan_check(plan, &error), "%s", error != NULL ? error->message : "");
    ck_assert_int_eq(play_to_end_of(plan, SIM_PHASE_FORWARD, -1), forward);
    ck_assert_int_eq(play_to_end_of(plan, SIM_PHASE_BACKWARD, -1), forward + backward);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("known plans");
    TCase *tests = tcase_create("times");

    tcase_add_loop_test(tests, a_ring_step_takes_the_time_of_the_closed_form, 0,
                        G_N_ELEMENTS(ring_steps));
    tcase_add_loop_test(tests, the_overlap_test_takes_pytorchs_times, 0, 2);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? 0 : 1;
}
