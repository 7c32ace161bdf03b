/* SPDX-License-Identifier: Apache-2.0 */
#include "job/job_wrap.h"

#include <string.h>

#include "base/error.h"
#include "job/job.h"

void sim_job_wrap_add(GArray *units, const SimModel *model, const uint32_t *modules, size_t n)
{
    g_autoptr(GString) name = g_string_new(NULL);
    SimJobUnit unit = {.modules = g_array_new(FALSE, FALSE, sizeof(uint32_t))};

    for (size_t i = 0; i < n; i++)
        g_string_append_printf(name, "%s%s", i > 0 ? "+" : "",
                               sim_model_module(model, modules[i])->path);
    g_array_append_vals(unit.modules, modules, (guint)n);
    unit.name = g_strdup(name->len > 0 ? name->str : "root");
    g_array_append_val(units, unit);
}

bool sim_job_wrap_matches(const char *pattern, const char *path)
{
    while (*pattern != '\0') {
        if (*pattern == '*') {
            size_t length = strcspn(path, ".");
            if (length == 0)
                return false;
            path += length;
            pattern++;
        } else if (*pattern++ != *path++) {
            return false;
        }
    }
    return *path == '\0';
}

/* --- a file of paths -----------------------------------------------------------------------------
 */

static bool fail_unknown(const SimModel *model, const char *where, const char *path, GError **error)
{
    g_autoptr(GPtrArray) paths = g_ptr_array_new();

    for (uint32_t i = 1; i < model->modules->len; i++)
        g_ptr_array_add(paths, sim_model_module(model, i)->path);
    g_ptr_array_add(paths, NULL);
    sim_error_set_unknown(error, where, "module", path, (const char *const *)paths->pdata);
    return false;
}

/* The units of one line; IS_UNIT says of each module whether it is one already. */
static bool add_line(GArray *units, const SimModel *model, const char *line, const char *where,
                     bool *is_unit, GError **error)
{
    bool is_found = false;

    for (uint32_t i = 1; i < model->modules->len; i++) {
        const SimModule *module = sim_model_module(model, i);
        if (!sim_job_wrap_matches(line, module->path))
            continue;
        if (is_unit[i] || module->forward == NULL) {
            g_set_error(error, SIM_ERROR, SIM_ERROR_SCHEMA, "%s: module '%s' %s", where,
                        module->path,
                        is_unit[i] ? "stands twice"
                                   : "is a container that is never called; expected its members");
            return false;
        }
        is_unit[i] = is_found = true;
        sim_job_wrap_add(units, model, &i, 1);
    }
    return is_found || fail_unknown(model, where, line, error);
}

bool sim_job_wrap_read_file(GArray *units, const SimModel *model, const char *file, GError **error)
{
    g_autofree char *text = NULL;
    g_autofree bool *is_unit = g_new0(bool, model->modules->len);
    g_autoptr(GError) failure = NULL;

    if (!g_file_get_contents(file, &text, NULL, &failure)) {
        g_set_error(error, SIM_ERROR, SIM_ERROR_IO,
                    "--wrap: expected block, block+root, root, size:N or a file that lists module "
                    "paths, found '%s': %s",
                    file, failure->message);
        return false;
    }
    g_auto(GStrv) lines = g_strsplit(text, "\n", -1);
    for (size_t i = 0; lines[i] != NULL; i++) {
        g_autofree char *where = g_strdup_printf("--wrap: %s:%zu", file, i + 1);
        const char *line = g_strstrip(lines[i]);
        if (*line != '\0' && strcmp(line, "\"\"") != 0 &&
            !add_line(units, model, line, where, is_unit, error))
            return false;
    }
    return true;
}

/* --- by size -------------------------------------------------------------------------------------
 */

typedef struct SizeWalk {
    GArray *units;
    const SimModel *model;
    uint64_t parameters;
} SizeWalk;

/* Elements of all parameters in MODULE and below, a tied one once (module.parameters()). */
static uint64_t count_elements(const SimModel *model, uint32_t module)
{
    uint64_t elements = 0;

    for (uint32_t i = 0; i < model->parameters->len; i++) {
        const SimParameter *parameter = sim_model_parameter(model, i);
        bool is_counted_already =
            parameter->tied_to != SIM_MODEL_NONE &&
            sim_model_is_below(model, sim_model_parameter(model, parameter->tied_to)->module,
                               module);
        if (sim_model_is_below(model, parameter->module, module) && !is_counted_already)
            elements += parameter->elements;
    }
    return elements;
}

/* True if a parameter in MODULE is the same as one outside of it. */
static bool shares_parameter(const SimModel *model, uint32_t module)
{
    for (uint32_t i = 0; i < model->parameters->len; i++) {
        const SimParameter *parameter = sim_model_parameter(model, i);
        if (parameter->tied_to == SIM_MODEL_NONE)
            continue;
        uint32_t other = sim_model_parameter(model, parameter->tied_to)->module;
        if (sim_model_is_below(model, parameter->module, module) !=
            sim_model_is_below(model, other, module))
            return true;
    }
    return false;
}

/* Makes units in MODULE and below; returns the elements that they hold. */
static uint64_t walk(const SizeWalk *state, uint32_t module)
{
    const SimModel *model = state->model;
    uint64_t elements = count_elements(model, module), wrapped = 0;

    if (elements < state->parameters)
        return 0;
    for (uint32_t i = module + 1; i < model->modules->len; i++) {
        if (sim_model_module(model, i)->parent == module)
            wrapped += walk(state, i);
    }
    if (module == 0 || elements - wrapped < state->parameters ||
        sim_model_module(model, module)->forward == NULL || shares_parameter(model, module))
        return wrapped;
    sim_job_wrap_add(state->units, model, &module, 1);
    return elements;
}

void sim_job_wrap_by_size(GArray *units, const SimModel *model, uint64_t parameters)
{
    const SizeWalk state = {.units = units, .model = model, .parameters = parameters};

    walk(&state, 0);
}
