/* SPDX-License-Identifier: Apache-2.0 */
#include "fsdp/unit_list.h"

#include <string.h>

#include "base/error.h"
#include "fsdp/torch_version.h"

static void clear_unit(gpointer data)
{
    SimUnit *unit = data;
    g_array_unref(unit->parameters);
}

uint64_t sim_unit_list_gathered_bytes(const SimUnitParameter *parameter)
{
    return parameter->shard.padded_elements * sim_dtype_bytes(parameter->gather_dtype);
}

SimUnit *sim_unit_list_get(const SimUnitList *units, uint32_t unit)
{
    return &g_array_index(units->units, SimUnit, unit);
}

uint32_t sim_unit_list_count(const SimUnitList *units)
{
    return units->units->len;
}

static uint32_t *new_indices(size_t count)
{
    uint32_t *indices = g_new(uint32_t, count + 1);
    for (size_t i = 0; i <= count; i++)
        indices[i] = SIM_MODEL_NONE;
    return indices;
}

/* The name of the parameter below the unit's only module, else its whole path. */
static SimStringId name_parameter(SimPlan *plan, const SimModel *model, const SimJobUnit *call,
                                  const SimParameter *parameter)
{
    const char *path = parameter->path;
    if (call->modules->len == 1) {
        const char *module =
            sim_model_module(model, g_array_index(call->modules, uint32_t, 0))->path;
        size_t length = strlen(module);
        if (length > 0 && strncmp(path, module, length) == 0 && path[length] == '.')
            path += length + 1;
    }
    return sim_strings_intern(sim_plan_strings(plan), path);
}

static SimStringId intern_shape(SimPlan *plan, const SimShape *shape)
{
    g_autofree char *text = sim_shape_print(shape);
    return sim_strings_intern(sim_plan_strings(plan), text);
}

static SimDtype choose(SimDtype wanted, SimDtype otherwise)
{
    return wanted == SIM_DTYPE_NONE ? otherwise : wanted;
}

static bool contains(const GArray *parameters, uint32_t parameter)
{
    for (uint32_t i = 0; parameters != NULL && i < parameters->len; i++)
        if (g_array_index(parameters, uint32_t, i) == parameter)
            return true;
    return false;
}

/* The dimension of PARAMETER that the job cuts; what FSDPParam refuses is an error. */
static bool find_shard_dim(const SimJob *job, const SimParameter *parameter, uint32_t index,
                           uint32_t *dim, GError **error)
{
    *dim = job->shard_dims == NULL ? 0 : g_array_index(job->shard_dims, uint32_t, index);
    if (parameter->shape.n_dims == 0) {
        g_set_error(error, SIM_ERROR, SIM_ERROR_SCHEMA,
                    "%s: FSDP cannot shard a scalar parameter; give it one dimension",
                    parameter->path);
        return false;
    }
    if (*dim >= parameter->shape.n_dims) {
        g_set_error(error, SIM_ERROR, SIM_ERROR_RANGE,
                    "%s: expected a shard dimension below %u, found %u", parameter->path,
                    parameter->shape.n_dims, *dim);
        return false;
    }
    if (*dim > 0 && parameter->shape.dims[*dim] % job->shard_size != 0) {
        g_set_error(
            error, SIM_ERROR, SIM_ERROR_RANGE,
            "%s: FSDP shards dimension %u only where it divides; expected a multiple of the "
            "%u ranks of a shard group, found %" G_GUINT64_FORMAT,
            parameter->path, *dim, job->shard_size, parameter->shape.dims[*dim]);
        return false;
    }
    return true;
}

static bool add_parameter(SimUnitList *units, uint32_t index, uint32_t parameter_index,
                          const SimJob *job, const SimModel *model, SimPlan *plan, GError **error)
{
    SimUnit *unit = sim_unit_list_get(units, index);
    const SimParameter *parameter = sim_model_parameter(model, parameter_index);
    uint32_t dim;
    if (!find_shard_dim(job, parameter, parameter_index, &dim, error))
        return false;
    bool is_uncast = contains(job->uncast_parameters, parameter_index);
    SimUnitParameter added = {
        .parameter = parameter_index,
        .shard_dim = dim,
        .shard = sim_shard_compute(&parameter->shape, dim, job->shard_size),
        .gather_dtype =
            is_uncast ? job->store_dtype : choose(job->precision.param_dtype, job->store_dtype),
        .is_frozen = parameter->is_frozen,
        .tail = name_parameter(plan, model, unit->call, parameter),
        .shape = intern_shape(plan, &parameter->shape),
    };
    SimShape stored = parameter->shape;
    stored.dims[dim] = added.shard.shard_rows;
    added.shard_shape = intern_shape(plan, &stored);
    units->owner[parameter_index] = index;
    units->place[parameter_index] = unit->parameters->len;
    g_array_append_val(unit->parameters, added);
    return true;
}

/* A tied parameter must lie in the unit of the one it is tied to. */
static bool claim_tied(SimUnitList *units, uint32_t index, uint32_t parameter_index,
                       const SimModel *model, GError **error)
{
    const SimParameter *parameter = sim_model_parameter(model, parameter_index);
    uint32_t owner = units->owner[parameter->tied_to];
    if (owner != index) {
        g_set_error(error, SIM_ERROR, SIM_ERROR_SCHEMA,
                    "%s: tied to %s, which belongs to another unit; FSDP refuses a parameter that "
                    "two units share, so wrap both in one",
                    parameter->path, sim_model_parameter(model, parameter->tied_to)->path);
        return false;
    }
    units->owner[parameter_index] = owner;
    units->place[parameter_index] = units->place[parameter->tied_to];
    return true;
}

/* What MODULE itself registers. */
static bool claim_module(SimUnitList *units, uint32_t index, const SimModule *module,
                         const SimJob *job, const SimModel *model, SimPlan *plan, GError **error)
{
    for (uint32_t i = 0; i < module->n_parameters; i++) {
        uint32_t p = module->first_parameter + i;
        if (contains(job->ignored_parameters, p))
            continue;
        bool is_tied = sim_model_parameter(model, p)->tied_to != SIM_MODEL_NONE;
        if (is_tied ? !claim_tied(units, index, p, model, error)
                    : !add_parameter(units, index, p, job, model, plan, error))
            return false;
    }
    return true;
}

/* Takes all that the subtree of TOP still has to give, children first; CLAIMED are the modules of
 * earlier calls. A module's subtree follows it in the model, so what is still open when a module
 * outside of it comes is done. */
static bool claim_subtree(SimUnitList *units, uint32_t index, uint32_t top, bool *claimed,
                          const SimJob *job, const SimModel *model, SimPlan *plan, GError **error)
{
    g_autoptr(GArray) open = g_array_new(FALSE, FALSE, sizeof(uint32_t));
    for (uint32_t m = top; m <= model->modules->len; m++) {
        bool is_end = m == model->modules->len || !sim_model_is_below(model, m, top);
        while (open->len > 0) {
            uint32_t last = g_array_index(open, uint32_t, open->len - 1);
            if (!is_end && sim_model_is_below(model, m, last))
                break;
            g_array_set_size(open, open->len - 1);
            if (!claim_module(units, index, sim_model_module(model, last), job, model, plan, error))
                return false;
        }
        if (is_end)
            return true;
        if (!claimed[m])
            g_array_append_val(open, m);
        claimed[m] = true;
    }
    return true;
}

/* MixedPrecisionPolicy (_fsdp_api.py): what an unset reduce_dtype means depends on the version. */
static void settle_dtypes(SimUnit *unit, const SimJob *job)
{
    unit->gather_dtype = choose(job->precision.param_dtype, job->store_dtype);
    unit->reduce_dtype = choose(
        job->precision.reduce_dtype,
        sim_torch_version_get(job)->reduces_in_stored_type ? job->store_dtype : unit->gather_dtype);
    for (uint32_t i = 0; i < unit->parameters->len; i++) {
        const SimUnitParameter *parameter = &g_array_index(unit->parameters, SimUnitParameter, i);
        if (i == 0)
            unit->gather_dtype = parameter->gather_dtype;
        else if (parameter->gather_dtype != unit->gather_dtype)
            unit->gather_dtype = SIM_DTYPE_U8;
        if (parameter->gather_dtype != job->store_dtype)
            unit->needs_cast = true;
        unit->shard_bytes +=
            parameter->shard.shard_elements * sim_dtype_bytes(parameter->gather_dtype);
    }
}

static bool add_unit(SimUnitList *units, const SimJobUnit *call, bool *claimed, const SimJob *job,
                     const SimModel *model, SimPlan *plan, GError **error)
{
    uint32_t index = units->units->len;
    SimUnit unit = {
        .call = call,
        .name = sim_strings_intern(sim_plan_strings(plan), call->name),
        .parameters = g_array_new(FALSE, TRUE, sizeof(SimUnitParameter)),
        .enclosing = SIM_MODEL_NONE,
    };
    g_array_append_val(units->units, unit);
    for (uint32_t i = 0; i < call->modules->len; i++) {
        uint32_t module = g_array_index(call->modules, uint32_t, i);
        if (units->unit_of_module[module] != SIM_MODEL_NONE) {
            g_set_error(error, SIM_ERROR, SIM_ERROR_SCHEMA,
                        "fully_shard: module \"%s\" is in two calls; wrap it once",
                        sim_model_module(model, module)->path);
            return false;
        }
        units->unit_of_module[module] = index;
        if (!claim_subtree(units, index, module, claimed, job, model, plan, error))
            return false;
    }
    settle_dtypes(sim_unit_list_get(units, index), job);
    return true;
}

static void find_enclosing(SimUnitList *units, const SimModel *model)
{
    for (uint32_t u = 0; u < units->units->len; u++) {
        SimUnit *unit = sim_unit_list_get(units, u);
        uint32_t module =
            sim_model_module(model, g_array_index(unit->call->modules, uint32_t, 0))->parent;
        while (module != SIM_MODEL_NONE && units->unit_of_module[module] == SIM_MODEL_NONE)
            module = sim_model_module(model, module)->parent;
        if (module != SIM_MODEL_NONE)
            unit->enclosing = units->unit_of_module[module];
    }
}

static void order_traversal(SimUnitList *units, const SimModel *model)
{
    g_autofree bool *is_seen = g_new0(bool, units->units->len + 1);
    uint32_t count = 0;
    for (uint32_t m = 0; m < model->modules->len; m++) {
        uint32_t unit = units->unit_of_module[m];
        if (unit == SIM_MODEL_NONE || is_seen[unit])
            continue;
        is_seen[unit] = true;
        units->traversal[count++] = unit;
    }
    g_assert(count == units->units->len);
}

SimUnitList *sim_unit_list_new(const SimJob *job, const SimModel *model, SimPlan *plan,
                               GError **error)
{
    g_autoptr(SimUnitList) units = g_new0(SimUnitList, 1);
    units->units = g_array_new(FALSE, TRUE, sizeof(SimUnit));
    g_array_set_clear_func(units->units, clear_unit);
    units->unit_of_module = new_indices(model->modules->len);
    units->owner = new_indices(model->parameters->len);
    units->place = new_indices(model->parameters->len);
    g_autofree bool *claimed = g_new0(bool, model->modules->len + 1);
    for (uint32_t i = 0; i < job->units->len; i++) {
        const SimJobUnit *call = &g_array_index(job->units, SimJobUnit, i);
        if (!add_unit(units, call, claimed, job, model, plan, error))
            return NULL;
    }
    units->root = units->unit_of_module[0];
    if (units->root == SIM_MODEL_NONE) {
        g_set_error(error, SIM_ERROR, SIM_ERROR_SCHEMA,
                    "fully_shard: no call wraps the root module \"\"; add it as the last one");
        return NULL;
    }
    units->traversal = new_indices(units->units->len);
    find_enclosing(units, model);
    order_traversal(units, model);
    return g_steal_pointer(&units);
}

void sim_unit_list_free(SimUnitList *units)
{
    if (units == NULL)
        return;
    g_array_unref(units->units);
    g_free(units->traversal);
    g_free(units->unit_of_module);
    g_free(units->owner);
    g_free(units->place);
    g_free(units);
}
