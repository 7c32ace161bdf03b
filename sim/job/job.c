/* SPDX-License-Identifier: Apache-2.0 */
#include "job/job.h"

#include <string.h>

#include "base/error.h"
#include "base/units.h"
#include "job/job_wrap.h"

/* What --reshard-after-forward says of each kind of unit. */
typedef struct ReshardRules {
    SimReshard embedding, block, last_block, head, root;
} ReshardRules;

static const SimReshard is_unset = {.kind = SIM_RESHARD_UNSET};
static const SimReshard is_true = {.kind = SIM_RESHARD_TRUE};
static const SimReshard is_false = {.kind = SIM_RESHARD_FALSE};

static void clear_unit(gpointer data)
{
    SimJobUnit *unit = data;

    g_free(unit->name);
    g_clear_pointer(&unit->modules, g_array_unref);
    g_clear_pointer(&unit->forward_prefetch, g_array_unref);
    g_clear_pointer(&unit->backward_prefetch, g_array_unref);
}

SimJob *sim_job_new(uint32_t ranks)
{
    SimJob *job = g_new0(SimJob, 1);

    job->api = SIM_API_FSDP2;
    job->ranks = job->shard_size = ranks;
    job->units = g_array_new(FALSE, TRUE, sizeof(SimJobUnit));
    g_array_set_clear_func(job->units, clear_unit);
    job->actions = g_array_new(FALSE, TRUE, sizeof(SimJobAction));
    return job;
}

void sim_job_free(SimJob *job)
{
    if (job == NULL)
        return;
    g_array_unref(job->units);
    g_array_unref(job->actions);
    g_clear_pointer(&job->ignored_parameters, g_array_unref);
    g_clear_pointer(&job->uncast_parameters, g_array_unref);
    g_free(job);
}

/* --- reshard after forward -----------------------------------------------------------------------
 */

/* An integer, as PyTorch takes it: 1 is false, all ranks are true. */
static bool parse_ranks(const char *text, uint32_t shard_size, SimReshard *reshard, GError **error)
{
    int64_t ranks;

    if (!sim_units_parse_int64(text, 1, shard_size, &ranks, error)) {
        g_prefix_error(error, "--reshard-after-forward: ");
        return false;
    }
    if (shard_size % ranks != 0) {
        g_set_error(error, SIM_ERROR, SIM_ERROR_RANGE,
                    "--reshard-after-forward: expected a number that divides the %u ranks of a "
                    "shard group, found %s",
                    shard_size, text);
        return false;
    }
    if (ranks == 1)
        *reshard = is_false;
    else if (ranks == shard_size)
        *reshard = is_true;
    else
        *reshard = (SimReshard){.kind = SIM_RESHARD_TO, .ranks = (uint32_t)ranks};
    return true;
}

static bool find_rules(const char *text, uint32_t shard_size, ReshardRules *rules, GError **error)
{
    if (g_ascii_isdigit(*text)) {
        SimReshard to;
        if (!parse_ranks(text, shard_size, &to, error))
            return false;
        *rules = (ReshardRules){is_true, to, to, is_false, to};
    } else if (strcmp(text, "auto") == 0) {
        *rules = (ReshardRules){is_unset, is_unset, is_unset, is_unset, is_unset};
    } else if (strcmp(text, "true") == 0) {
        *rules = (ReshardRules){is_true, is_true, is_true, is_true, is_true};
    } else if (strcmp(text, "false") == 0) {
        *rules = (ReshardRules){is_false, is_false, is_false, is_false, is_false};
    } else if (strcmp(text, "last-block-kept") == 0) {
        *rules = (ReshardRules){is_true, is_true, is_false, is_false, is_unset};
    } else {
        g_assert_cmpstr(text, ==, "default");
        *rules = (ReshardRules){is_true, is_true, is_true, is_false, is_unset};
    }
    return true;
}

/* --- units ---------------------------------------------------------------------------------------
 */

static void set_last_reshard(SimJob *job, SimReshard reshard)
{
    g_array_index(job->units, SimJobUnit, job->units->len - 1).reshard_after_forward = reshard;
}

static void add_blocks(SimJob *job, const SimModel *model, const ReshardRules *rules)
{
    for (guint i = 0; i < model->blocks->len; i++) {
        bool is_last = i + 1 == model->blocks->len;
        sim_job_wrap_add(job->units, model, &g_array_index(model->blocks, uint32_t, i), 1);
        set_last_reshard(job, is_last ? rules->last_block : rules->block);
    }
}

/* torchtitan's grouping; what a model does not have is left out. */
static void add_parts(SimJob *job, const SimModel *model, const ReshardRules *rules)
{
    uint32_t ends[2];
    size_t n_ends = 0;

    if (model->embedding != SIM_MODEL_NONE) {
        sim_job_wrap_add(job->units, model, &model->embedding, 1);
        set_last_reshard(job, rules->embedding);
    }
    add_blocks(job, model, rules);
    if (model->norm != SIM_MODEL_NONE)
        ends[n_ends++] = model->norm;
    if (model->head != SIM_MODEL_NONE)
        ends[n_ends++] = model->head;
    if (n_ends > 0) {
        sim_job_wrap_add(job->units, model, ends, n_ends);
        set_last_reshard(job, rules->head);
    }
}

/* By size, or those of a file. */
static bool add_chosen(SimJob *job, const SimModel *model, const char *wrap, SimReshard reshard,
                       GError **error)
{
    if (g_str_has_prefix(wrap, "size:")) {
        uint64_t parameters;
        if (!sim_units_parse_count(wrap + strlen("size:"), &parameters, error)) {
            g_prefix_error(error, "--wrap: ");
            return false;
        }
        sim_job_wrap_by_size(job->units, model, parameters);
    } else if (!sim_job_wrap_read_file(job->units, model, wrap, error)) {
        return false;
    }
    for (guint i = 0; i < job->units->len; i++)
        g_array_index(job->units, SimJobUnit, i).reshard_after_forward = reshard;
    return true;
}

static bool add_units(SimJob *job, const SimSettings *settings, const SimModel *model,
                      GError **error)
{
    const uint32_t root = 0;
    const char *wrap = settings->wrap;
    bool is_whole = strcmp(wrap, "root") == 0;
    ReshardRules rules;

    if (!find_rules(settings->reshard_after_forward, job->shard_size, &rules, error))
        return false;
    if (strcmp(wrap, "block") == 0 && !model->is_head_tied)
        add_parts(job, model, &rules);
    else if (strcmp(wrap, "block") == 0 || strcmp(wrap, "block+root") == 0)
        add_blocks(job, model, &rules);
    else if (!is_whole && !add_chosen(job, model, wrap, rules.block, error))
        return false;
    sim_job_wrap_add(job->units, model, &root, 1);
    set_last_reshard(job, is_whole ? rules.root : is_unset);
    return true;
}

/* --- a step --------------------------------------------------------------------------------------
 */

static void add_action(SimJob *job, SimJobActionKind kind, uint32_t microbatch, bool value)
{
    SimJobAction action = {
        .kind = kind, .microbatch = microbatch, .unit = SIM_MODEL_NONE, .value = value};

    g_array_append_val(job->actions, action);
}

/* For each microbatch forward and backward, then clip, optimizer, zero_grad. */
static void add_actions(SimJob *job, const SimSettings *settings)
{
    for (uint32_t i = 0; i < (uint32_t)settings->accumulate; i++) {
        add_action(job, SIM_ACTION_FORWARD, i, false);
        add_action(job, SIM_ACTION_BACKWARD, i, false);
    }
    if (settings->clip == SIM_SWITCH_ON)
        add_action(job, SIM_ACTION_CLIP, 0, false);
    add_action(job, SIM_ACTION_OPTIMIZER, 0, false);
    add_action(job, SIM_ACTION_ZERO_GRAD, 0, settings->zero_grad == SIM_ZERO_GRAD_KEEP);
}

SimJob *sim_job_build(const SimSettings *settings, const SimModel *model, GError **error)
{
    g_assert(settings->gpus > 0 && settings->sequence > 0);
    g_autoptr(SimJob) job = sim_job_new((uint32_t)settings->gpus);

    job->precision = (SimMixedPrecision){.param_dtype = (SimDtype)settings->param_dtype,
                                         .reduce_dtype = (SimDtype)settings->reduce_dtype};
    job->store_dtype = (SimDtype)settings->store_dtype;
    job->optimizer = (SimJobOptimizer)settings->optimizer;
    job->steps = (uint32_t)settings->steps;
    job->sequence = (uint64_t)settings->sequence;
    job->batch = (uint64_t)settings->batch;
    if (!add_units(job, settings, model, error))
        return NULL;
    add_actions(job, settings);
    return g_steal_pointer(&job);
}
