/* SPDX-License-Identifier: Apache-2.0
 *
 * What the APIs and strategies hold and send, in closed form: bytes a parameter as the ZeRO paper
 * (arXiv 1910.02054, section 3) counts them, and wire volumes of FSDP against DDP.
 *
 * The net has no padding: every dimension is a multiple of the ranks and of 8.
 */
#include "fsdp/plan_builder.h"
#include "support/decoder.h"
#include "support/fully_shard.h"

#include <check.h>

#define RANKS 4

static const Decoder NET = {.layers = 3,
                            .hidden = 64,
                            .heads = 4,
                            .key_value_heads = 4,
                            .feed_forward = 128,
                            .vocabulary = 256};

static void add(SimJob *job, SimJobActionKind kind, uint32_t microbatch)
{
    SimJobAction action = {.kind = kind, .microbatch = microbatch, .unit = SIM_MODEL_NONE};
    g_array_append_val(job->actions, action);
}

/* Two microbatches a step, so that there are gradients between the second forward and backward. */
static SimJob *make_job(const SimModel *model, SimApi api, SimReshard reshard)
{
    SimJob *job = fully_shard_new(RANKS, 2);
    job->api = api;
    job->fsdp1.limits_all_gathers = true;
    job->ddp.gradient_as_bucket_view = true;
    if (api == SIM_API_DDP)
        job->precision = (SimMixedPrecision){SIM_DTYPE_NONE, SIM_DTYPE_NONE};
    else
        fully_shard_base(job, model, reshard);
    g_array_set_size(job->actions, 0);
    for (uint32_t i = 0; i < 2; i++) {
        add(job, SIM_ACTION_FORWARD, i);
        add(job, SIM_ACTION_BACKWARD, i);
    }
    add(job, SIM_ACTION_OPTIMIZER, 0);
    add(job, SIM_ACTION_ZERO_GRAD, 0);
    return job;
}

static SimPlan *build(const SimJob *job, const SimModel *model)
{
    SimDtype compute = job->precision.param_dtype;
    SimAutogradOptions options = {
        .sequence = 16,
        .batch = 1,
        .compute_dtype = compute == SIM_DTYPE_NONE ? job->store_dtype : compute,
        .residual_dtype = compute == SIM_DTYPE_NONE ? job->store_dtype : compute,
        .sm_count = 132,
        .compute_capability = 90,
    };
    g_autoptr(GError) error = NULL;
    SimPlan *plan = sim_plan_builder_build(job, model, &options, &error);
    ck_assert_msg(plan != NULL, "%s", error == NULL ? "" : error->message);
    ck_assert_msg(sim_plan_check(plan, &error), "%s", error == NULL ? "" : error->message);
    return plan;
}

/* --- bytes a parameter -------------------------------------------------------------------------
 */

static bool is_state(const SimPlan *plan, const SimBuffer *buffer)
{
    switch ((SimCategory)buffer->category) {
    case SIM_CATEGORY_PARAMETER_SHARD:
    case SIM_CATEGORY_UNSHARDED_PARAMETER:
    case SIM_CATEGORY_UNSHARDED_GRADIENT:
    case SIM_CATEGORY_REDUCE_SCATTER_OUTPUT:
    case SIM_CATEGORY_SHARDED_GRADIENT:
    case SIM_CATEGORY_BUCKET:
        return true;
    case SIM_CATEGORY_OPTIMIZER_STATE:
        return !g_str_has_suffix(sim_plan_string(plan, buffer->name.tail), ".step");
    default:
        return false;
    }
}

/* Bytes of parameters, gradients and optimizer states on rank 0 when PHASE of the second
 * microbatch in the second step is over. */
static uint64_t sum_states(const SimPlan *plan, SimPhase phase)
{
    uint64_t live = 0, at_end = 0;
    for (size_t i = 0; i < sim_plan_length(plan); i++) {
        const SimInstruction *row = sim_plan_instruction(plan, i);
        if (!sim_plan_rank_set_has(plan, row->rank_set, 0))
            continue;
        if (row->op == SIM_PLAN_ALLOC || row->op == SIM_PLAN_FREE) {
            const SimBuffer *buffer = sim_plan_buffer(plan, row->buffer);
            if (is_state(plan, buffer))
                live += row->op == SIM_PLAN_ALLOC ? buffer->bytes : -buffer->bytes;
        }
        if (row->step == 1 && row->microbatch == 1 && row->phase == phase)
            at_end = live;
    }
    return at_end;
}

/* Twelfths would do; RANKS-ths of a byte a parameter: DDP 4 + 4 + 8 = 16; full_shard 16/N at the
 * end of backward; shard_grad_op 2 + 16/N between forward and backward. */
static const struct {
    SimApi api;
    SimStrategy strategy; /* FSDP1 */
    SimReshard reshard;   /* FSDP2 */
    SimPhase phase;
    uint64_t times_ranks; /* bytes a parameter, times RANKS */
} ZERO[] = {
    {SIM_API_DDP, SIM_STRATEGY_NO_SHARD, {SIM_RESHARD_UNSET, 0}, SIM_PHASE_BACKWARD, 16 * RANKS},
    {SIM_API_FSDP2, SIM_STRATEGY_FULL_SHARD, {SIM_RESHARD_TRUE, 0}, SIM_PHASE_BACKWARD, 16},
    {SIM_API_FSDP1, SIM_STRATEGY_FULL_SHARD, {SIM_RESHARD_UNSET, 0}, SIM_PHASE_BACKWARD, 16},
    {SIM_API_FSDP2,
     SIM_STRATEGY_SHARD_GRAD_OP,
     {SIM_RESHARD_FALSE, 0},
     SIM_PHASE_FORWARD,
     2 * RANKS + 16},
    {SIM_API_FSDP1,
     SIM_STRATEGY_SHARD_GRAD_OP,
     {SIM_RESHARD_UNSET, 0},
     SIM_PHASE_FORWARD,
     2 * RANKS + 16},
    {SIM_API_FSDP1, SIM_STRATEGY_NO_SHARD, {SIM_RESHARD_UNSET, 0}, SIM_PHASE_BACKWARD, 16 * RANKS},
};

START_TEST(bytes_a_parameter_follow_zero)
{
    g_autoptr(SimModel) model = decoder_new(&NET);
    g_autoptr(SimJob) job = make_job(model, ZERO[_i].api, ZERO[_i].reshard);
    job->fsdp1.strategy = ZERO[_i].strategy;
    g_autoptr(SimPlan) plan = build(job, model);
    ck_assert_uint_eq(sum_states(plan, ZERO[_i].phase) * RANKS,
                      sim_model_elements(model) * ZERO[_i].times_ranks);
}
END_TEST

/* PyTorch's default keeps buckets beside gradients: 4 more. */
START_TEST(ddp_without_views_holds_gradients_twice)
{
    g_autoptr(SimModel) model = decoder_new(&NET);
    g_autoptr(SimJob) job = make_job(model, SIM_API_DDP, (SimReshard){SIM_RESHARD_UNSET, 0});
    job->ddp.gradient_as_bucket_view = false;
    g_autoptr(SimPlan) plan = build(job, model);
    ck_assert_uint_eq(sum_states(plan, SIM_PHASE_BACKWARD), sim_model_elements(model) * 20);
}
END_TEST

/* --- wire --------------------------------------------------------------------------------------
 */

/* Bytes that a rank sends in step 1, times RANKS: a ring moves (N - 1)/N of the whole buffer in an
 * all-gather or a reduce-scatter and twice that in an all-reduce. */
static uint64_t sum_sent(const SimPlan *plan)
{
    uint64_t sent = 0;
    for (size_t i = 0; i < sim_plan_length(plan); i++) {
        const SimInstruction *row = sim_plan_instruction(plan, i);
        if (row->op != SIM_PLAN_COLLECTIVE || row->step != 1)
            continue;
        uint64_t times = row->collective == SIM_COLLECTIVE_ALL_REDUCE ? 2 : 1;
        sent += times * row->bytes * (RANKS - 1);
    }
    return sent;
}

/* DDP sends gradients through an all-reduce: 2 (N - 1)/N of them. FSDP gathers parameters twice and
 * scatters gradients once: 3 (N - 1)/N, in the same type. FSDP1's root is not gathered again. */
START_TEST(fsdp_sends_half_as_much_again_as_ddp)
{
    const SimReshard resharded = {SIM_RESHARD_TRUE, 0};
    g_autoptr(SimModel) model = decoder_new(&NET);
    uint64_t bytes = 4 * sim_model_elements(model);
    uint64_t root_bytes = 4 * (2 * NET.vocabulary * NET.hidden + NET.hidden);
    uint64_t sent[3];
    for (int api = 0; api < 3; api++) {
        g_autoptr(SimJob) job = make_job(model, (SimApi)api, resharded);
        job->precision = (SimMixedPrecision){SIM_DTYPE_NONE, SIM_DTYPE_NONE};
        g_array_remove_range(job->actions, 2, 2); /* one microbatch */
        g_autoptr(SimPlan) plan = build(job, model);
        sent[api] = sum_sent(plan);
    }
    ck_assert_uint_eq(sent[SIM_API_DDP], 2 * (RANKS - 1) * bytes);
    ck_assert_uint_eq(2 * sent[SIM_API_FSDP2], 3 * sent[SIM_API_DDP]);
    ck_assert_uint_eq(sent[SIM_API_FSDP1], sent[SIM_API_FSDP2] - (RANKS - 1) * root_bytes);
}
END_TEST

/* --- bad input ---------------------------------------------------------------------------------
 */

static void set_uneven_shards(SimJob *job)
{
    job->fsdp1.strategy = SIM_STRATEGY_HYBRID_SHARD;
    job->shard_size = 3;
}

static void freeze_part(SimModel *model)
{
    g_array_index(model->parameters, SimParameter, model->parameters->len - 1).is_frozen = true;
}

/* Builds nothing; the message starts with START. */
static void check_refused(const SimJob *job, const SimModel *model, const char *start)
{
    SimAutogradOptions options = {.sequence = 16, .batch = 1, .compute_dtype = SIM_DTYPE_BF16};
    g_autoptr(GError) error = NULL;
    ck_assert_ptr_null(sim_plan_builder_build(job, model, &options, &error));
    ck_assert_msg(g_str_has_prefix(error->message, start), "%s", error->message);
}

START_TEST(what_fsdp1_refuses_is_refused)
{
    const SimReshard unset = {SIM_RESHARD_UNSET, 0};
    g_autoptr(SimModel) model = decoder_new(&NET);
    g_autoptr(SimJob) job = make_job(model, SIM_API_FSDP1, unset);
    set_uneven_shards(job);
    check_refused(job, model, "shard size: expected a divisor of the 4 ranks, found 3");
    job->fsdp1.strategy = SIM_STRATEGY_FULL_SHARD;
    job->shard_size = RANKS;
    job->fsdp1.uses_flat_parameters = true;
    freeze_part(model);
    check_refused(job, model, "output.weight: with use_orig_params false");
}
END_TEST

START_TEST(fsdp1_wraps_no_list_of_modules)
{
    const SimReshard unset = {SIM_RESHARD_UNSET, 0};
    g_autoptr(SimModel) model = decoder_new(&NET);
    g_autoptr(SimJob) job = make_job(model, SIM_API_FSDP2, unset);
    job->api = SIM_API_FSDP1;
    g_array_set_size(job->units, 0);
    fully_shard_titan(job, model, unset, unset);
    check_refused(job, model, "norm: FullyShardedDataParallel wraps one module, not the 2");
}
END_TEST

START_TEST(adam_takes_no_low_precision_gradients)
{
    const SimReshard unset = {SIM_RESHARD_UNSET, 0};
    g_autoptr(SimModel) model = decoder_new(&NET);
    g_autoptr(SimJob) job = make_job(model, SIM_API_FSDP1, unset);
    job->fsdp1.keeps_low_precision_grads = true;
    check_refused(job, model, "keep_low_precision_grads: the optimizer would get bf16");
    job->store_dtype = SIM_DTYPE_BF16;
    g_autoptr(SimPlan) plan = build(job, model);
    ck_assert_ptr_nonnull(plan);
}
END_TEST

/* A parameter outside of the graph: its bucket is never full. */
START_TEST(ddp_refuses_what_gets_no_gradient)
{
    const SimReshard unset = {SIM_RESHARD_UNSET, 0};
    Decoder net = NET;
    net.extra_in = 2;
    net.extra_rows = 8;
    g_autoptr(SimModel) model = decoder_new(&net);
    g_autoptr(SimJob) job = make_job(model, SIM_API_DDP, unset);
    check_refused(job, model, "layers.1.extra: gets no gradient, so DDP waits for it");
    job->ddp.find_unused_parameters = true;
    g_autoptr(SimPlan) found = build(job, model);
    job->ddp.find_unused_parameters = false;
    job->ddp.static_graph = true;
    g_autoptr(SimPlan) fixed = build(job, model);
    ck_assert(found != NULL && fixed != NULL);
}
END_TEST

static Suite *make_suite(void)
{
    Suite *suite = suite_create("strategies");
    TCase *tests = tcase_create("closed forms");
    tcase_add_loop_test(tests, bytes_a_parameter_follow_zero, 0, (int)G_N_ELEMENTS(ZERO));
    tcase_add_test(tests, ddp_without_views_holds_gradients_twice);
    tcase_add_test(tests, fsdp_sends_half_as_much_again_as_ddp);
    tcase_add_test(tests, what_fsdp1_refuses_is_refused);
    tcase_add_test(tests, fsdp1_wraps_no_list_of_modules);
    tcase_add_test(tests, adam_takes_no_low_precision_gradients);
    tcase_add_test(tests, ddp_refuses_what_gets_no_gradient);
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
