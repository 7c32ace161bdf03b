/* SPDX-License-Identifier: Apache-2.0
 *
 * Plans whose times are known in closed form (support/known_plans.h), played on cluster `flat`.
 * The host's launches shift the whole by the time at which it issues the first collective; after
 * that the GPU is never short of work, so all else is exact.
 */
#include <check.h>
#include <math.h>

#include "known_plans.h"
#include "rank/simulation.h"

static const char *const models = SIM_SOURCE_DIR "/models";

/* Plays PLAN on RANKS GPUs of `flat`; its track 0 is rank 0. */
static SimRecorder *play(const SimPlan *plan, uint32_t ranks, bool fold, SimTime *forward_end)
{
    SimSimulationOptions options = {.hbm_bytes = UINT64_MAX, .fold = fold};
    g_autoptr(SimCluster) cluster = sim_cluster_load(models, "flat", NULL);
    ck_assert(sim_cluster_choose_gpus(cluster, ranks, NULL));
    g_autoptr(SimSimulation) simulation = sim_simulation_new(plan, cluster, &options, NULL);
    const SimResult *result = sim_simulation_run(simulation);
    ck_assert_uint_eq(result->blocked->len, 0);
    ck_assert_uint_eq(result->simulated_ranks, fold ? 1 : ranks);
    const SimClassResult *class_ = &g_array_index(result->classes, SimClassResult, 0);
    const SimPhaseRange *forward = &g_array_index(class_->program->phases, SimPhaseRange, 0);
    ck_assert_int_eq(forward->phase, SIM_PHASE_FORWARD);
    *forward_end = class_->phase_ends[0];
    SimRecorder *recorder = sim_recorder_new(plan);
    sim_simulation_record(simulation, 0, recorder);
    return recorder;
}

/* From the first span's start to the last one's end. */
static SimTime whole_time(const SimTrack *track, SimTime *start)
{
    SimTime end = 0;
    *start = g_array_index(track->spans, SimSpan, 0).start;
    for (guint i = 0; i < track->spans->len; i++) {
        end = MAX(end, g_array_index(track->spans, SimSpan, i).end);
    }
    return end - *start;
}

static const uint32_t ring_ranks[] = {8, 64, 128, 256, 512, 1024};

/* c = (N-1) (V/N / B + a), V = 436e6 bytes, B = 50e9 bytes/s = 20 ps a byte, a = 2 us:
 * in picoseconds (N-1) (V*20/N + 2e6), which need not be whole: the simulator rounds a collective
 * up to the next picosecond. step = 96 c + 4.5 ms + 2 max(0, 9 ms - c): of 96 collectives on the
 * path and of the two that may be inside 9 ms each may be one picosecond longer. */
START_TEST(a_ring_step_takes_the_closed_form)
{
    uint32_t n = ring_ranks[_i];
    g_autoptr(SimPlan) plan = known_plans_ring_step(n);
    SimTime forward_end, start;
    g_autoptr(SimRecorder) recorder = play(plan, n, true, &forward_end);
    long double c = (n - 1) * (KNOWN_PLANS_RING_BYTES * 20.0L / n + 2e6L);
    long double step = 96 * c + 4.5e9L + 2 * MAX(0, 9e9L - c);
    SimTime found = whole_time(sim_recorder_track(recorder, 0), &start);
    ck_assert_ldouble_ge((long double)found - step, -96.0L);
    ck_assert_ldouble_le((long double)found - step, 96.0L);

    const GArray *spans = sim_recorder_track(recorder, 0)->spans;
    for (guint i = 0; i < spans->len; i++) {
        const SimSpan *span = &g_array_index(spans, SimSpan, i);
        if (sim_plan_instruction(plan, span->instruction)->op == SIM_PLAN_COLLECTIVE) {
            ck_assert_ldouble_le(fabsl((long double)(span->end - span->start) - c), 1.0L);
        }
    }
}
END_TEST

/* The same, every rank simulated. */
START_TEST(an_unfolded_ring_step_takes_the_same_time)
{
    g_autoptr(SimPlan) plan = known_plans_ring_step(64);
    SimTime folded_end, unfolded_end, start, also_start;
    g_autoptr(SimRecorder) folded = play(plan, 64, true, &folded_end);
    g_autoptr(SimRecorder) unfolded = play(plan, 64, false, &unfolded_end);
    ck_assert_int_eq(folded_end, unfolded_end);
    ck_assert_int_eq(whole_time(sim_recorder_track(folded, 0), &start),
                     whole_time(sim_recorder_track(unfolded, 0), &also_start));
    ck_assert_int_eq(start, also_start);
}
END_TEST

static const struct {
    bool is_overlapped;
    int64_t forward_ms, backward_ms;
} overlap_rows[] = {{true, 85, 170}, {false, 105, 210}};

/* PyTorch's test_fully_shard_overlap.py; derivation in known_plans.h. */
START_TEST(the_overlap_test_takes_what_its_authors_expect)
{
    g_autoptr(SimPlan) plan = known_plans_overlap_test(overlap_rows[_i].is_overlapped);
    SimTime forward_end, start;
    g_autoptr(SimRecorder) recorder = play(plan, 2, true, &forward_end);
    SimTime all = whole_time(sim_recorder_track(recorder, 0), &start);
    ck_assert_int_eq(forward_end - start, overlap_rows[_i].forward_ms * SIM_MILLISECOND);
    ck_assert_int_eq(all - (forward_end - start), overlap_rows[_i].backward_ms * SIM_MILLISECOND);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("known times");
    TCase *known = tcase_create("closed forms");
    tcase_add_loop_test(known, a_ring_step_takes_the_closed_form, 0, G_N_ELEMENTS(ring_ranks));
    tcase_add_test(known, an_unfolded_ring_step_takes_the_same_time);
    tcase_add_loop_test(known, the_overlap_test_takes_what_its_authors_expect, 0,
                        G_N_ELEMENTS(overlap_rows));
    suite_add_tcase(suite, known);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed > 0;
}
