/* SPDX-License-Identifier: Apache-2.0 */
#include "model/model.h"

#include <string.h>

void sim_model_free(SimModel *model)
{
    if (model == NULL)
        return;
    for (guint i = 0; i < model->modules->len; i++)
        g_free(g_array_index(model->modules, SimModule, i).path);
    for (guint i = 0; i < model->parameters->len; i++)
        g_free(g_array_index(model->parameters, SimParameter, i).path);
    g_array_unref(model->modules);
    g_array_unref(model->parameters);
    g_array_unref(model->buffers);
    g_array_unref(model->blocks);
    g_clear_pointer(&model->without_calls, g_array_unref);
    g_ptr_array_unref(model->programs);
    g_free(model->name);
    g_free(model->architecture);
    g_free(model);
}

const SimModule *sim_model_module(const SimModel *model, uint32_t module)
{
    g_assert(module < model->modules->len);
    return &g_array_index(model->modules, SimModule, module);
}

const SimParameter *sim_model_parameter(const SimModel *model, uint32_t parameter)
{
    g_assert(parameter < model->parameters->len);
    return &g_array_index(model->parameters, SimParameter, parameter);
}

uint32_t sim_model_find_module(const SimModel *model, const char *path)
{
    for (uint32_t i = 0; i < model->modules->len; i++)
        if (strcmp(sim_model_module(model, i)->path, path) == 0)
            return i;
    return SIM_MODEL_NONE;
}

bool sim_model_is_below(const SimModel *model, uint32_t module, uint32_t ancestor)
{
    while (module != SIM_MODEL_NONE && module != ancestor)
        module = sim_model_module(model, module)->parent;
    return module == ancestor;
}

uint64_t sim_model_elements(const SimModel *model)
{
    uint64_t elements = 0;
    for (uint32_t i = 0; i < model->parameters->len; i++) {
        const SimParameter *parameter = sim_model_parameter(model, i);
        if (parameter->tied_to == SIM_MODEL_NONE)
            elements += parameter->elements;
    }
    return elements;
}
