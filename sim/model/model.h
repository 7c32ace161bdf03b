/* SPDX-License-Identifier: Apache-2.0
 *
 * A model as a tree of modules, each with its parameters in registration order and what its forward
 * calls (program.h). Read-only once built; shapes are whole (unsharded).
 *
 * Modules and parameters are known by index. Module 0 is the root (path ""); children come after
 * their parent and in registration order, so a walk by index is PyTorch's `named_modules` order,
 * and parameters by index are in `named_parameters` order.
 */
#pragma once

#include "base/dtype.h"
#include "model/shape.h"

#include <glib.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SIM_MODEL_NONE UINT32_MAX
typedef struct SimParameter {
    char *path; /* "layers.3.attention.wq.weight" */
    SimShape shape;
    uint64_t elements;
    uint32_t module;  /* the one that registers it */
    uint32_t tied_to; /* the parameter that really holds it, or SIM_MODEL_NONE */
    bool is_frozen;   /* requires_grad = False */
} SimParameter;

typedef struct SimProgram SimProgram; /* program.h */

typedef struct SimModule {
    char *path;                             /* "layers.3.attention"; "" = root */
    uint32_t parent;                        /* SIM_MODEL_NONE for the root */
    uint32_t first_parameter, n_parameters; /* its own, in SimModel.parameters */
    SimProgram *forward;                    /* NULL: a container that is never called itself */
} SimModule;

/* A tensor that the model holds besides its parameters: a rotary table. */
typedef struct SimModelBuffer {
    const char *name;
    int64_t dims[SIM_SHAPE_MAX_DIMS]; /* may be SIM_DIM_SEQUENCE or SIM_DIM_BATCH of operator.h */
    uint32_t n_dims;
    SimDtype dtype;
    bool is_input; /* token ids: the training loop's, not the model's */
} SimModelBuffer;

/* What FLOP and MFU conventions need of a decoder; zero where the model has no such thing. */
typedef struct SimModelFigures {
    uint64_t layers, hidden, heads, head_dim, key_value_heads, vocabulary, max_positions;
    uint64_t embedding_elements; /* not counted by torchtitan's 6N; 0 where the head is tied */
} SimModelFigures;

typedef struct SimModel {
    char *name;         /* "llama-3.1-8b": the file's base name */
    char *architecture; /* "LlamaForCausalLM" */
    GArray *modules;    /* of SimModule */
    GArray *parameters; /* of SimParameter */
    SimModelFigures figures;
    GArray *buffers;     /* of SimModelBuffer; 0 = the token ids, which are the labels too */
    GPtrArray *programs; /* owns every forward; equal blocks share one */
    SimProgram *loss;    /* from the root's result to the scalar, outside the tree; NULL: the root's
                          * first result is the scalar */
    /* chunked loss, where the code has one: the root's forward up to the head, and from logits and
     * labels of a chunk to its share of the mean; else NULL */
    SimProgram *headless, *chunk_loss;
    uint64_t config_parameters; /* the published total: a tied head counts once */
    /* embedding, blocks in order, last norm, head: paths for default wrapping */
    uint32_t embedding, norm, head; /* module indices, or SIM_MODEL_NONE */
    GArray *blocks;                 /* of uint32_t */
    bool is_head_tied;
    GArray *without_calls; /* of uint32_t: modules that are called, but of whose inside nothing is
                            * known (modules_json.h); NULL = none */
} SimModel;

void sim_model_free(SimModel *model);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(SimModel, sim_model_free)

const SimModule *sim_model_module(const SimModel *model, uint32_t module);
const SimParameter *sim_model_parameter(const SimModel *model, uint32_t parameter);

/* The module of that path, or SIM_MODEL_NONE. O(modules). */
uint32_t sim_model_find_module(const SimModel *model, const char *path);

/* True if MODULE is ANCESTOR or below it. O(depth). */
bool sim_model_is_below(const SimModel *model, uint32_t module, uint32_t ancestor);

/* Elements that this code trains (a tied parameter once, frozen ones too). */
uint64_t sim_model_elements(const SimModel *model);
