/* SPDX-License-Identifier: Apache-2.0
 *
 * A Llama as torchtitan writes it (torchtitan/models/llama3/model/model.py): wq wk wv wo, rotary
 * embedding by complex multiplication in f32 with a table that is a buffer, grouped keys given to
 * SDPA, w1 w3 w2, a head that is never tied, the loss outside the model.
 */
#include "model/hf_attention.h"
#include "model/module_tree.h"

#define ROPE_TABLE SIM_SLOT_BUFFER(1) /* cosine, if in real numbers */
#define ROPE_SINE SIM_SLOT_BUFFER(2)

typedef struct Forwards {
    SimProgram *linear, *embedding, *norm, *attention, *feed_forward, *block;
} Forwards;

/* The norm before nn.RMSNorm: y = x.float(); y = y * rsqrt(mean(y * y) + eps); y.type_as(x) *
 * weight. */
static SimProgram *write_composite_norm(double eps)
{
    SimProgram *p = sim_program_new(1);
    SimSlot y = sim_program_bind(p, sim_forward_cast(p, 0, SIM_DTYPE_F32));
    SimSlot square = sim_forward_binary(p, SIM_OPERATOR_MUL, y, y);
    SimSlot mean = sim_forward_unary(p, SIM_OPERATOR_MEAN, square);
    SimSlot shifted = sim_forward_scalar(p, SIM_OPERATOR_ADD_SCALAR, mean, eps);
    SimSlot scale = sim_forward_unary(p, SIM_OPERATOR_RSQRT, shifted);
    SimSlot scaled = sim_forward_binary(p, SIM_OPERATOR_MUL, y, scale);
    y = sim_program_rebind(p, y, scaled);
    SimSlot half = sim_forward_cast(p, y, SIM_DTYPE_NONE);
    SimSlot out = sim_forward_binary(p, SIM_OPERATOR_MUL, half, SIM_SLOT_PARAMETER(0));
    sim_program_finish(p, 1, &out);
    return p;
}

/* aten::rms_norm where the weight's type is not the input's (aten/src/ATen/native/layer_norm.cpp):
 * f32 to the end; the temporaries of an expression of C++ die in reverse. */
static SimProgram *write_wide_norm(double eps)
{
    SimProgram *p = sim_program_new(1);
    SimSlot wide = sim_program_bind(p, sim_forward_cast(p, 0, SIM_DTYPE_F32));
    SimSlot square = sim_program_bind(p, sim_forward_scalar(p, SIM_OPERATOR_POW, wide, 2));
    SimSlot mean = sim_program_bind(p, sim_forward_unary(p, SIM_OPERATOR_MEAN, square));
    SimSlot scale = sim_program_bind(p, sim_forward_scalar(p, SIM_OPERATOR_RSQRT, mean, eps));
    sim_program_delete(p, mean);
    sim_program_delete(p, square);
    SimSlot normed = sim_program_bind(p, sim_forward_binary(p, SIM_OPERATOR_MUL, wide, scale));
    SimSlot weighted = sim_forward_binary(p, SIM_OPERATOR_MUL, normed, SIM_SLOT_PARAMETER(0));
    SimSlot out = sim_forward_cast(p, weighted, SIM_DTYPE_NONE);
    sim_program_finish(p, 1, &out);
    return p;
}

/* x.float().reshape(.., -1, 2) viewed as complex. */
static SimSlot write_pairs(SimProgram *p, SimSlot x, uint64_t heads, uint64_t head_dim)
{
    int64_t dims[] = {SIM_DIM_BATCH, SIM_DIM_SEQUENCE, (int64_t)heads, (int64_t)head_dim / 2, 2};
    SimSlot wide = sim_forward_cast(p, x, SIM_DTYPE_F32);
    SimSlot split = sim_forward_view(p, wide, 5, dims);
    return sim_forward_unary(p, SIM_OPERATOR_VIEW_AS_COMPLEX, split);
}

static SimSlot write_flat(SimProgram *p, SimSlot product, uint64_t heads, uint64_t head_dim)
{
    int64_t dims[] = {SIM_DIM_BATCH, SIM_DIM_SEQUENCE, (int64_t)heads, (int64_t)head_dim};
    SimSlot real = sim_forward_unary(p, SIM_OPERATOR_VIEW_AS_REAL, product);
    return sim_forward_view(p, real, 4, dims);
}

/* apply_rotary_emb(q, k, table): both in f32, then back. */
static void write_rotary(SimProgram *p, const SimModelConfig *config, SimSlot *q, SimSlot *k)
{
    uint64_t heads = config->heads, groups = config->key_value_heads, dim = config->head_dim;
    int64_t dims[] = {1, SIM_DIM_SEQUENCE, 1, (int64_t)dim / 2};
    sim_program_open_function(p);
    SimSlot table = sim_program_bind(p, sim_forward_view(p, ROPE_TABLE, 4, dims));
    SimSlot q_pairs = sim_program_bind(p, write_pairs(p, *q, heads, dim));
    SimSlot k_pairs = sim_program_bind(p, write_pairs(p, *k, groups, dim));
    SimSlot q_turned = sim_forward_binary(p, SIM_OPERATOR_MUL_COMPLEX, q_pairs, table);
    SimSlot q_flat = sim_program_bind(p, write_flat(p, q_turned, heads, dim));
    SimSlot k_turned = sim_forward_binary(p, SIM_OPERATOR_MUL_COMPLEX, k_pairs, table);
    SimSlot k_flat = sim_program_bind(p, write_flat(p, k_turned, groups, dim));
    SimSlot outs[] = {sim_forward_binary(p, SIM_OPERATOR_CAST, q_flat, *q), 0};
    outs[1] = sim_forward_binary(p, SIM_OPERATOR_CAST, k_flat, *k);
    sim_program_close_function(p, 2, outs);
    *q = sim_program_rebind(p, *q, outs[0]);
    *k = sim_program_rebind(p, *k, outs[1]);
}

/* torch.cat((-x[..., half:], x[..., :half]), dim=-1) */
static SimSlot write_rotate_half(SimProgram *p, SimSlot x, uint64_t dim)
{
    SimAttributes last = {.dim = 3};
    SimSlot second = sim_forward_slice(p, x, 3, dim / 2, dim / 2);
    SimSlot halves[] = {sim_forward_unary(p, SIM_OPERATOR_NEG, second), 0};
    halves[1] = sim_forward_slice(p, x, 3, 0, dim / 2);
    return sim_program_call(p, SIM_OPERATOR_CAT, &last, 2, halves);
}

/* ((x * cos) + (rotate_half(x) * sin)).type_as(xq) */
static SimSlot write_real_turn(SimProgram *p, SimSlot x, SimSlot cos, SimSlot sin, uint64_t dim)
{
    SimSlot straight = sim_forward_binary(p, SIM_OPERATOR_MUL, x, cos);
    SimSlot half = write_rotate_half(p, x, dim);
    SimSlot turned = sim_forward_binary(p, SIM_OPERATOR_MUL, half, sin);
    SimSlot sum = sim_forward_binary(p, SIM_OPERATOR_ADD, straight, turned);
    return sim_forward_cast(p, sum, SIM_DTYPE_NONE);
}

/* The same in real numbers. */
static void write_real_rotary(SimProgram *p, const SimModelConfig *config, SimSlot *q, SimSlot *k)
{
    uint64_t dim = config->head_dim;
    int64_t dims[] = {1, SIM_DIM_SEQUENCE, 1, (int64_t)dim};
    sim_program_open_function(p);
    SimSlot cos = sim_program_bind(p, sim_forward_view(p, ROPE_TABLE, 4, dims));
    SimSlot sin = sim_program_bind(p, sim_forward_view(p, ROPE_SINE, 4, dims));
    SimSlot wide_q = sim_program_bind(p, sim_forward_cast(p, *q, SIM_DTYPE_F32));
    SimSlot wide_k = sim_program_bind(p, sim_forward_cast(p, *k, SIM_DTYPE_F32));
    SimSlot outs[] = {sim_program_bind(p, write_real_turn(p, wide_q, cos, sin, dim)), 0};
    outs[1] = sim_program_bind(p, write_real_turn(p, wide_k, cos, sin, dim));
    sim_program_close_function(p, 2, outs);
    *q = sim_program_rebind(p, *q, outs[0]);
    *k = sim_program_rebind(p, *k, outs[1]);
}

/* Children: wq 1, wk 2, wv 3, wo 4. */
static SimProgram *write_attention(const SimModelConfig *config, const SimModelOptions *options)
{
    SimHfAttention attention = sim_hf_attention_of(config, options);
    SimProgram *p = sim_program_new(1);
    uint64_t heads[] = {config->heads, config->key_value_heads, config->key_value_heads};
    SimSlot qkv[3];
    for (uint32_t i = 0; i < 3; i++)
        qkv[i] = sim_program_bind(p, sim_forward_module(p, 1 + i, 0));
    for (uint32_t i = 0; i < 3; i++) {
        int64_t dims[] = {SIM_DIM_BATCH, SIM_DIM_SEQUENCE, (int64_t)heads[i],
                          (int64_t)config->head_dim};
        qkv[i] = sim_program_rebind(p, qkv[i], sim_forward_view(p, qkv[i], 4, dims));
    }
    if (options->is_rope_real)
        write_real_rotary(p, config, &qkv[0], &qkv[1]);
    else
        write_rotary(p, config, &qkv[0], &qkv[1]);
    for (uint32_t i = 0; i < 3; i++)
        qkv[i] = sim_program_rebind(p, qkv[i], sim_forward_transpose(p, qkv[i], 1, 2));
    SimSlot out = sim_program_bind(
        p, sim_hf_attention_sdpa(p, &attention, qkv[0], qkv[1], qkv[2], SIM_SLOT_NONE));
    int64_t dims[] = {SIM_DIM_BATCH, SIM_DIM_SEQUENCE, SIM_DIM_REST};
    SimSlot turned = sim_forward_transpose(p, out, 1, 2);
    SimSlot contiguous = sim_forward_unary(p, SIM_OPERATOR_CLONE, turned);
    out = sim_program_rebind(p, out, sim_forward_view(p, contiguous, 3, dims));
    SimSlot result = sim_forward_module(p, 4, out);
    sim_program_finish(p, 1, &result);
    return p;
}

/* Children: w1 1, w2 2, w3 3. */
static SimProgram *write_feed_forward(void)
{
    SimProgram *p = sim_program_new(1);
    SimSlot gate = sim_forward_unary(p, SIM_OPERATOR_SILU, sim_forward_module(p, 1, 0));
    SimSlot up = sim_forward_module(p, 3, 0);
    SimSlot product = sim_forward_binary(p, SIM_OPERATOR_MUL, gate, up);
    SimSlot out = sim_forward_module(p, 2, product);
    sim_program_finish(p, 1, &out);
    return p;
}

/* Children: attention 1 (and its four), feed_forward 6 (and its three), attention_norm 10,
 * ffn_norm 11. */
static SimProgram *write_block(void)
{
    SimProgram *p = sim_program_new(1);
    SimSlot attention = sim_forward_module(p, 1, sim_forward_module(p, 10, 0));
    SimSlot h = sim_program_bind(p, sim_forward_binary(p, SIM_OPERATOR_ADD, 0, attention));
    SimSlot mlp = sim_forward_module(p, 6, sim_forward_module(p, 11, h));
    SimSlot out = sim_forward_binary(p, SIM_OPERATOR_ADD, h, mlp);
    sim_program_finish(p, 1, &out);
    return p;
}

static void add_block(SimModel *model, uint32_t layers, uint32_t index,
                      const SimModelConfig *config, const Forwards *forwards)
{
    char name[16];
    g_snprintf(name, sizeof name, "%u", index);
    uint64_t h = config->hidden, f = config->intermediate;
    uint64_t q = config->heads * config->head_dim, k = config->key_value_heads * config->head_dim;
    uint32_t block = sim_module_tree_add(model, layers, name);
    uint32_t attention = sim_module_tree_add(model, block, "attention");
    sim_module_tree_add_weight(model, attention, "wq", q, h, forwards->linear);
    sim_module_tree_add_weight(model, attention, "wk", k, h, forwards->linear);
    sim_module_tree_add_weight(model, attention, "wv", k, h, forwards->linear);
    sim_module_tree_add_weight(model, attention, "wo", h, q, forwards->linear);
    uint32_t feed_forward = sim_module_tree_add(model, block, "feed_forward");
    sim_module_tree_add_weight(model, feed_forward, "w1", f, h, forwards->linear);
    sim_module_tree_add_weight(model, feed_forward, "w2", h, f, forwards->linear);
    sim_module_tree_add_weight(model, feed_forward, "w3", f, h, forwards->linear);
    sim_module_tree_add_weight(model, block, "attention_norm", h, 0, forwards->norm);
    sim_module_tree_add_weight(model, block, "ffn_norm", h, 0, forwards->norm);
    sim_module_tree_set_forward(model, attention, forwards->attention);
    sim_module_tree_set_forward(model, feed_forward, forwards->feed_forward);
    sim_module_tree_set_forward(model, block, forwards->block);
    g_array_append_val(model->blocks, block);
}

static SimProgram *write_root(const SimModel *model, bool has_head, bool is_wide)
{
    SimProgram *p = sim_program_new(1);
    SimSlot h = sim_program_bind(p, sim_forward_module(p, model->embedding, 0));
    for (guint i = 0; i < model->blocks->len; i++) {
        uint32_t block = g_array_index(model->blocks, uint32_t, i);
        h = sim_program_rebind(p, h, sim_forward_module(p, block, h));
    }
    h = sim_program_rebind(p, h, sim_forward_module(p, model->norm, h));
    SimSlot result = has_head ? sim_forward_module(p, model->head, h) : h;
    if (is_wide) {
        result = sim_forward_cast(p, result, SIM_DTYPE_F32);
        sim_program_set_flags(p, SIM_PROGRAM_LOGITS);
    }
    sim_program_finish(p, 1, &result);
    return p;
}

/* F.cross_entropy(logits.flatten(0, 1).float(), labels.flatten(0, 1)). */
static SimProgram *write_loss(uint64_t vocabulary)
{
    SimProgram *p = sim_program_new(1);
    int64_t logits_dims[] = {SIM_DIM_REST, (int64_t)vocabulary}, labels_dims[] = {SIM_DIM_REST};
    SimSlot flat = sim_forward_view(p, 0, 2, logits_dims);
    sim_program_set_flags(p, SIM_PROGRAM_LOSS);
    sim_program_open_function(p);
    SimSlot wide = sim_program_bind(p, sim_forward_cast(p, flat, SIM_DTYPE_F32));
    sim_program_set_flags(p, SIM_PROGRAM_LOSS);
    SimSlot labels = sim_program_bind(p, sim_forward_view(p, SIM_SLOT_BUFFER(0), 1, labels_dims));
    SimSlot loss = sim_forward_cross_entropy(p, wide, labels);
    sim_program_close_function(p, 1, &loss);
    sim_program_finish(p, 1, &loss);
    return p;
}

static void add_tables(SimModel *model, const SimModelConfig *config,
                       const SimModelOptions *options)
{
    bool is_real = options->is_rope_real;
    SimModelBuffer table = {
        .name = is_real ? "rope_cos" : "rope_table",
        .dims = {SIM_DIM_SEQUENCE, (int64_t)(is_real ? config->head_dim : config->head_dim / 2)},
        .n_dims = 2,
        .dtype = is_real ? SIM_DTYPE_F32 : SIM_DTYPE_C64};
    g_array_append_val(model->buffers, table);
    table.name = "rope_sin";
    if (is_real)
        g_array_append_val(model->buffers, table);
}

static SimProgram *write_norm(const SimModelConfig *config, const SimModelOptions *options)
{
    return options->is_norm_composite ? write_composite_norm(config->norm_eps)
           : options->is_norm_wide    ? write_wide_norm(config->norm_eps)
                                      : sim_forward_fused_norm_new(config->norm_eps);
}

/* F.cross_entropy(logits.float(), labels, reduction="sum") / tokens */
static SimProgram *write_chunk_loss(void)
{
    SimProgram *p = sim_program_new(2);
    sim_program_open_function(p);
    SimSlot wide = sim_program_bind(p, sim_forward_cast(p, 0, SIM_DTYPE_F32));
    sim_program_set_flags(p, SIM_PROGRAM_LOSS);
    SimSlot sum = sim_forward_cross_entropy(p, wide, 1);
    sim_program_close_function(p, 1, &sum);
    SimSlot loss = sim_forward_scalar(p, SIM_OPERATOR_MUL_SCALAR, sum, 1);
    sim_program_set_flags(p, SIM_PROGRAM_LOSS);
    sim_program_finish(p, 1, &loss);
    return p;
}

SimModel *sim_hf_model_build_torchtitan(const SimModelConfig *config,
                                        const SimModelOptions *options)
{
    SimModel *model =
        sim_module_tree_new(config->name, sim_hf_config_architecture_name(config->architecture));
    add_tables(model, config, options);
    Forwards forwards = {
        .linear = sim_forward_linear_new(false),
        .embedding = sim_forward_embedding_new(),
        .norm = write_norm(config, options),
        .attention = write_attention(config, options),
        .feed_forward = write_feed_forward(),
        .block = write_block(),
    };
    model->embedding = sim_module_tree_add_weight(model, 0, "tok_embeddings", config->vocabulary,
                                                  config->hidden, forwards.embedding);
    uint32_t layers = sim_module_tree_add(model, 0, "layers");
    for (uint32_t i = 0; i < config->layers; i++)
        add_block(model, layers, i, config, &forwards);
    model->norm = sim_module_tree_add_weight(model, 0, "norm", config->hidden, 0, forwards.norm);
    SimProgram *head = sim_forward_linear_new(false);
    sim_program_set_flags(head, SIM_PROGRAM_LOGITS);
    model->head =
        sim_module_tree_add_weight(model, 0, "output", config->vocabulary, config->hidden, head);
    sim_module_tree_set_forward(model, 0, write_root(model, true, options->is_output_wide));
    model->loss = sim_module_tree_own(model, write_loss(config->vocabulary));
    model->headless = sim_module_tree_own(model, write_root(model, false, false));
    model->chunk_loss = sim_module_tree_own(model, write_chunk_loss());
    return model;
}
