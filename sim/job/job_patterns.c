/* SPDX-License-Identifier: Apache-2.0 */
#include "job/job_patterns.h"

#include <string.h>

#include "base/error.h"
#include "job/job_wrap.h"

typedef bool (*FindFunc)(const SimModel *model, const char *pattern, const char *where,
                         GArray *found, GError **error);

static bool fail_unknown(const SimModel *model, const char *where, const char *what,
                         const char *pattern, bool is_module, GError **error)
{
    g_autoptr(GPtrArray) paths = g_ptr_array_new();
    if (is_module)
        for (uint32_t i = 0; i < model->modules->len; i++)
            g_ptr_array_add(paths, sim_model_module(model, i)->path);
    else
        for (uint32_t i = 0; i < model->parameters->len; i++)
            g_ptr_array_add(paths, sim_model_parameter(model, i)->path);
    g_ptr_array_add(paths, NULL);
    sim_error_set_unknown(error, where, what, pattern, (const char *const *)paths->pdata);
    return false;
}

bool sim_job_patterns_find_modules(const SimModel *model, const char *pattern, const char *where,
                                   GArray *modules, GError **error)
{
    uint32_t before = modules->len;
    for (uint32_t i = 0; i < model->modules->len; i++)
        if (sim_job_wrap_matches(pattern, sim_model_module(model, i)->path))
            g_array_append_val(modules, i);
    return modules->len > before || fail_unknown(model, where, "module", pattern, true, error);
}

/* True if PATTERN names PATH or something above it. */
static bool is_named(const char *pattern, const char *path)
{
    g_autofree char *above = g_strdup(path);
    while (!sim_job_wrap_matches(pattern, above)) {
        char *dot = strrchr(above, '.');
        if (dot == NULL)
            return *pattern == '\0';
        *dot = '\0';
    }
    return true;
}

bool sim_job_patterns_find_parameters(const SimModel *model, const char *pattern, const char *where,
                                      GArray *parameters, GError **error)
{
    uint32_t before = parameters->len;
    for (uint32_t i = 0; i < model->parameters->len; i++)
        if (is_named(pattern, sim_model_parameter(model, i)->path))
            g_array_append_val(parameters, i);
    return parameters->len > before ||
           fail_unknown(model, where, "parameter", pattern, false, error);
}

static bool fail_type(const char *where, GError **error)
{
    g_set_error(error, SIM_ERROR, SIM_ERROR_SCHEMA, "%s: expected a path or a list of paths",
                where);
    return false;
}

static bool read(const SimModel *model, const cJSON *value, const char *where, FindFunc find,
                 GArray *found, GError **error)
{
    if (cJSON_IsString(value))
        return find(model, value->valuestring, where, found, error);
    if (!cJSON_IsArray(value) || cJSON_GetArraySize(value) == 0)
        return fail_type(where, error);
    for (const cJSON *item = value->child; item != NULL; item = item->next) {
        if (!cJSON_IsString(item))
            return fail_type(where, error);
        if (!find(model, item->valuestring, where, found, error))
            return false;
    }
    return true;
}

bool sim_job_patterns_read_modules(const SimModel *model, const cJSON *value, const char *where,
                                   GArray *modules, GError **error)
{
    return read(model, value, where, sim_job_patterns_find_modules, modules, error);
}

bool sim_job_patterns_read_parameters(const SimModel *model, const cJSON *value, const char *where,
                                      GArray *parameters, GError **error)
{
    return read(model, value, where, sim_job_patterns_find_parameters, parameters, error);
}

static uint32_t find_unit(const SimJob *job, uint32_t module)
{
    for (uint32_t u = 0; u < job->units->len; u++) {
        const GArray *modules = g_array_index(job->units, SimJobUnit, u).modules;
        for (uint32_t i = 0; i < modules->len; i++)
            if (g_array_index(modules, uint32_t, i) == module)
                return u;
    }
    return SIM_MODEL_NONE;
}

bool sim_job_patterns_read_units(const SimJob *job, const SimModel *model, const cJSON *value,
                                 const char *where, GArray *units, GError **error)
{
    g_autoptr(GArray) modules = g_array_new(FALSE, FALSE, sizeof(uint32_t));
    if (!sim_job_patterns_read_modules(model, value, where, modules, error))
        return false;
    for (uint32_t i = 0; i < modules->len; i++) {
        uint32_t module = g_array_index(modules, uint32_t, i);
        uint32_t unit = find_unit(job, module);
        if (unit == SIM_MODEL_NONE) {
            g_set_error(error, SIM_ERROR, SIM_ERROR_SCHEMA,
                        "%s: \"%s\" is not a unit; expected a module of a fully_shard call", where,
                        sim_model_module(model, module)->path);
            return false;
        }
        g_array_append_val(units, unit);
    }
    return true;
}
