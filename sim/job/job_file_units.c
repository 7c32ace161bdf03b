/* SPDX-License-Identifier: Apache-2.0 */
#include "job/job_file_units.h"

#include <string.h>

#include "base/error.h"
#include "base/json.h"
#include "job/job_patterns.h"
#include "job/job_wrap.h"

static char *join(const char *where, const char *key)
{
    return g_strdup_printf("%s.%s", where, key);
}

static bool read_reshard(const cJSON *call, const char *where, SimReshard *reshard, GError **error)
{
    const cJSON *value = cJSON_GetObjectItemCaseSensitive(call, "reshard_after_forward");
    *reshard = (SimReshard){.kind = SIM_RESHARD_UNSET};
    if (value == NULL || cJSON_IsNull(value))
        return true;
    if (cJSON_IsBool(value)) {
        reshard->kind = cJSON_IsTrue(value) ? SIM_RESHARD_TRUE : SIM_RESHARD_FALSE;
        return true;
    }
    int64_t ranks;
    if (!sim_json_get_int64(call, where, "reshard_after_forward", 1, UINT32_MAX, &ranks, error))
        return false;
    *reshard = (SimReshard){.kind = SIM_RESHARD_TO, .ranks = (uint32_t)ranks};
    return true;
}

/* --- fully_shard --------------------------------------------------------------------------------
 */

static void append_all(GArray **to, const GArray *from)
{
    if (*to == NULL)
        *to = g_array_new(FALSE, FALSE, sizeof(uint32_t));
    g_array_append_vals(*to, from->data, from->len);
}

static bool read_ignored(SimJob *job, const SimModel *model, const cJSON *call, const char *where,
                         GError **error)
{
    const cJSON *value = cJSON_GetObjectItemCaseSensitive(call, "ignored_params");
    if (value == NULL || cJSON_IsNull(value))
        return true;
    g_autofree char *inner = join(where, "ignored_params");
    g_autoptr(GArray) parameters = g_array_new(FALSE, FALSE, sizeof(uint32_t));
    if (!sim_job_patterns_read_parameters(model, value, inner, parameters, error))
        return false;
    append_all(&job->ignored_parameters, parameters);
    return true;
}

/* "shard_dim": {pattern: dimension} */
static bool read_shard_dims(SimJob *job, const SimModel *model, const cJSON *call,
                            const char *where, GError **error)
{
    const cJSON *value = cJSON_GetObjectItemCaseSensitive(call, "shard_dim");
    if (value == NULL || cJSON_IsNull(value))
        return true;
    g_autofree char *inner = join(where, "shard_dim");
    if (job->shard_dims == NULL) {
        job->shard_dims = g_array_new(FALSE, TRUE, sizeof(uint32_t));
        g_array_set_size(job->shard_dims, model->parameters->len);
    }
    for (const cJSON *item = value->child; item != NULL; item = item->next) {
        int64_t dim;
        g_autoptr(GArray) parameters = g_array_new(FALSE, FALSE, sizeof(uint32_t));
        if (!sim_json_get_int64(value, inner, item->string, 0, SIM_SHAPE_MAX_DIMS - 1, &dim,
                                error) ||
            !sim_job_patterns_find_parameters(model, item->string, inner, parameters, error))
            return false;
        for (uint32_t i = 0; i < parameters->len; i++)
            g_array_index(job->shard_dims, uint32_t, g_array_index(parameters, uint32_t, i)) =
                (uint32_t)dim;
    }
    return true;
}

/* "mp_policy": {"param_dtype_override": {pattern: stored type}}; nothing else differs by unit. */
static bool read_override(SimJob *job, const SimModel *model, const cJSON *call, const char *where,
                          GError **error)
{
    static const char *const KEYS[] = {"param_dtype_override", NULL};
    const cJSON *policy = cJSON_GetObjectItemCaseSensitive(call, "mp_policy");
    if (policy == NULL || cJSON_IsNull(policy))
        return true;
    g_autofree char *inner = join(where, "mp_policy");
    const cJSON *overrides;
    if (!sim_json_check_keys(policy, inner, KEYS, error) ||
        !sim_json_get_object(policy, inner, "param_dtype_override", &overrides, error))
        return false;
    for (const cJSON *item = overrides->child; item != NULL; item = item->next) {
        SimDtype dtype;
        const char *text;
        g_autoptr(GArray) parameters = g_array_new(FALSE, FALSE, sizeof(uint32_t));
        if (!sim_json_get_string(overrides, inner, item->string, &text, error) ||
            !sim_dtype_parse(text, inner, &dtype, error) ||
            !sim_job_patterns_find_parameters(model, item->string, inner, parameters, error))
            return false;
        if (dtype != job->store_dtype) {
            g_set_error(error, SIM_ERROR, SIM_ERROR_UNSUPPORTED,
                        "%s: expected the stored type %s for \"%s\", found %s", inner,
                        sim_dtype_name(job->store_dtype), item->string, text);
            return false;
        }
        append_all(&job->uncast_parameters, parameters);
    }
    return true;
}

/* One unit for a list, else one for each match. */
static bool add_units(SimJob *job, const SimModel *model, const cJSON *call, const char *where,
                      GError **error)
{
    const cJSON *value = cJSON_GetObjectItemCaseSensitive(call, "modules");
    g_autofree char *inner = join(where, "modules");
    g_autoptr(GArray) modules = g_array_new(FALSE, FALSE, sizeof(uint32_t));
    SimReshard reshard;
    if (!read_reshard(call, where, &reshard, error) ||
        !sim_job_patterns_read_modules(model, value, inner, modules, error))
        return false;
    uint32_t before = job->units->len;
    if (cJSON_IsArray(value))
        sim_job_wrap_add(job->units, model, (const uint32_t *)modules->data, modules->len);
    else
        for (uint32_t i = 0; i < modules->len; i++)
            sim_job_wrap_add(job->units, model, &g_array_index(modules, uint32_t, i), 1);
    for (uint32_t u = before; u < job->units->len; u++)
        g_array_index(job->units, SimJobUnit, u).reshard_after_forward = reshard;
    return true;
}

/* "offload": "cpu", of the units from FIRST on. */
static bool read_offload(SimJob *job, const cJSON *call, const char *where, uint32_t first,
                         GError **error)
{
    static const char *const WORDS[] = {"cpu", NULL};
    const char *text;
    if (!sim_json_has(call, "offload"))
        return true;
    if (!sim_json_get_string(call, where, "offload", &text, error))
        return false;
    if (strcmp(text, "cpu") != 0) {
        g_autofree char *inner = join(where, "offload");
        sim_error_set_unknown(error, inner, "value", text, WORDS);
        return false;
    }
    for (uint32_t u = first; u < job->units->len; u++)
        g_array_index(job->units, SimJobUnit, u).is_offloaded = true;
    return true;
}

static bool read_call(SimJob *job, const SimModel *model, const cJSON *call, const char *where,
                      GError **error)
{
    static const char *const KEYS[] = {
        "modules", "reshard_after_forward", "ignored_params", "shard_dim", "mp_policy", "offload",
        NULL};
    uint32_t first = job->units->len;
    return sim_json_check_keys(call, where, KEYS, error) &&
           add_units(job, model, call, where, error) &&
           read_ignored(job, model, call, where, error) &&
           read_shard_dims(job, model, call, where, error) &&
           read_override(job, model, call, where, error) &&
           read_offload(job, call, where, first, error);
}

bool sim_job_file_units_read(SimJob *job, const SimModel *model, const cJSON *calls,
                             const char *where, GError **error)
{
    int number = 0;
    for (const cJSON *call = calls->child; call != NULL; call = call->next, number++) {
        g_autofree char *inner = g_strdup_printf("%s[%d]", where, number);
        if (!read_call(job, model, call, inner, error))
            return false;
    }
    return true;
}

/* --- set ----------------------------------------------------------------------------------------
 */

static const struct {
    const char *key;
    SimJobFlag flag;
} FLAGS[] = {
    {"requires_gradient_sync", SIM_FLAG_GRADIENT_SYNC},
    {"requires_all_reduce", SIM_FLAG_ALL_REDUCE},
    {"is_last_backward", SIM_FLAG_LAST_BACKWARD},
    {"reshard_after_backward", SIM_FLAG_RESHARD_AFTER_BACKWARD},
    {"reshard_after_forward", SIM_FLAG_RESHARD_AFTER_FORWARD},
};

/* set_* of these goes to the units below too. */
static bool is_below(const SimJob *job, const SimModel *model, uint32_t unit, const GArray *tops)
{
    uint32_t module =
        g_array_index(g_array_index(job->units, SimJobUnit, unit).modules, uint32_t, 0);
    for (uint32_t i = 0; i < tops->len; i++) {
        const GArray *modules =
            g_array_index(job->units, SimJobUnit, g_array_index(tops, uint32_t, i)).modules;
        for (uint32_t j = 0; j < modules->len; j++)
            if (sim_model_is_below(model, module, g_array_index(modules, uint32_t, j)))
                return true;
    }
    return false;
}

bool sim_job_file_units_read_flags(SimJob *job, const SimModel *model, const cJSON *object,
                                   const char *where, GError **error)
{
    g_autofree char *inner = join(where, "modules");
    g_autoptr(GArray) tops = g_array_new(FALSE, FALSE, sizeof(uint32_t));
    const cJSON *modules = cJSON_GetObjectItemCaseSensitive(object, "modules");
    if (!sim_job_patterns_read_units(job, model, modules, inner, tops, error))
        return false;
    for (size_t f = 0; f < G_N_ELEMENTS(FLAGS); f++) {
        SimJobAction action = {.kind = SIM_ACTION_SET, .flag = FLAGS[f].flag};
        if (!sim_json_has(object, FLAGS[f].key))
            continue;
        if (!sim_json_get_bool(object, where, FLAGS[f].key, &action.value, error))
            return false;
        for (uint32_t u = 0; u < job->units->len; u++) {
            action.unit = u;
            if (is_below(job, model, u, tops))
                g_array_append_val(job->actions, action);
        }
    }
    return true;
}

static bool read_prefetch(SimJob *job, const SimModel *model, const cJSON *call, const char *key,
                          const char *where, GArray **targets, GError **error)
{
    const cJSON *value = cJSON_GetObjectItemCaseSensitive(call, key);
    if (value == NULL || cJSON_IsNull(value))
        return true;
    g_autofree char *inner = join(where, key);
    g_clear_pointer(targets, g_array_unref);
    *targets = g_array_new(FALSE, FALSE, sizeof(uint32_t));
    return sim_job_patterns_read_units(job, model, value, inner, *targets, error);
}

/* What is set on the unit itself only. */
static bool set_unit(SimJob *job, const SimModel *model, uint32_t unit, const cJSON *call,
                     const char *where, GError **error)
{
    SimJobUnit *set = &g_array_index(job->units, SimJobUnit, unit);
    bool unshards = true;
    if (sim_json_has(call, "gradient_divide_factor") &&
        !sim_json_get_double(call, where, "gradient_divide_factor", 1e-6, 1e9,
                             &set->gradient_divide_factor, error))
        return false;
    if (sim_json_has(call, "force_sum_reduction_for_comms") &&
        !sim_json_get_bool(call, where, "force_sum_reduction_for_comms", &set->forces_sum_reduction,
                           error))
        return false;
    if (sim_json_has(call, "unshard_in_backward") &&
        !sim_json_get_bool(call, where, "unshard_in_backward", &unshards, error))
        return false;
    if (!unshards)
        set->stays_sharded_in_backward = true;
    return read_prefetch(job, model, call, "modules_to_forward_prefetch", where,
                         &set->forward_prefetch, error) &&
           read_prefetch(job, model, call, "modules_to_backward_prefetch", where,
                         &set->backward_prefetch, error);
}

/* What PyTorch keeps for all units under the root. */
static bool set_root(SimJob *job, const cJSON *call, const char *where, GError **error)
{
    const struct {
        const char *key;
        bool *value;
    } switches[] = {
        {"separate_reduce_scatter_group", &job->has_reduce_scatter_group},
        {"reduce_scatter_unused_params", &job->reduces_unused_parameters},
        {"keep_unsharded_storage", &job->keeps_unsharded_storage},
        {"unshard_async_op", &job->unshards_async},
    };
    for (size_t i = 0; i < G_N_ELEMENTS(switches); i++)
        if (sim_json_has(call, switches[i].key) &&
            !sim_json_get_bool(call, where, switches[i].key, switches[i].value, error))
            return false;
    int64_t buffers = 0;
    if (!sim_json_has(call, "reduce_scatter_max_input_buffers"))
        return true;
    if (!sim_json_get_int64(call, where, "reduce_scatter_max_input_buffers", 1, 1024, &buffers,
                            error))
        return false;
    job->reduce_scatter_input_buffers = (uint32_t)buffers;
    return true;
}

static bool read_set(SimJob *job, const SimModel *model, const cJSON *call, const char *where,
                     GError **error)
{
    static const char *const KEYS[] = {"modules",
                                       "requires_gradient_sync",
                                       "requires_all_reduce",
                                       "is_last_backward",
                                       "reshard_after_backward",
                                       "reshard_after_forward",
                                       "gradient_divide_factor",
                                       "force_sum_reduction_for_comms",
                                       "unshard_in_backward",
                                       "modules_to_forward_prefetch",
                                       "modules_to_backward_prefetch",
                                       "separate_reduce_scatter_group",
                                       "reduce_scatter_unused_params",
                                       "keep_unsharded_storage",
                                       "unshard_async_op",
                                       "reduce_scatter_max_input_buffers",
                                       NULL};
    g_autofree char *inner = join(where, "modules");
    g_autoptr(GArray) units = g_array_new(FALSE, FALSE, sizeof(uint32_t));
    if (!sim_json_check_keys(call, where, KEYS, error) ||
        !sim_job_patterns_read_units(job, model, cJSON_GetObjectItemCaseSensitive(call, "modules"),
                                     inner, units, error))
        return false;
    for (uint32_t i = 0; i < units->len; i++)
        if (!set_unit(job, model, g_array_index(units, uint32_t, i), call, where, error))
            return false;
    return set_root(job, call, where, error) &&
           sim_job_file_units_read_flags(job, model, call, where, error);
}

bool sim_job_file_units_set(SimJob *job, const SimModel *model, const cJSON *calls,
                            const char *where, GError **error)
{
    int number = 0;
    for (const cJSON *call = calls->child; call != NULL; call = call->next, number++) {
        g_autofree char *inner = g_strdup_printf("%s[%d]", where, number);
        if (!read_set(job, model, call, inner, error))
            return false;
    }
    return true;
}
