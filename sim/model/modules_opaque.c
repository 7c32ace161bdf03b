/* SPDX-License-Identifier: Apache-2.0 */
#include "model/modules_opaque.h"

#include "base/error.h"
#include "model/module_tree.h"
#include "model/modules_calls.h"

/* How many ENTRY's list KEY has, from 1 to MOST; 1 where there is none. */
static bool count_list(const cJSON *entry, const char *where, const char *key, int most, int *count,
                       GError **error)
{
    const cJSON *list;
    *count = 1;
    if (entry == NULL || !sim_json_has(entry, key))
        return true;
    if (!sim_json_get_array(entry, where, key, &list, error))
        return false;
    *count = cJSON_GetArraySize(list);
    if (*count >= 1 && *count <= most)
        return true;
    g_set_error(error, SIM_ERROR, SIM_ERROR_SCHEMA, "%s.%s: expected 1 to %d names, found %d",
                where, key, most, *count);
    return false;
}

static bool has_parameters(const SimModel *model, uint32_t module)
{
    for (uint32_t i = module; i < model->modules->len && sim_model_is_below(model, i, module); i++)
        if (sim_model_module(model, i)->n_parameters > 0)
            return true;
    return false;
}

static void make_member(SimModel *model, uint32_t module);

/* VALUE goes through each parameter of MODULE and through each of its members. */
static SimSlot join_parameters(SimModel *model, uint32_t module, SimProgram *program, SimSlot value)
{
    for (uint32_t i = 0; i < sim_model_module(model, module)->n_parameters; i++) {
        SimSlot inputs[] = {value, SIM_SLOT_PARAMETER(i)};
        value = sim_program_call(program, SIM_OPERATOR_OPAQUE_JOIN, NULL, 2, inputs);
    }
    for (uint32_t i = module + 1; i < model->modules->len; i++) {
        if (sim_model_module(model, i)->parent != module || !has_parameters(model, i))
            continue;
        make_member(model, i);
        value = sim_program_call_module(program, i - module, 1, &value);
    }
    return value;
}

static void make_member(SimModel *model, uint32_t module)
{
    SimProgram *program = sim_program_new(1);
    SimSlot result = join_parameters(model, module, program, 0);
    sim_program_finish(program, 1, &result);
    sim_module_tree_set_forward(model, module, program);
}

/* "output_shapes", one for each output; without it the first input's. */
static bool read_output_shapes(const cJSON *entry, const char *where, uint32_t n_outputs,
                               SimAttributes *attributes, GError **error)
{
    const cJSON *list;
    if (entry == NULL || !sim_json_has(entry, "output_shapes"))
        return true;
    if (!sim_json_get_array(entry, where, "output_shapes", &list, error))
        return false;
    if (cJSON_GetArraySize(list) != (int)n_outputs) {
        g_set_error(error, SIM_ERROR, SIM_ERROR_SCHEMA,
                    "%s.output_shapes: expected one for each of the %u outputs, found %d", where,
                    n_outputs, cJSON_GetArraySize(list));
        return false;
    }
    for (uint32_t i = 0; i < n_outputs; i++) {
        g_autofree char *place = g_strdup_printf("%s.output_shapes[%u]", where, i);
        if (!sim_modules_calls_read_dims(cJSON_GetArrayItem(list, (int)i), place, false,
                                         attributes[i].dims, &attributes[i].n_dims, error))
            return false;
    }
    return true;
}

bool sim_modules_opaque_make(SimModel *model, uint32_t module, const cJSON *entry,
                             const char *where, GError **error)
{
    SimAttributes attributes[3] = {{.n_dims = 0}};
    int n_inputs, n_outputs;
    if (!count_list(entry, where, "inputs", SIM_OPERATOR_MAX_INPUTS, &n_inputs, error) ||
        !count_list(entry, where, "outputs", 3, &n_outputs, error) ||
        !read_output_shapes(entry, where, (uint32_t)n_outputs, attributes, error))
        return false;
    SimProgram *program = sim_program_new((uint32_t)n_inputs);
    SimSlot input = 0, results[3];
    SimSlot value = sim_program_call(program, SIM_OPERATOR_OPAQUE, &attributes[0], 1, &input);
    for (SimSlot i = 1; i < (SimSlot)n_inputs; i++) {
        SimSlot inputs[] = {value, i};
        value = sim_program_call(program, SIM_OPERATOR_OPAQUE_JOIN, NULL, 2, inputs);
    }
    results[0] = sim_program_bind(program, join_parameters(model, module, program, value));
    for (int i = 1; i < n_outputs; i++)
        results[i] = sim_program_bind(
            program, sim_program_call(program, SIM_OPERATOR_OPAQUE, &attributes[i], 1, results));
    sim_program_finish(program, (uint32_t)n_outputs, results);
    sim_module_tree_set_forward(model, module, program);
    if (model->without_calls == NULL)
        model->without_calls = g_array_new(FALSE, FALSE, sizeof(uint32_t));
    g_array_prepend_val(model->without_calls,
                        module); /* they are made from the last to the first */
    return true;
}
