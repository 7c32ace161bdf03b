/* SPDX-License-Identifier: Apache-2.0
 *
 * The builder against recordings of PyTorch 2.15's fully_shard (pytorch/README.md): a job as the
 * recorded script wrote it, three steps, line by line what FSDP did: copies and collectives with
 * unit, bytes, type, communicator and stream, event edges, births and deaths of its buffers, live
 * bytes.
 */
#include "fsdp/plan_builder.h"
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
    TIED,        /* blocks | embedding + norm + output | root */
    NESTED,      /* in every block attention | feed-forward | block, then root */
} Wrapping;

typedef struct Setting Setting;

struct Setting {
    const char *name; /* of the recording */
    uint32_t ranks;
    Wrapping wrapping;
    const SimReshard *reshard;
    SimMixedPrecision precision;
    SimDtype store_dtype;
    uint32_t shard_size;                          /* 0 = ranks */
    void (*change)(SimJob *job, SimModel *model); /* the rest of the script; may be NULL */
    Decoder net;                                  /* no layers: as recorded */
    /* Live bytes at every piece of work instead of each birth and death: in shard1-w2 the recorder
     * has two equal blocks, one freed where the next is allocated, in the order of their addresses.
     */
    bool sums_memory;
};

#define F32 SIM_DTYPE_F32
#define BF16 SIM_DTYPE_BF16
#define F16 SIM_DTYPE_F16
#define NONE SIM_DTYPE_NONE
#define PRECISION(param_, reduce_, store_) .precision = {param_, reduce_}, .store_dtype = store_
#define MIXED PRECISION(BF16, F32, F32)
#define NET(...) .net = {RECORDED_NET, __VA_ARGS__}
#define SETTING(name_, ranks_, wrapping_, reshard_, ...)                                           \
    {                                                                                              \
        .name = name_, .ranks = ranks_, .wrapping = wrapping_, .reshard = reshard_, __VA_ARGS__    \
    }

/* Units in the order of the calls, base wrapping: blocks 0..3, root 4; titan: embedding 0,
 * blocks 1..4, norm+output 5, root 6. */
#define BASE_ROOT 4

static SimJobUnit *get_unit(SimJob *job, uint32_t unit)
{
    return &g_array_index(job->units, SimJobUnit, unit);
}

static void keep_last_block(SimJob *job, SimModel *model)
{
    get_unit(job, model->blocks->len - 1)->reshard_after_forward = KEPT;
}

/* --- actions -----------------------------------------------------------------------------------
 */

static void add(SimJob *job, SimJobActionKind kind, uint32_t microbatch)
{
    SimJobAction action = {.kind = kind, .microbatch = microbatch, .unit = SIM_MODEL_NONE};
    g_array_append_val(job->actions, action);
}

static void add_for_unit(SimJob *job, SimJobActionKind kind, uint32_t unit)
{
    SimJobAction action = {.kind = kind, .unit = unit};
    g_array_append_val(job->actions, action);
}

static void set(SimJob *job, SimJobFlag flag, bool value)
{
    SimJobAction action = {
        .kind = SIM_ACTION_SET, .unit = SIM_MODEL_NONE, .flag = flag, .value = value};
    g_array_append_val(job->actions, action);
}

#define NO_FLAG ((SimJobFlag)-1)

/* COUNT microbatches; the flags are true for the last of them only. */
static void accumulate_with(SimJob *job, uint32_t count, SimJobFlag first, SimJobFlag second)
{
    g_array_set_size(job->actions, 0);
    add(job, SIM_ACTION_ZERO_GRAD, 0);
    for (uint32_t i = 0; i < count; i++) {
        if (first != NO_FLAG)
            set(job, first, i == count - 1);
        if (second != NO_FLAG)
            set(job, second, i == count - 1);
        add(job, SIM_ACTION_FORWARD, i);
        add(job, SIM_ACTION_BACKWARD, i);
    }
    add(job, SIM_ACTION_OPTIMIZER, 0);
}

static void accumulate(SimJob *job, SimModel *model)
{
    (void)model;
    accumulate_with(job, 2, NO_FLAG, NO_FLAG);
}

static void accumulate_unsynchronised(SimJob *job, SimModel *model)
{
    (void)model;
    accumulate_with(job, 2, SIM_FLAG_GRADIENT_SYNC, NO_FLAG);
}

static void accumulate_three_unsynchronised(SimJob *job, SimModel *model)
{
    (void)model;
    accumulate_with(job, 3, SIM_FLAG_GRADIENT_SYNC, NO_FLAG);
}

static void accumulate_unsharded(SimJob *job, SimModel *model)
{
    (void)model;
    accumulate_with(job, 2, SIM_FLAG_GRADIENT_SYNC, SIM_FLAG_RESHARD_AFTER_BACKWARD);
}

static void accumulate_last_backward(SimJob *job, SimModel *model)
{
    (void)model;
    accumulate_with(job, 2, SIM_FLAG_LAST_BACKWARD, NO_FLAG);
}

static void accumulate_unsynchronised_last_backward(SimJob *job, SimModel *model)
{
    (void)model;
    accumulate_with(job, 2, SIM_FLAG_GRADIENT_SYNC, SIM_FLAG_LAST_BACKWARD);
}

static void accumulate_without_all_reduce(SimJob *job, SimModel *model)
{
    (void)model;
    accumulate_with(job, 2, SIM_FLAG_ALL_REDUCE, NO_FLAG);
}

/* Called once, after wrapping: first in the actions of every step is the same. */
static void keep_unsharded_after_backward(SimJob *job, SimModel *model)
{
    (void)model;
    g_array_set_size(job->actions, 0);
    set(job, SIM_FLAG_RESHARD_AFTER_BACKWARD, false);
    add(job, SIM_ACTION_ZERO_GRAD, 0);
    add(job, SIM_ACTION_FORWARD, 0);
    add(job, SIM_ACTION_BACKWARD, 0);
    add(job, SIM_ACTION_OPTIMIZER, 0);
}

static void evaluate(SimJob *job, SimModel *model)
{
    (void)model;
    add(job, SIM_ACTION_EVALUATE, 0);
}

static void evaluate_then_reshard(SimJob *job, SimModel *model)
{
    evaluate(job, model);
    add_for_unit(job, SIM_ACTION_RESHARD, BASE_ROOT);
}

static void reshard_two_blocks(SimJob *job, SimModel *model)
{
    (void)model;
    g_array_set_size(job->actions, 2); /* zero_grad, forward */
    add_for_unit(job, SIM_ACTION_RESHARD, 0);
    add_for_unit(job, SIM_ACTION_RESHARD, 1);
    add(job, SIM_ACTION_BACKWARD, 0);
    add(job, SIM_ACTION_OPTIMIZER, 0);
}

static void unshard_blocks(SimJob *job, SimModel *model)
{
    (void)model;
    g_array_set_size(job->actions, 1); /* zero_grad */
    for (uint32_t unit = 1; unit <= 4; unit++)
        add_for_unit(job, SIM_ACTION_UNSHARD, unit);
    add(job, SIM_ACTION_FORWARD, 0);
    add(job, SIM_ACTION_BACKWARD, 0);
    add(job, SIM_ACTION_OPTIMIZER, 0);
}

static void run_two_forwards_two_backwards(SimJob *job, SimModel *model)
{
    (void)model;
    g_array_set_size(job->actions, 1); /* zero_grad */
    add(job, SIM_ACTION_FORWARD, 0);
    add(job, SIM_ACTION_FORWARD, 1);
    set(job, SIM_FLAG_LAST_BACKWARD, false);
    add(job, SIM_ACTION_BACKWARD, 0);
    set(job, SIM_FLAG_LAST_BACKWARD, true);
    add(job, SIM_ACTION_BACKWARD, 1);
    add(job, SIM_ACTION_OPTIMIZER, 0);
}

/* --- calls on units ----------------------------------------------------------------------------
 */

static void add_target(GArray **targets, uint32_t unit)
{
    if (*targets == NULL)
        *targets = g_array_new(FALSE, FALSE, sizeof(uint32_t));
    g_array_append_val(*targets, unit);
}

/* ORDER[i] prefetches the COUNT units after it. Those of the last, if any, are an empty list: as if
 * not called. */
static void prefetch_along(SimJob *job, const uint32_t *order, uint32_t length, uint32_t count,
                           bool is_backward)
{
    for (uint32_t i = 0; i + 1 < length; i++)
        for (uint32_t j = i + 1; j < length && j <= i + count; j++) {
            SimJobUnit *unit = get_unit(job, order[i]);
            add_target(is_backward ? &unit->backward_prefetch : &unit->forward_prefetch, order[j]);
        }
}

static const uint32_t FORWARDS[] = {BASE_ROOT, 0, 1, 2, 3};
static const uint32_t BACKWARDS[] = {BASE_ROOT, 3, 2, 1, 0};
static const uint32_t TITAN_FORWARDS[] = {0, 1, 2, 3, 4, 5};
static const uint32_t TITAN_BACKWARDS[] = {5, 4, 3, 2, 1, 0};

static void prefetch_forward_1(SimJob *job, SimModel *model)
{
    (void)model;
    prefetch_along(job, FORWARDS, 5, 1, false);
}

static void prefetch_forward_2(SimJob *job, SimModel *model)
{
    (void)model;
    prefetch_along(job, FORWARDS, 5, 2, false);
}

static void prefetch_backward_1(SimJob *job, SimModel *model)
{
    (void)model;
    prefetch_along(job, BACKWARDS, 5, 1, true);
}

static void prefetch_backward_2(SimJob *job, SimModel *model)
{
    (void)model;
    prefetch_along(job, BACKWARDS, 5, 2, true);
}

static void prefetch_both(SimJob *job, SimModel *model)
{
    (void)model;
    prefetch_along(job, TITAN_FORWARDS, 6, 1, false);
    prefetch_along(job, TITAN_BACKWARDS, 6, 1, true);
}

static void keep_embedding_sharded(SimJob *job, SimModel *model)
{
    (void)model;
    get_unit(job, 0)->stays_sharded_in_backward = true;
}

static void unshard_async(SimJob *job, SimModel *model)
{
    (void)model;
    job->unshards_async = true;
}

static void record_post_optim_event(SimJob *job, SimModel *model)
{
    (void)model;
    job->has_post_optim_event = true;
}

static void keep_two_inputs(SimJob *job, SimModel *model)
{
    (void)model;
    job->reduce_scatter_input_buffers = 2;
}

static void separate_reduce_scatter(SimJob *job, SimModel *model)
{
    (void)model;
    job->has_reduce_scatter_group = true;
}

static void divide_by_1(SimJob *job, SimModel *model)
{
    (void)model;
    get_unit(job, BASE_ROOT)->gradient_divide_factor = 1;
}

static void divide_by_ranks(SimJob *job, SimModel *model)
{
    (void)model;
    get_unit(job, BASE_ROOT)->gradient_divide_factor = job->ranks;
}

static void force_sum(SimJob *job, SimModel *model)
{
    (void)model;
    get_unit(job, BASE_ROOT)->forces_sum_reduction = true;
}

static void keep_unsharded_storage(SimJob *job, SimModel *model)
{
    (void)model;
    job->keeps_unsharded_storage = true;
}

static void reduce_unused(SimJob *job, SimModel *model)
{
    (void)model;
    job->reduces_unused_parameters = true;
}

static void step_in_backward(SimJob *job, SimModel *model)
{
    (void)model;
    job->has_optimizer_in_backward = true;
    g_array_set_size(job->actions, 0);
    add(job, SIM_ACTION_ZERO_GRAD, 0);
    add(job, SIM_ACTION_FORWARD, 0);
    add(job, SIM_ACTION_BACKWARD, 0);
}

static void replicate(SimJob *job, SimModel *model)
{
    (void)model;
    job->has_replicate_mesh = true;
}

static void checkpoint_blocks(SimJob *job, const SimModel *model, bool is_outside)
{
    for (uint32_t i = 0; i < model->blocks->len; i++) {
        SimJobCheckpoint checkpoint = {.module = g_array_index(model->blocks, uint32_t, i),
                                       .is_outside = is_outside,
                                       .stops_early = true};
        g_array_append_val(job->checkpoints, checkpoint);
    }
}

/* fully_shard(checkpoint(block)) */
static void checkpoint_inside(SimJob *job, SimModel *model)
{
    checkpoint_blocks(job, model, false);
}

/* checkpoint(fully_shard(block)) */
static void checkpoint_outside(SimJob *job, SimModel *model)
{
    checkpoint_blocks(job, model, true);
}

/* --- the model ---------------------------------------------------------------------------------
 */

static void freeze(SimModel *model, const char *prefix, const char *suffix)
{
    for (uint32_t i = 0; i < model->parameters->len; i++) {
        SimParameter *parameter = &g_array_index(model->parameters, SimParameter, i);
        if (g_str_has_prefix(parameter->path, prefix) && g_str_has_suffix(parameter->path, suffix))
            parameter->is_frozen = true;
    }
}

static void freeze_block_1(SimJob *job, SimModel *model)
{
    (void)job;
    freeze(model, "layers.1.", "");
}

static void freeze_embedding_and_block_0(SimJob *job, SimModel *model)
{
    (void)job;
    freeze(model, "tok_embeddings", "");
    freeze(model, "layers.0.", "");
}

static void freeze_wq_and_w1(SimJob *job, SimModel *model)
{
    (void)job;
    freeze(model, "layers.", "wq.weight");
    freeze(model, "layers.", "w1.weight");
}

static void ignore_norms(SimJob *job, SimModel *model)
{
    for (uint32_t i = 0; i < model->parameters->len; i++)
        if (sim_model_parameter(model, i)->shape.n_dims == 1)
            add_target(&job->ignored_parameters, i);
}

/* Shard(1) for every matrix whose second dimension divides. */
static void shard_columns(SimJob *job, SimModel *model)
{
    for (uint32_t i = 0; i < model->parameters->len; i++) {
        const SimShape *shape = &sim_model_parameter(model, i)->shape;
        bool divides = shape->n_dims == 2 && shape->dims[1] % job->shard_size == 0;
        add_target(&job->shard_dims, divides ? 1 : 0);
    }
}

static void run_two_forwards_one_backward(SimJob *job, SimModel *model)
{
    (void)model;
    SimJobAction sum = {.kind = SIM_ACTION_BACKWARD, .summed = 2};
    g_array_set_size(job->actions, 1); /* zero_grad */
    add(job, SIM_ACTION_FORWARD, 0);
    add(job, SIM_ACTION_FORWARD, 1);
    g_array_append_val(job->actions, sum);
    add(job, SIM_ACTION_OPTIMIZER, 0);
}

static void keep_norms_in_f32(SimJob *job, SimModel *model)
{
    for (uint32_t i = 0; i < model->parameters->len; i++)
        if (sim_model_parameter(model, i)->shape.n_dims == 1)
            add_target(&job->uncast_parameters, i);
}

/* Not here:
 *
 * two-groups-per-block-w4, all-reduce-hook-w2, manual-finalize-w2: a parameter's own mesh, hooks
 * that are the user's code and manual finalisation are not part of a job;
 *
 * chunked-head-w2: the script cuts the graph itself;
 *
 * ac-fsdp-outside-reentrant-w2: checkpoints are not reentrant here;
 *
 * cpu-offload-w2: on CPU there are no copies, so its buffers are not those of a GPU. */
static const Setting SETTINGS[] = {
    SETTING("base-w2", 2, BASE, &UNSET, MIXED),
    SETTING("base-w3", 3, BASE, &UNSET, MIXED),
    SETTING("base-w4", 4, BASE, &UNSET, MIXED),
    SETTING("titan-w2", 2, TITAN, &UNSET, MIXED),
    SETTING("titan-w4", 4, TITAN, &UNSET, MIXED),
    SETTING("whole-w2", 2, WHOLE, &UNSET, MIXED),
    SETTING("nested-w2", 2, NESTED, &UNSET, MIXED),
    SETTING("blocks-only-no-root-params-w2", 2, ALL_PARTS, &UNSET, MIXED),
    SETTING("raf-true-w2", 2, BASE, &RESHARDED, MIXED),
    SETTING("set-raf-root-true-w2", 2, BASE, &RESHARDED, MIXED),
    SETTING("raf-false-w2", 2, BASE, &KEPT, MIXED),
    SETTING("raf-int1-w2", 2, BASE, &TO_1, MIXED),
    SETTING("raf-int2-w4", 4, BASE, &TO_2, MIXED),
    SETTING("raf-int2-fp32-w4", 4, BASE, &TO_2, PRECISION(NONE, NONE, F32)),
    SETTING("titan-raf-false-w2", 2, TITAN_ALIKE, &KEPT, MIXED),
    SETTING("titan-raf-true-w2", 2, TITAN_ALIKE, &RESHARDED, MIXED),
    SETTING("last-block-kept-w2", 2, BASE, &UNSET, MIXED, .change = keep_last_block),
    SETTING("mp-none-w2", 2, BASE, &UNSET, PRECISION(NONE, NONE, F32)),
    SETTING("mp-bf16-bf16-w2", 2, BASE, &UNSET, PRECISION(BF16, BF16, F32)),
    SETTING("mp-bf16-reduce-unset-w2", 2, BASE, &UNSET, PRECISION(BF16, NONE, F32)),
    SETTING("mp-fp32-param-bf16-reduce-w2", 2, BASE, &UNSET, PRECISION(NONE, BF16, F32)),
    SETTING("mp-output-fp32-w2", 2, BASE, &UNSET, MIXED),
    SETTING("mp-bf16-param-fp16-reduce-w2", 2, BASE, &UNSET, PRECISION(BF16, F16, F32)),
    SETTING("mp-norms-kept-fp32-w2", 2, BASE, &UNSET, MIXED, .change = keep_norms_in_f32),
    SETTING("model-bf16-w2", 2, BASE, &UNSET, PRECISION(NONE, NONE, BF16)),
    SETTING("model-bf16-reduce-fp32-w2", 2, BASE, &UNSET, PRECISION(NONE, F32, BF16)),
    SETTING("hsdp-2x2", 4, BASE, &UNSET, MIXED, .shard_size = 2),
    SETTING("hsdp-titan-2x2", 4, TITAN, &UNSET, MIXED, .shard_size = 2),
    SETTING("hsdp-fp32-2x2", 4, BASE, &UNSET, PRECISION(NONE, NONE, F32), .shard_size = 2),
    SETTING("hsdp-bf16-reduce-2x2", 4, BASE, &UNSET, PRECISION(BF16, BF16, F32), .shard_size = 2),
    SETTING("hsdp-raf-false-2x2", 4, BASE, &KEPT, MIXED, .shard_size = 2),
    SETTING("hsdp-accum2-2x2", 4, BASE, &UNSET, MIXED, .shard_size = 2, .change = accumulate),
    SETTING("hsdp-accum2-no-all-reduce-2x2", 4, BASE, &UNSET, MIXED, .shard_size = 2,
            .change = accumulate_without_all_reduce),
    SETTING("hsdp-2x1-w2", 2, BASE, &UNSET, MIXED, .shard_size = 1),
    SETTING("hsdp-1x2-w2", 2, BASE, &UNSET, MIXED, .shard_size = 2, .change = replicate),
    SETTING("replicate-w2", 2, BASE, &KEPT, MIXED, .shard_size = 1),
    SETTING("accum2-w2", 2, BASE, &UNSET, MIXED, .change = accumulate),
    SETTING("accum2-nosync-w2", 2, BASE, &UNSET, MIXED, .change = accumulate_unsynchronised),
    SETTING("accum3-nosync-titan-w2", 2, TITAN, &UNSET, MIXED,
            .change = accumulate_three_unsynchronised),
    SETTING("accum2-nosync-fp32-w2", 2, BASE, &UNSET, PRECISION(NONE, NONE, F32),
            .change = accumulate_unsynchronised),
    SETTING("accum2-nosync-bf16-reduce-w2", 2, BASE, &UNSET, PRECISION(BF16, BF16, F32),
            .change = accumulate_unsynchronised),
    SETTING("accum2-nosync-keep-unsharded-w2", 2, BASE, &UNSET, MIXED,
            .change = accumulate_unsharded),
    SETTING("accum2-last-backward-w2", 2, BASE, &UNSET, MIXED, .change = accumulate_last_backward),
    SETTING("accum2-nosync-last-backward-w2", 2, BASE, &UNSET, MIXED,
            .change = accumulate_unsynchronised_last_backward),
    SETTING("accum2-keep-unsharded-across-optim-w2", 2, BASE, &UNSET, MIXED,
            .change = keep_unsharded_after_backward),
    SETTING("eval-between-w2", 2, BASE, &UNSET, MIXED, .change = evaluate),
    SETTING("eval-then-reshard-w2", 2, BASE, &UNSET, MIXED, .change = evaluate_then_reshard),
    SETTING("explicit-reshard-w2", 2, BASE, &KEPT, MIXED, .change = reshard_two_blocks),
    SETTING("explicit-unshard-w2", 2, TITAN, &UNSET, MIXED, .change = unshard_blocks),
    SETTING("two-forward-two-backward-w2", 2, BASE, &UNSET, MIXED,
            .change = run_two_forwards_two_backwards),
    SETTING("ignored-norms-w2", 2, BASE, &UNSET, PRECISION(NONE, NONE, F32),
            .change = ignore_norms),
    SETTING("prefetch-fwd1-w2", 2, BASE, &UNSET, MIXED, .change = prefetch_forward_1),
    SETTING("prefetch-fwd2-w2", 2, BASE, &UNSET, MIXED, .change = prefetch_forward_2),
    SETTING("prefetch-bwd1-w2", 2, BASE, &UNSET, MIXED, .change = prefetch_backward_1),
    SETTING("prefetch-bwd2-w2", 2, BASE, &UNSET, MIXED, .change = prefetch_backward_2),
    SETTING("prefetch-titan-fwd1-bwd1-w2", 2, TITAN, &UNSET, MIXED, .change = prefetch_both),
    SETTING("no-unshard-in-backward-embedding-w2", 2, TITAN, &UNSET, MIXED,
            .change = keep_embedding_sharded),
    SETTING("unshard-async-op-w2", 2, BASE, &UNSET, MIXED, .change = unshard_async),
    SETTING("post-optim-event-w2", 2, BASE, &UNSET, MIXED, .change = record_post_optim_event),
    SETTING("rs-input-buffers2-w2", 2, BASE, &UNSET, MIXED, .change = keep_two_inputs),
    SETTING("separate-rs-group-w4", 4, BASE, &UNSET, MIXED, .change = separate_reduce_scatter),
    SETTING("divide-factor1-w2", 2, BASE, &UNSET, MIXED, .change = divide_by_1),
    SETTING("divide-factorW-w2", 2, BASE, &UNSET, MIXED, .change = divide_by_ranks),
    SETTING("force-sum-w2", 2, BASE, &UNSET, MIXED, .change = force_sum),
    SETTING("keep-unsharded-storage-w2", 2, BASE, &UNSET, MIXED, .change = keep_unsharded_storage),
    SETTING("optim-in-backward-w2", 2, BASE, &UNSET, MIXED, .change = step_in_backward),
    SETTING("ac-fsdp-outside-w2", 2, BASE, &UNSET, MIXED, .change = checkpoint_inside),
    SETTING("ac-fsdp-inside-w2", 2, BASE, &UNSET, MIXED, .change = checkpoint_outside),
    SETTING("ac-fsdp-inside-raf-false-w2", 2, BASE, &KEPT, MIXED, .change = checkpoint_outside),
    SETTING("ac-nested-units-inside-w2", 2, NESTED, &UNSET, MIXED, .change = checkpoint_inside),
    SETTING("shard1-w2", 2, BASE, &UNSET, MIXED, .change = shard_columns, .sums_memory = true),
    SETTING("two-forward-one-backward-w2", 2, BASE, &UNSET, MIXED,
            .change = run_two_forwards_one_backward),
    SETTING("frozen-block1-w2", 2, BASE, &UNSET, MIXED, .change = freeze_block_1),
    SETTING("frozen-embedding-block0-w2", 2, TITAN, &UNSET, MIXED,
            .change = freeze_embedding_and_block_0),
    SETTING("frozen-wq-w1-w2", 2, BASE, &UNSET, MIXED, .change = freeze_wq_and_w1),
    SETTING("unused-param-w2", 2, BASE, &UNSET, MIXED, NET(.extra_rows = 7, .extra_in = 6)),
    SETTING("unused-param-reduced-w2", 2, BASE, &UNSET, MIXED, .change = reduce_unused,
            NET(.extra_rows = 7, .extra_in = 6)),
    SETTING("unused-block2-w2", 2, BASE, &UNSET, MIXED, NET(.skipped_block = 3)),
    SETTING("tiny-param-w4", 4, BASE, &UNSET, MIXED,
            NET(.extra_rows = 3, .extra_in = 15, .is_extra_used = true)),
    SETTING("tied-root-w2", 2, BASE, &UNSET, MIXED, NET(.is_head_tied = true)),
    SETTING("tied-group-w2", 2, TIED, &UNSET, MIXED, NET(.is_head_tied = true)),
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
    case TIED:
        fully_shard_blocks(job, model, reshard);
        fully_shard(job, model, "tok_embeddings+norm+output", reshard);
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

static SimPlan *build(const SimJob *job, const SimModel *model)
{
    SimDtype compute = job->precision.param_dtype;
    SimAutogradOptions options = {
        .sequence = job->sequence,
        .batch = job->batch,
        .compute_dtype = compute == NONE ? job->store_dtype : compute,
        .sm_count = 132,
        .compute_capability = 90,
    };
    options.residual_dtype = options.compute_dtype;
    g_autoptr(GError) error = NULL;
    SimPlan *plan = sim_plan_builder_build(job, model, &options, &error);
    ck_assert_msg(plan != NULL, "%s", error == NULL ? "" : error->message);
    ck_assert_msg(sim_plan_check(plan, &error), "%s", error == NULL ? "" : error->message);
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
    const Decoder plain = {RECORDED_NET};
    g_autoptr(SimModel) model = decoder_new(setting->net.layers == 0 ? &plain : &setting->net);
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

    g_autofree char *file = g_strdup_printf("%s%s.csv.gz", FOLDER, setting->name);
    Facts *recorded = facts_read_recording(file, setting->sums_memory, &error);
    ck_assert_msg(recorded != NULL, "%s", error == NULL ? "" : error->message);
    Facts *planned = facts_read_plan(plan, setting->sums_memory);
    g_autofree char *difference = facts_compare(recorded, planned);
    ck_assert_msg(difference == NULL, "%s, %s", setting->name, difference);
    facts_free(recorded);
    facts_free(planned);
    sim_job_free(job);
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
