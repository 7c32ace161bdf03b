/* SPDX-License-Identifier: Apache-2.0
 *
 * GPT-NeoX as transformers writes it (models/gpt_neox/modeling_gpt_neox.py): LayerNorm, biases, a
 * fused product whose heads hold query, key and value side by side, rotary embedding of a part of a
 * head, attention and MLP beside each other on one residual.
 */
#include "model/hf_attention.h"
#include "model/hf_decoder.h"
#include "model/hf_rotary.h"
#include "model/module_tree.h"

typedef struct Forwards {
    SimProgram *linear, *projection, *norm, *attention, *mlp, *block;
} Forwards;

/* 0.5 * x * (1.0 + tanh(x * 0.7978845608 * (1.0 + 0.044715 * x * x))) */
static SimSlot write_gelu_fast(SimProgram *p, SimSlot x)
{
    SimSlot half = sim_forward_scalar(p, SIM_OPERATOR_MUL_SCALAR, x, 0.5);
    SimSlot scaled = sim_forward_scalar(p, SIM_OPERATOR_MUL_SCALAR, x, 0.7978845608);
    SimSlot small = sim_forward_scalar(p, SIM_OPERATOR_MUL_SCALAR, x, 0.044715);
    SimSlot square = sim_forward_binary(p, SIM_OPERATOR_MUL, small, x);
    SimSlot shifted = sim_forward_scalar(p, SIM_OPERATOR_ADD_SCALAR, square, 1);
    SimSlot argument = sim_forward_binary(p, SIM_OPERATOR_MUL, scaled, shifted);
    SimSlot tanh = sim_forward_unary(p, SIM_OPERATOR_TANH, argument);
    SimSlot above = sim_forward_scalar(p, SIM_OPERATOR_ADD_SCALAR, tanh, 1);
    return sim_forward_binary(p, SIM_OPERATOR_MUL, half, above);
}

static SimSlot write_activation(SimProgram *p, SimActivation activation, SimSlot x)
{
    switch (activation) {
    case SIM_ACTIVATION_GELU_FAST:
        return write_gelu_fast(p, x);
    case SIM_ACTIVATION_GELU_NEW:
        return sim_hf_causal_lm_gelu_new(p, x);
    default:
        return sim_forward_unary(p, SIM_OPERATOR_GELU, x);
    }
}

/* forward(hidden_states, cos, sin[, mask]). Children: query_key_value 1, dense 2. */
static SimProgram *write_attention(const SimModelConfig *config, const SimModelOptions *options,
                                   bool has_mask)
{
    SimProgram *p = sim_program_new(has_mask ? 4 : 3);
    SimHfAttention attention = sim_hf_attention_of(config, options);
    int64_t heads[] = {SIM_DIM_BATCH, SIM_DIM_SEQUENCE, SIM_DIM_REST,
                       (int64_t)(3 * config->head_dim)};
    SimAttributes thirds = {.dim = 3, .length = config->head_dim};
    SimSlot fused = sim_forward_view(p, sim_forward_module(p, 1, 0), 4, heads);
    fused = sim_program_bind(p, sim_forward_transpose(p, fused, 1, 2));
    SimSlot qkv[3] = {0, 0, 0}, results[2];
    sim_program_call_many(p, SIM_OPERATOR_SPLIT, &thirds, 1, &fused, 3, qkv);
    for (uint32_t i = 0; i < 3; i++)
        sim_program_bind(p, qkv[i]);
    sim_hf_rotary_apply_partly(p, 1, 2, config->head_dim, config->rotary_dim, true, &qkv[0],
                               &qkv[1]);
    results[0] = sim_hf_attention_write(p, &attention, qkv[0], qkv[1], qkv[2],
                                        has_mask ? 3 : SIM_SLOT_NONE, &results[1]);
    results[0] = sim_program_rebind(p, results[0], sim_forward_module(p, 2, results[0]));
    sim_program_finish(p, sim_hf_attention_results(&attention), results);
    return p;
}

/* Children: dense_h_to_4h 1, dense_4h_to_h 2. */
static SimProgram *write_mlp(SimActivation activation)
{
    SimProgram *p = sim_program_new(1);
    SimSlot hidden = sim_program_bind(p, sim_forward_module(p, 1, 0));
    hidden = sim_program_rebind(p, hidden, write_activation(p, activation, hidden));
    hidden = sim_program_rebind(p, hidden, sim_forward_module(p, 2, hidden));
    sim_program_finish(p, 1, &hidden);
    return p;
}

static SimSlot rebind_dropout(SimProgram *p, SimSlot value, double rate)
{
    return rate > 0 ? sim_program_rebind(p, value, sim_forward_dropout(p, value, rate)) : value;
}

/* forward(hidden_states, cos, sin, position_ids[, mask]). Children: input_layernorm 1,
 * post_attention_layernorm 2, attention 3, mlp 6. */
static SimProgram *write_block(const SimModelConfig *config, const SimModelOptions *options,
                               bool has_mask)
{
    SimHfAttention kind = sim_hf_attention_of(config, options);
    double dropout = config->residual_dropout;
    SimProgram *p = sim_program_new(has_mask ? 5 : 4);
    SimSlot inputs[] = {sim_forward_module(p, 1, 0), 1, 2, 4}, outs[2];
    sim_program_call_module_many(p, 3, has_mask ? 4 : 3, inputs, sim_hf_attention_results(&kind),
                                 outs);
    SimSlot attention = sim_program_bind(p, outs[0]);
    if (sim_hf_attention_results(&kind) == 2)
        sim_program_bind(p, outs[1]);
    attention = rebind_dropout(p, attention, dropout);
    bool is_parallel = config->is_residual_parallel;
    if (!is_parallel)
        attention =
            sim_program_rebind(p, attention, sim_forward_binary(p, SIM_OPERATOR_ADD, attention, 0));
    SimSlot normed = sim_forward_module(p, 2, is_parallel ? 0 : attention);
    SimSlot mlp = sim_program_bind(p, sim_forward_module(p, 6, normed));
    mlp = rebind_dropout(p, mlp, dropout);
    SimSlot sum = sim_forward_binary(p, SIM_OPERATOR_ADD, mlp, attention);
    if (is_parallel)
        sum = sim_forward_binary(p, SIM_OPERATOR_ADD, sum, 0);
    sim_program_finish(p, 1, &sum);
    return p;
}

static uint32_t add_norm(SimModel *model, uint32_t parent, const char *name, uint64_t size,
                         const Forwards *forwards)
{
    uint32_t norm = sim_module_tree_add_weight(model, parent, name, size, 0, forwards->norm);
    sim_module_tree_add_parameter(model, norm, "bias", size, 0);
    return norm;
}

static void add_block(SimModel *model, uint32_t layers, uint32_t index,
                      const SimModelConfig *config, const Forwards *forwards)
{
    char name[16];
    g_snprintf(name, sizeof name, "%u", index);
    uint64_t h = config->hidden, f = config->intermediate;
    uint32_t block = sim_module_tree_add(model, layers, name);
    sim_module_tree_set_forward(model, block, forwards->block);
    add_norm(model, block, "input_layernorm", h, forwards);
    add_norm(model, block, "post_attention_layernorm", h, forwards);
    uint32_t attention = sim_module_tree_add(model, block, "attention");
    sim_module_tree_set_forward(model, attention, forwards->attention);
    sim_module_tree_add_linear(model, attention, "query_key_value", h, 3 * h, config->has_qkv_bias,
                               forwards->projection);
    sim_module_tree_add_linear(model, attention, "dense", h, h, config->has_output_bias,
                               forwards->projection);
    uint32_t mlp = sim_module_tree_add(model, block, "mlp");
    sim_module_tree_set_forward(model, mlp, forwards->mlp);
    sim_module_tree_add_linear(model, mlp, "dense_h_to_4h", h, f, true, forwards->linear);
    sim_module_tree_add_linear(model, mlp, "dense_4h_to_h", f, h, true, forwards->linear);
    g_array_append_val(model->blocks, block);
}

static void add_decoder(SimModel *model, const SimModelConfig *config,
                        const SimModelOptions *options, const Forwards *forwards)
{
    SimSlot frequencies = sim_hf_rotary_add_buffers(model, config, NULL);
    uint32_t decoder = sim_module_tree_add(model, 0, "gpt_neox");
    model->embedding = sim_module_tree_add_weight(model, decoder, "embed_in", config->vocabulary,
                                                  config->hidden, sim_forward_embedding_new());
    uint32_t layers = sim_module_tree_add(model, decoder, "layers");
    for (uint32_t i = 0; i < config->layers; i++)
        add_block(model, layers, i, config, forwards);
    model->norm = add_norm(model, decoder, "final_layer_norm", config->hidden, forwards);
    uint32_t rotary = sim_module_tree_add(model, decoder, "rotary_emb");
    sim_module_tree_set_forward(model, rotary, sim_hf_rotary_new(frequencies));
    SimHfDecoder writing = {.model = model,
                            .config = config,
                            .options = options,
                            .module = decoder,
                            .rotaries = {rotary},
                            .n_rotaries = 1,
                            .embedding_dropout = config->embedding_dropout};
    sim_module_tree_set_forward(model, decoder, sim_hf_decoder_new(&writing));
}

SimModel *sim_hf_model_build_neox(const SimModelConfig *config, const SimModelOptions *options)
{
    SimModel *model =
        sim_module_tree_new(config->name, sim_hf_config_architecture_name(config->architecture));
    bool has_mask = sim_hf_decoder_has_mask(config, options, 0);
    Forwards forwards = {
        .linear = sim_forward_linear_new(true),
        .projection = sim_forward_linear_new(config->has_qkv_bias),
        .norm = sim_hf_decoder_layer_norm_new(config->norm_eps, true),
        .attention = write_attention(config, options, has_mask),
        .mlp = write_mlp(config->activation),
        .block = write_block(config, options, has_mask),
    };
    add_decoder(model, config, options, &forwards);
    sim_hf_causal_lm_finish(model, config, 1);
    return model;
}
