/* SPDX-License-Identifier: Apache-2.0
 *
 * The builder against recordings of PyTorch 2.15's fully_shard (pytorch/README.md): a job as the
 * recorded script wrote it, three steps, line by line what FSDP did: copies and collectives with
 * unit, bytes, type, communicator and stream, event edges, births and deaths of its buffers, live
 * bytes.
 */
#include "fsdp/fsdp2.h"
#include "support/chain.h"
#include "support/decoder.h"
#include "support/facts.h"
#include "support/fully_shard.h"

#include <check.h>

#define FOLDER SIM_SOURCE_DIR "/tests/oracle/pytorch/fsdp2/"
#define STEPS 3

static const SimReshard UNSET = {SIM_RESHARD_UNSET, 0};
static const SimReshard KEPT = {SIM_RESHARD_FALSE, 0};
static const SimReshard RESHARDED = {SIM_RESHARD_TRUE, 0};
static const SimReshard TO_1 = {SIM_RESHARD_TO, 1};
static const SimReshard TO_2 = {SIM_RESHARD_TO, 2};

typedef enum Wrapping {
    BASE,        /* blocks | root */
    TITAN,       /* embedding | blocks | norm + output, kept | root */
    TITAN_ALIKE, /* the same, the last with the others' reshard_after_forward */
    WHOLE,       /* root */
    ALL_PARTS,   /* embedding | blocks | norm | output | root */
    NESTED,      /* in every block attention | feed-forward | block, then root */
} Wrapping;

typedef struct Setting {
    const char *name; /* of the recording */
    uint32_t ranks;
    Wrapping wrapping;
    const SimReshard *reshard;
    SimMixedPrecision precision;
    SimDtype store_dtype;
    uint32_t shard_size;                                /* 0 = ranks */
    void (*change)(SimJob *job, const SimModel *model); /* the rest of the script; may be NULL */
} Setting;

#define F32 SIM_DTYPE_F32
#define BF16 SIM_DTYPE_BF16
#define F16 SIM_DTYPE_F16
#define NONE SIM_DTYPE_NONE
#define MIXED {BF16, F32}, F32

static SimJobUnit *get_unit(SimJob *job, uint32_t unit)
{
    return &g_array_index(job->units, SimJobUnit, unit);
}

static void keep_last_block(SimJob *job, const SimModel *model)
{
    get_unit(job, model->blocks->len - 1)->reshard_after_forward = KEPT;
}

static const Setting SETTINGS[] = {
    {"base-w2", 2, BASE, &UNSET, MIXED, 0, NULL},
    {"base-w3", 3, BASE, &UNSET, MIXED, 0, NULL},
    {"base-w4", 4, BASE, &UNSET, MIXED, 0, NULL},
    {"titan-w2", 2, TITAN, &UNSET, MIXED, 0, NULL},
    {"titan-w4", 4, TITAN, &UNSET, MIXED, 0, NULL},
    {"whole-w2", 2, WHOLE, &UNSET, MIXED, 0, NULL},
    {"nested-w2", 2, NESTED, &UNSET, MIXED, 0, NULL},
    {"blocks-only-no-root-params-w2", 2, ALL_PARTS, &UNSET, MIXED, 0, NULL},
    {"raf-true-w2", 2, BASE, &RESHARDED, MIXED, 0, NULL},
    {"set-raf-root-true-w2", 2, BASE, &RESHARDED, MIXED, 0, NULL},
    {"raf-false-w2", 2, BASE, &KEPT, MIXED, 0, NULL},
    {"raf-int1-w2", 2, BASE, &TO_1, MIXED, 0, NULL},
    {"raf-int2-w4", 4, BASE, &TO_2, MIXED, 0, NULL},
    {"raf-int2-fp32-w4", 4, BASE, &TO_2, {NONE, NONE}, F32, 0, NULL},
    {"titan-raf-false-w2", 2, TITAN_ALIKE, &KEPT, MIXED, 0, NULL},
    {"titan-raf-true-w2", 2, TITAN_ALIKE, &RESHARDED, MIXED, 0, NULL},
    {"last-block-kept-w2", 2, BASE, &UNSET, MIXED, 0, keep_last_block},
    {"mp-none-w2", 2, BASE, &UNSET, {NONE, NONE}, F32, 0, NULL},
    {"mp-bf16-bf16-w2", 2, BASE, &UNSET, {BF16, BF16}, F32, 0, NULL},
    {"mp-bf16-reduce-unset-w2", 2, BASE, &UNSET, {BF16, NONE}, F32, 0, NULL},
    {"mp-fp32-param-bf16-reduce-w2", 2, BASE, &UNSET, {NONE, BF16}, F32, 0, NULL},
    {"mp-output-fp32-w2", 2, BASE, &UNSET, MIXED, 0, NULL},
    {"mp-bf16-param-fp16-reduce-w2", 2, BASE, &UNSET, {BF16, F16}, F32, 0, NULL},
    {"model-bf16-w2", 2, BASE, &UNSET, {NONE, NONE}, BF16, 0, NULL},
    {"model-bf16-reduce-fp32-w2", 2, BASE, &UNSET, {NONE, F32}, BF16, 0, NULL},
    {"hsdp-2x2", 4, BASE, &UNSET, MIXED, 2, NULL},
    {"hsdp-titan-2x2", 4, TITAN, &UNSET, MIXED, 2, NULL},
    {"hsdp-fp32-2x2", 4, BASE, &UNSET, {NONE, NONE}, F32, 2, NULL},
    {"hsdp-bf16-reduce-2x2", 4, BASE, &UNSET, {BF16, BF16}, F32, 2, NULL},
    {"hsdp-raf-false-2x2", 4, BASE, &KEPT, MIXED, 2, NULL},
    {"hsdp-2x1-w2", 2, BASE, &UNSET, MIXED, 1, NULL},
};

static void wrap(SimJob *job, const SimModel *model, Wrapping wrapping, SimReshard reshard)
{
    switch (wrapping) {
    case BASE:
        fully_shard_base(job, model, reshard);
        break;
    case TITAN:
        fully_shard_titan(job, model, reshard, KEPT);
        break;
    case TITAN_ALIKE:
        fully_shard_titan(job, model, reshard, reshard);
        break;
    case WHOLE:
        fully_shard(job, model, "", reshard);
        break;
    case ALL_PARTS:
        fully_shard(job, model, "tok_embeddings", reshard);
        fully_shard_blocks(job, model, reshard);
        fully_shard(job, model, "norm", reshard);
        fully_shard(job, model, "output", reshard);
        fully_shard(job, model, "", reshard);
        break;
    case NESTED:
        for (uint32_t i = 0; i < model->blocks->len; i++) {
            const char *block =
                sim_model_module(model, g_array_index(model->blocks, uint32_t, i))->path;
            g_autofree char *attention = g_strdup_printf("%s.attention", block);
            g_autofree char *feed_forward = g_strdup_printf("%s.feed_forward", block);
            fully_shard(job, model, attention, reshard);
            fully_shard(job, model, feed_forward, reshard);
            fully_shard(job, model, block, reshard);
        }
        fully_shard(job, model, "", reshard);
        break;
    }
}

static void run_action(SimFsdp2 *fsdp, Chain *chain, SimPlan *plan, const SimJobAction *action,
                       GArray **graph)
{
    sim_plan_context(plan)->phase = SIM_PHASE_OPTIMIZER;
    switch (action->kind) {
    case SIM_ACTION_FORWARD:
        *graph = chain_forward(chain);
        break;
    case SIM_ACTION_BACKWARD:
        chain_backward(chain, *graph);
        g_clear_pointer(graph, g_array_unref);
        sim_fsdp2_finish_backward(fsdp);
        break;
    case SIM_ACTION_OPTIMIZER:
        sim_fsdp2_step(fsdp);
        break;
    case SIM_ACTION_ZERO_GRAD:
        sim_fsdp2_zero_grad(fsdp);
        break;
    default:
        ck_abort_msg("an action that no recording has");
    }
}

static SimPlan *build(const SimJob *job, const SimModel *model)
{
    SimPlan *plan = sim_plan_new(job->ranks);
    g_autoptr(SimFsdp2) fsdp = sim_fsdp2_new(job, model, plan, NULL);
    ck_assert_ptr_nonnull(fsdp);
    SimDtype compute = job->precision.param_dtype;
    Chain chain = {.model = model,
                   .plan = plan,
                   .hooks = sim_fsdp2_hooks(fsdp),
                   .dtype = compute == NONE ? job->store_dtype : compute};
    GArray *graph = NULL;
    sim_fsdp2_start(fsdp);
    for (uint32_t step = 0; step < job->steps; step++) {
        sim_plan_context(plan)->step = (int32_t)step;
        for (uint32_t i = 0; i < job->actions->len; i++)
            run_action(fsdp, &chain, plan, &g_array_index(job->actions, SimJobAction, i), &graph);
    }
    return plan;
}

/* zero_grad comes first in the recorded scripts. */
static void order_actions(SimJob *job)
{
    SimJobAction zero_grad = {.kind = SIM_ACTION_ZERO_GRAD};
    g_array_set_size(job->actions, job->actions->len - 1);
    g_array_prepend_val(job->actions, zero_grad);
}

START_TEST(plans_are_what_pytorch_did)
{
    const Setting *setting = &SETTINGS[_i];
    SimModel *model = decoder_new(&RECORDED_NET);
    SimJob *job = fully_shard_new(setting->ranks, STEPS);
    job->shard_size = setting->shard_size == 0 ? setting->ranks : setting->shard_size;
    job->precision = setting->precision;
    job->store_dtype = setting->store_dtype;
    order_actions(job);
    wrap(job, model, setting->wrapping, *setting->reshard);
    if (setting->change != NULL)
        setting->change(job, model);
    g_autoptr(SimPlan) plan = build(job, model);
    g_autoptr(GError) error = NULL;
    ck_assert_msg(sim_plan_check(plan, &error), "%s: %s", setting->name,
                  error == NULL ? "" : error->message);

    g_autofree char *file = g_strdup_printf("%s%s.csv.gz", FOLDER, setting->name);
    Facts *recorded = facts_read_recording(file, &error);
    ck_assert_msg(recorded != NULL, "%s", error == NULL ? "" : error->message);
    Facts *planned = facts_read_plan(plan);
    g_autofree char *difference = facts_compare(recorded, planned);
    ck_assert_msg(difference == NULL, "%s, %s", setting->name, difference);
    facts_free(recorded);
    facts_free(planned);
    fully_shard_free(job);
    decoder_free(model);
}
END_TEST

static Suite *make_suite(void)
{
    Suite *suite = suite_create("fsdp2_recordings");
    TCase *tests = tcase_create("settings");
    tcase_add_loop_test(tests, plans_are_what_pytorch_did, 0, (int)G_N_ELEMENTS(SETTINGS));
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
