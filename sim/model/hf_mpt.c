/* SPDX-License-Identifier: Apache-2.0
 *
 * MPT as transformers writes it (models/mpt/modeling_mpt.py): ALiBi in f32 added to the scores,
 * which are so kept in f32; attention in Python operators and no other; LayerNorm without bias.
 */
#include "model/hf_attention.h"
#include "model/hf_decoder.h"
#include "model/hf_mask.h"
#include "model/module_tree.h"

typedef struct Forwards {
    SimProgram *linear, *norm, *attention, *mlp, *block;
} Forwards;

/* Slopes of the heads, [1, heads, 1, 1]: as many as the next power of two; of others every second
 * one first. */
static SimSlot write_slopes(SimProgram *p, SimSlot base, uint64_t heads, uint64_t power)
{
    int64_t column[] = {1, (int64_t)power, 1, 1};
    SimSlot powers = sim_program_bind(p, sim_forward_unary(p, SIM_OPERATOR_EXPONENT, base));
    SimSlot inverse = sim_forward_unary(p, SIM_OPERATOR_RECIPROCAL, powers);
    SimSlot slopes = sim_forward_scalar(p, SIM_OPERATOR_MUL_SCALAR, inverse, 1);
    sim_program_delete(p, powers);
    sim_program_bind(p, slopes);
    slopes = sim_program_rebind(p, slopes, sim_forward_view(p, slopes, 4, column));
    if (power == heads)
        return slopes;
    SimAttributes along = {.dim = 1};
    SimSlot halves[] = {sim_forward_slice(p, slopes, 1, 0, power / 2), 0};
    halves[1] = sim_forward_slice(p, slopes, 1, power / 2, power / 2);
    SimSlot joined = sim_program_call(p, SIM_OPERATOR_CAT, &along, 2, halves);
    return sim_program_rebind(p, slopes, sim_forward_slice(p, joined, 1, 0, heads));
}

/* build_mpt_alibi_tensor(heads, max_seq_len): [heads, 1, max_seq_len], unnamed. */
static SimSlot write_alibi(SimProgram *p, const SimModelConfig *config)
{
    uint64_t power = 1;
    while (power < config->heads)
        power *= 2;
    int64_t length = (int64_t)config->max_positions, heads = (int64_t)config->heads;
    SimAttributes positions = {.dims = {length}, .n_dims = 1, .dtype = SIM_DTYPE_I32};
    SimAttributes numbers = {.dims = {(int64_t)power}, .n_dims = 1};
    int64_t row[] = {1, 1, 1, length}, whole[] = {heads, 1, length};
    sim_program_open_function(p);
    SimSlot alibi = sim_program_call(p, SIM_OPERATOR_ARANGE, &positions, 0, NULL);
    alibi = sim_program_bind(p, sim_forward_view(p, alibi, 4, row));
    SimSlot base = sim_program_call(p, SIM_OPERATOR_ARANGE, &numbers, 0, NULL);
    base = sim_program_bind(p, sim_forward_cast(p, base, SIM_DTYPE_F32));
    base = sim_program_rebind(p, base, sim_forward_scalar(p, SIM_OPERATOR_MUL_SCALAR, base, 1));
    SimSlot slopes = write_slopes(p, base, config->heads, power);
    alibi = sim_program_rebind(p, alibi, sim_forward_binary(p, SIM_OPERATOR_MUL, alibi, slopes));
    SimSlot result = sim_forward_view(p, alibi, 3, whole);
    sim_program_close_function(p, 1, &result);
    return result;
}

static SimSlot write_heads(SimProgram *p, SimSlot part, uint64_t heads, uint64_t head_dim)
{
    int64_t dims[] = {SIM_DIM_BATCH, SIM_DIM_SEQUENCE, (int64_t)heads, (int64_t)head_dim};
    SimSlot view = sim_forward_view(p, part, 4, dims);
    return sim_program_rebind(p, part, sim_forward_transpose(p, view, 1, 2));
}

/* The weights before dropout: (query @ key^T * scale + alibi) where the mask allows, in f32. */
static SimSlot write_scores(SimProgram *p, const SimModelConfig *config, SimSlot query, SimSlot key,
                            SimSlot alibi, SimSlot mask)
{
    SimSlot turned = sim_forward_transpose(p, key, 2, 3);
    SimSlot scores = sim_hf_attention_matmul(p, config->heads, query, turned, SIM_DIM_SEQUENCE,
                                             (int64_t)config->head_dim, SIM_DIM_SEQUENCE);
    scores = sim_program_bind(p, sim_forward_scalar(p, SIM_OPERATOR_MUL_SCALAR, scores, 1));
    scores = sim_program_rebind(p, scores, sim_forward_binary(p, SIM_OPERATOR_ADD, scores, alibi));
    return sim_program_rebind(p, scores,
                              sim_forward_binary(p, SIM_OPERATOR_MASKED_FILL, scores, mask));
}

/* forward(hidden_states, position_bias, mask). Children: Wqkv 1, out_proj 2. */
static SimProgram *write_attention(const SimModelConfig *config, uint64_t sequence)
{
    SimProgram *p = sim_program_new(3);
    SimAttributes thirds = {.dim = 2, .length = config->hidden};
    SimSlot fused = sim_program_bind(p, sim_forward_module(p, 1, 0)), qkv[3] = {0, 0, 0};
    sim_program_call_many(p, SIM_OPERATOR_SPLIT, &thirds, 1, &fused, 3, qkv);
    for (uint32_t i = 0; i < 3; i++)
        sim_program_bind(p, qkv[i]);
    for (uint32_t i = 0; i < 3; i++)
        qkv[i] = write_heads(p, qkv[i], config->heads, config->head_dim);
    SimSlot scores_bias = 1;
    if (sequence > 0 && sequence < config->max_positions)
        scores_bias = sim_forward_slice(p, 1, 2, config->max_positions - sequence, sequence);
    SimSlot scores = write_scores(p, config, qkv[0], qkv[1], scores_bias, 2);
    SimSlot shares = sim_forward_unary(p, SIM_OPERATOR_SOFTMAX, scores);
    SimSlot weights = sim_program_bind(p, sim_forward_cast(p, shares, SIM_DTYPE_NONE));
    if (config->attention_dropout > 0)
        weights = sim_program_rebind(p, weights,
                                     sim_forward_dropout(p, weights, config->attention_dropout));
    SimSlot out = sim_program_bind(p, sim_hf_attention_matmul(p, config->heads, weights, qkv[2],
                                                              SIM_DIM_SEQUENCE, SIM_DIM_SEQUENCE,
                                                              (int64_t)config->head_dim));
    int64_t rows[] = {SIM_DIM_BATCH, SIM_DIM_SEQUENCE, SIM_DIM_REST};
    SimSlot whole = sim_forward_unary(p, SIM_OPERATOR_CLONE, sim_forward_transpose(p, out, 1, 2));
    out = sim_program_rebind(p, out, sim_forward_view(p, whole, 3, rows));
    SimSlot results[] = {sim_program_bind(p, sim_forward_module(p, 2, out)), weights};
    sim_program_finish(p, 2, results);
    return p;
}

/* forward(hidden_states, residual). Children: up_proj 1, down_proj 2. */
static SimProgram *write_mlp(double dropout)
{
    SimProgram *p = sim_program_new(2);
    SimSlot up = sim_forward_module(p, 1, 0);
    SimSlot hidden = sim_program_bind(p, sim_forward_unary(p, SIM_OPERATOR_GELU, up));
    SimSlot inner = sim_program_bind(p, sim_forward_module(p, 2, hidden));
    SimSlot out =
        sim_forward_binary(p, SIM_OPERATOR_ADD, sim_forward_dropout(p, inner, dropout), 1);
    sim_program_finish(p, 1, &out);
    return p;
}

/* forward(hidden_states, position_bias, attention_mask) -> output, weights. Children: norm_1 1,
 * attn 2, norm_2 5, ffn 6. */
static SimProgram *write_block(double dropout)
{
    SimProgram *p = sim_program_new(3);
    SimSlot normed = sim_program_bind(p, sim_forward_module(p, 1, 0));
    SimSlot inputs[] = {normed, 1, 2}, outs[2];
    sim_program_call_module_many(p, 2, 3, inputs, 2, outs);
    SimSlot attention = sim_program_bind(p, outs[0]), weights = sim_program_bind(p, outs[1]);
    SimSlot sum =
        sim_forward_binary(p, SIM_OPERATOR_ADD, sim_forward_dropout(p, attention, dropout), 0);
    SimSlot hidden = sim_program_bind(p, sum);
    normed = sim_program_rebind(p, normed, sim_forward_module(p, 5, hidden));
    SimSlot arguments[] = {normed, hidden};
    SimSlot results[] = {sim_program_bind(p, sim_program_call_module(p, 6, 2, arguments)), weights};
    sim_program_finish(p, 2, results);
    return p;
}

static void add_block(SimModel *model, uint32_t blocks, uint32_t index,
                      const SimModelConfig *config, const Forwards *forwards)
{
    char name[16];
    g_snprintf(name, sizeof name, "%u", index);
    uint64_t h = config->hidden;
    uint32_t block = sim_module_tree_add(model, blocks, name);
    sim_module_tree_set_forward(model, block, forwards->block);
    sim_module_tree_add_weight(model, block, "norm_1", h, 0, forwards->norm);
    uint32_t attention = sim_module_tree_add(model, block, "attn");
    sim_module_tree_set_forward(model, attention, forwards->attention);
    sim_module_tree_add_weight(model, attention, "Wqkv", 3 * h, h, forwards->linear);
    sim_module_tree_add_weight(model, attention, "out_proj", h, h, forwards->linear);
    sim_module_tree_add_weight(model, block, "norm_2", h, 0, forwards->norm);
    uint32_t mlp = sim_module_tree_add(model, block, "ffn");
    sim_module_tree_set_forward(model, mlp, forwards->mlp);
    sim_module_tree_add_weight(model, mlp, "up_proj", config->intermediate, h, forwards->linear);
    sim_module_tree_add_weight(model, mlp, "down_proj", h, config->intermediate, forwards->linear);
    g_array_append_val(model->blocks, block);
}

/* MptModel.forward: `outputs` of a block, hidden_states and weights, keeps its name until the next
 * block has returned. */
static SimProgram *write_decoder(const SimModel *model, const SimModelConfig *config,
                                 uint32_t decoder)
{
    SimProgram *p = sim_program_new(1);
    SimSlot hidden = sim_program_bind(p, sim_forward_module(p, model->embedding - decoder, 0));
    SimSlot embeds = hidden, weights = SIM_SLOT_NONE;
    SimSlot alibi = sim_program_bind(p, write_alibi(p, config));
    SimAttributes boolean = {.dtype = SIM_DTYPE_U8};
    SimSlot mask = sim_hf_mask_write(p, true, 0);
    mask = sim_program_bind(p, sim_program_call(p, SIM_OPERATOR_CAST, &boolean, 1, &mask));
    for (guint i = 0; i < model->blocks->len; i++) {
        uint32_t block = g_array_index(model->blocks, uint32_t, i) - decoder;
        SimSlot inputs[] = {hidden, alibi, mask}, outs[2];
        sim_program_call_module_many(p, block, 3, inputs, 2, outs);
        weights = weights == SIM_SLOT_NONE ? sim_program_bind(p, outs[1])
                                           : sim_program_rebind(p, weights, outs[1]);
        hidden = hidden == embeds ? sim_program_bind(p, outs[0])
                                  : sim_program_rebind(p, hidden, outs[0]);
    }
    SimSlot normed = sim_forward_module(p, model->norm - decoder, hidden);
    hidden = sim_program_rebind(p, hidden, normed);
    sim_program_finish(p, 1, &hidden);
    return p;
}

SimModel *sim_hf_model_build_mpt(const SimModelConfig *config, const SimModelOptions *options)
{
    SimModel *model =
        sim_module_tree_new(config->name, sim_hf_config_architecture_name(config->architecture));
    Forwards forwards = {
        .linear = sim_forward_linear_new(false),
        .norm = sim_hf_decoder_layer_norm_new(config->norm_eps, false),
        .attention = write_attention(config, options->sequence),
        .mlp = write_mlp(config->residual_dropout),
        .block = write_block(config->residual_dropout),
    };
    uint32_t decoder = sim_module_tree_add(model, 0, "transformer");
    model->embedding = sim_module_tree_add_weight(model, decoder, "wte", config->vocabulary,
                                                  config->hidden, sim_forward_embedding_new());
    uint32_t blocks = sim_module_tree_add(model, decoder, "blocks");
    for (uint32_t i = 0; i < config->layers; i++)
        add_block(model, blocks, i, config, &forwards);
    model->norm =
        sim_module_tree_add_weight(model, decoder, "norm_f", config->hidden, 0, forwards.norm);
    sim_module_tree_set_forward(model, decoder, write_decoder(model, config, decoder));
    sim_hf_causal_lm_finish(model, config, decoder);
    return model;
}
