/* SPDX-License-Identifier: Apache-2.0
 *
 * A decoder as the recordings of PyTorch use it, written down by hand: modules and parameters in
 * registration order, no operators. For tests that need a model but no autograd.
 */
#pragma once

#include "model/model.h"

#include <glib.h>
#include <stdbool.h>
#include <stdint.h>

typedef struct Decoder {
    uint64_t layers, hidden, key_value_width, feed_forward, vocabulary;
    uint64_t extra_rows; /* blocks in EXTRA_IN register a matrix of so many rows themselves */
    uint32_t extra_in;   /* a bit a block */
    bool is_head_tied;
} Decoder;

/* The net of the recordings: 4 heads of 15, 2 of them for keys and values. */
static const Decoder RECORDED_NET = {4, 60, 30, 101, 251, 0, 0, false};
static const Decoder LLAMA_8B = {32, 4096, 1024, 14336, 128256, 0, 0, false};

static inline uint32_t decoder_add_module(SimModel *model, uint32_t parent, const char *name)
{
    const char *above = parent == SIM_MODEL_NONE ? "" : sim_model_module(model, parent)->path;
    SimModule module = {
        .path = above[0] == '\0' ? g_strdup(name) : g_strdup_printf("%s.%s", above, name),
        .parent = parent,
        .first_parameter = model->parameters->len,
    };
    g_array_append_val(model->modules, module);
    return model->modules->len - 1;
}

/* MODULE registers NAME of ROWS x COLUMNS (COLUMNS 0: a vector). */
static inline void decoder_add_parameter(SimModel *model, uint32_t index, const char *name,
                                         uint64_t rows, uint64_t columns)
{
    SimModule *module = &g_array_index(model->modules, SimModule, index);
    SimParameter parameter = {
        .path = g_strdup_printf("%s.%s", module->path, name),
        .shape = {.dims = {rows, columns}, .n_dims = columns == 0 ? 1 : 2},
        .elements = columns == 0 ? rows : rows * columns,
        .module = index,
        .tied_to = SIM_MODEL_NONE,
    };
    module->n_parameters++;
    g_array_append_val(model->parameters, parameter);
}

/* A child NAME of PARENT with one parameter "weight". */
static inline void decoder_add_weight(SimModel *model, uint32_t parent, const char *name,
                                      uint64_t rows, uint64_t columns)
{
    uint32_t index = decoder_add_module(model, parent, name);
    decoder_add_parameter(model, index, "weight", rows, columns);
}

static inline void decoder_add_block(SimModel *model, const Decoder *net, uint32_t layers,
                                     uint64_t number)
{
    g_autofree char *name = g_strdup_printf("%" G_GUINT64_FORMAT, number);
    uint32_t block = decoder_add_module(model, layers, name);
    g_array_append_val(model->blocks, block);
    if ((net->extra_in >> number & 1) != 0)
        decoder_add_parameter(model, block, "extra", net->extra_rows, net->hidden);
    decoder_add_weight(model, block, "attention_norm", net->hidden, 0);
    uint32_t attention = decoder_add_module(model, block, "attention");
    decoder_add_weight(model, attention, "wq", net->hidden, net->hidden);
    decoder_add_weight(model, attention, "wk", net->key_value_width, net->hidden);
    decoder_add_weight(model, attention, "wv", net->key_value_width, net->hidden);
    decoder_add_weight(model, attention, "wo", net->hidden, net->hidden);
    decoder_add_weight(model, block, "ffn_norm", net->hidden, 0);
    uint32_t feed_forward = decoder_add_module(model, block, "feed_forward");
    decoder_add_weight(model, feed_forward, "w1", net->feed_forward, net->hidden);
    decoder_add_weight(model, feed_forward, "w2", net->hidden, net->feed_forward);
    decoder_add_weight(model, feed_forward, "w3", net->feed_forward, net->hidden);
}

static inline void decoder_clear_module(void *data)
{
    g_free(((SimModule *)data)->path);
}

static inline void decoder_clear_parameter(void *data)
{
    g_free(((SimParameter *)data)->path);
}

/* Freed with decoder_free. */
static inline SimModel *decoder_new(const Decoder *net)
{
    SimModel *model = g_new0(SimModel, 1);
    model->modules = g_array_new(FALSE, TRUE, sizeof(SimModule));
    model->parameters = g_array_new(FALSE, TRUE, sizeof(SimParameter));
    model->blocks = g_array_new(FALSE, TRUE, sizeof(uint32_t));
    g_array_set_clear_func(model->modules, decoder_clear_module);
    g_array_set_clear_func(model->parameters, decoder_clear_parameter);
    uint32_t root = decoder_add_module(model, SIM_MODEL_NONE, "");
    decoder_add_weight(model, root, "tok_embeddings", net->vocabulary, net->hidden);
    uint32_t layers = decoder_add_module(model, root, "layers");
    for (uint64_t i = 0; i < net->layers; i++)
        decoder_add_block(model, net, layers, i);
    decoder_add_weight(model, root, "norm", net->hidden, 0);
    decoder_add_weight(model, root, "output", net->vocabulary, net->hidden);
    if (net->is_head_tied)
        g_array_index(model->parameters, SimParameter, model->parameters->len - 1).tied_to = 0;
    return model;
}

static inline void decoder_free(SimModel *model)
{
    g_array_unref(model->modules);
    g_array_unref(model->parameters);
    g_array_unref(model->blocks);
    g_free(model);
}
