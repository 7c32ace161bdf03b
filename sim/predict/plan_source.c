/* SPDX-License-Identifier: Apache-2.0 */
#include "predict/plan_source.h"

#include <string.h>

#include "base/error.h"
#include "fsdp/plan_builder.h"
#include "job/job_file.h"
#include "job/job_freeze.h"
#include "job/setting_texts.h"
#include "model/hf_model.h"
#include "model/modules_json.h"
#include "predict/json_writer.h"
#include "predict/memory_settings.h"
#include "predict/steady_steps.h"

static const char *const run_settings[] = {
    "cluster", "allocator", "hbm", "collectives", "jitter", "slow-rank", "slow-link", "seed", NULL};
static const char *const free_settings[] = {"fold", "jobs", "ranks", NULL};

static const char kept_logits[] = "kept-logits"; /* --loss */
static const char plan_origin[] = "plan: meta config";

bool sim_plan_source_allows(const char *setting)
{
    return g_strv_contains(run_settings, setting) || g_strv_contains(free_settings, setting);
}

/* --- building ----------------------------------------------------------------------------------
 */

static SimModelOptions read_model_options(const SimSettings *settings)
{
    static const SimAttentionKind attentions[] = {
        [SIM_SETTING_FLASH] = SIM_ATTENTION_FLASH,
        [SIM_SETTING_CUDNN] = SIM_ATTENTION_CUDNN,
        [SIM_SETTING_EFFICIENT] = SIM_ATTENTION_EFFICIENT,
        [SIM_SETTING_MATH] = SIM_ATTENTION_MATH,
        [SIM_SETTING_EAGER] = SIM_ATTENTION_EAGER,
    };
    SimModelOptions options = {
        .code = settings->code == SIM_CODE_TORCHTITAN ? SIM_MODEL_CODE_TORCHTITAN
                                                      : SIM_MODEL_CODE_TRANSFORMERS,
        .is_norm_composite = settings->norm == SIM_NORM_COMPOSITE,
        .is_norm_wide = settings->norm == SIM_NORM_COMPOSITE_FP32,
        .attention = attentions[settings->attention],
        .experts = settings->experts == SIM_SETTING_LOOP ? SIM_EXPERTS_LOOP : SIM_EXPERTS_GROUPED,
        .is_output_wide = strcmp(settings->loss, kept_logits) == 0,
        .is_rope_real = settings->code == SIM_CODE_TORCHTITAN && settings->rope == SIM_ROPE_REAL,
        .sequence = (uint64_t)settings->sequence,
        .batch = (uint64_t)settings->batch,
    };
    sim_setting_texts_parse_dropout(settings->dropout, &options.dropout);
    return options;
}

/* A module tree says how it is written; nothing bounds the length of its samples. */
static SimModel *load_tree(SimSettings *settings, const SimCluster *cluster, const cJSON *json,
                           const char *file, GError **error)
{
    static const char *const fixed[] = {"code",    "norm", "attention", "rope",
                                        "experts", "loss", "dropout",   NULL};
    for (size_t i = 0; i < sim_settings_count(); i++) {
        const char *name = sim_settings_info(i)->name;
        if ((settings->given >> i & 1) != 0 && g_strv_contains(fixed, name)) {
            g_set_error(error, SIM_ERROR, SIM_ERROR_UNSUPPORTED,
                        "--%s: %s is a module tree, which says that itself; expected a config.json "
                        "or no such option",
                        name, file);
            return NULL;
        }
    }
    if (!sim_settings_settle(settings, cluster->gpus, UINT64_MAX, false, error)) {
        return NULL;
    }
    g_autoptr(SimModel) model = sim_modules_json_read(json, file, (uint64_t)settings->batch,
                                                      (uint64_t)settings->sequence, error);
    return model != NULL && sim_job_freeze(model, settings->frozen, error) ? g_steal_pointer(&model)
                                                                           : NULL;
}

static SimModel *load_config(SimSettings *settings, const SimCluster *cluster, const char *file,
                             GError **error)
{
    g_autoptr(SimModelConfig) config = sim_hf_config_load(file, error);
    if (config == NULL ||
        !sim_settings_settle(settings, cluster->gpus, config->max_positions,
                             sim_hf_model_has_code(config, SIM_MODEL_CODE_TORCHTITAN), error)) {
        return NULL;
    }
    if (config->architecture == SIM_ARCHITECTURE_GPT2 &&
        (uint64_t)settings->sequence > config->max_positions) {
        g_set_error(error, SIM_ERROR, SIM_ERROR_RANGE,
                    "--seq: expected at most %" G_GUINT64_FORMAT ", the positions that %s learns, "
                    "found %" G_GINT64_FORMAT,
                    config->max_positions, config->name, settings->sequence);
        return NULL;
    }
    SimModelOptions options = read_model_options(settings);
    g_autoptr(SimModel) model = sim_hf_model_build(config, &options, error);
    if (model == NULL || !sim_job_freeze(model, settings->frozen, error)) {
        return NULL;
    }
    return g_steal_pointer(&model);
}

static SimModel *load_model(SimSettings *settings, const SimCluster *cluster, const char *file,
                            GError **error)
{
    bool is_hybrid = settings->strategy == SIM_STRATEGY_HYBRID_SHARD ||
                     settings->strategy == SIM_STRATEGY_HYBRID_SHARD_ZERO2;
    if (is_hybrid && settings->shard_size == 0) {
        settings->shard_size = MIN(cluster->gpus_per_node, cluster->gpus);
    }
    g_autoptr(cJSON) json = sim_json_load(file, error);
    if (json == NULL) {
        return NULL;
    }
    return sim_modules_json_is_tree(json) ? load_tree(settings, cluster, json, file, error)
                                          : load_config(settings, cluster, file, error);
}

/* What rank 0..W-1 store over what there is, less one: dimension 0 is cut into W equal pieces, the
 * last ones padded (torch/distributed/fsdp/_fully_shard/_fsdp_param.py). */
static double compute_padding(const SimModel *model, uint32_t shard_size)
{
    double padded = 0, true_elements = 0;
    for (guint i = 0; i < model->parameters->len; i++) {
        const SimParameter *parameter = sim_model_parameter(model, i);
        if (parameter->tied_to != SIM_MODEL_NONE || parameter->elements == 0) {
            continue;
        }
        uint64_t rows = parameter->shape.n_dims > 0 ? parameter->shape.dims[0] : 1;
        uint64_t pieces = (rows + shard_size - 1) / shard_size * shard_size;
        padded += (double)(parameter->elements / rows) * (double)pieces;
        true_elements += (double)parameter->elements;
    }
    return true_elements > 0 ? (padded - true_elements) / true_elements : 0;
}

/* Training FLOPs of one token as torchtitan counts them (models/utils.py): 6 a parameter, those of
 * the embedding left out unless the head is tied to it, and 6 * layers * heads * (query-key + value
 * dimension) * sequence for attention, without discount for the causal mask. */
static double compute_flops_per_token(const SimModel *model, uint64_t sequence)
{
    const SimModelFigures *figures = &model->figures;
    double parameters = (double)sim_model_elements(model) - (double)figures->embedding_elements;
    return 6 * parameters + 12 * (double)figures->layers * (double)figures->heads *
                                (double)figures->head_dim * (double)sequence;
}

/* Units that have parameters of their own, and so communicate: those that hold shards. */
static uint32_t count_units(const SimPlan *plan)
{
    g_autoptr(GHashTable) units = g_hash_table_new(NULL, NULL);
    for (size_t i = 0; i < sim_plan_length(plan); i++) {
        const SimInstruction *instruction = sim_plan_instruction(plan, i);
        if (instruction->step >= 0) {
            break;
        }
        if (instruction->op == SIM_PLAN_ALLOC &&
            sim_plan_buffer(plan, instruction->buffer)->category == SIM_CATEGORY_PARAMETER_SHARD) {
            g_hash_table_add(units, GUINT_TO_POINTER(instruction->unit));
        }
    }
    return g_hash_table_size(units);
}

static char *print_model(const SimPlan *plan, const SimModel *model, const SimJob *job,
                         uint64_t forwards)
{
    GString *text = g_string_new(NULL);
    SimJsonWriter writer;
    sim_json_writer_init(&writer, text, true);
    sim_json_writer_begin_object(&writer, NULL);
    sim_json_writer_text(&writer, "name", model->name);
    sim_json_writer_uint(&writer, "parameters", model->config_parameters);
    sim_json_writer_uint(&writer, "trained_parameters", sim_model_elements(model));
    sim_json_writer_uint(&writer, "units", count_units(plan));
    sim_json_writer_double(&writer, "padding_fraction", compute_padding(model, job->shard_size));
    sim_json_writer_double(&writer, "flops_per_token",
                           compute_flops_per_token(model, job->sequence));
    sim_json_writer_uint(&writer, "tokens_per_rank", job->sequence * job->batch * forwards);
    if (model->without_calls != NULL) {
        sim_json_writer_begin_array(&writer, "modules_without_calls");
        for (guint i = 0; i < model->without_calls->len; i++) {
            uint32_t module = g_array_index(model->without_calls, uint32_t, i);
            sim_json_writer_text(&writer, NULL, sim_model_module(model, module)->path);
        }
        sim_json_writer_end_array(&writer);
    }
    sim_json_writer_end_object(&writer);
    return g_string_free(text, FALSE);
}

static void set_config(SimPlan *plan, const cJSON *config)
{
    g_autoptr(GString) text = g_string_new(NULL);
    SimJsonWriter writer;
    sim_json_writer_init(&writer, text, true);
    sim_json_writer_tree(&writer, NULL, config);
    sim_plan_set_meta(plan, "config", text->str);
}

static SimDtype compute_dtype(const SimJob *job)
{
    return job->precision.param_dtype != SIM_DTYPE_NONE ? job->precision.param_dtype
                                                        : job->store_dtype;
}

/* --job FILE: its mesh says how many GPUs there are, and none of its subjects may be an option too.
 */
static bool adopt_job_file(SimSettings *settings, GError **error)
{
    uint32_t ranks;
    for (size_t i = 0; i < sim_settings_count(); i++) {
        const SimSettingInfo *info = sim_settings_info(i);
        bool is_given = (settings->given >> i & 1) != 0;
        if (is_given && strcmp(info->group, "FSDP") == 0 &&
            strcmp(info->name, "store-dtype") != 0) {
            g_set_error(error, SIM_ERROR, SIM_ERROR_SCHEMA,
                        "--%s: %s says that; expected either --job or the option", info->name,
                        settings->job);
            return false;
        }
    }
    if (!sim_job_file_read_ranks(settings->job, &ranks, error))
        return false;
    if (settings->gpus > 0 && settings->gpus != (int64_t)ranks) {
        g_set_error(error, SIM_ERROR, SIM_ERROR_MISMATCH,
                    "--gpus: expected the %u ranks of the mesh in %s, found %" G_GINT64_FORMAT,
                    ranks, settings->job, settings->gpus);
        return false;
    }
    settings->gpus = ranks;
    return true;
}

/* --norm composite-fp32: a param_dtype_override_fn keeps the norms' weights as stored. */
static void keep_norms(SimJob *job, const SimModel *model)
{
    if (job->uncast_parameters == NULL)
        job->uncast_parameters = g_array_new(FALSE, FALSE, sizeof(uint32_t));
    for (uint32_t i = 0; i < model->parameters->len; i++) {
        const SimParameter *parameter = sim_model_parameter(model, i);
        const char *path = sim_model_module(model, parameter->module)->path;
        if (g_str_has_suffix(path, "norm"))
            g_array_append_val(job->uncast_parameters, i);
    }
}

static SimJob *make_job(const SimSettings *settings, SimModel *model, GError **error)
{
    SimJob *job = settings->job != NULL ? sim_job_file_load(settings->job, settings, model, error)
                                        : sim_job_build(settings, model, error);
    if (job != NULL && settings->norm == SIM_NORM_COMPOSITE_FP32)
        keep_norms(job, model);
    return job;
}

static uint64_t count_forwards(const SimJob *job)
{
    uint64_t forwards = 0;
    for (guint i = 0; i < job->actions->len; i++)
        forwards += g_array_index(job->actions, SimJobAction, i).kind == SIM_ACTION_FORWARD;
    return forwards;
}

/* With --steps auto the most that it may take, then as many as it does. */
static SimPlan *build_steps(const SimSettings *settings, const SimCluster *cluster,
                            const SimModel *model, SimJob *job, const SimAutogradOptions *options,
                            GError **error)
{
    SimAllocatorConfig allocator;
    uint64_t hbm_bytes = 0;
    g_autoptr(SimPlan) plan = sim_plan_builder_build(job, model, options, error);
    if (plan == NULL || settings->steps > 0) {
        return g_steal_pointer(&plan);
    }
    if (!sim_memory_settings_read(plan, cluster, settings, &allocator, &hbm_bytes, error)) {
        return NULL;
    }
    job->steps = sim_steady_steps_count(plan, &allocator, hbm_bytes);
    return sim_plan_builder_build(job, model, options, error);
}

SimPlan *sim_plan_source_build(SimSettings *settings, SimCluster *cluster, const char *model_file,
                               GError **error)
{
    if (settings->job != NULL && !adopt_job_file(settings, error)) {
        return NULL;
    }
    if (settings->gpus > 0 && !sim_cluster_choose_gpus(cluster, (uint64_t)settings->gpus, error)) {
        return NULL;
    }
    g_autoptr(SimModel) model = load_model(settings, cluster, model_file, error);
    if (model == NULL) {
        return NULL;
    }
    g_autoptr(SimJob) job = make_job(settings, model, error);
    if (job == NULL) {
        return NULL;
    }
    SimAutogradOptions options = {.sequence = job->sequence,
                                  .batch = job->batch,
                                  .compute_dtype = compute_dtype(job),
                                  .residual_dtype = compute_dtype(job),
                                  .keeps_output = strcmp(settings->loss, kept_logits) == 0,
                                  .sm_count = cluster->gpu->sms,
                                  .compute_capability = cluster->gpu->compute_capability,
                                  .is_autocast = settings->autocast == SIM_SWITCH_ON};
    g_autoptr(SimPlan) plan = build_steps(settings, cluster, model, job, &options, error);
    if (plan == NULL) {
        return NULL;
    }
    g_autoptr(cJSON) config = sim_settings_print(settings);
    g_autofree char *model_text = print_model(plan, model, job, count_forwards(job));
    sim_plan_set_meta(plan, "cluster", settings->cluster);
    set_config(plan, config);
    sim_plan_set_meta(plan, "model", model_text);
    return g_steal_pointer(&plan);
}

/* --- finished plans ----------------------------------------------------------------------------
 */

bool sim_plan_source_adopt(const SimPlan *plan, SimSettings *settings, GError **error)
{
    const char *cluster = sim_plan_get_meta(plan, "cluster");
    const char *text = sim_plan_get_meta(plan, "config");
    if (cluster != NULL &&
        !sim_settings_set(settings, "cluster", cluster, "plan: meta cluster", error)) {
        return false;
    }
    if (text == NULL) {
        return true;
    }
    g_autoptr(cJSON) config = sim_json_parse(text, strlen(text), plan_origin, error);
    if (config == NULL) {
        return false;
    }
    return sim_settings_load_some(settings, config, plan_origin, run_settings, error);
}

void sim_plan_source_amend(SimPlan *plan, const SimSettings *settings)
{
    const char *text = sim_plan_get_meta(plan, "config");
    g_autoptr(cJSON) config = text != NULL ? cJSON_Parse(text) : NULL;
    if (!cJSON_IsObject(config)) {
        return;
    }
    g_autoptr(cJSON) now = sim_settings_print(settings);
    for (size_t i = 0; run_settings[i] != NULL; i++) {
        g_autofree char *key = g_strdelimit(g_strdup(run_settings[i]), "-", '_');
        const cJSON *value = cJSON_GetObjectItemCaseSensitive(now, key);
        if (value != NULL && cJSON_HasObjectItem(config, key)) {
            cJSON_ReplaceItemInObjectCaseSensitive(config, key, cJSON_Duplicate(value, true));
        }
    }
    set_config(plan, config);
    sim_plan_set_meta(plan, "cluster", settings->cluster);
}
