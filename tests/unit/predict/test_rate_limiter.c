/* SPDX-License-Identifier: Apache-2.0
 *
 * FSDP1's rate limiter where the GPU is the bottleneck (pytorch/pytorch PR 98354: peak active
 * 38,555 MB without it, 7,164 MB with it, 247.6 and 236.5 ms a batch). A host that runs ahead
 * allocates an unsharded parameter for every unit while the ones before are still in use; with the
 * limiter at most two wait to be given back.
 */
#include "fsdp/plan_builder.h"
#include "hardware/cluster.h"
#include "rank/simulation.h"
#include "support/decoder.h"
#include "support/fully_shard.h"
#include "trace/memory_event.h"

#include <check.h>

#define MODELS SIM_SOURCE_DIR "/models"
#define RANKS 8

/* What a run came to. */
typedef struct Outcome {
    uint64_t unit_bytes;    /* of a block's unsharded parameter */
    uint64_t pending_bytes; /* most that waited for the GPU in a forward */
    SimTime time;           /* of the last step */
} Outcome;

static SimPlan *build(uint32_t layers, bool limits)
{
    const Decoder net = {.layers = layers,
                         .hidden = 2048,
                         .heads = 16,
                         .key_value_heads = 16,
                         .feed_forward = 8192,
                         .vocabulary = 1024};
    g_autoptr(SimModel) model = decoder_new(&net);
    g_autoptr(SimJob) job = fully_shard_new(RANKS, 2);
    job->api = SIM_API_FSDP1;
    job->fsdp1.limits_all_gathers = limits;
    job->sequence = 4096;
    job->batch = 8;
    fully_shard_base(job, model, (SimReshard){SIM_RESHARD_UNSET, 0});
    SimAutogradOptions options = {
        .sequence = job->sequence,
        .batch = job->batch,
        .compute_dtype = SIM_DTYPE_BF16,
        .residual_dtype = SIM_DTYPE_BF16,
        .sm_count = 132,
        .compute_capability = 90,
    };
    return sim_plan_builder_build(job, model, &options, NULL);
}

static uint64_t find_unit_bytes(const SimPlan *plan)
{
    for (uint32_t i = 0; i < sim_plan_buffer_count(plan); i++) {
        const SimBuffer *buffer = sim_plan_buffer(plan, i);
        if (strcmp(sim_plan_string(plan, buffer->name.stem), "U:layers.0") == 0)
            return buffer->bytes;
    }
    ck_abort_msg("no unit layers.0");
}

static uint64_t find_pending_bytes(const SimPlan *plan, const SimMemoryHistory *history)
{
    uint64_t most = 0;
    for (uint32_t i = 0; i < history->events->len; i++) {
        const SimMemoryEvent *event = &g_array_index(history->events, SimMemoryEvent, i);
        if (sim_plan_instruction(plan, event->instruction)->phase == SIM_PHASE_FORWARD)
            most = MAX(most, event->active_bytes - event->allocated_bytes);
    }
    return most;
}

static Outcome run(uint32_t layers, bool limits)
{
    g_autoptr(GError) error = NULL;
    g_autoptr(SimPlan) plan = build(layers, limits);
    g_autoptr(SimCluster) cluster = sim_cluster_load(MODELS, "h100", &error);
    ck_assert(sim_cluster_choose_gpus(cluster, RANKS, &error));
    SimSimulationOptions options = {
        .hbm_bytes = UINT64_MAX, .fold = true, .keep_memory_events = true};
    g_autoptr(SimSimulation) simulation = sim_simulation_new(plan, cluster, &options, &error);
    ck_assert_msg(simulation != NULL, "%s", error == NULL ? "" : error->message);
    const SimResult *result = sim_simulation_run(simulation);
    const SimClassResult *first = &g_array_index(result->classes, SimClassResult, 0);
    SimTime ends[2] = {0, 0};
    for (uint32_t i = 0; i < first->program->phases->len; i++) {
        const SimPhaseRange *phase = &g_array_index(first->program->phases, SimPhaseRange, i);
        if (phase->step >= 0)
            ends[phase->step] = MAX(ends[phase->step], first->phase_ends[i]);
    }
    return (Outcome){find_unit_bytes(plan), find_pending_bytes(plan, first->memory),
                     ends[1] - ends[0]};
}

/* With it, what waits does not depend on how many units there are, up to an activation (less than
 * a unit); without it, at least one unsharded parameter waits for each. The GPU has work all the
 * time either way. */
START_TEST(the_limiter_bounds_what_a_fast_host_allocates)
{
    static const uint32_t LAYERS[] = {4, 8, 16};
    uint64_t bound = run(LAYERS[0], true).pending_bytes;
    for (size_t i = 0; i < G_N_ELEMENTS(LAYERS); i++) {
        Outcome with = run(LAYERS[i], true), without = run(LAYERS[i], false);
        ck_assert_uint_lt(with.pending_bytes, bound + with.unit_bytes);
        ck_assert_uint_ge(without.pending_bytes, LAYERS[i] * without.unit_bytes);
        ck_assert_int_le(with.time, without.time + without.time / 100);
        ck_assert_int_le(without.time, with.time + with.time / 100);
    }
}
END_TEST

static Suite *make_suite(void)
{
    Suite *suite = suite_create("rate_limiter");
    TCase *tests = tcase_create("limiter");
    tcase_add_test(tests, the_limiter_bounds_what_a_fast_host_allocates);
    suite_add_tcase(suite, tests);
    return suite;
}

int main(void)
{
    SRunner *runner = srunner_create(make_suite());
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? 0 : 1;
}
