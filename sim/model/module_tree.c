/* SPDX-License-Identifier: Apache-2.0 */
#include "model/module_tree.h"

static void free_program(gpointer program)
{
    sim_program_free(program);
}

SimModel *sim_module_tree_new(const char *name, const char *architecture)
{
    SimModel *model = g_new0(SimModel, 1);
    model->name = g_strdup(name);
    model->architecture = g_strdup(architecture);
    model->modules = g_array_new(FALSE, TRUE, sizeof(SimModule));
    model->parameters = g_array_new(FALSE, TRUE, sizeof(SimParameter));
    model->buffers = g_array_new(FALSE, TRUE, sizeof(SimModelBuffer));
    model->blocks = g_array_new(FALSE, TRUE, sizeof(uint32_t));
    model->programs = g_ptr_array_new_with_free_func(free_program);
    model->embedding = model->norm = model->head = SIM_MODEL_NONE;
    SimModule root = {.path = g_strdup(""), .parent = SIM_MODEL_NONE};
    g_array_append_val(model->modules, root);
    SimModelBuffer ids = {.name = "token_ids",
                          .dims = {SIM_DIM_BATCH, SIM_DIM_SEQUENCE},
                          .n_dims = 2,
                          .dtype = SIM_DTYPE_I64,
                          .is_input = true};
    g_array_append_val(model->buffers, ids);
    return model;
}

static char *join_path(const SimModel *model, uint32_t parent, const char *name)
{
    const char *path = sim_model_module(model, parent)->path;
    return *path == '\0' ? g_strdup(name) : g_strconcat(path, ".", name, NULL);
}

uint32_t sim_module_tree_add(SimModel *model, uint32_t parent, const char *name)
{
    SimModule module = {.path = join_path(model, parent, name),
                        .parent = parent,
                        .first_parameter = model->parameters->len};
    g_array_append_val(model->modules, module);
    return model->modules->len - 1;
}

static uint32_t add_parameter(SimModel *model, uint32_t module, const char *name, SimShape shape)
{
    g_assert(module + 1 == model->modules->len);
    SimParameter parameter = {.path = join_path(model, module, name),
                              .shape = shape,
                              .module = module,
                              .tied_to = SIM_MODEL_NONE};
    parameter.elements = sim_shape_elements(&parameter.shape);
    g_array_append_val(model->parameters, parameter);
    g_array_index(model->modules, SimModule, module).n_parameters++;
    return model->parameters->len - 1;
}

uint32_t sim_module_tree_add_parameter(SimModel *model, uint32_t module, const char *name,
                                       uint64_t rows, uint64_t columns)
{
    SimShape shape = {.dims = {rows, columns}, .n_dims = columns > 0 ? 2 : 1};
    return add_parameter(model, module, name, shape);
}

uint32_t sim_module_tree_add_stack(SimModel *model, uint32_t module, const char *name,
                                   uint64_t experts, uint64_t rows, uint64_t columns)
{
    SimShape shape = {.dims = {experts, rows, columns}, .n_dims = 3};
    return add_parameter(model, module, name, shape);
}

uint32_t sim_module_tree_add_shaped(SimModel *model, uint32_t module, const char *name,
                                    const SimShape *shape)
{
    return add_parameter(model, module, name, *shape);
}

void sim_module_tree_tie(SimModel *model, uint32_t parameter, uint32_t to)
{
    g_array_index(model->parameters, SimParameter, parameter).tied_to = to;
}

SimProgram *sim_module_tree_own(SimModel *model, SimProgram *program)
{
    if (!g_ptr_array_find(model->programs, program, NULL))
        g_ptr_array_add(model->programs, program);
    return program;
}

void sim_module_tree_set_forward(SimModel *model, uint32_t module, SimProgram *forward)
{
    g_array_index(model->modules, SimModule, module).forward = sim_module_tree_own(model, forward);
}

uint32_t sim_module_tree_add_linear(SimModel *model, uint32_t parent, const char *name, uint64_t in,
                                    uint64_t out, bool has_bias, SimProgram *forward)
{
    uint32_t module = sim_module_tree_add_weight(model, parent, name, out, in, forward);
    if (has_bias)
        sim_module_tree_add_parameter(model, module, "bias", out, 0);
    return module;
}

uint32_t sim_module_tree_add_weight(SimModel *model, uint32_t parent, const char *name,
                                    uint64_t rows, uint64_t columns, SimProgram *forward)
{
    uint32_t module = sim_module_tree_add(model, parent, name);
    sim_module_tree_add_parameter(model, module, "weight", rows, columns);
    sim_module_tree_set_forward(model, module, forward);
    return module;
}
