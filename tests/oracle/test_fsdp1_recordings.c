/* SPDX-License-Identifier: Apache-2.0
 *
 * The builder against recordings of PyTorch 2.15's FullyShardedDataParallel (pytorch/README.md):
 * every file, three steps, line by line: casts, collectives and divisions with unit, bytes, type,
 * communicator and stream, waits of streams and of the host, record_stream, births and deaths of
 * FSDP's buffers, live bytes.
 *
 * The recordings were made on the CPU, where autograd has no streams. On a GPU it runs a node on
 * the stream on which its forward ran (torch/csrc/autograd/engine.cpp): the concatenation of
 * gradients and the hooks after it on the unshard stream, on which the flat parameter was split.
 * So within a recorded post-backward, and for the pool of the flat gradient, "compute" is read as
 * "unshard". The plan's events between gradients and their concatenation exist only there.
 */
#include "fsdp/plan_builder.h"
#include "support/decoder.h"
#include "support/facts.h"
#include "support/fully_shard.h"

#include <check.h>

#define FOLDER SIM_SOURCE_DIR "/tests/oracle/pytorch/fsdp1/"
#define STEPS 3

typedef enum Accumulation { ONE, TWO, TWO_WITHOUT_SYNC } Accumulation;

typedef struct Setting {
    const char *name; /* of the recording */
    uint32_t ranks;
    uint32_t shard_size; /* 0 = ranks */
    SimJobFsdp1 arguments;
    SimMixedPrecision precision;
    Accumulation accumulation;
    void (*change)(SimJob *job, SimModel *model); /* the rest of the script; may be NULL */
} Setting;

#define MIXED                                                                                      \
    {                                                                                              \
        SIM_DTYPE_BF16, SIM_DTYPE_F32                                                              \
    }
#define LOW                                                                                        \
    {                                                                                              \
        SIM_DTYPE_BF16, SIM_DTYPE_BF16                                                             \
    }
#define REDUCE_UNSET                                                                               \
    {                                                                                              \
        SIM_DTYPE_BF16, SIM_DTYPE_NONE                                                             \
    }
#define FULL                                                                                       \
    {                                                                                              \
        SIM_DTYPE_NONE, SIM_DTYPE_NONE                                                             \
    }
#define ARGUMENTS(...)                                                                             \
    {                                                                                              \
        .limits_all_gathers = true, __VA_ARGS__                                                    \
    }
#define STRATEGY(name_) .strategy = SIM_STRATEGY_##name_
#define PREFETCH(name_) .backward_prefetch = SIM_BACKWARD_PREFETCH_##name_

static void freeze_block_1(SimJob *job, SimModel *model)
{
    (void)job;
    for (uint32_t i = 0; i < model->parameters->len; i++) {
        SimParameter *parameter = &g_array_index(model->parameters, SimParameter, i);
        if (g_str_has_prefix(parameter->path, "layers.1."))
            parameter->is_frozen = true;
    }
}

/* fsdp(checkpoint_wrapper(block)) */
static void checkpoint_inside(SimJob *job, SimModel *model)
{
    for (uint32_t i = 0; i < model->blocks->len; i++) {
        SimJobCheckpoint checkpoint = {.module = g_array_index(model->blocks, uint32_t, i)};
        g_array_append_val(job->checkpoints, checkpoint);
    }
}

/* AdamW refuses low-precision gradients of f32 parameters, so that script has no optimizer. */
static void drop_optimizer(SimJob *job, SimModel *model)
{
    (void)model;
    g_array_set_size(job->actions, job->actions->len - 1);
}

static const Setting SETTINGS[] = {
    {"fsdp1-full-shard-w2", 2, 0, ARGUMENTS(), MIXED, ONE, NULL},
    {"fsdp1-full-shard-w4", 4, 0, ARGUMENTS(), MIXED, ONE, NULL},
    {"fsdp1-shard-grad-op-w2", 2, 0, ARGUMENTS(STRATEGY(SHARD_GRAD_OP)), MIXED, ONE, NULL},
    {"fsdp1-no-shard-w2", 2, 0, ARGUMENTS(STRATEGY(NO_SHARD)), MIXED, ONE, NULL},
    {"fsdp1-hybrid-2x2", 4, 2, ARGUMENTS(STRATEGY(HYBRID_SHARD)), MIXED, ONE, NULL},
    {"fsdp1-backward-post-w2", 2, 0, ARGUMENTS(PREFETCH(POST)), MIXED, ONE, NULL},
    {"fsdp1-backward-none-w2", 2, 0, ARGUMENTS(PREFETCH(NONE)), MIXED, ONE, NULL},
    {"fsdp1-forward-prefetch-w2", 2, 0, ARGUMENTS(.has_forward_prefetch = true), MIXED, ONE, NULL},
    {"fsdp1-limit-off-w2", 2, 0, {.limits_all_gathers = false}, MIXED, ONE, NULL},
    {"fsdp1-orig-params-false-w2", 2, 0, ARGUMENTS(.uses_flat_parameters = true), MIXED, ONE, NULL},
    {"fsdp1-orig-params-false-w4", 4, 0, ARGUMENTS(.uses_flat_parameters = true), MIXED, ONE, NULL},
    {"fsdp1-fp32-w2", 2, 0, ARGUMENTS(), FULL, ONE, NULL},
    {"fsdp1-bf16-reduce-unset-w2", 2, 0, ARGUMENTS(), REDUCE_UNSET, ONE, NULL},
    {"fsdp1-keep-low-precision-grads-w2", 2, 0,
     ARGUMENTS(.uses_flat_parameters = true, .keeps_low_precision_grads = true), LOW, ONE,
     drop_optimizer},
    {"fsdp1-accum2-w2", 2, 0, ARGUMENTS(), MIXED, TWO, NULL},
    {"fsdp1-accum2-nosync-w2", 2, 0, ARGUMENTS(), MIXED, TWO_WITHOUT_SYNC, NULL},
    {"fsdp1-accum2-nosync-shard-grad-op-w2", 2, 0, ARGUMENTS(STRATEGY(SHARD_GRAD_OP)), MIXED,
     TWO_WITHOUT_SYNC, NULL},
    {"fsdp1-frozen-block1-w2", 2, 0, ARGUMENTS(), MIXED, ONE, freeze_block_1},
    {"fsdp1-ac-fsdp-outside-w2", 2, 0, ARGUMENTS(), MIXED, ONE, checkpoint_inside},
};

/* --- the recording -----------------------------------------------------------------------------
 */

typedef struct Columns {
    int op, unit, bytes, dtype, group, stream, category, buffer, event;
} Columns;

/* On a GPU, see above. */
static char *translate(const char *stream, bool is_post_backward)
{
    if (!is_post_backward || !g_str_has_suffix(stream, "compute"))
        return g_strdup(stream);
    return g_strdup(g_str_has_prefix(stream, "stream:") ? "stream:unshard" : "unshard");
}

static bool is_work(const char *op)
{
    static const char *const WORK[] = {"cast", "all_gather", "reduce_scatter", "all_reduce", "div",
                                       "pad",  NULL};
    return g_strv_contains(WORK, op);
}

static void read_recorded_row(Facts *facts, const SimCsv *csv, size_t row, const Columns *columns,
                              bool is_post_backward)
{
    const char *op = sim_csv_cell(csv, row, columns->op);
    const char *unit = sim_csv_cell(csv, row, columns->unit);
    const char *bytes = sim_csv_cell(csv, row, columns->bytes);
    const char *dtype = sim_csv_cell(csv, row, columns->dtype);
    const char *buffer = sim_csv_cell(csv, row, columns->buffer);
    const char *category = sim_csv_cell(csv, row, columns->category);
    bool is_gradient = strcmp(category, "unsharded_gradient") == 0;
    g_autofree char *event = translate(sim_csv_cell(csv, row, columns->event), is_post_backward);
    g_autofree char *stream =
        translate(sim_csv_cell(csv, row, columns->stream), is_post_backward || is_gradient);
    if (strcmp(op, "alloc") == 0 || strcmp(op, "free") == 0)
        facts_add_buffer(facts, op[0] == 'a', category, unit, dtype, stream,
                         buffer[0] == 'S' ? "S" : buffer, g_ascii_strtoull(bytes, NULL, 10));
    else if (is_work(op))
        facts_add(facts, g_strdup_printf("%s %s %s %s %s on %s", op, unit,
                                         strcmp(op, "cast") == 0 ? "" : bytes, dtype,
                                         sim_csv_cell(csv, row, columns->group), stream));
    else if (strcmp(op, "record") == 0 || strcmp(op, "wait") == 0 || strcmp(op, "host_wait") == 0)
        facts_add(facts, g_strdup_printf("%s %s on %s", op, event, stream));
    else if (strcmp(op, "record_stream") == 0)
        facts_add(facts, g_strdup_printf("record_stream %s on %s", buffer, stream));
}

static Facts *read_recording(const char *file)
{
    g_autoptr(GError) error = NULL;
    g_autoptr(SimCsv) csv = sim_csv_load(file, NULL, &error);
    ck_assert_msg(csv != NULL, "%s", error == NULL ? "" : error->message);
    Columns columns = {
        .op = sim_csv_column(csv, "op"),
        .unit = sim_csv_column(csv, "unit"),
        .bytes = sim_csv_column(csv, "bytes"),
        .dtype = sim_csv_column(csv, "dtype"),
        .group = sim_csv_column(csv, "group"),
        .stream = sim_csv_column(csv, "stream"),
        .category = sim_csv_column(csv, "category"),
        .buffer = sim_csv_column(csv, "buffer"),
        .event = sim_csv_column(csv, "event"),
    };
    Facts *facts = facts_new(false);
    bool is_post_backward = false;
    for (size_t row = 0; row < sim_csv_rows(csv); row++) {
        const char *op = sim_csv_cell(csv, row, columns.op);
        if (strcmp(op, "post_backward") == 0)
            is_post_backward = true;
        else if (strcmp(op, "post_backward_end") == 0)
            is_post_backward = false;
        read_recorded_row(facts, csv, row, &columns, is_post_backward);
    }
    facts_flush(facts);
    return facts;
}

/* --- the plan ----------------------------------------------------------------------------------
 */

/* Not recorded: what autograd allocates, the trial allocations of lazy initialisation, AdamW's
 * `step`, and by an omission of the recorder gradients of the stored type under NO_SHARD (Q, with
 * no O before it) and those cast back into low precision (L). */
static bool is_recorded(const SimPlan *plan, const SimBuffer *buffer, bool has_shards)
{
    const char *name = sim_plan_string(plan, buffer->name.stem);
    switch ((SimCategory)buffer->category) {
    case SIM_CATEGORY_UNSHARDED_GRADIENT:
        return strcmp(sim_plan_stream_name(plan, buffer->stream), "unshard") == 0;
    case SIM_CATEGORY_SHARDED_GRADIENT:
        return has_shards && name[0] == 'Q';
    case SIM_CATEGORY_OPTIMIZER_STATE:
        return !g_str_has_suffix(sim_plan_string(plan, buffer->name.tail), ".step");
    case SIM_CATEGORY_PARAMETER_SHARD:
    case SIM_CATEGORY_LOW_PRECISION_SHARD:
    case SIM_CATEGORY_UNSHARDED_PARAMETER:
    case SIM_CATEGORY_REDUCE_COPY:
    case SIM_CATEGORY_REDUCE_SCATTER_OUTPUT:
        return true;
    default:
        return false;
    }
}

static void read_buffer(Facts *facts, const SimPlan *plan, const SimInstruction *row,
                        SimStringId unit)
{
    const SimBuffer *buffer = sim_plan_buffer(plan, row->buffer);
    g_autofree char *name = sim_plan_print_name(plan, buffer->name);
    bool is_state = buffer->category == SIM_CATEGORY_OPTIMIZER_STATE;
    const char *stream = sim_plan_stream_name(
        plan, row->op == SIM_PLAN_RECORD_STREAM ? row->stream : buffer->stream);
    if (row->op == SIM_PLAN_RECORD_STREAM)
        facts_add(facts, g_strdup_printf("record_stream %s on %s", name, stream));
    else
        facts_add_buffer(
            facts, row->op == SIM_PLAN_ALLOC, sim_plan_category_name((SimCategory)buffer->category),
            is_state ? "" : sim_plan_string(plan, unit), sim_dtype_name((SimDtype)buffer->dtype),
            stream, is_state ? "S" : name, buffer->bytes);
}

static void read_work(Facts *facts, const SimPlan *plan, const SimInstruction *row)
{
    const char *name = sim_plan_string(plan, row->name);
    const char *op = strcmp(name, "divide") == 0 ? "div" : name;
    bool is_cast = strcmp(op, "cast") == 0;
    const char *stream = sim_plan_stream_name(plan, row->stream);
    if (!is_work(op) || (is_cast && strcmp(stream, "pre_unshard") != 0))
        return;
    const SimTouch *written = sim_plan_touches(plan, row) + row->n_reads;
    uint64_t bytes = row->bytes != 0 ? row->bytes : sim_plan_buffer(plan, written->buffer)->bytes;
    g_autofree char *number = is_cast ? g_strdup("") : g_strdup_printf("%" G_GUINT64_FORMAT, bytes);
    facts_add(facts, g_strdup_printf(
                         "%s %s %s %s %s on %s", op, sim_plan_string(plan, row->unit), number,
                         sim_dtype_name((SimDtype)row->dtype),
                         row->group == SIM_PLAN_NONE ? "" : sim_plan_group_name(plan, row->group),
                         stream));
}

static void read_event(Facts *facts, const SimPlan *plan, const SimInstruction *row)
{
    const char *op = sim_plan_op_name((SimPlanOp)row->op);
    bool is_host = row->op == SIM_PLAN_HOST_WAIT;
    g_autofree char *event =
        row->is_event_of_stream
            ? g_strdup_printf("stream:%s", sim_plan_stream_name(plan, row->event))
            : sim_plan_print_name(plan, sim_plan_event_name(plan, row->event));
    if (!g_str_has_prefix(event, "grad:"))
        facts_add(facts, g_strdup_printf("%s %s on %s", op, event,
                                         is_host ? "" : sim_plan_stream_name(plan, row->stream)));
}

static Facts *read_plan(const SimPlan *plan, bool has_shards)
{
    Facts *facts = facts_new(false);
    g_autofree SimStringId *units = g_new0(SimStringId, sim_plan_buffer_count(plan) + 1);
    for (size_t i = 0; i < sim_plan_length(plan); i++) {
        const SimInstruction *row = sim_plan_instruction(plan, i);
        if (!sim_plan_rank_set_has(plan, row->rank_set, 0))
            continue;
        switch ((SimPlanOp)row->op) {
        case SIM_PLAN_ALLOC:
            units[row->buffer] = row->unit;
            G_GNUC_FALLTHROUGH;
        case SIM_PLAN_FREE:
        case SIM_PLAN_RECORD_STREAM:
            if (is_recorded(plan, sim_plan_buffer(plan, row->buffer), has_shards))
                read_buffer(facts, plan, row, units[row->buffer]);
            break;
        case SIM_PLAN_KERNEL:
        case SIM_PLAN_COLLECTIVE:
            read_work(facts, plan, row);
            break;
        case SIM_PLAN_RECORD:
        case SIM_PLAN_WAIT:
        case SIM_PLAN_HOST_WAIT:
            read_event(facts, plan, row);
            break;
        default:
            break;
        }
    }
    facts_flush(facts);
    return facts;
}

/* --- the job -----------------------------------------------------------------------------------
 */

static void add(SimJob *job, SimJobActionKind kind, uint32_t microbatch)
{
    SimJobAction action = {.kind = kind, .microbatch = microbatch, .unit = SIM_MODEL_NONE};
    g_array_append_val(job->actions, action);
}

static void set_actions(SimJob *job, Accumulation accumulation)
{
    uint32_t microbatches = accumulation == ONE ? 1 : 2;
    g_array_set_size(job->actions, 0);
    add(job, SIM_ACTION_ZERO_GRAD, 0);
    for (uint32_t i = 0; i < microbatches; i++) {
        SimJobAction no_sync = {.kind = SIM_ACTION_SET,
                                .unit = SIM_MODEL_NONE,
                                .flag = SIM_FLAG_GRADIENT_SYNC,
                                .value = i == microbatches - 1};
        if (accumulation == TWO_WITHOUT_SYNC)
            g_array_append_val(job->actions, no_sync);
        add(job, SIM_ACTION_FORWARD, i);
        add(job, SIM_ACTION_BACKWARD, i);
    }
    add(job, SIM_ACTION_OPTIMIZER, 0);
}

static SimPlan *build(const Setting *setting, SimModel *model)
{
    g_autoptr(SimJob) job = fully_shard_new(setting->ranks, STEPS);
    job->api = SIM_API_FSDP1;
    job->fsdp1 = setting->arguments;
    job->shard_size = setting->shard_size == 0 ? setting->ranks : setting->shard_size;
    job->precision = setting->precision;
    set_actions(job, setting->accumulation);
    fully_shard_base(job, model, (SimReshard){SIM_RESHARD_UNSET, 0});
    if (setting->change != NULL)
        setting->change(job, model);
    SimDtype compute = job->precision.param_dtype;
    SimAutogradOptions options = {
        .sequence = job->sequence,
        .batch = job->batch,
        .compute_dtype = compute == SIM_DTYPE_NONE ? job->store_dtype : compute,
        .residual_dtype = compute == SIM_DTYPE_NONE ? job->store_dtype : compute,
        .sm_count = 132,
        .compute_capability = 90,
    };
    g_autoptr(GError) error = NULL;
    SimPlan *plan = sim_plan_builder_build(job, model, &options, &error);
    ck_assert_msg(plan != NULL, "%s", error == NULL ? "" : error->message);
    ck_assert_msg(sim_plan_check(plan, &error), "%s: %s", setting->name,
                  error == NULL ? "" : error->message);
    return plan;
}

START_TEST(plans_are_what_pytorch_did)
{
    const Setting *setting = &SETTINGS[_i];
    const Decoder net = {RECORDED_NET};
    g_autoptr(SimModel) model = decoder_new(&net);
    g_autoptr(SimPlan) plan = build(setting, model);
    g_autofree char *file = g_strdup_printf("%s%s.csv.gz", FOLDER, setting->name);
    Facts *recorded = read_recording(file);
    Facts *planned = read_plan(plan, setting->arguments.strategy != SIM_STRATEGY_NO_SHARD);
    g_autofree char *difference = facts_compare(recorded, planned);
    ck_assert_msg(difference == NULL, "%s, %s", setting->name, difference);
    facts_free(recorded);
    facts_free(planned);
}
END_TEST

static Suite *make_suite(void)
{
    Suite *suite = suite_create("fsdp1_recordings");
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
