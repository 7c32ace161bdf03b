/* SPDX-License-Identifier: Apache-2.0 */
#include "job/job_freeze.h"

#include <string.h>

#include "base/error.h"
#include "job/job_wrap.h"

/* True if PATTERN names PATH or something above it. */
static bool is_below(const char *pattern, const char *path)
{
    g_autofree char *above = g_strdup(path);

    for (;;) {
        if (sim_job_wrap_matches(pattern, above))
            return true;
        char *dot = strrchr(above, '.');
        if (dot == NULL)
            return false;
        *dot = '\0';
    }
}

static bool freeze(SimModel *model, const char *pattern, GError **error)
{
    uint32_t count = 0;

    for (guint i = 0; i < model->parameters->len; i++) {
        SimParameter *parameter = &g_array_index(model->parameters, SimParameter, i);
        if (!is_below(pattern, parameter->path))
            continue;
        parameter->is_frozen = true;
        count++;
    }
    if (count > 0)
        return true;
    g_autofree const char **paths = g_new0(const char *, model->modules->len + 1);
    for (guint i = 0; i < model->modules->len; i++)
        paths[i] = sim_model_module(model, i)->path;
    sim_error_set_unknown(error, "--frozen", "module", pattern, paths + (paths[1] != NULL ? 1 : 0));
    return false;
}

bool sim_job_freeze_check(const SimModel *model, const char *where, GError **error)
{
    for (guint i = 0; i < model->parameters->len; i++) {
        if (!g_array_index(model->parameters, SimParameter, i).is_frozen)
            return true;
    }
    g_set_error(error, SIM_ERROR, SIM_ERROR_UNSUPPORTED,
                "%s: expected a parameter that trains, found all frozen: nothing has a gradient",
                where);
    return false;
}

bool sim_job_freeze(SimModel *model, const char *patterns, GError **error)
{
    if (patterns == NULL)
        return true;
    g_auto(GStrv) items = g_strsplit(patterns, ",", -1);
    for (size_t i = 0; items[i] != NULL; i++) {
        if (!freeze(model, items[i], error))
            return false;
    }
    return sim_job_freeze_check(model, "--frozen", error);
}
