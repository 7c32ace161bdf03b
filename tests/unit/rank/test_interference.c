/* SPDX-License-Identifier: Apache-2.0
 *
 * Kernels beside a collective, and collectives beside kernels, on 8 H100: times worked out from
 * what hardware/kernel_cost.h says of the two states, alone and beside.
 */
#include <check.h>

#include "fabric/collective.h"
#include "rank/collective_load.h"
#include "rank/simulation.h"

#define GATHERED (UINT64_C(512) << 20)

static const char *const models = SIM_SOURCE_DIR "/models";

typedef struct Fixture {
    SimPlan *plan;
    SimCluster *cluster;
    SimSimulation *simulation;
    SimRecorder *recorder;
    SimLoad load; /* of the all-gather */
    uint32_t side;
} Fixture;

static void start(Fixture *fixture)
{
    *fixture = (Fixture){.plan = sim_plan_new(8)};
    fixture->cluster = sim_cluster_load(models, "h100", NULL);
    ck_assert(sim_cluster_choose_gpus(fixture->cluster, 8, NULL));
    ck_assert(sim_plan_add_group(fixture->plan, "shard", "0-7", NULL));
    sim_plan_stream(fixture->plan, "compute");
    fixture->side = sim_plan_stream(fixture->plan, "side");
    const uint32_t ranks[] = {0, 1, 2, 3, 4, 5, 6, 7};
    SimCollectiveRequest request = {
        .operation = SIM_COMM_ALL_GATHER,
        .bytes = GATHERED,
        .in_place = true,
        .shape = sim_group_shape_compute(fixture->cluster, ranks, 8),
    };
    SimCollectiveCost cost = sim_collective_compute(fixture->cluster, &request);
    fixture->load = sim_collective_load_compute(&request, &cost);
}

static void gather(Fixture *fixture)
{
    sim_plan_collective(fixture->plan, fixture->side, 0, SIM_COLLECTIVE_ALL_GATHER, 0, GATHERED,
                        SIM_DTYPE_BF16);
}

/* Element by element: bound by memory. */
static void stream_bytes(Fixture *fixture, uint64_t bytes)
{
    sim_plan_kernel(fixture->plan, 0, 0, 0, SIM_DTYPE_BF16)->hbm_bytes = bytes;
}

/* The spans are worked out after the run, from what it kept: the run itself must have come to the
 * same end of the kernel, which is the last of `compute`. */
static void check_end(const Fixture *fixture, const SimResult *result)
{
    const SimClassResult *class_ = &g_array_index(result->classes, SimClassResult, 0);
    const GArray *spans = sim_recorder_track(fixture->recorder, 0)->spans;
    guint last = class_->program->phases->len - 1;
    for (guint i = 0; i < spans->len; i++) {
        const SimSpan *span = &g_array_index(spans, SimSpan, i);
        if (span->stream == 0) {
            ck_assert_int_eq(class_->phase_ends[last], span->end);
        }
    }
}

static void play(Fixture *fixture)
{
    SimSimulationOptions options = {.hbm_bytes = UINT64_MAX, .fold = true};
    fixture->simulation = sim_simulation_new(fixture->plan, fixture->cluster, &options, NULL);
    const SimResult *result = sim_simulation_run(fixture->simulation);
    ck_assert_uint_eq(result->blocked->len, 0);
    fixture->recorder = sim_recorder_new(fixture->plan);
    sim_simulation_record(fixture->simulation, 0, fixture->recorder);
    check_end(fixture, result);
}

static void end(Fixture *fixture)
{
    sim_recorder_free(fixture->recorder);
    sim_simulation_free(fixture->simulation);
    sim_cluster_free(fixture->cluster);
    sim_plan_free(fixture->plan);
}

static const SimSpan *span_of(const Fixture *fixture, guint index)
{
    const GArray *spans = sim_recorder_track(fixture->recorder, 0)->spans;
    ck_assert_uint_lt(index, spans->len);
    return &g_array_index(spans, SimSpan, index);
}

/* Alone, and beside the all-gather. */
static void find_times(const Fixture *fixture, uint64_t bytes, SimTime *alone, SimTime *beside)
{
    SimKernelWork work = {
        .kind = SIM_KERNEL_MEMORY_BOUND, .precision = SIM_PRECISION_BF16, .hbm_bytes = bytes};
    SimKernelCost cost = sim_kernel_cost_describe(fixture->cluster->gpu, &work);
    *alone = cost.duration;
    *beside = sim_kernel_cost_slowed(fixture->cluster->gpu, &cost, fixture->load.sms,
                                     fixture->load.hbm_gbps * 1e9);
    ck_assert_int_gt(*beside, *alone);
}

/* 512 MiB over 8 GPUs take more than a millisecond, 100 MB of traffic far less: the kernel lies
 * within. */
START_TEST(a_kernel_beside_a_collective_takes_the_slower_time)
{
    Fixture f;
    SimTime alone, beside;
    start(&f);
    gather(&f);
    stream_bytes(&f, 100000000);
    play(&f);
    find_times(&f, 100000000, &alone, &beside);
    ck_assert_int_lt(span_of(&f, 1)->end, span_of(&f, 0)->end);
    ck_assert_int_eq(span_of(&f, 1)->end - span_of(&f, 1)->start, beside);
    end(&f);
}
END_TEST

/* 20 GB take longer than the all-gather: beside it (e - b) is done of `beside`, and what is left
 * of it goes on at the speed alone, rounded up. */
START_TEST(a_kernel_goes_on_faster_when_the_collective_ends)
{
    Fixture f;
    SimTime alone, beside;
    const uint64_t bytes = 20000000000;
    start(&f);
    gather(&f);
    stream_bytes(&f, bytes);
    play(&f);
    find_times(&f, bytes, &alone, &beside);
    SimTime left = beside - (span_of(&f, 0)->end - span_of(&f, 1)->start);
    long double rest = (long double)left * alone / beside;
    ck_assert_int_gt(left, 0);
    ck_assert_ldouble_ge(span_of(&f, 1)->end - span_of(&f, 0)->end, rest);
    ck_assert_ldouble_lt(span_of(&f, 1)->end - span_of(&f, 0)->end, rest + 1);
    end(&f);
}
END_TEST

/* The kernel begins first: what is left when the all-gather arrives is stretched until it ends. */
START_TEST(a_kernel_is_slowed_from_the_arrival_on)
{
    Fixture f;
    SimTime alone, beside;
    start(&f);
    stream_bytes(&f, 400000000);
    gather(&f);
    play(&f);
    find_times(&f, 400000000, &alone, &beside);
    SimTime left = alone - (span_of(&f, 1)->arrival - span_of(&f, 0)->start);
    long double rest = (long double)left * beside / alone;
    ck_assert_int_gt(left, 0);
    ck_assert_ldouble_ge(span_of(&f, 0)->end - span_of(&f, 1)->arrival, rest);
    ck_assert_ldouble_lt(span_of(&f, 0)->end - span_of(&f, 1)->arrival, rest + 1);
    end(&f);
}
END_TEST

START_TEST(a_fixed_duration_is_not_slowed)
{
    Fixture f;
    start(&f);
    gather(&f);
    sim_plan_kernel(f.plan, 0, 0, 0, SIM_DTYPE_BF16)->duration = SIM_MILLISECOND;
    play(&f);
    ck_assert_int_eq(span_of(&f, 1)->end - span_of(&f, 1)->start, SIM_MILLISECOND);
    end(&f);
}
END_TEST

/* A product with blocks for many waves of 132 SMs: the all-gather that comes while it runs gets its
 * SMs at the end of the wave, which is one part in ceil(tiles / 132) of the product. */
START_TEST(a_collective_waits_for_the_wave_of_a_product)
{
    Fixture f;
    start(&f);
    SimInstruction *product = sim_plan_kernel(f.plan, 0, 0, 0, SIM_DTYPE_BF16);
    product->operator_name = sim_strings_intern(sim_plan_strings(f.plan), "linear");
    product->arguments = sim_strings_intern(sim_plan_strings(f.plan), "m=8192 n=4096 k=8192");
    product->flops = UINT64_C(2) * 8192 * 4096 * 8192;
    gather(&f);
    play(&f);
    SimKernelWork work = {.kind = SIM_KERNEL_MATRIX_PRODUCT,
                          .precision = SIM_PRECISION_BF16,
                          .flops = product->flops,
                          .m = 8192,
                          .n = 4096,
                          .k = 8192,
                          .sustained = true};
    SimKernelCost cost = sim_kernel_cost_describe(f.cluster->gpu, &work);
    ck_assert_uint_ge(cost.tiles, 132);
    SimTime wave = cost.duration / (SimTime)((cost.tiles + 131) / 132);
    SimTime since = span_of(&f, 1)->arrival - span_of(&f, 0)->start;
    ck_assert_int_gt(since, 0);
    ck_assert_int_eq(since % wave, 0);
    end(&f);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("interference");
    TCase *all = tcase_create("all");
    tcase_add_test(all, a_kernel_beside_a_collective_takes_the_slower_time);
    tcase_add_test(all, a_kernel_goes_on_faster_when_the_collective_ends);
    tcase_add_test(all, a_kernel_is_slowed_from_the_arrival_on);
    tcase_add_test(all, a_fixed_duration_is_not_slowed);
    tcase_add_test(all, a_collective_waits_for_the_wave_of_a_product);
    suite_add_tcase(suite, all);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed > 0;
}
