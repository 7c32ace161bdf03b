/* SPDX-License-Identifier: Apache-2.0
 *
 * Each rule that changed between versions of PyTorch (fsdp/torch_version.h), on both sides of the
 * change: 4 blocks and a root on 4 ranks.
 */
#include "base/error.h"
#include "fsdp/plan_builder.h"
#include "support/decoder.h"
#include "support/fully_shard.h"

#include <check.h>
#include <string.h>

static const SimReshard UNSET = {SIM_RESHARD_UNSET, 0};

static const SimTorch VERSIONS[] = {SIM_TORCH_2_15, SIM_TORCH_2_9, SIM_TORCH_2_6};

static SimPlan *try_build(const SimJob *job, const SimModel *model, GError **error)
{
    SimAutogradOptions options = {
        .sequence = 15,
        .batch = 2,
        .compute_dtype = SIM_DTYPE_BF16,
        .residual_dtype = SIM_DTYPE_BF16,
        .sm_count = 132,
        .compute_capability = 90,
    };
    return sim_plan_builder_build(job, model, &options, error);
}

static SimPlan *build(const SimJob *job, const SimModel *model)
{
    g_autoptr(GError) error = NULL;
    SimPlan *plan = try_build(job, model, &error);
    ck_assert_msg(plan != NULL, "%s", error == NULL ? "" : error->message);
    ck_assert_msg(sim_plan_check(plan, &error), "%s", error == NULL ? "" : error->message);
    return plan;
}

/* The next row from I on that is a collective KIND; the plan's length if none is. */
static size_t next_collective(const SimPlan *plan, SimCollectiveKind kind, size_t i)
{
    for (; i < sim_plan_length(plan); i++) {
        const SimInstruction *row = sim_plan_instruction(plan, i);
        if (row->op == SIM_PLAN_COLLECTIVE && row->collective == kind)
            break;
    }
    return i;
}

static int count_collectives(const SimPlan *plan, SimCollectiveKind kind)
{
    int count = 0;
    for (size_t i = next_collective(plan, kind, 0); i < sim_plan_length(plan);
         i = next_collective(plan, kind, i + 1))
        count++;
    return count;
}

static bool is_free_of_input(const SimPlan *plan, size_t i)
{
    const SimInstruction *row = sim_plan_instruction(plan, i);
    return row->op == SIM_PLAN_FREE &&
           sim_plan_buffer(plan, row->buffer)->category == SIM_CATEGORY_REDUCE_SCATTER_INPUT;
}

START_TEST(an_unset_reduce_dtype_is_the_stored_type_after_2_9)
{
    const Decoder net = {RECORDED_NET};
    g_autoptr(SimModel) model = decoder_new(&net);
    SimJob *job = fully_shard_new(4, 1);
    job->torch = VERSIONS[_i];
    job->precision.reduce_dtype = SIM_DTYPE_NONE;
    fully_shard_base(job, model, UNSET);
    g_autoptr(SimPlan) plan = build(job, model);
    size_t first = next_collective(plan, SIM_COLLECTIVE_REDUCE_SCATTER, 0);
    ck_assert_int_eq(sim_plan_instruction(plan, first)->dtype,
                     VERSIONS[_i] == SIM_TORCH_2_15 ? SIM_DTYPE_F32 : SIM_DTYPE_BF16);
    sim_job_free(job);
}
END_TEST

/* Waits of the compute stream for `post:`, between the last reduction and the optimizer. */
START_TEST(the_end_of_backward_waits_once_after_2_9)
{
    const Decoder net = {RECORDED_NET};
    g_autoptr(SimModel) model = decoder_new(&net);
    SimJob *job = fully_shard_new(4, 1);
    job->torch = VERSIONS[_i];
    fully_shard_base(job, model, UNSET);
    g_autoptr(SimPlan) plan = build(job, model);
    size_t last = 0;
    for (size_t i = 0; i < sim_plan_length(plan);
         i = next_collective(plan, SIM_COLLECTIVE_REDUCE_SCATTER, i + 1))
        last = i;
    int waits = 0;
    for (size_t i = last; i < sim_plan_length(plan); i++) {
        const SimInstruction *row = sim_plan_instruction(plan, i);
        if (row->op != SIM_PLAN_WAIT || row->phase != SIM_PHASE_BACKWARD)
            continue;
        const char *stem = sim_plan_string(plan, sim_plan_event_name(plan, row->event).stem);
        waits += g_str_has_prefix(stem, "post:") ? 1 : 0;
    }
    ck_assert_int_eq(waits, VERSIONS[_i] == SIM_TORCH_2_15 ? 1 : 5);
    sim_job_free(job);
}
END_TEST

/* 4 blocks, each with its attention a unit of its own, each recomputed: 9 all-gathers in forward, 8
 * in backward (the root was kept). In 2.9 the recomputed attention reshards, and its backward
 * gathers it again; it is recorded behind the attention of the block above, so that is what it
 * prefetches, three times for nothing. */
START_TEST(a_recomputed_inner_unit_is_gathered_once_after_2_9)
{
    const Decoder net = {RECORDED_NET};
    g_autoptr(SimModel) model = decoder_new(&net);
    SimJob *job = fully_shard_new(4, 1);
    job->torch = VERSIONS[_i];
    for (uint32_t i = 0; i < model->blocks->len; i++) {
        uint32_t block = g_array_index(model->blocks, uint32_t, i);
        SimJobCheckpoint checkpoint = {.module = block, .stops_early = true};
        g_array_append_val(job->checkpoints, checkpoint);
        g_autofree char *attention =
            g_strconcat(sim_model_module(model, block)->path, ".attention", NULL);
        fully_shard(job, model, attention, UNSET);
    }
    fully_shard_base(job, model, UNSET);
    g_autoptr(SimPlan) plan = build(job, model);
    ck_assert_int_eq(count_collectives(plan, SIM_COLLECTIVE_ALL_GATHER),
                     9 + 8 + (VERSIONS[_i] == SIM_TORCH_2_15 ? 0 : 4 + 3));
    sim_job_free(job);
}
END_TEST

/* A unit without gradients (layers.2 is frozen) frees the reduce-scatter input of the one before it
 * after 2.9, so with the whole backward of layers.1 still to come; in 2.9, the next reduction
 * frees it. */
START_TEST(a_unit_without_gradients_recycles_after_2_9)
{
    const Decoder net = {RECORDED_NET};
    g_autoptr(SimModel) model = decoder_new(&net);
    for (uint32_t i = 0; i < model->parameters->len; i++) {
        SimParameter *parameter = &g_array_index(model->parameters, SimParameter, i);

        parameter->is_frozen |= g_str_has_prefix(parameter->path, "layers.2.");
    }
    SimJob *job = fully_shard_new(4, 1);
    job->torch = VERSIONS[_i];
    fully_shard_base(job, model, UNSET);
    g_autoptr(SimPlan) plan = build(job, model);
    ck_assert_int_eq(count_collectives(plan, SIM_COLLECTIVE_REDUCE_SCATTER), 4);
    size_t second = next_collective(plan, SIM_COLLECTIVE_REDUCE_SCATTER,
                                    next_collective(plan, SIM_COLLECTIVE_REDUCE_SCATTER, 0) + 1);
    size_t i = 0;
    while (!is_free_of_input(plan, i))
        i++;
    int kernels = 0; /* until the next reduction, which has one of its own: the copy-in */
    for (; i < second; i++) {
        const SimInstruction *row = sim_plan_instruction(plan, i);
        kernels += row->op == SIM_PLAN_KERNEL && row->stream == 0 ? 1 : 0;
    }
    ck_assert((kernels > 1) == (VERSIONS[_i] == SIM_TORCH_2_15));
    sim_job_free(job);
}
END_TEST

START_TEST(reduce_scatter_options_are_refused_of_old)
{
    const Decoder net = {RECORDED_NET};
    g_autoptr(SimModel) model = decoder_new(&net);
    for (int is_group = 0; is_group < 2; is_group++) {
        SimJob *job = fully_shard_new(4, 1);
        job->torch = VERSIONS[_i];
        job->has_reduce_scatter_group = is_group != 0;
        job->reduce_scatter_input_buffers = is_group != 0 ? 1 : 2;
        fully_shard_base(job, model, UNSET);
        g_autoptr(GError) error = NULL;
        g_autoptr(SimPlan) plan = try_build(job, model, &error);
        ck_assert((plan != NULL) == (VERSIONS[_i] == SIM_TORCH_2_15));
        if (plan == NULL) {
            ck_assert(g_error_matches(error, SIM_ERROR, SIM_ERROR_UNSUPPORTED));
            ck_assert_ptr_nonnull(
                strstr(error->message, VERSIONS[_i] == SIM_TORCH_2_9 ? "2.9" : "2.6"));
        }
        sim_job_free(job);
    }
}
END_TEST

static Suite *make_suite(void)
{
    Suite *suite = suite_create("torch_version");
    TCase *tests = tcase_create("versions");
    int count = G_N_ELEMENTS(VERSIONS);
    tcase_add_loop_test(tests, an_unset_reduce_dtype_is_the_stored_type_after_2_9, 0, count);
    tcase_add_loop_test(tests, the_end_of_backward_waits_once_after_2_9, 0, count);
    tcase_add_loop_test(tests, a_recomputed_inner_unit_is_gathered_once_after_2_9, 0, count);
    tcase_add_loop_test(tests, a_unit_without_gradients_recycles_after_2_9, 0, count);
    tcase_add_loop_test(tests, reduce_scatter_options_are_refused_of_old, 0, count);
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
