/* SPDX-License-Identifier: Apache-2.0
 *
 * Llama, Mistral, Qwen2, Qwen3 as transformers writes them (models/llama/modeling_llama.py and
 * those generated from it): the norm in f32 operators, rotate_half, grouped keys given to SDPA as
 * there is no mask, the loss inside the model with labels shifted by padding.
 */
#include "model/hf_causal_lm.h"
#include "model/hf_model.h"
#include "model/module_tree.h"

#define INVERSE_FREQUENCIES SIM_SLOT_BUFFER(1)

/* Where the children of an attention, an MLP and a block are, counted from the module itself. */
enum { Q_PROJ = 1, K_PROJ, V_PROJ, O_PROJ, Q_NORM, K_NORM };
enum { GATE_PROJ = 1, UP_PROJ, DOWN_PROJ };

typedef struct Forwards {
    SimProgram *linear, *linear_bias, *norm, *attention, *mlp, *block;
} Forwards;

static SimProgram *linear_of(const Forwards *forwards, bool has_bias)
{
    return has_bias ? forwards->linear_bias : forwards->linear;
}

static SimProgram *write_norm(double eps)
{
    SimProgram *p = sim_program_new(1);
    SimSlot wide = sim_program_bind(p, sim_forward_cast(p, 0, SIM_DTYPE_F32));
    SimSlot square = sim_forward_scalar(p, SIM_OPERATOR_POW, wide, 2);
    SimSlot variance = sim_program_bind(p, sim_forward_unary(p, SIM_OPERATOR_MEAN, square));
    SimSlot shifted = sim_forward_scalar(p, SIM_OPERATOR_ADD_SCALAR, variance, eps);
    SimSlot scale = sim_forward_unary(p, SIM_OPERATOR_RSQRT, shifted);
    wide = sim_program_rebind(p, wide, sim_forward_binary(p, SIM_OPERATOR_MUL, wide, scale));
    SimSlot half = sim_forward_cast(p, wide, SIM_DTYPE_NONE);
    SimSlot out = sim_forward_binary(p, SIM_OPERATOR_MUL, SIM_SLOT_PARAMETER(0), half);
    sim_program_finish(p, 1, &out);
    return p;
}

/* forward(x, position_ids) -> cos, sin: [1, S, head_dim], computed in f32. */
static SimProgram *write_rotary(void)
{
    SimProgram *p = sim_program_new(2);
    int64_t column[] = {1, SIM_DIM_SEQUENCE, 1};
    SimSlot wide = sim_forward_cast(p, sim_forward_view(p, 1, 3, column), SIM_DTYPE_F32);
    SimSlot inverse = sim_forward_cast(p, INVERSE_FREQUENCIES, SIM_DTYPE_F32);
    SimSlot freqs = sim_program_bind(p, sim_forward_binary(p, SIM_OPERATOR_MUL, wide, inverse));
    SimSlot halves[] = {freqs, freqs};
    SimAttributes last = {.dim = 2};
    SimSlot emb = sim_program_bind(p, sim_program_call(p, SIM_OPERATOR_CAT, &last, 2, halves));
    SimSlot cos = sim_forward_unary(p, SIM_OPERATOR_COS, emb);
    cos = sim_program_bind(p, sim_forward_scalar(p, SIM_OPERATOR_MUL_SCALAR, cos, 1));
    SimSlot sin = sim_forward_unary(p, SIM_OPERATOR_SIN, emb);
    sin = sim_program_bind(p, sim_forward_scalar(p, SIM_OPERATOR_MUL_SCALAR, sin, 1));
    SimSlot results[] = {sim_forward_cast(p, cos, SIM_DTYPE_NONE), 0};
    results[1] = sim_forward_cast(p, sin, SIM_DTYPE_NONE);
    sim_program_finish(p, 2, results);
    return p;
}

static SimSlot write_rotate_half(SimProgram *p, SimSlot x, uint64_t head_dim)
{
    sim_program_open_function(p);
    SimSlot first = sim_program_bind(p, sim_forward_slice(p, x, 3, 0, head_dim / 2));
    SimSlot second = sim_program_bind(p, sim_forward_slice(p, x, 3, head_dim / 2, head_dim / 2));
    SimSlot halves[] = {sim_forward_unary(p, SIM_OPERATOR_NEG, second), first};
    SimAttributes last = {.dim = 3};
    SimSlot turned = sim_program_call(p, SIM_OPERATOR_CAT, &last, 2, halves);
    sim_program_close_function(p, 1, &turned);
    return turned;
}

static SimSlot write_embed(SimProgram *p, SimSlot x, SimSlot cos, SimSlot sin, uint64_t head_dim)
{
    SimSlot straight = sim_forward_binary(p, SIM_OPERATOR_MUL, x, cos);
    SimSlot half = write_rotate_half(p, x, head_dim);
    SimSlot turned = sim_forward_binary(p, SIM_OPERATOR_MUL, half, sin);
    return sim_program_bind(p, sim_forward_binary(p, SIM_OPERATOR_ADD, straight, turned));
}

/* query_states, key_states = apply_rotary_pos_emb(query_states, key_states, cos, sin) */
static void write_apply_rotary(SimProgram *p, SimSlot cos, SimSlot sin, uint64_t head_dim,
                               SimSlot *q, SimSlot *k)
{
    int64_t dims[] = {1, 1, SIM_DIM_SEQUENCE, (int64_t)head_dim};
    sim_program_open_function(p);
    cos = sim_program_bind(p, sim_forward_view(p, cos, 4, dims));
    sin = sim_program_bind(p, sim_forward_view(p, sin, 4, dims));
    SimSlot embeds[] = {write_embed(p, *q, cos, sin, head_dim), 0};
    embeds[1] = write_embed(p, *k, cos, sin, head_dim);
    sim_program_close_function(p, 2, embeds);
    *q = sim_program_rebind(p, *q, embeds[0]);
    *k = sim_program_rebind(p, *k, embeds[1]);
}

/* A projection of HIDDEN seen as heads: [B, heads, S, head_dim]. */
static SimSlot write_heads(SimProgram *p, uint32_t projection, uint32_t norm, uint64_t head_dim)
{
    int64_t dims[] = {SIM_DIM_BATCH, SIM_DIM_SEQUENCE, SIM_DIM_REST, (int64_t)head_dim};
    SimSlot heads = sim_forward_view(p, sim_forward_module(p, projection, 0), 4, dims);
    if (norm != 0)
        heads = sim_forward_module(p, norm, heads);
    return sim_program_bind(p, sim_forward_transpose(p, heads, 1, 2));
}

/* forward(hidden_states, cos, sin) */
static SimProgram *write_attention(const SimModelConfig *config)
{
    SimProgram *p = sim_program_new(3);
    uint64_t head_dim = config->head_dim;
    SimSlot q = write_heads(p, Q_PROJ, config->has_qk_norm ? Q_NORM : 0, head_dim);
    SimSlot k = write_heads(p, K_PROJ, config->has_qk_norm ? K_NORM : 0, head_dim);
    SimSlot v = write_heads(p, V_PROJ, 0, head_dim);
    write_apply_rotary(p, 1, 2, head_dim, &q, &k);
    SimSlot out = sim_hf_causal_lm_attention(p, q, k, v, config->attention_dropout);
    out = sim_program_rebind(p, out, sim_forward_module(p, O_PROJ, out));
    sim_program_finish(p, 1, &out);
    return p;
}

static SimProgram *write_mlp(void)
{
    SimProgram *p = sim_program_new(1);
    SimSlot gate = sim_forward_unary(p, SIM_OPERATOR_SILU, sim_forward_module(p, GATE_PROJ, 0));
    SimSlot up = sim_forward_module(p, UP_PROJ, 0);
    SimSlot product = sim_forward_binary(p, SIM_OPERATOR_MUL, gate, up);
    SimSlot out = sim_program_bind(p, sim_forward_module(p, DOWN_PROJ, product));
    sim_program_finish(p, 1, &out);
    return p;
}

/* forward(hidden_states, cos, sin, position_ids): the last is not used, but a checkpoint keeps all
 * arguments. Variables: hidden_states, then residual, which is the argument
 * until the attention is added. */
static SimProgram *write_block(bool has_qk_norm)
{
    uint32_t attention = 1, mlp = has_qk_norm ? 8 : 6, input_norm = mlp + 4;
    SimProgram *p = sim_program_new(4);
    SimSlot hidden = sim_program_bind(p, sim_forward_module(p, input_norm, 0));
    SimSlot inputs[] = {hidden, 1, 2};
    hidden = sim_program_rebind(p, hidden, sim_program_call_module(p, attention, 3, inputs));
    SimSlot residual = sim_forward_binary(p, SIM_OPERATOR_ADD, 0, hidden);
    sim_program_delete(p, hidden);
    hidden = sim_forward_module(p, input_norm + 1, sim_program_bind(p, residual));
    hidden = sim_program_bind(p, hidden);
    hidden = sim_program_rebind(p, hidden, sim_forward_module(p, mlp, hidden));
    SimSlot sum = sim_forward_binary(p, SIM_OPERATOR_ADD, residual, hidden);
    hidden = sim_program_rebind(p, hidden, sum);
    sim_program_finish(p, 1, &hidden);
    return p;
}

static void add_attention(SimModel *model, uint32_t block, const SimModelConfig *config,
                          const Forwards *forwards)
{
    uint64_t h = config->hidden, dim = config->head_dim;
    uint64_t q = config->heads * dim, k = config->key_value_heads * dim;
    SimProgram *qkv = linear_of(forwards, config->has_qkv_bias);
    uint32_t attention = sim_module_tree_add(model, block, "self_attn");
    sim_module_tree_set_forward(model, attention, forwards->attention);
    sim_module_tree_add_linear(model, attention, "q_proj", h, q, config->has_qkv_bias, qkv);
    sim_module_tree_add_linear(model, attention, "k_proj", h, k, config->has_qkv_bias, qkv);
    sim_module_tree_add_linear(model, attention, "v_proj", h, k, config->has_qkv_bias, qkv);
    sim_module_tree_add_linear(model, attention, "o_proj", q, h, config->has_output_bias,
                               linear_of(forwards, config->has_output_bias));
    if (config->has_qk_norm) {
        sim_module_tree_add_weight(model, attention, "q_norm", dim, 0, forwards->norm);
        sim_module_tree_add_weight(model, attention, "k_norm", dim, 0, forwards->norm);
    }
}

static void add_block(SimModel *model, uint32_t layers, uint32_t index,
                      const SimModelConfig *config, const Forwards *forwards)
{
    char name[16];
    g_snprintf(name, sizeof name, "%u", index);
    uint64_t h = config->hidden, f = config->intermediate;
    bool has_bias = config->has_mlp_bias;
    uint32_t block = sim_module_tree_add(model, layers, name);
    sim_module_tree_set_forward(model, block, forwards->block);
    add_attention(model, block, config, forwards);
    uint32_t mlp = sim_module_tree_add(model, block, "mlp");
    sim_module_tree_set_forward(model, mlp, forwards->mlp);
    SimProgram *linear = linear_of(forwards, has_bias);
    sim_module_tree_add_linear(model, mlp, "gate_proj", h, f, has_bias, linear);
    sim_module_tree_add_linear(model, mlp, "up_proj", h, f, has_bias, linear);
    sim_module_tree_add_linear(model, mlp, "down_proj", f, h, has_bias, linear);
    sim_module_tree_add_weight(model, block, "input_layernorm", h, 0, forwards->norm);
    sim_module_tree_add_weight(model, block, "post_attention_layernorm", h, 0, forwards->norm);
    g_array_append_val(model->blocks, block);
}

/* LlamaModel.forward(input_ids): position_ids and inputs_embeds are arguments that it binds itself,
 * so they die before its own variables, and only when it returns. Qwen's code keeps both in a
 * dictionary as well (mask_kwargs), embeddings first. */
static SimProgram *write_decoder(const SimModel *model, const SimModelConfig *config,
                                 uint32_t decoder, uint32_t rotary)
{
    SimProgram *p = sim_program_new(1);
    bool has_mask_kwargs = config->architecture == SIM_ARCHITECTURE_QWEN2 ||
                           config->architecture == SIM_ARCHITECTURE_QWEN3;
    SimSlot embeds = sim_forward_module(p, model->embedding - decoder, 0);
    SimSlot ids = sim_hf_causal_lm_position_ids(p);
    sim_program_bind(p, has_mask_kwargs ? embeds : ids);
    sim_program_bind(p, has_mask_kwargs ? ids : embeds);
    SimSlot inputs[] = {embeds, ids};
    SimSlot table[2];
    sim_program_call_module_many(p, rotary - decoder, 2, inputs, 2, table);
    SimSlot hidden = embeds;
    for (guint i = 0; i < model->blocks->len; i++) {
        uint32_t block = g_array_index(model->blocks, uint32_t, i);
        if (i == 0) {
            sim_program_bind(p, table[0]);
            sim_program_bind(p, table[1]);
        }
        SimSlot arguments[] = {hidden, table[0], table[1], ids};
        SimSlot out = sim_program_call_module(p, block - decoder, 4, arguments);
        hidden = hidden == embeds ? sim_program_bind(p, out) : sim_program_rebind(p, hidden, out);
    }
    hidden = sim_program_rebind(p, hidden, sim_forward_module(p, model->norm - decoder, hidden));
    sim_program_finish(p, 1, &hidden);
    return p;
}

static void add_decoder(SimModel *model, const SimModelConfig *config, const Forwards *forwards)
{
    uint32_t decoder = sim_module_tree_add(model, 0, "model");
    model->embedding =
        sim_module_tree_add_weight(model, decoder, "embed_tokens", config->vocabulary,
                                   config->hidden, sim_forward_embedding_new());
    uint32_t layers = sim_module_tree_add(model, decoder, "layers");
    for (uint32_t i = 0; i < config->layers; i++)
        add_block(model, layers, i, config, forwards);
    model->norm =
        sim_module_tree_add_weight(model, decoder, "norm", config->hidden, 0, forwards->norm);
    uint32_t rotary = sim_module_tree_add(model, decoder, "rotary_emb");
    sim_module_tree_set_forward(model, rotary, write_rotary());
    sim_module_tree_set_forward(model, decoder, write_decoder(model, config, decoder, rotary));
}

SimModel *sim_hf_model_build_llama(const SimModelConfig *config)
{
    SimModel *model =
        sim_module_tree_new(config->name, sim_hf_config_architecture_name(config->architecture));
    SimModelBuffer frequencies = {.name = "inv_freq",
                                  .dims = {(int64_t)config->head_dim / 2},
                                  .n_dims = 1,
                                  .dtype = SIM_DTYPE_F32};
    SimModelBuffer original = frequencies;
    original.name = "original_inv_freq";
    g_array_append_val(model->buffers, frequencies);
    g_array_append_val(model->buffers, original);
    Forwards forwards = {
        .linear = sim_forward_linear_new(false),
        .linear_bias = sim_forward_linear_new(true),
        .norm = write_norm(config->norm_eps),
        .attention = write_attention(config),
        .mlp = write_mlp(),
        .block = write_block(config->has_qk_norm),
    };
    sim_module_tree_own(model, forwards.linear);
    sim_module_tree_own(model, forwards.linear_bias);
    add_decoder(model, config, &forwards);
    sim_hf_causal_lm_finish(model, config, 1);
    return model;
}
