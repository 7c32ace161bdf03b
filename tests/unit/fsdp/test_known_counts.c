/* SPDX-License-Identifier: Apache-2.0
 *
 * Counts and volumes of collectives with closed forms, and what the optimizer's part of a step
 * takes.
 */
#include "fsdp/plan_builder.h"
#include "support/decoder.h"
#include "support/fully_shard.h"

#include <check.h>

static const SimReshard UNSET = {SIM_RESHARD_UNSET, 0};
static const SimReshard KEPT = {SIM_RESHARD_FALSE, 0};
static const SimReshard RESHARDED = {SIM_RESHARD_TRUE, 0};

static SimPlan *build(const SimJob *job, const SimModel *model)
{
    SimAutogradOptions options = {
        .sequence = 16,
        .batch = 1,
        .compute_dtype = SIM_DTYPE_BF16,
        .residual_dtype = SIM_DTYPE_BF16,
        .sm_count = 132,
        .compute_capability = 90,
    };
    g_autoptr(GError) error = NULL;
    SimPlan *plan = sim_plan_builder_build(job, model, &options, &error);
    ck_assert_msg(plan != NULL, "%s", error == NULL ? "" : error->message);
    ck_assert_msg(sim_plan_check(plan, &error), "%s", error == NULL ? "" : error->message);
    return plan;
}

typedef struct Volume {
    int count;
    uint64_t bytes;
} Volume;

static Volume count_collectives(const SimPlan *plan, SimCollectiveKind kind, SimPhase phase)
{
    Volume volume = {0, 0};
    for (size_t i = 0; i < sim_plan_length(plan); i++) {
        const SimInstruction *row = sim_plan_instruction(plan, i);
        if (row->op == SIM_PLAN_COLLECTIVE && row->collective == kind && row->phase == phase) {
            volume.count++;
            volume.bytes += row->bytes;
        }
    }
    return volume;
}

/* n blocks and a root: n + 1 all-gathers in forward, n + 1 reduce-scatters; in backward the root is
 * gathered again only if it was resharded, and nothing is if nothing was. */
static const struct {
    SimReshard reshard;
    int backward_gathers; /* for 6 blocks */
} RESHARDS[] = {
    {{SIM_RESHARD_UNSET, 0}, 6}, {{SIM_RESHARD_TRUE, 0}, 7}, {{SIM_RESHARD_TO, 2}, 7},
    {{SIM_RESHARD_FALSE, 0}, 0}, {{SIM_RESHARD_TO, 1}, 0}, /* means false */
    {{SIM_RESHARD_TO, 4}, 7},                              /* means true */
};

START_TEST(collectives_are_as_many_as_the_closed_form_says)
{
    const Decoder net = {RECORDED_NET};
    Decoder six = net;
    six.layers = 6;
    g_autoptr(SimModel) model = decoder_new(&six);
    SimJob *job = fully_shard_new(4, 1);
    fully_shard_base(job, model, RESHARDS[_i].reshard);
    g_autoptr(SimPlan) plan = build(job, model);
    ck_assert_int_eq(count_collectives(plan, SIM_COLLECTIVE_ALL_GATHER, SIM_PHASE_FORWARD).count,
                     7);
    ck_assert_int_eq(count_collectives(plan, SIM_COLLECTIVE_ALL_GATHER, SIM_PHASE_BACKWARD).count,
                     RESHARDS[_i].backward_gathers);
    ck_assert_int_eq(
        count_collectives(plan, SIM_COLLECTIVE_REDUCE_SCATTER, SIM_PHASE_BACKWARD).count, 7);
    sim_job_free(job);
}
END_TEST

/* A rank puts 1/W of an all-gather in. Llama-3.1-8B has 8,030,261,248 elements, all divide:
 * gathered twice in 2 bytes by 4 ranks: 2 x 2 x 8,030,261,248 / 4; reduced in 4 bytes:
 * 32,121,044,992. With norm and head (525,340,672 elements) kept on 8 ranks: (4 x 8,030,261,248 - 2
 * x 525,340,672) / 8. */
static const struct {
    uint32_t ranks;
    bool keeps_head;
    uint64_t gathered;
} VOLUMES[] = {
    {4, false, 8030261248},
    {8, true, 3883795456},
};

START_TEST(volumes_of_llama_8b_are_exact)
{
    const Decoder net = {LLAMA_8B};
    g_autoptr(SimModel) model = decoder_new(&net);
    SimJob *job = fully_shard_new(VOLUMES[_i].ranks, 1);
    fully_shard_titan(job, model, RESHARDED, VOLUMES[_i].keeps_head ? KEPT : RESHARDED);
    g_autoptr(SimPlan) plan = build(job, model);
    uint64_t gathered =
        count_collectives(plan, SIM_COLLECTIVE_ALL_GATHER, SIM_PHASE_FORWARD).bytes +
        count_collectives(plan, SIM_COLLECTIVE_ALL_GATHER, SIM_PHASE_BACKWARD).bytes;
    ck_assert_uint_eq(gathered / VOLUMES[_i].ranks, VOLUMES[_i].gathered);
    ck_assert_uint_eq(
        count_collectives(plan, SIM_COLLECTIVE_REDUCE_SCATTER, SIM_PHASE_BACKWARD).bytes,
        32121044992);
    sim_job_free(job);
}
END_TEST

/* Bytes of optimizer states that RANK allocates, `step` apart. */
static uint64_t count_states(const SimPlan *plan, uint32_t rank)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < sim_plan_length(plan); i++) {
        const SimInstruction *row = sim_plan_instruction(plan, i);
        if (row->op != SIM_PLAN_ALLOC || !sim_plan_rank_set_has(plan, row->rank_set, rank))
            continue;
        const SimBuffer *buffer = sim_plan_buffer(plan, row->buffer);
        if (buffer->category == SIM_CATEGORY_OPTIMIZER_STATE && buffer->bytes != 4)
            bytes += buffer->bytes;
    }
    return bytes;
}

/* On 4 ranks, 2 x 4 bytes an element. Rank 0 has full rows of everything: 126 is not reached, 251
 * rows are 63, 101 are 26, 60 are 15, 30 are 8. The last rank has 62, 23, 15 and 30 - 3 x 8 = 6.
 * Block: norms 2 x 15, wq and wo 2 x 15 x 60, wk and wv 2 x 8 x 60, w1 and w3 2 x 26 x 60, w2 15 x
 * 101. Rank 0: 30 + 1,800 + 960 + 3,120 + 1,515 = 7,425; last: 30 + 1,800 + 720 + 2,760 + 1,515 =
 * 6,825. Root: 2 x 63 x 60 + 15 = 7,575; last: 2 x 62 x 60 + 15 = 7,455. */
START_TEST(optimizer_states_are_of_true_rows)
{
    const Decoder net = {RECORDED_NET};
    g_autoptr(SimModel) model = decoder_new(&net);
    SimJob *job = fully_shard_new(4, 2);
    fully_shard_base(job, model, UNSET);
    g_autoptr(SimPlan) plan = build(job, model);
    ck_assert_uint_eq(count_states(plan, 0), 8 * (4 * 7425 + 7575));
    ck_assert_uint_eq(count_states(plan, 2), 8 * (4 * 7425 + 7575));
    ck_assert_uint_eq(count_states(plan, 3), 8 * (4 * 6825 + 7455));
    sim_job_free(job);
}
END_TEST

/* 3 rows on 4 ranks: the last owns none, so the extra matrix has no states there, but a `step`. */
START_TEST(a_rank_without_rows_has_no_moments)
{
    const Decoder net = {RECORDED_NET, .extra_rows = 3, .extra_in = 1, .is_extra_used = true};
    g_autoptr(SimModel) model = decoder_new(&net);
    SimJob *job = fully_shard_new(4, 1);
    fully_shard_base(job, model, UNSET);
    g_autoptr(SimPlan) plan = build(job, model);
    ck_assert_uint_eq(count_states(plan, 0), 8 * (4 * 7425 + 7575 + 60));
    ck_assert_uint_eq(count_states(plan, 3), 8 * (4 * 6825 + 7455));
    sim_job_free(job);
}
END_TEST

/* Live bytes in blocks of 512 at the end, and at the highest of PHASE in STEP. */
static uint64_t find_peak(const SimPlan *plan, SimPhase phase, int32_t step, uint64_t *before)
{
    uint64_t live = 0, peak = 0;
    bool is_seen = false;
    for (size_t i = 0; i < sim_plan_length(plan); i++) {
        const SimInstruction *row = sim_plan_instruction(plan, i);
        bool is_in = row->phase == phase && row->step == step;
        if (is_in && !is_seen)
            *before = peak = live;
        is_seen |= is_in;
        if (row->op == SIM_PLAN_ALLOC || row->op == SIM_PLAN_FREE) {
            uint64_t bytes = (sim_plan_buffer(plan, row->buffer)->bytes + 511) / 512 * 512;
            live += row->op == SIM_PLAN_ALLOC ? bytes : -bytes;
        }
        if (is_in)
            peak = MAX(peak, live);
    }
    return peak;
}

/* PyTorch's own allocator says 213,504 for these 291 tensors (activations/steps.csv,
 * titan-n8-s8192): 291 norms of one block each, offsets 292 x 8 = 2,336 -> 5 blocks, and a float a
 * chunk of 65,536 elements: a block has 32 + 8 + 8 + 32 + 3 x 112 + 2 = 418, embedding and head
 * 1,002 each, the last norm 1: 15,381 floats -> 121 blocks. 291 + 5 + 121 = 417 blocks of 512
 * bytes. */
START_TEST(clipping_takes_what_the_foreach_norm_takes)
{
    const Decoder net = {LLAMA_8B};
    g_autoptr(SimModel) model = decoder_new(&net);
    SimJob *job = fully_shard_new(8, 1);
    fully_shard_titan(job, model, UNSET, KEPT);
    SimJobAction clip = {.kind = SIM_ACTION_CLIP};
    g_array_insert_val(job->actions, 2, clip);
    g_autoptr(SimPlan) plan = build(job, model);
    uint64_t before = 0;
    uint64_t peak = find_peak(plan, SIM_PHASE_CLIP, 0, &before);
    ck_assert_uint_eq(peak - before, 213504);
    ck_assert_uint_eq(count_collectives(plan, SIM_COLLECTIVE_ALL_REDUCE, SIM_PHASE_CLIP).bytes,
                      4 * 291);
    sim_job_free(job);
}
END_TEST

/* Offloaded, two steps of the recorded net on 2 ranks, base wrapping (root kept): shards of 4
 * bytes, 14,610 elements a block and 15,150 of the root, go to the device once in forward, blocks
 * again in backward: 4 x (2 x 4 x 14,610 + 15,150) a step; gradients come back once: 4 x (4 x
 * 14,610 + 15,150). 39 tensors are waited for. On the device no shard, no sharded gradient and no
 * state ever is. */
START_TEST(offload_copies_shards_in_and_gradients_out)
{
    const Decoder net = {RECORDED_NET};
    g_autoptr(SimModel) model = decoder_new(&net);
    SimJob *job = fully_shard_new(2, 2);
    fully_shard_base(job, model, UNSET);
    for (uint32_t u = 0; u < job->units->len; u++)
        g_array_index(job->units, SimJobUnit, u).is_offloaded = true;
    g_autoptr(SimPlan) plan = build(job, model);
    uint64_t in = 0, out = 0;
    int waits = 0;
    for (size_t i = 0; i < sim_plan_length(plan); i++) {
        const SimInstruction *row = sim_plan_instruction(plan, i);
        if (row->op == SIM_PLAN_COPY && g_strcmp0(sim_plan_string(plan, row->name), "offload") == 0)
            *(row->is_device_to_host ? &out : &in) += row->bytes;
        waits += row->op == SIM_PLAN_HOST_WAIT;
    }
    ck_assert_uint_eq(in, 2 * 4 * (2 * 4 * 14610 + 15150));
    ck_assert_uint_eq(out, 2 * 4 * (4 * 14610 + 15150));
    ck_assert_int_eq(waits, 2 * 39);
    for (uint32_t b = 0; b < sim_plan_buffer_count(plan); b++) {
        const SimBuffer *buffer = sim_plan_buffer(plan, b);
        bool is_on_host = buffer->category == SIM_CATEGORY_PARAMETER_SHARD ||
                          buffer->category == SIM_CATEGORY_SHARDED_GRADIENT ||
                          buffer->category == SIM_CATEGORY_OPTIMIZER_STATE;
        ck_assert_int_eq(buffer->is_host, is_on_host);
    }
    sim_job_free(job);
}
END_TEST

static Suite *make_suite(void)
{
    Suite *suite = suite_create("known_counts");
    TCase *tests = tcase_create("known_counts");
    tcase_add_loop_test(tests, collectives_are_as_many_as_the_closed_form_says, 0,
                        G_N_ELEMENTS(RESHARDS));
    tcase_add_loop_test(tests, volumes_of_llama_8b_are_exact, 0, G_N_ELEMENTS(VOLUMES));
    tcase_add_test(tests, optimizer_states_are_of_true_rows);
    tcase_add_test(tests, a_rank_without_rows_has_no_moments);
    tcase_add_test(tests, offload_copies_shards_in_and_gradients_out);
    tcase_add_test(tests, clipping_takes_what_the_foreach_norm_takes);
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
