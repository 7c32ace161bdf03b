/* SPDX-License-Identifier: Apache-2.0 */
#include "job/job.h"

#include <string.h>

#include "base/error.h"
#include "base/units.h"
#include "job/job_patterns.h"
#include "job/job_wrap.h"
#include "job/setting_texts.h"

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
    job->checkpoints = g_array_new(FALSE, TRUE, sizeof(SimJobCheckpoint));
    return job;
}

void sim_job_free(SimJob *job)
{
    if (job == NULL)
        return;
    g_array_unref(job->units);
    g_array_unref(job->actions);
    g_array_unref(job->checkpoints);
    g_clear_pointer(&job->ignored_parameters, g_array_unref);
    g_clear_pointer(&job->uncast_parameters, g_array_unref);
    g_clear_pointer(&job->shard_dims, g_array_unref);
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

/* --- strategy ------------------------------------------------------------------------------------
 */

static bool is_hybrid(const SimSettings *settings)
{
    return settings->strategy == SIM_STRATEGY_HYBRID_SHARD ||
           settings->strategy == SIM_STRATEGY_HYBRID_SHARD_ZERO2;
}

static bool set_shard_size(SimJob *job, const SimSettings *settings, GError **error)
{
    if (settings->api == SIM_API_DDP || settings->strategy == SIM_STRATEGY_NO_SHARD) {
        job->shard_size = 1;
        job->has_replicate_mesh = settings->api == SIM_API_FSDP2;
    }
    if (!is_hybrid(settings) && settings->shard_size == 0)
        return true;
    if (!is_hybrid(settings)) {
        g_set_error(error, SIM_ERROR, SIM_ERROR_UNSUPPORTED,
                    "--shard-size: expected --strategy hybrid_shard or hybrid_shard_zero2 with it");
        return false;
    }
    g_assert(settings->shard_size > 0);
    if (settings->shard_size > job->ranks || job->ranks % settings->shard_size != 0) {
        g_set_error(
            error, SIM_ERROR, SIM_ERROR_RANGE,
            "--shard-size: expected a number that divides the %u GPUs, found %" G_GINT64_FORMAT,
            job->ranks, settings->shard_size);
        return false;
    }
    job->shard_size = (uint32_t)settings->shard_size;
    job->has_replicate_mesh = true;
    return true;
}

static bool check_ddp(const SimSettings *settings, GError **error)
{
    if (settings->strategy != SIM_STRATEGY_FULL_SHARD &&
        settings->strategy != SIM_STRATEGY_NO_SHARD) {
        g_set_error(error, SIM_ERROR, SIM_ERROR_UNSUPPORTED,
                    "--strategy: --api ddp shards nothing; expected no_shard, or --api fsdp2");
        return false;
    }
    if (settings->param_dtype != settings->store_dtype) {
        g_set_error(error, SIM_ERROR, SIM_ERROR_UNSUPPORTED,
                    "--param-dtype %s: --api ddp computes in the stored type; expected "
                    "--param-dtype %s, or --store-dtype %s",
                    sim_dtype_name((SimDtype)settings->param_dtype),
                    sim_dtype_name((SimDtype)settings->store_dtype),
                    sim_dtype_name((SimDtype)settings->param_dtype));
        return false;
    }
    return true;
}

/* What "auto" means, too. Error SCHEMA: words of the other API. */
static bool check_prefetch(const SimSettings *settings, GError **error)
{
    const char *text = settings->backward_prefetch;
    bool is_number = g_ascii_isdigit(*text);
    bool is_word = !is_number && strcmp(text, "auto") != 0;

    if (settings->api == SIM_API_FSDP1 ? is_number : is_word) {
        g_set_error(error, SIM_ERROR, SIM_ERROR_SCHEMA,
                    "--backward-prefetch: expected %s, found %s",
                    settings->api == SIM_API_FSDP1 ? "pre, post or none with --api fsdp1"
                                                   : "auto or a number of units",
                    text);
        return false;
    }
    return true;
}

static SimJobFsdp1 make_fsdp1(const SimJob *job, const SimSettings *settings)
{
    const char *prefetch = settings->backward_prefetch;

    return (SimJobFsdp1){
        .strategy = job->ranks == 1 ? SIM_STRATEGY_NO_SHARD : (SimStrategy)settings->strategy,
        .backward_prefetch = strcmp(prefetch, "post") == 0   ? SIM_BACKWARD_PREFETCH_POST
                             : strcmp(prefetch, "none") == 0 ? SIM_BACKWARD_PREFETCH_NONE
                                                             : SIM_BACKWARD_PREFETCH_PRE,
        .has_forward_prefetch = settings->forward_prefetch > 0,
        .limits_all_gathers = settings->limit_all_gathers == SIM_SWITCH_ON,
    };
}

/* FSDP2's names for the strategies. */
static const char *choose_reshard(const SimSettings *settings)
{
    bool is_kept = settings->strategy == SIM_STRATEGY_SHARD_GRAD_OP ||
                   settings->strategy == SIM_STRATEGY_HYBRID_SHARD_ZERO2 ||
                   settings->strategy == SIM_STRATEGY_NO_SHARD;

    if (is_kept && strcmp(settings->reshard_after_forward, "default") == 0)
        return "false";
    return settings->reshard_after_forward;
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
    bool has_groups = settings->api == SIM_API_FSDP2; /* one unit of several modules */
    ReshardRules rules;

    if (!find_rules(choose_reshard(settings), job->shard_size, &rules, error))
        return false;
    if (strcmp(wrap, "block") == 0 && !model->is_head_tied && has_groups)
        add_parts(job, model, &rules);
    else if (strcmp(wrap, "block") == 0 || strcmp(wrap, "block+root") == 0)
        add_blocks(job, model, &rules);
    else if (!is_whole && !add_chosen(job, model, wrap, rules.block, error))
        return false;
    sim_job_wrap_add(job->units, model, &root, 1);
    set_last_reshard(job, is_whole ? rules.root : is_unset);
    return true;
}

/* The units that UNIT names: the COUNT after it, or before it. */
static GArray *list_neighbours(uint32_t unit, uint32_t units, int64_t count, bool is_backward)
{
    GArray *targets = g_array_new(FALSE, FALSE, sizeof(uint32_t));
    uint32_t available = is_backward ? unit : units - 1 - unit;

    for (uint32_t i = 1; i <= available && i <= count; i++) {
        uint32_t target = is_backward ? unit - i : unit + i;
        g_array_append_val(targets, target);
    }
    return targets;
}

/* A unit with nothing to name is left alone, as in a script that loops over neighbours. */
static void add_prefetch(SimJob *job, const SimSettings *settings)
{
    uint32_t units = job->units->len - 1; /* without the root */
    int64_t backward = g_ascii_strtoll(settings->backward_prefetch, NULL, 10); /* 0: auto */

    for (uint32_t i = 0; i < units; i++) {
        SimJobUnit *unit = &g_array_index(job->units, SimJobUnit, i);
        if (settings->forward_prefetch > 0 && i + 1 < units)
            unit->forward_prefetch = list_neighbours(i, units, settings->forward_prefetch, false);
        if (backward > 0 && i > 0)
            unit->backward_prefetch = list_neighbours(i, units, backward, true);
    }
}

/* --- a step --------------------------------------------------------------------------------------
 */

static void add_action(SimJob *job, SimJobActionKind kind, uint32_t microbatch, bool value)
{
    SimJobAction action = {
        .kind = kind, .microbatch = microbatch, .unit = SIM_MODEL_NONE, .value = value};

    g_array_append_val(job->actions, action);
}

static void add_flag(SimJob *job, SimJobFlag flag, bool value)
{
    SimJobAction action = {
        .kind = SIM_ACTION_SET, .unit = SIM_MODEL_NONE, .flag = flag, .value = value};

    g_array_append_val(job->actions, action);
}

/* What changes before microbatch I of COUNT. */
static void add_flags(SimJob *job, const SimSettings *settings, uint32_t i, uint32_t count)
{
    if (count > 1 && settings->gradient_sync == SIM_SYNC_LAST && (i == 0 || i == count - 1))
        add_flag(job, SIM_FLAG_GRADIENT_SYNC, i == count - 1);
    if (count > 1 && settings->all_reduce == SIM_SYNC_LAST && (i == 0 || i == count - 1))
        add_flag(job, SIM_FLAG_ALL_REDUCE, i == count - 1);
}

/* FSDPModule.set_* calls of the script, made once. */
static bool add_sets(SimJob *job, const SimSettings *settings, const SimModel *model,
                     GError **error)
{
    job->reduce_scatter_input_buffers = (uint32_t)settings->reduce_scatter_buffers;
    job->has_reduce_scatter_group = settings->separate_reduce_scatter_group == SIM_SWITCH_ON;
    for (guint i = 0; i < job->units->len; i++)
        g_array_index(job->units, SimJobUnit, i).is_offloaded =
            settings->offload == SIM_OFFLOAD_CPU;
    if (settings->reshard_after_backward == SIM_BOOLEAN_FALSE)
        add_flag(job, SIM_FLAG_RESHARD_AFTER_BACKWARD, false);
    if (strcmp(settings->unshard_in_backward, "all") == 0)
        return true;
    g_autoptr(GArray) units = g_array_new(FALSE, FALSE, sizeof(uint32_t));
    g_autoptr(cJSON) pattern = cJSON_CreateString(settings->unshard_in_backward);
    if (!sim_job_patterns_read_units(job, model, pattern, "--unshard-in-backward", units, error))
        return false;
    for (guint i = 0; i < units->len; i++)
        g_array_index(job->units, SimJobUnit, g_array_index(units, uint32_t, i))
            .stays_sharded_in_backward = true;
    return true;
}

/* For each microbatch forward and backward, then clip, optimizer, zero_grad. */
static void add_actions(SimJob *job, const SimSettings *settings)
{
    for (uint32_t i = 0; i < (uint32_t)settings->accumulate; i++) {
        add_flags(job, settings, i, (uint32_t)settings->accumulate);
        add_action(job, SIM_ACTION_FORWARD, i, false);
        add_action(job, SIM_ACTION_BACKWARD, i, false);
    }
    if (settings->clip == SIM_SWITCH_ON)
        add_action(job, SIM_ACTION_CLIP, 0, false);
    add_action(job, SIM_ACTION_OPTIMIZER, 0, false);
    add_action(job, SIM_ACTION_ZERO_GRAD, 0, settings->zero_grad == SIM_ZERO_GRAD_KEEP);
}

static void add_checkpoints(SimJob *job, const SimSettings *settings, const SimModel *model)
{
    uint64_t every = 1;

    if (strcmp(settings->checkpoint, "none") == 0)
        return;
    sim_setting_texts_parse_every(settings->checkpoint, &every);
    for (uint64_t i = every - 1; i < model->blocks->len; i += every) {
        SimJobCheckpoint checkpoint = {
            .module = g_array_index(model->blocks, uint32_t, i),
            .is_selective = strcmp(settings->checkpoint, "selective") == 0,
            .stops_early = settings->early_stop == SIM_SWITCH_ON,
        };
        g_array_append_val(job->checkpoints, checkpoint);
    }
}

/* torch/optim/_adafactor.py raises a partial norm to a power in place, which DTensor refuses. */
static bool check_optimizer(const SimJob *job, GError **error)
{
    if (job->optimizer != SIM_JOB_ADAFACTOR || job->api != SIM_API_FSDP2)
        return true;
    g_set_error(error, SIM_ERROR, SIM_ERROR_UNSUPPORTED,
                "--optimizer adafactor: PyTorch refuses it on fsdp2's DTensors; expected another "
                "optimizer, or --api fsdp1 or ddp");
    return false;
}

static bool set_loss(SimJob *job, const SimSettings *settings, GError **error)
{
    uint64_t tokens = job->sequence * job->batch;

    sim_setting_texts_parse_loss(settings->loss, &job->loss_chunks);
    if (job->loss_chunks == 0 || tokens % job->loss_chunks == 0)
        return true;
    g_set_error(error, SIM_ERROR, SIM_ERROR_RANGE,
                "--loss %s: expected a divisor of the %" G_GUINT64_FORMAT
                " tokens of a microbatch, found %" G_GUINT64_FORMAT,
                settings->loss, tokens, job->loss_chunks);
    return false;
}

SimJob *sim_job_build(const SimSettings *settings, const SimModel *model, GError **error)
{
    g_assert(settings->gpus > 0 && settings->sequence > 0);
    g_autoptr(SimJob) job = sim_job_new((uint32_t)settings->gpus);

    job->api = (SimApi)settings->api;
    if ((job->api == SIM_API_DDP && !check_ddp(settings, error)) ||
        !set_shard_size(job, settings, error) || !check_prefetch(settings, error))
        return NULL;
    job->fsdp1 = make_fsdp1(job, settings);
    if (settings->bucket != NULL &&
        !sim_units_parse_bytes(settings->bucket, &job->ddp.bucket_cap_bytes, error))
        return NULL;
    job->precision = (SimMixedPrecision){.param_dtype = (SimDtype)settings->param_dtype,
                                         .reduce_dtype = (SimDtype)settings->reduce_dtype};
    job->store_dtype = (SimDtype)settings->store_dtype;
    job->optimizer = (SimJobOptimizer)settings->optimizer;
    job->torch = (SimTorch)settings->torch;
    job->steps = settings->steps > 0 ? (uint32_t)settings->steps : SIM_JOB_MOST_STEPS;
    job->is_built_on_meta = true;
    job->sequence = (uint64_t)settings->sequence;
    job->batch = (uint64_t)settings->batch;
    add_checkpoints(job, settings, model);
    if (!check_optimizer(job, error))
        return NULL;
    if (!set_loss(job, settings, error))
        return NULL;
    if (job->api != SIM_API_DDP && !add_units(job, settings, model, error))
        return NULL;
    if (job->api == SIM_API_FSDP2)
        add_prefetch(job, settings);
    if (job->api == SIM_API_FSDP2 && !add_sets(job, settings, model, error))
        return NULL;
    add_actions(job, settings);
    return g_steal_pointer(&job);
}
