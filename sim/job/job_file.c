/* SPDX-License-Identifier: Apache-2.0 */
#include "job/job_file.h"

#include <string.h>

#include "base/error.h"
#include "base/json.h"
#include "base/units.h"
#include "job/job_file_step.h"
#include "job/job_freeze.h"
#include "job/job_file_units.h"
#include "job/job_patterns.h"
#include "job/job_wrap.h"

#define SCHEMA "fsdpsim.job/1"
#define MOST_RANKS (INT64_C(1) << 24)

/* The index of KEY's word in WORDS (a missing key: 0). */
static bool read_choice(const cJSON *object, const char *file, const char *key,
                        const char *const *words, int *index, GError **error)
{
    const char *text;
    *index = 0;
    if (!sim_json_has(object, key))
        return true;
    if (!sim_json_get_string(object, file, key, &text, error))
        return false;
    for (int i = 0; words[i] != NULL; i++)
        if (strcmp(words[i], text) == 0) {
            *index = i;
            return true;
        }
    g_autofree char *where = g_strdup_printf("%s: %s", file, key);
    sim_error_set_unknown(error, where, "value", text, words);
    return false;
}

static bool read_mesh(SimJob *job, const cJSON *root, const char *file, GError **error)
{
    static const char *const KEYS[] = {"replicate", "shard", NULL};
    const cJSON *mesh;
    int64_t replicas = 1, shard = 1;
    g_autofree char *where = g_strdup_printf("%s: mesh", file);
    if (!sim_json_get_object(root, file, "mesh", &mesh, error) ||
        !sim_json_check_keys(mesh, where, KEYS, error))
        return false;
    job->has_replicate_mesh = sim_json_has(mesh, "replicate");
    if (job->has_replicate_mesh &&
        !sim_json_get_int64(mesh, where, "replicate", 1, MOST_RANKS, &replicas, error))
        return false;
    if (sim_json_has(mesh, "shard") &&
        !sim_json_get_int64(mesh, where, "shard", 1, MOST_RANKS, &shard, error))
        return false;
    if (replicas * shard > MOST_RANKS) {
        g_set_error(error, SIM_ERROR, SIM_ERROR_RANGE,
                    "%s: expected at most %" G_GINT64_FORMAT " ranks", where, MOST_RANKS);
        return false;
    }
    job->shard_size = (uint32_t)shard;
    job->ranks = (uint32_t)(replicas * shard);
    return true;
}

static bool read_dtype(const cJSON *policy, const char *where, const char *key, SimDtype *dtype,
                       GError **error)
{
    const char *text;
    if (!sim_json_has(policy, key))
        return true;
    g_autofree char *inner = g_strdup_printf("%s.%s", where, key);
    return sim_json_get_string(policy, where, key, &text, error) &&
           sim_dtype_parse(text, inner, dtype, error);
}

/* output_dtype and cast_forward_inputs change no communication and no buffer of FSDP. */
static bool read_policy(SimJob *job, const cJSON *root, const char *file, GError **error)
{
    static const char *const KEYS[] = {"param_dtype", "reduce_dtype", "output_dtype",
                                       "cast_forward_inputs", NULL};
    const cJSON *policy;
    g_autofree char *where = g_strdup_printf("%s: mp_policy", file);
    if (!sim_json_has(root, "mp_policy"))
        return true;
    return sim_json_get_object(root, file, "mp_policy", &policy, error) &&
           sim_json_check_keys(policy, where, KEYS, error) &&
           read_dtype(policy, where, "param_dtype", &job->precision.param_dtype, error) &&
           read_dtype(policy, where, "reduce_dtype", &job->precision.reduce_dtype, error);
}

static bool freeze(SimModel *model, const cJSON *root, const char *file, GError **error)
{
    const cJSON *patterns = cJSON_GetObjectItemCaseSensitive(root, "frozen");
    if (patterns == NULL || cJSON_IsNull(patterns))
        return true;
    g_autofree char *where = g_strdup_printf("%s: frozen", file);
    g_autoptr(GArray) parameters = g_array_new(FALSE, FALSE, sizeof(uint32_t));
    if (!sim_job_patterns_read_parameters(model, patterns, where, parameters, error))
        return false;
    for (uint32_t i = 0; i < parameters->len; i++)
        g_array_index(model->parameters, SimParameter, g_array_index(parameters, uint32_t, i))
            .is_frozen = true;
    return sim_job_freeze_check(model, where, error);
}

/* "tied": lists of parameters that are the first of each list. */
static bool tie(SimModel *model, const GArray *group, const char *where, GError **error)
{
    uint32_t holder = g_array_index(group, uint32_t, 0);
    const SimParameter *held = sim_model_parameter(model, holder);
    for (uint32_t i = 1; i < group->len; i++) {
        uint32_t index = g_array_index(group, uint32_t, i);
        SimParameter *parameter = &g_array_index(model->parameters, SimParameter, index);
        if (index <= holder || parameter->elements != held->elements ||
            parameter->shape.n_dims != held->shape.n_dims ||
            parameter->shape.dims[0] != held->shape.dims[0]) {
            g_set_error(
                error, SIM_ERROR, SIM_ERROR_SCHEMA,
                "%s: expected parameters of one shape, the first registered one first, found "
                "%s and %s",
                where, held->path, parameter->path);
            return false;
        }
        parameter->tied_to = holder;
    }
    return true;
}

static bool read_tied(SimModel *model, const cJSON *root, const char *file, GError **error)
{
    const cJSON *lists;
    if (!sim_json_has(root, "tied"))
        return true;
    if (!sim_json_get_array(root, file, "tied", &lists, error))
        return false;
    int number = 0;
    for (const cJSON *list = lists->child; list != NULL; list = list->next, number++) {
        g_autofree char *where = g_strdup_printf("%s: tied[%d]", file, number);
        g_autoptr(GArray) group = g_array_new(FALSE, FALSE, sizeof(uint32_t));
        if (!sim_job_patterns_read_parameters(model, list, where, group, error) ||
            !tie(model, group, where, error))
            return false;
    }
    return true;
}

static bool read_checkpoint(SimJob *job, const SimModel *model, const cJSON *object,
                            const char *where, GError **error)
{
    static const char *const KEYS[] = {"modules", "around",     "reentrant",
                                       "policy",  "early_stop", NULL};
    static const char *const AROUND[] = {"inside", "fsdp", NULL};
    static const char *const POLICIES[] = {"full", "selective", NULL};
    g_autofree char *inner = g_strdup_printf("%s.modules", where);
    g_autoptr(GArray) modules = g_array_new(FALSE, FALSE, sizeof(uint32_t));
    int around, policy;
    bool is_reentrant = false, stops_early = true;
    if (!sim_json_check_keys(object, where, KEYS, error) ||
        !sim_job_patterns_read_modules(model, cJSON_GetObjectItemCaseSensitive(object, "modules"),
                                       inner, modules, error) ||
        !read_choice(object, where, "around", AROUND, &around, error) ||
        !read_choice(object, where, "policy", POLICIES, &policy, error))
        return false;
    if ((sim_json_has(object, "reentrant") &&
         !sim_json_get_bool(object, where, "reentrant", &is_reentrant, error)) ||
        (sim_json_has(object, "early_stop") &&
         !sim_json_get_bool(object, where, "early_stop", &stops_early, error)))
        return false;
    if (is_reentrant) {
        g_set_error(error, SIM_ERROR, SIM_ERROR_UNSUPPORTED,
                    "%s.reentrant: expected false; reentrant checkpoints are not simulated", where);
        return false;
    }
    for (uint32_t i = 0; i < modules->len; i++) {
        SimJobCheckpoint checkpoint = {.module = g_array_index(modules, uint32_t, i),
                                       .is_outside = around == 1,
                                       .is_selective = policy == 1,
                                       .stops_early = stops_early};
        g_array_append_val(job->checkpoints, checkpoint);
    }
    return true;
}

/* The list KEY, read by READ with "FILE: KEY"; nothing if it is missing. */
static bool
read_list(SimJob *job, const SimModel *model, const cJSON *root, const char *file, const char *key,
          bool (*read)(SimJob *, const SimModel *, const cJSON *, const char *, GError **),
          GError **error)
{
    const cJSON *list;
    g_autofree char *where = g_strdup_printf("%s: %s", file, key);
    if (!sim_json_has(root, key))
        return true;
    return sim_json_get_array(root, file, key, &list, error) &&
           read(job, model, list, where, error);
}

static bool read_checkpoints(SimJob *job, const SimModel *model, const cJSON *list,
                             const char *where, GError **error)
{
    int number = 0;
    for (const cJSON *item = list->child; item != NULL; item = item->next, number++) {
        g_autofree char *inner = g_strdup_printf("%s[%d]", where, number);
        if (!read_checkpoint(job, model, item, inner, error))
            return false;
    }
    return true;
}

/* FSDP1 wraps what its list names, module by module, with the same arguments. */
static bool read_wrap(SimJob *job, const SimModel *model, const cJSON *list, const char *where,
                      GError **error)
{
    g_autoptr(GArray) modules = g_array_new(FALSE, FALSE, sizeof(uint32_t));
    if (!sim_job_patterns_read_modules(model, list, where, modules, error))
        return false;
    for (uint32_t i = 0; i < modules->len; i++)
        sim_job_wrap_add(job->units, model, &g_array_index(modules, uint32_t, i), 1);
    return true;
}

static bool read_switch(const cJSON *root, const char *file, const char *key, bool *value,
                        GError **error)
{
    return !sim_json_has(root, key) || sim_json_get_bool(root, file, key, value, error);
}

static bool read_fsdp1(SimJob *job, const cJSON *root, const char *file, GError **error)
{
    static const char *const STRATEGIES[] = {"FULL_SHARD",          "SHARD_GRAD_OP", "HYBRID_SHARD",
                                             "_HYBRID_SHARD_ZERO2", "NO_SHARD",      NULL};
    static const char *const PREFETCHES[] = {"pre", "post", NULL};
    int strategy, prefetch;
    bool uses_orig_params = true;
    job->fsdp1.limits_all_gathers = true;
    if (!read_choice(root, file, "sharding_strategy", STRATEGIES, &strategy, error) ||
        !read_choice(root, file, "backward_prefetch", PREFETCHES, &prefetch, error) ||
        !read_switch(root, file, "forward_prefetch", &job->fsdp1.has_forward_prefetch, error) ||
        !read_switch(root, file, "limit_all_gathers", &job->fsdp1.limits_all_gathers, error) ||
        !read_switch(root, file, "use_orig_params", &uses_orig_params, error) ||
        !read_switch(root, file, "keep_low_precision_grads", &job->fsdp1.keeps_low_precision_grads,
                     error))
        return false;
    job->fsdp1.strategy = (SimStrategy)strategy;
    job->fsdp1.backward_prefetch = (SimBackwardPrefetch)prefetch;
    if (cJSON_IsNull(cJSON_GetObjectItemCaseSensitive(root, "backward_prefetch")))
        job->fsdp1.backward_prefetch = SIM_BACKWARD_PREFETCH_NONE;
    job->fsdp1.uses_flat_parameters = !uses_orig_params;
    return true;
}

static bool read_ddp(SimJob *job, const cJSON *root, const char *file, GError **error)
{
    double mebibytes = 0;
    if (sim_json_has(root, "bucket_cap_mb") &&
        !sim_json_get_double(root, file, "bucket_cap_mb", 1e-6, 1e9, &mebibytes, error))
        return false;
    job->ddp.bucket_cap_bytes = (uint64_t)(mebibytes * (double)SIM_MIB);
    return read_switch(root, file, "gradient_as_bucket_view", &job->ddp.gradient_as_bucket_view,
                       error) &&
           read_switch(root, file, "find_unused_parameters", &job->ddp.find_unused_parameters,
                       error) &&
           read_switch(root, file, "static_graph", &job->ddp.static_graph, error);
}

static bool check_keys(const SimJob *job, const cJSON *root, const char *file, GError **error)
{
    static const char *const FSDP2[] = {"schema",           "api",         "mesh",
                                        "mp_policy",        "fully_shard", "set",
                                        "frozen",           "tied",        "checkpoint",
                                        "optimizer",        "step",        "optimizer_in_backward",
                                        "post_optim_event", "loss_chunks", NULL};
    static const char *const FSDP1[] = {"schema",
                                        "api",
                                        "mesh",
                                        "mp_policy",
                                        "wrap",
                                        "sharding_strategy",
                                        "backward_prefetch",
                                        "forward_prefetch",
                                        "limit_all_gathers",
                                        "use_orig_params",
                                        "keep_low_precision_grads",
                                        "frozen",
                                        "tied",
                                        "checkpoint",
                                        "optimizer",
                                        "step",
                                        NULL};
    static const char *const DDP[] = {"schema",
                                      "api",
                                      "mesh",
                                      "bucket_cap_mb",
                                      "gradient_as_bucket_view",
                                      "find_unused_parameters",
                                      "static_graph",
                                      "frozen",
                                      "tied",
                                      "checkpoint",
                                      "optimizer",
                                      "step",
                                      NULL};
    return sim_json_check_keys(root, file,
                               job->api == SIM_API_FSDP2   ? FSDP2
                               : job->api == SIM_API_FSDP1 ? FSDP1
                                                           : DDP,
                               error);
}

static bool read_schema(const cJSON *root, const char *file, GError **error)
{
    const char *schema;
    if (!sim_json_get_string(root, file, "schema", &schema, error))
        return false;
    if (strcmp(schema, SCHEMA) == 0)
        return true;
    g_set_error(error, SIM_ERROR, SIM_ERROR_SCHEMA, "%s: schema: expected \"%s\", found \"%s\"",
                file, SCHEMA, schema);
    return false;
}

static bool read_plain(SimJob *job, const cJSON *root, const char *file, GError **error)
{
    static const char *const OPTIMIZERS[] = {"adamw",        "adamw-foreach", "adamw-8bit", "sgd",
                                             "sgd-momentum", "adafactor",     NULL};
    int optimizer;
    int64_t chunks = 0;
    if (!read_choice(root, file, "optimizer", OPTIMIZERS, &optimizer, error) ||
        !read_switch(root, file, "optimizer_in_backward", &job->has_optimizer_in_backward, error) ||
        !read_switch(root, file, "post_optim_event", &job->has_post_optim_event, error))
        return false;
    if (sim_json_has(root, "loss_chunks") &&
        !sim_json_get_int64(root, file, "loss_chunks", 1, MOST_RANKS, &chunks, error))
        return false;
    job->optimizer = (SimJobOptimizer)optimizer;
    job->loss_chunks = (uint64_t)chunks;
    return true;
}

static bool read_units(SimJob *job, const SimModel *model, const cJSON *root, const char *file,
                       GError **error)
{
    switch (job->api) {
    case SIM_API_FSDP2:
        return read_list(job, model, root, file, "fully_shard", sim_job_file_units_read, error) &&
               read_list(job, model, root, file, "set", sim_job_file_units_set, error);
    case SIM_API_FSDP1:
        return read_fsdp1(job, root, file, error) &&
               read_list(job, model, root, file, "wrap", read_wrap, error);
    case SIM_API_DDP:
        return read_ddp(job, root, file, error);
    }
    g_assert_not_reached();
}

/* --clip on: before the optimizer, where the file does not clip itself. */
static void add_clips(SimJob *job)
{
    for (uint32_t i = 0; i < job->actions->len; i++)
        if (g_array_index(job->actions, SimJobAction, i).kind == SIM_ACTION_CLIP)
            return;
    SimJobAction clip = {.kind = SIM_ACTION_CLIP};
    for (uint32_t i = job->actions->len; i-- > 0;)
        if (g_array_index(job->actions, SimJobAction, i).kind == SIM_ACTION_OPTIMIZER)
            g_array_insert_val(job->actions, i, clip);
}

bool sim_job_file_read_ranks(const char *file, uint32_t *ranks, GError **error)
{
    g_autoptr(cJSON) root = sim_json_load(file, error);
    g_autoptr(SimJob) job = sim_job_new(1);
    if (root == NULL || !read_schema(root, file, error) || !read_mesh(job, root, file, error))
        return false;
    *ranks = job->ranks;
    return true;
}

SimJob *sim_job_file_load(const char *file, const SimSettings *settings, SimModel *model,
                          GError **error)
{
    static const char *const APIS[] = {"fsdp2", "fsdp1", "ddp", NULL};
    const cJSON *step;
    int api;
    g_autofree char *where = g_strdup_printf("%s: step", file);
    g_autoptr(cJSON) root = sim_json_load(file, error);
    g_autoptr(SimJob) job = sim_job_new(1);
    if (root == NULL || !read_schema(root, file, error) ||
        !read_choice(root, file, "api", APIS, &api, error))
        return NULL;
    job->api = (SimApi)api;
    job->store_dtype = (SimDtype)settings->store_dtype;
    job->torch = (SimTorch)settings->torch;
    job->steps = settings->steps > 0 ? (uint32_t)settings->steps : SIM_JOB_MOST_STEPS;
    job->sequence = (uint64_t)settings->sequence;
    job->batch = (uint64_t)settings->batch;
    if (!check_keys(job, root, file, error) || !read_mesh(job, root, file, error) ||
        !read_policy(job, root, file, error) || !read_plain(job, root, file, error) ||
        !freeze(model, root, file, error) || !read_tied(model, root, file, error) ||
        !read_units(job, model, root, file, error) ||
        !read_list(job, model, root, file, "checkpoint", read_checkpoints, error) ||
        !sim_json_get_array(root, file, "step", &step, error) ||
        !sim_job_file_step_read(job, model, step, where, error))
        return NULL;
    if (settings->clip == SIM_SWITCH_ON)
        add_clips(job);
    return g_steal_pointer(&job);
}
