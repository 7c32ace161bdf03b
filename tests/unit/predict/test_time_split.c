/* SPDX-License-Identifier: Apache-2.0
 *
 * Every moment of a step goes to one part. A step of 100, drawn (c = compute kernel, s = kernel of
 * another stream, w = waiting in a collective, g = collective running):
 *
 *     0....10....20....30....40....50....60....70....80....90....100
 *     cccccccccccc                  cccccccccccc                       compute   0-20, 50-70
 *           wwwwwwwwwwww gggggggggggggggggg                            gather   10-30, 30-60
 *                                                    ssssss            side     75-85
 *
 * compute 20 + 20 + 10 (side); exposed 30-50 = 20; waiting 20-30 = 10; nothing 70-75, 85-100 = 20.
 */
#include <check.h>

#include "predict/communication.h"
#include "predict/time_split.h"

static SimPlan *new_plan(void)
{
    SimPlan *plan = sim_plan_new(2);
    ck_assert(sim_plan_add_group(plan, "shard", "0-1", NULL));
    sim_plan_stream(plan, "compute");
    uint32_t side = sim_plan_stream(plan, "side");
    sim_plan_context(plan)->step = 0;
    sim_plan_context(plan)->phase = SIM_PHASE_FORWARD;
    sim_plan_kernel(plan, 0, 0, 0, SIM_DTYPE_BF16);
    sim_plan_kernel(plan, side, 0, 0, SIM_DTYPE_BF16);
    sim_plan_collective(plan, side, 0, SIM_COLLECTIVE_ALL_GATHER, 0, 4096, SIM_DTYPE_BF16);
    return plan;
}

static SimTrack *new_track(SimRecorder *recorder)
{
    static const SimSpan spans[] = {
        {.instruction = 0, .stream = 0, .arrival = 0, .start = 0, .end = 20},
        {.instruction = 2, .stream = 1, .arrival = 10, .start = 30, .end = 60, .wire_bytes = 2048},
        {.instruction = 0, .stream = 0, .arrival = 50, .start = 50, .end = 70},
        {.instruction = 1, .stream = 1, .arrival = 75, .start = 75, .end = 85},
    };
    SimTrack *track = sim_recorder_add(recorder, 0);
    g_array_append_vals(track->spans, spans, G_N_ELEMENTS(spans));
    return track;
}

static const struct {
    SimTime begin, end;
    SimTimeSplit split; /* step, compute, communication, exposed, waiting, host_bound */
} windows[] = {
    {0, 100, {100, 50, 30, 20, 10, 20}},
    /* 15-55: compute 15-20, 50-55; communication 30-55, exposed 30-50; waiting 20-30. */
    {15, 55, {40, 10, 25, 20, 10, 0}},
    {90, 100, {10, 0, 0, 0, 0, 10}},
};

START_TEST(every_moment_goes_to_one_part)
{
    g_autoptr(SimPlan) plan = new_plan();
    g_autoptr(SimRecorder) recorder = sim_recorder_new(plan);
    const SimTimeSplit *expected = &windows[_i].split;
    SimTimeSplit split =
        sim_time_split_compute(plan, new_track(recorder), windows[_i].begin, windows[_i].end);
    ck_assert_int_eq(split.step, expected->step);
    ck_assert_int_eq(split.compute, expected->compute);
    ck_assert_int_eq(split.communication, expected->communication);
    ck_assert_int_eq(split.exposed_communication, expected->exposed_communication);
    ck_assert_int_eq(split.waiting, expected->waiting);
    ck_assert_int_eq(split.host_bound, expected->host_bound);
    ck_assert_int_eq(split.compute + split.exposed_communication + split.waiting + split.host_bound,
                     split.step);
}
END_TEST

/* 30-60 less the kernel's 50-60. */
START_TEST(a_line_counts_what_no_kernel_hides)
{
    g_autoptr(SimPlan) plan = new_plan();
    g_autoptr(SimRecorder) recorder = sim_recorder_new(plan);
    g_autoptr(GArray) lines = sim_communication_compute(plan, new_track(recorder), 0);
    ck_assert_uint_eq(lines->len, 1);
    const SimCommunicationLine *line = &g_array_index(lines, SimCommunicationLine, 0);
    ck_assert_uint_eq(line->count, 1);
    ck_assert_uint_eq(line->bytes, 4096);
    ck_assert_uint_eq(line->wire_bytes, 2048);
    ck_assert_int_eq(line->time, 30);
    ck_assert_int_eq(line->exposed, 20);
}
END_TEST

START_TEST(another_step_has_no_lines)
{
    g_autoptr(SimPlan) plan = new_plan();
    g_autoptr(SimRecorder) recorder = sim_recorder_new(plan);
    g_autoptr(GArray) lines = sim_communication_compute(plan, new_track(recorder), 1);
    ck_assert_uint_eq(lines->len, 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("time split");
    TCase *split = tcase_create("split");
    tcase_add_loop_test(split, every_moment_goes_to_one_part, 0, G_N_ELEMENTS(windows));
    tcase_add_test(split, a_line_counts_what_no_kernel_hides);
    tcase_add_test(split, another_step_has_no_lines);
    suite_add_tcase(suite, split);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed > 0;
}
