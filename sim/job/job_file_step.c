/* SPDX-License-Identifier: Apache-2.0 */
#include "job/job_file_step.h"

#include <string.h>

#include "base/error.h"
#include "base/json.h"
#include "job/job_file_units.h"
#include "job/job_patterns.h"

#define MOST_MICROBATCHES 65536

typedef struct Step {
    SimJob *job;
    const SimModel *model;
    GArray *is_open; /* of bool, by microbatch: forward run, backward not */
} Step;

static bool read_microbatch(const cJSON *value, const char *where, uint32_t *microbatch,
                            GError **error)
{
    double number = cJSON_IsNumber(value) ? value->valuedouble : -1;
    if (number < 0 || number >= MOST_MICROBATCHES || number != (double)(uint32_t)number) {
        g_set_error(error, SIM_ERROR, SIM_ERROR_SCHEMA,
                    "%s: expected the number of a microbatch, 0 to %d", where,
                    MOST_MICROBATCHES - 1);
        return false;
    }
    *microbatch = (uint32_t)number;
    return true;
}

/* Marks a forward (OPENS) or its backward. */
static bool turn(Step *step, uint32_t microbatch, bool opens, const char *where, GError **error)
{
    if (step->is_open->len <= microbatch)
        g_array_set_size(step->is_open, microbatch + 1);
    bool *is_open = &g_array_index(step->is_open, bool, microbatch);
    if (*is_open == opens) {
        g_set_error(error, SIM_ERROR, SIM_ERROR_SCHEMA,
                    opens ? "%s: microbatch %u is run forward again before its backward"
                          : "%s: microbatch %u has no forward before this backward",
                    where, microbatch);
        return false;
    }
    *is_open = opens;
    return true;
}

static bool read_forward(Step *step, const cJSON *value, const char *where, GError **error)
{
    SimJobAction action = {.kind = SIM_ACTION_FORWARD};
    if (!read_microbatch(value, where, &action.microbatch, error) ||
        !turn(step, action.microbatch, true, where, error))
        return false;
    g_array_append_val(step->job->actions, action);
    return true;
}

/* A number, or a list: one call over the sum of the losses of neighbouring microbatches. */
static bool read_backward(Step *step, const cJSON *value, const char *where, GError **error)
{
    SimJobAction action = {.kind = SIM_ACTION_BACKWARD};
    const cJSON *item = cJSON_IsArray(value) ? value->child : value;
    for (; item != NULL; item = cJSON_IsArray(value) ? item->next : NULL, action.summed++) {
        uint32_t microbatch;
        if (!read_microbatch(item, where, &microbatch, error) ||
            !turn(step, microbatch, false, where, error))
            return false;
        if (action.summed == 0)
            action.microbatch = microbatch;
        if (microbatch != action.microbatch + action.summed) {
            g_set_error(error, SIM_ERROR, SIM_ERROR_UNSUPPORTED,
                        "%s: expected microbatches that follow each other, found %u after %u",
                        where, microbatch, action.microbatch + action.summed - 1);
            return false;
        }
    }
    if (action.summed == 0) {
        g_set_error(error, SIM_ERROR, SIM_ERROR_SCHEMA, "%s: expected at least one microbatch",
                    where);
        return false;
    }
    g_array_append_val(step->job->actions, action);
    return true;
}

static bool read_zero_grad(Step *step, const cJSON *value, const char *where, GError **error)
{
    static const char *const WORDS[] = {"set_to_none", "keep", NULL};
    const char *text = cJSON_IsString(value) ? value->valuestring : "";
    if (!g_strv_contains(WORDS, text)) {
        sim_error_set_unknown(error, where, "value", text, WORDS);
        return false;
    }
    SimJobAction action = {.kind = SIM_ACTION_ZERO_GRAD, .value = strcmp(text, "keep") == 0};
    g_array_append_val(step->job->actions, action);
    return true;
}

/* reshard, unshard: one action a unit. */
static bool read_unit_call(Step *step, SimJobActionKind kind, const cJSON *value, const char *where,
                           GError **error)
{
    g_autoptr(GArray) units = g_array_new(FALSE, FALSE, sizeof(uint32_t));
    if (!sim_job_patterns_read_units(step->job, step->model, value, where, units, error))
        return false;
    for (uint32_t i = 0; i < units->len; i++) {
        SimJobAction action = {.kind = kind, .unit = g_array_index(units, uint32_t, i)};
        g_array_append_val(step->job->actions, action);
    }
    return true;
}

static bool read_evaluate(Step *step, const cJSON *value, const char *where, GError **error)
{
    if (!cJSON_IsString(value) || value->valuestring[0] != '\0') {
        g_set_error(error, SIM_ERROR, SIM_ERROR_UNSUPPORTED,
                    "%s: expected \"\", the whole model; parts of it are not simulated", where);
        return false;
    }
    SimJobAction action = {.kind = SIM_ACTION_EVALUATE};
    g_array_append_val(step->job->actions, action);
    return true;
}

static bool read_true(Step *step, SimJobActionKind kind, const cJSON *value, const char *where,
                      GError **error)
{
    if (!cJSON_IsTrue(value)) {
        g_set_error(error, SIM_ERROR, SIM_ERROR_SCHEMA, "%s: expected true", where);
        return false;
    }
    SimJobAction action = {.kind = kind};
    g_array_append_val(step->job->actions, action);
    return true;
}

/* FSDP1's and DDP's context manager. */
static bool read_no_sync(Step *step, const cJSON *value, const char *where, GError **error)
{
    if (!cJSON_IsBool(value)) {
        g_set_error(error, SIM_ERROR, SIM_ERROR_SCHEMA, "%s: expected true or false", where);
        return false;
    }
    SimJobAction action = {.kind = SIM_ACTION_SET,
                           .unit = SIM_MODEL_NONE,
                           .flag = SIM_FLAG_GRADIENT_SYNC,
                           .value = cJSON_IsFalse(value)};
    g_array_append_val(step->job->actions, action);
    return true;
}

static bool read_set(Step *step, const cJSON *value, const char *where, GError **error)
{
    static const char *const KEYS[] = {"modules",
                                       "requires_gradient_sync",
                                       "requires_all_reduce",
                                       "is_last_backward",
                                       "reshard_after_backward",
                                       "reshard_after_forward",
                                       NULL};
    return sim_json_check_keys(value, where, KEYS, error) &&
           sim_job_file_units_read_flags(step->job, step->model, value, where, error);
}

static bool read_call(Step *step, const cJSON *call, const char *where, GError **error)
{
    static const char *const KEYS[] = {"zero_grad", "forward", "backward", "clip",
                                       "optimizer", "set",     "reshard",  "unshard",
                                       "evaluate",  "no_sync", NULL};
    if (!sim_json_check_keys(call, where, KEYS, error))
        return false;
    const cJSON *value = call->child;
    if (value == NULL || value->next != NULL) {
        g_set_error(error, SIM_ERROR, SIM_ERROR_SCHEMA, "%s: expected one call, found %d", where,
                    cJSON_GetArraySize(call));
        return false;
    }
    g_autofree char *inner = g_strdup_printf("%s.%s", where, value->string);
    switch (value->string[0]) {
    case 'z':
        return read_zero_grad(step, value, inner, error);
    case 'f':
        return read_forward(step, value, inner, error);
    case 'b':
        return read_backward(step, value, inner, error);
    case 'c':
        return read_true(step, SIM_ACTION_CLIP, value, inner, error);
    case 'o':
        return read_true(step, SIM_ACTION_OPTIMIZER, value, inner, error);
    case 's':
        return read_set(step, value, inner, error);
    case 'r':
        return read_unit_call(step, SIM_ACTION_RESHARD, value, inner, error);
    case 'u':
        return read_unit_call(step, SIM_ACTION_UNSHARD, value, inner, error);
    case 'e':
        return read_evaluate(step, value, inner, error);
    default:
        return read_no_sync(step, value, inner, error);
    }
}

bool sim_job_file_step_read(SimJob *job, const SimModel *model, const cJSON *calls,
                            const char *where, GError **error)
{
    g_autoptr(GArray) is_open = g_array_new(FALSE, TRUE, sizeof(bool));
    Step step = {.job = job, .model = model, .is_open = is_open};
    int number = 0;
    for (const cJSON *call = calls->child; call != NULL; call = call->next, number++) {
        g_autofree char *inner = g_strdup_printf("%s[%d]", where, number);
        if (!read_call(&step, call, inner, error))
            return false;
    }
    for (uint32_t i = 0; i < is_open->len; i++)
        if (g_array_index(is_open, bool, i)) {
            g_set_error(error, SIM_ERROR, SIM_ERROR_SCHEMA,
                        "%s: microbatch %u has a forward but no backward", where, i);
            return false;
        }
    return true;
}
