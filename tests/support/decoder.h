/* SPDX-License-Identifier: Apache-2.0
 *
 * The decoder of the recordings of PyTorch (tests/oracle/pytorch/README.md), operator by operator:
 * modules and parameters in its registration order, no bias, no positions, the loss outside the
 * model. Freed with sim_model_free.
 */
#pragma once

#include "model/forward.h"
#include "model/module_tree.h"

#include <glib.h>
#include <stdbool.h>
#include <stdint.h>

typedef struct Decoder {
    uint64_t layers, hidden, heads, key_value_heads, feed_forward, vocabulary;
    uint64_t extra_rows; /* some blocks register a matrix of so many rows themselves */
    uint32_t extra_in;   /* which: a bit a block */
    bool is_extra_used;
    bool is_head_tied;
    uint32_t skipped_block; /* counted from 1; 0 = none: a block that is never called */
} Decoder;

#define RECORDED_NET                                                                               \
    .layers = 4, .hidden = 60, .heads = 4, .key_value_heads = 2, .feed_forward = 101,              \
    .vocabulary = 251
#define LLAMA_8B                                                                                   \
    .layers = 32, .hidden = 4096, .heads = 32, .key_value_heads = 8, .feed_forward = 14336,        \
    .vocabulary = 128256

/* nn.RMSNorm as the CPU computes it, operator by operator (in f32, then times the weight): its
 * weight's gradient is a sum over rows. */
static inline SimProgram *decoder_write_norm(void)
{
    SimProgram *p = sim_program_new(1);
    SimSlot wide = sim_program_bind(p, sim_forward_cast(p, 0, SIM_DTYPE_F32));
    SimSlot square = sim_forward_binary(p, SIM_OPERATOR_MUL, wide, wide);
    SimSlot mean = sim_forward_unary(p, SIM_OPERATOR_MEAN, square);
    SimSlot scale = sim_forward_unary(p, SIM_OPERATOR_RSQRT,
                                      sim_forward_scalar(p, SIM_OPERATOR_ADD_SCALAR, mean, 1e-5));
    SimSlot scaled = sim_forward_binary(p, SIM_OPERATOR_MUL, wide, scale);
    SimSlot narrow = sim_forward_cast(p, scaled, SIM_DTYPE_NONE);
    SimSlot out = sim_forward_binary(p, SIM_OPERATOR_MUL, narrow, SIM_SLOT_PARAMETER(0));
    sim_program_finish(p, 1, &out);
    return p;
}

/* [B, S, width] -> [B, heads, S, head_dim] */
static inline SimSlot decoder_split_heads(SimProgram *p, SimSlot x, uint64_t heads, uint64_t dim)
{
    int64_t dims[] = {SIM_DIM_BATCH, SIM_DIM_SEQUENCE, (int64_t)heads, (int64_t)dim};
    SimSlot split = sim_forward_view(p, x, 4, dims);
    return sim_program_bind(p, sim_forward_transpose(p, split, 1, 2));
}

/* Children: wq 1, wk 2, wv 3, wo 4. */
static inline SimProgram *decoder_write_attention(const Decoder *net)
{
    SimProgram *p = sim_program_new(1);
    uint64_t dim = net->hidden / net->heads;
    SimSlot q = decoder_split_heads(p, sim_forward_module(p, 1, 0), net->heads, dim);
    SimSlot k = decoder_split_heads(p, sim_forward_module(p, 2, 0), net->key_value_heads, dim);
    SimSlot v = decoder_split_heads(p, sim_forward_module(p, 3, 0), net->key_value_heads, dim);
    SimSlot out = sim_program_bind(p, sim_forward_attention(p, q, k, v, 0));
    int64_t dims[] = {SIM_DIM_BATCH, SIM_DIM_SEQUENCE, SIM_DIM_REST};
    SimSlot turned = sim_forward_transpose(p, out, 1, 2);
    SimSlot contiguous = sim_forward_unary(p, SIM_OPERATOR_CLONE, turned);
    SimSlot result = sim_forward_module(p, 4, sim_forward_view(p, contiguous, 3, dims));
    sim_program_finish(p, 1, &result);
    return p;
}

/* Children: w1 1, w2 2, w3 3. */
static inline SimProgram *decoder_write_feed_forward(void)
{
    SimProgram *p = sim_program_new(1);
    SimSlot gate = sim_forward_unary(p, SIM_OPERATOR_SILU, sim_forward_module(p, 1, 0));
    SimSlot up = sim_forward_module(p, 3, 0);
    SimSlot product = sim_forward_binary(p, SIM_OPERATOR_MUL, gate, up);
    SimSlot out = sim_forward_module(p, 2, product);
    sim_program_finish(p, 1, &out);
    return p;
}

/* Children: attention_norm 1, attention 2 (and its four), ffn_norm 7, feed_forward 8. WITH_EXTRA:
 * the block's own matrix scales its output. */
static inline SimProgram *decoder_write_block(bool with_extra)
{
    SimProgram *p = sim_program_new(1);
    SimSlot attention = sim_forward_module(p, 2, sim_forward_module(p, 1, 0));
    SimSlot h = sim_program_bind(p, sim_forward_binary(p, SIM_OPERATOR_ADD, 0, attention));
    SimSlot mlp = sim_forward_module(p, 8, sim_forward_module(p, 7, h));
    SimSlot out = sim_forward_binary(p, SIM_OPERATOR_ADD, h, mlp);
    if (with_extra) {
        out = sim_program_bind(p, out);
        SimSlot narrow = sim_forward_binary(p, SIM_OPERATOR_LINEAR, out, SIM_SLOT_PARAMETER(0));
        SimSlot scale = sim_forward_unary(p, SIM_OPERATOR_MEAN, narrow);
        out = sim_forward_binary(p, SIM_OPERATOR_MUL, out, scale);
    }
    sim_program_finish(p, 1, &out);
    return p;
}

typedef struct DecoderForwards {
    SimProgram *linear, *norm, *attention, *feed_forward, *block, *extra_block;
} DecoderForwards;

static inline void decoder_add_block(SimModel *model, const Decoder *net, uint32_t layers,
                                     uint64_t number, const DecoderForwards *forwards)
{
    g_autofree char *name = g_strdup_printf("%" G_GUINT64_FORMAT, number);
    uint64_t h = net->hidden, f = net->feed_forward;
    uint64_t k = h / net->heads * net->key_value_heads;
    bool has_extra = (net->extra_in >> number & 1) != 0;
    uint32_t block = sim_module_tree_add(model, layers, name);
    g_array_append_val(model->blocks, block);
    if (has_extra)
        sim_module_tree_add_parameter(model, block, "extra", net->extra_rows, h);
    sim_module_tree_add_weight(model, block, "attention_norm", h, 0, forwards->norm);
    uint32_t attention = sim_module_tree_add(model, block, "attention");
    sim_module_tree_add_weight(model, attention, "wq", h, h, forwards->linear);
    sim_module_tree_add_weight(model, attention, "wk", k, h, forwards->linear);
    sim_module_tree_add_weight(model, attention, "wv", k, h, forwards->linear);
    sim_module_tree_add_weight(model, attention, "wo", h, h, forwards->linear);
    sim_module_tree_add_weight(model, block, "ffn_norm", h, 0, forwards->norm);
    uint32_t feed_forward = sim_module_tree_add(model, block, "feed_forward");
    sim_module_tree_add_weight(model, feed_forward, "w1", f, h, forwards->linear);
    sim_module_tree_add_weight(model, feed_forward, "w2", h, f, forwards->linear);
    sim_module_tree_add_weight(model, feed_forward, "w3", f, h, forwards->linear);
    sim_module_tree_set_forward(model, attention, forwards->attention);
    sim_module_tree_set_forward(model, feed_forward, forwards->feed_forward);
    sim_module_tree_set_forward(
        model, block, has_extra && net->is_extra_used ? forwards->extra_block : forwards->block);
}

static inline SimProgram *decoder_write_root(const SimModel *model, const Decoder *net)
{
    SimProgram *p = sim_program_new(1);
    SimSlot h = sim_program_bind(p, sim_forward_module(p, model->embedding, 0));
    for (uint32_t i = 0; i < model->blocks->len; i++)
        if (i + 1 != net->skipped_block)
            h = sim_program_rebind(
                p, h, sim_forward_module(p, g_array_index(model->blocks, uint32_t, i), h));
    SimSlot out = sim_forward_module(p, model->head, sim_forward_module(p, model->norm, h));
    sim_program_finish(p, 1, &out);
    return p;
}

static inline SimProgram *decoder_write_loss(const Decoder *net)
{
    SimProgram *p = sim_program_new(1);
    int64_t logits_dims[] = {SIM_DIM_REST, (int64_t)net->vocabulary};
    int64_t labels_dims[] = {SIM_DIM_REST};
    SimSlot flat = sim_forward_view(p, sim_forward_cast(p, 0, SIM_DTYPE_F32), 2, logits_dims);
    SimSlot labels = sim_forward_view(p, SIM_SLOT_BUFFER(0), 1, labels_dims);
    SimSlot loss = sim_forward_cross_entropy(p, flat, labels);
    sim_program_finish(p, 1, &loss);
    return p;
}

static inline SimModel *decoder_new(const Decoder *net)
{
    SimModel *model = sim_module_tree_new("decoder", "Decoder");
    DecoderForwards forwards = {
        .linear = sim_forward_linear_new(false),
        .norm = decoder_write_norm(),
        .attention = sim_module_tree_own(model, decoder_write_attention(net)),
        .feed_forward = sim_module_tree_own(model, decoder_write_feed_forward()),
        .block = sim_module_tree_own(model, decoder_write_block(false)),
        .extra_block = sim_module_tree_own(model, decoder_write_block(true)),
    };
    model->embedding = sim_module_tree_add_weight(model, 0, "tok_embeddings", net->vocabulary,
                                                  net->hidden, sim_forward_embedding_new());
    uint32_t layers = sim_module_tree_add(model, 0, "layers");
    for (uint64_t i = 0; i < net->layers; i++)
        decoder_add_block(model, net, layers, i, &forwards);
    model->norm = sim_module_tree_add_weight(model, 0, "norm", net->hidden, 0, forwards.norm);
    model->head = sim_module_tree_add_weight(model, 0, "output", net->vocabulary, net->hidden,
                                             forwards.linear);
    if (net->is_head_tied)
        sim_module_tree_tie(model, model->parameters->len - 1, 0);
    sim_module_tree_set_forward(model, 0, decoder_write_root(model, net));
    model->loss = sim_module_tree_own(model, decoder_write_loss(net));
    return model;
}
