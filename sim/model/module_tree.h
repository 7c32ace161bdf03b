/* SPDX-License-Identifier: Apache-2.0
 *
 * Making a model: modules and parameters in PyTorch's order of registration.
 */
#pragma once

#include "model/program.h"

/* An empty model with its root module and the buffer of token ids. */
SimModel *sim_module_tree_new(const char *name, const char *architecture);

/* A child NAME of PARENT, after all modules added so far. Returns its index. */
uint32_t sim_module_tree_add(SimModel *model, uint32_t parent, const char *name);

/* A parameter of MODULE, which must be the module added last: ROWS x COLUMNS, or ROWS if COLUMNS is
 * 0. Returns its index. */
uint32_t sim_module_tree_add_parameter(SimModel *model, uint32_t module, const char *name,
                                       uint64_t rows, uint64_t columns);

/* The same of a stack of EXPERTS matrices. */
uint32_t sim_module_tree_add_stack(SimModel *model, uint32_t module, const char *name,
                                   uint64_t experts, uint64_t rows, uint64_t columns);

/* The same of any shape. */
uint32_t sim_module_tree_add_shaped(SimModel *model, uint32_t module, const char *name,
                                    const SimShape *shape);

/* PARAMETER holds nothing of its own: it is TO. */
void sim_module_tree_tie(SimModel *model, uint32_t parameter, uint32_t to);

/* MODULE runs FORWARD, which the model owns from now on (it may be given to several modules). */
void sim_module_tree_set_forward(SimModel *model, uint32_t module, SimProgram *forward);
SimProgram *sim_module_tree_own(SimModel *model, SimProgram *program);

/* Leaf modules with their parameters. */
uint32_t sim_module_tree_add_linear(SimModel *model, uint32_t parent, const char *name, uint64_t in,
                                    uint64_t out, bool has_bias, SimProgram *forward);
uint32_t sim_module_tree_add_weight(SimModel *model, uint32_t parent, const char *name,
                                    uint64_t rows, uint64_t columns, SimProgram *forward);
