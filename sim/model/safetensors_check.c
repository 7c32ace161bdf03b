/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/error.h"
#include "model/safetensors.h"

static const SimSafetensor *find_renamed(const SimSafetensors *tensors, const char *path,
                                         const char *from, const char *to)
{
    const char *at = strstr(path, from);
    if (at == NULL)
        return NULL;
    g_autofree char *before = g_strndup(path, (size_t)(at - path));
    g_autofree char *name = g_strconcat(before, to, at + strlen(from), NULL);
    return sim_safetensors_find(tensors, name);
}

static const SimSafetensor *find_parameter(const SimSafetensors *tensors, const char *path)
{
    const SimSafetensor *tensor = sim_safetensors_find(tensors, path);
    const char *rest = strchr(path, '.');
    if (tensor == NULL && rest != NULL)
        tensor = sim_safetensors_find(tensors, rest + 1);
    if (tensor == NULL)
        tensor = find_renamed(tensors, path, ".mlp.", ".block_sparse_moe.");
    if (tensor == NULL)
        tensor = find_renamed(tensors, path, "lm_head", "embed_out");
    return tensor;
}

static bool check_parameter(const SimSafetensors *tensors, const SimParameter *parameter,
                            GError **error)
{
    const SimSafetensor *tensor = find_parameter(tensors, parameter->path);
    if (tensor == NULL && parameter->tied_to != SIM_MODEL_NONE)
        return true;
    g_autofree char *expected = sim_shape_print(&parameter->shape);
    g_autofree char *found =
        tensor != NULL ? sim_shape_print(&tensor->shape) : g_strdup("no such tensor");
    if (strcmp(expected, found) == 0)
        return true;
    g_set_error(error, SIM_ERROR, SIM_ERROR_MISMATCH,
                "%s/%s: %s: expected %s, as config.json says, found %s", tensors->folder,
                tensor != NULL ? tensor->file : "*.safetensors", parameter->path, expected, found);
    return false;
}

bool sim_safetensors_check(const SimSafetensors *tensors, const SimModel *model, GError **error)
{
    uint64_t expected = 0, found = 0;
    for (uint32_t i = 0; i < model->parameters->len; i++) {
        const SimParameter *parameter = sim_model_parameter(model, i);
        if (parameter->shape.n_dims == 3)
            expected += parameter->elements;
        else if (!check_parameter(tensors, parameter, error))
            return false;
    }
    for (guint i = 0; i < tensors->tensors->len; i++) {
        const SimSafetensor *tensor = &g_array_index(tensors->tensors, SimSafetensor, i);
        if (expected > 0 && strstr(tensor->name, ".experts.") != NULL)
            found += tensor->elements;
    }
    if (found == expected)
        return true;
    g_set_error(error, SIM_ERROR, SIM_ERROR_MISMATCH,
                "%s: expected %" G_GUINT64_FORMAT
                " elements of experts, as config.json says, found %" G_GUINT64_FORMAT,
                tensors->folder, expected, found);
    return false;
}
