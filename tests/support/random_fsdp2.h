/* SPDX-License-Identifier: Apache-2.0
 *
 * Random FSDP2 jobs on small nets, and what must hold of every plan that is built from one: it is
 * sound, an independent verifier finds it safe, and from the second step on every step ends with
 * the same bytes alive. The same seed gives the same job.
 */
#pragma once

#include "check/verifier.h"
#include "fsdp/plan_builder.h"
#include "support/decoder.h"
#include "support/fully_shard.h"

#include <check.h>

#define RANDOM_STEPS 3

typedef struct RandomJob {
    GRand *random;
    SimModel *model;
    SimJob *job;
    SimBoundsLimits limits;
    GString *story; /* the job in words, for messages */
} RandomJob;

/* 0..COUNT - 1 */
static inline uint32_t random_below(RandomJob *made, uint32_t count)
{
    return (uint32_t)g_rand_int_range(made->random, 0, (gint32)count);
}

static inline bool random_one_in(RandomJob *made, uint32_t count)
{
    return random_below(made, count) == 0;
}

static inline uint32_t random_divisor(RandomJob *made, uint32_t number)
{
    uint32_t divisor = 1 + random_below(made, number);
    while (number % divisor != 0)
        divisor--;
    return divisor;
}

static inline void random_make_model(RandomJob *made)
{
    uint64_t heads = UINT64_C(1) << random_below(made, 3);
    Decoder net = {
        .layers = 1 + random_below(made, 4),
        .hidden = heads * (2 + random_below(made, 20)),
        .heads = heads,
        .key_value_heads = random_one_in(made, 2) ? heads : 1,
        .feed_forward = 1 + random_below(made, 90),
        .vocabulary = 2 + random_below(made, 300),
        .extra_rows = 1 + random_below(made, 9),
        .extra_in = random_one_in(made, 3) ? random_below(made, 16) : 0,
        .is_extra_used = random_one_in(made, 2),
        .is_head_tied = random_one_in(made, 4),
    };
    made->model = decoder_new(&net);
    g_string_append_printf(made->story, "%u blocks%s", (unsigned)net.layers,
                           net.is_head_tied ? ", tied" : "");
    if (random_one_in(made, 4)) {
        uint32_t block = random_below(made, (uint32_t)net.layers);
        g_autofree char *prefix = g_strdup_printf("layers.%u.", block);
        for (uint32_t i = 0; i < made->model->parameters->len; i++) {
            SimParameter *parameter = &g_array_index(made->model->parameters, SimParameter, i);
            parameter->is_frozen |= g_str_has_prefix(parameter->path, prefix);
        }
        g_string_append_printf(made->story, ", block %u frozen", block);
    }
}

/* TO stands for one size in the whole job. */
static inline SimReshard random_reshard(RandomJob *made, uint32_t to)
{
    static const SimReshardKind KINDS[] = {SIM_RESHARD_UNSET, SIM_RESHARD_TRUE, SIM_RESHARD_FALSE,
                                           SIM_RESHARD_TO};
    SimReshard reshard = {.kind = KINDS[random_below(made, G_N_ELEMENTS(KINDS))], .ranks = to};
    g_string_append_printf(made->story, " r%d", (int)reshard.kind);
    return reshard;
}

static inline void random_wrap(RandomJob *made)
{
    const SimModel *model = made->model;
    uint32_t to = random_divisor(made, made->job->shard_size);
    bool is_tied = sim_model_parameter(model, model->parameters->len - 1)->tied_to == 0;
    uint32_t style = random_below(made, 4);
    g_string_append_printf(made->story, ", wrapping %u", style);
    if (style == 1 && !is_tied)
        fully_shard(made->job, model, "tok_embeddings", random_reshard(made, to));
    for (uint32_t i = 0; i < model->blocks->len && style > 0; i++) {
        const char *path = sim_model_module(model, g_array_index(model->blocks, uint32_t, i))->path;
        if (style == 2) {
            g_autofree char *attention = g_strdup_printf("%s.attention", path);
            fully_shard(made->job, model, attention, random_reshard(made, to));
        }
        fully_shard(made->job, model, path, random_reshard(made, to));
    }
    if (style == 1 && !is_tied)
        fully_shard(made->job, model, "norm+output", random_reshard(made, to));
    fully_shard(made->job, model, "", random_reshard(made, to));
}

static inline void random_set_types(RandomJob *made)
{
    static const SimMixedPrecision POLICIES[] = {
        {SIM_DTYPE_BF16, SIM_DTYPE_F32},  {SIM_DTYPE_BF16, SIM_DTYPE_BF16},
        {SIM_DTYPE_BF16, SIM_DTYPE_NONE}, {SIM_DTYPE_NONE, SIM_DTYPE_NONE},
        {SIM_DTYPE_NONE, SIM_DTYPE_BF16}, {SIM_DTYPE_F16, SIM_DTYPE_F16},
    };
    made->job->precision = POLICIES[random_below(made, G_N_ELEMENTS(POLICIES))];
    made->job->store_dtype = random_one_in(made, 4) ? SIM_DTYPE_BF16 : SIM_DTYPE_F32;
    g_string_append_printf(
        made->story, ", %s/%s/%s", sim_dtype_name(made->job->precision.param_dtype),
        sim_dtype_name(made->job->precision.reduce_dtype), sim_dtype_name(made->job->store_dtype));
}

/* Each unit names up to COUNT units after (before) it in call order. */
static inline void random_add_prefetch(RandomJob *made, uint32_t count, bool is_backward)
{
    for (uint32_t u = 0; u < made->job->units->len; u++) {
        SimJobUnit *unit = &g_array_index(made->job->units, SimJobUnit, u);
        GArray *targets = g_array_new(FALSE, FALSE, sizeof(uint32_t));
        for (uint32_t i = 1; i <= count; i++) {
            uint32_t target = is_backward ? u - i : u + i;
            if (target < made->job->units->len)
                g_array_append_val(targets, target);
        }
        *(is_backward ? &unit->backward_prefetch : &unit->forward_prefetch) = targets;
    }
    g_string_append_printf(made->story, ", prefetch %s %u", is_backward ? "back" : "on", count);
}

static inline void random_set_communication(RandomJob *made)
{
    SimJob *job = made->job;
    job->has_reduce_scatter_group = random_one_in(made, 4);
    job->has_post_optim_event = random_one_in(made, 4);
    job->reduces_unused_parameters = random_one_in(made, 6);
    job->unshards_async = random_one_in(made, 8);
    bool is_offloaded = random_one_in(made, 6) && job->shard_size > 1;
    for (uint32_t u = 0; u < job->units->len; u++)
        g_array_index(job->units, SimJobUnit, u).is_offloaded = is_offloaded;
    g_string_append(made->story, is_offloaded ? ", offloaded" : "");
    job->reduce_scatter_input_buffers = 1 + random_below(made, 3);
    made->limits.reduce_inputs = job->reduce_scatter_input_buffers;
    if (random_one_in(made, 3)) {
        uint32_t count = 1 + random_below(made, 2);
        random_add_prefetch(made, count, false);
        made->limits.gathers_forward += count;
    }
    if (random_one_in(made, 3)) {
        uint32_t count = 1 + random_below(made, 2);
        random_add_prefetch(made, count, true);
        made->limits.gathers_backward += count;
    }
    g_string_append_printf(made->story, ", buffers %u%s%s%s%s", job->reduce_scatter_input_buffers,
                           job->has_reduce_scatter_group ? ", own group" : "",
                           job->has_post_optim_event ? ", post optim" : "",
                           job->reduces_unused_parameters ? ", unused reduced" : "",
                           job->unshards_async ? ", async" : "");
}

static inline void random_add_checkpoints(RandomJob *made)
{
    bool is_outside = random_one_in(made, 2), is_selective = random_one_in(made, 2);
    if (!random_one_in(made, 3))
        return;
    for (uint32_t i = 0; i < made->model->blocks->len; i++) {
        SimJobCheckpoint checkpoint = {
            .module = g_array_index(made->model->blocks, uint32_t, i),
            .is_outside = is_outside,
            .is_selective = is_selective,
            .stops_early = !is_selective,
        };
        g_array_append_val(made->job->checkpoints, checkpoint);
    }
    g_string_append_printf(made->story, ", checkpoint %s %s", is_outside ? "outside" : "inside",
                           is_selective ? "selective" : "full");
}

static inline void random_add(RandomJob *made, SimJobActionKind kind, uint32_t microbatch)
{
    SimJobAction action = {.kind = kind, .microbatch = microbatch, .unit = SIM_MODEL_NONE};
    g_array_append_val(made->job->actions, action);
}

static inline void random_set_flag(RandomJob *made, SimJobFlag flag, bool value)
{
    SimJobAction action = {
        .kind = SIM_ACTION_SET, .unit = SIM_MODEL_NONE, .flag = flag, .value = value};
    g_array_append_val(made->job->actions, action);
}

static inline void random_make_step(RandomJob *made)
{
    uint32_t microbatches = 1 + random_below(made, 3);
    bool syncs_last = random_one_in(made, 2), reduces_last = random_one_in(made, 3);
    bool finishes_last = random_one_in(made, 3);
    g_array_set_size(made->job->actions, 0);
    random_add(made, SIM_ACTION_ZERO_GRAD, 0);
    for (uint32_t i = 0; i < microbatches; i++) {
        bool is_last = i + 1 == microbatches;
        if (syncs_last)
            random_set_flag(made, SIM_FLAG_GRADIENT_SYNC, is_last);
        if (reduces_last)
            random_set_flag(made, SIM_FLAG_ALL_REDUCE, is_last);
        if (finishes_last)
            random_set_flag(made, SIM_FLAG_LAST_BACKWARD, is_last);
        random_add(made, SIM_ACTION_FORWARD, i);
        random_add(made, SIM_ACTION_BACKWARD, i);
    }
    if (random_one_in(made, 2))
        random_add(made, SIM_ACTION_CLIP, 0);
    random_add(made, SIM_ACTION_OPTIMIZER, 0);
    if (random_one_in(made, 4))
        random_add(made, SIM_ACTION_EVALUATE, 0);
    g_string_append_printf(made->story, ", %u microbatches%s%s%s, %u actions", microbatches,
                           syncs_last ? " sync last" : "", reduces_last ? " all-reduce last" : "",
                           finishes_last ? " finish last" : "", made->job->actions->len);
}

static inline void random_job_init(RandomJob *made, uint32_t seed)
{
    static const uint32_t RANKS[] = {1, 2, 3, 4, 6, 8};
    *made = (RandomJob){
        .random = g_rand_new_with_seed(seed),
        .story = g_string_new(NULL),
        .limits = {.gathers_forward = 2, .gathers_backward = 1},
    };
    g_string_append_printf(made->story, "seed %u: ", seed);
    random_make_model(made);
    made->job = fully_shard_new(RANKS[random_below(made, G_N_ELEMENTS(RANKS))], RANDOM_STEPS);
    made->job->shard_size =
        random_one_in(made, 3) ? random_divisor(made, made->job->ranks) : made->job->ranks;
    g_string_append_printf(made->story, ", %u ranks by %u", made->job->ranks,
                           made->job->shard_size);
    random_wrap(made);
    random_set_types(made);
    random_set_communication(made);
    random_add_checkpoints(made);
    random_make_step(made);
}

static inline void random_job_done(RandomJob *made)
{
    g_rand_free(made->random);
    sim_model_free(made->model);
    sim_job_free(made->job);
    g_string_free(made->story, TRUE);
}

/* Bytes that RANK has alive at the end of each step. */
static inline void random_count_live(const SimPlan *plan, uint32_t rank,
                                     uint64_t live[RANDOM_STEPS])
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < sim_plan_length(plan); i++) {
        const SimInstruction *row = sim_plan_instruction(plan, i);
        bool is_its = sim_plan_rank_set_has(plan, row->rank_set, rank);
        if (is_its && row->op == SIM_PLAN_ALLOC)
            bytes += sim_plan_buffer(plan, row->buffer)->bytes;
        else if (is_its && row->op == SIM_PLAN_FREE)
            bytes -= sim_plan_buffer(plan, row->buffer)->bytes;
        if (row->step >= 0)
            live[row->step] = bytes;
    }
}

/* Builds the job and looks at its plan. */
static inline void random_job_prove(const RandomJob *made)
{
    SimDtype compute = made->job->precision.param_dtype;
    SimAutogradOptions options = {
        .sequence = 8,
        .batch = 1,
        .compute_dtype = compute == SIM_DTYPE_NONE ? made->job->store_dtype : compute,
        .sm_count = 132,
        .compute_capability = 90,
    };
    options.residual_dtype = options.compute_dtype;
    g_autoptr(GError) error = NULL;
    g_autoptr(SimPlan) plan = sim_plan_builder_build(made->job, made->model, &options, &error);
    ck_assert_msg(plan != NULL, "%s: %s", made->story->str, error == NULL ? "" : error->message);
    ck_assert_msg(sim_plan_check(plan, &error), "%s: %s", made->story->str,
                  error == NULL ? "" : error->message);

    g_autoptr(SimVerifier) verifier = sim_verifier_new();
    sim_verifier_set_limits(verifier, &made->limits);
    ck_assert(sim_verifier_add(verifier, plan, "plan", 0, made->job->ranks - 1, &error));
    g_autoptr(SimVerdict) verdict = sim_verifier_finish(verifier, &error);
    ck_assert_msg(verdict != NULL, "%s: %s", made->story->str, error == NULL ? "" : error->message);
    g_autofree char *text = sim_verdict_print(verdict, 3);
    ck_assert_msg(sim_verdict_is_safe(verdict), "%s\n%s", made->story->str, text);

    for (uint32_t rank = 0; rank < made->job->ranks; rank++) {
        uint64_t live[RANDOM_STEPS];
        random_count_live(plan, rank, live);
        ck_assert_msg(live[1] == live[2], "%s: rank %u ends steps 2 and 3 with %lu and %lu bytes",
                      made->story->str, rank, (unsigned long)live[1], (unsigned long)live[2]);
    }
}

static inline void random_job_check(uint32_t seed)
{
    RandomJob made;
    random_job_init(&made, seed);
    random_job_prove(&made);
    random_job_done(&made);
}
