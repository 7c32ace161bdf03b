/* SPDX-License-Identifier: Apache-2.0
 *
 * GPT-2 as transformers writes it (models/gpt2/modeling_gpt2.py): learned positions, LayerNorm, one
 * fused qkv product (Conv1D), gelu_new in Python operators, a tied head.
 */
#include "model/hf_attention.h"
#include "model/hf_decoder.h"
#include "model/hf_mask.h"
#include "model/module_tree.h"

typedef struct Forwards {
    SimProgram *conv1d, *norm, *attention, *mlp, *block;
    double dropout; /* of the residual stream */
} Forwards;

static SimProgram *write_conv1d(void)
{
    SimProgram *p = sim_program_new(1);
    SimSlot inputs[] = {0, SIM_SLOT_PARAMETER(0), SIM_SLOT_PARAMETER(1)};
    SimSlot out = sim_program_call(p, SIM_OPERATOR_CONV1D, NULL, 3, inputs);
    sim_program_finish(p, 1, &out);
    return p;
}

static SimSlot write_heads(SimProgram *p, SimSlot part, uint64_t head_dim)
{
    int64_t dims[] = {SIM_DIM_BATCH, SIM_DIM_SEQUENCE, SIM_DIM_REST, (int64_t)head_dim};
    SimSlot heads = sim_forward_view(p, part, 4, dims);
    return sim_program_rebind(p, part, sim_forward_transpose(p, heads, 1, 2));
}

/* forward(hidden_states[, mask]). Children: c_attn 1, c_proj 2. */
static SimProgram *write_attention(const SimModelConfig *config, const SimModelOptions *options)
{
    SimHfAttention attention = sim_hf_attention_of(config, options);
    attention.has_half_softmax = true;
    bool has_mask = attention.kind == SIM_ATTENTION_EAGER;
    SimProgram *p = sim_program_new(has_mask ? 2 : 1);
    SimAttributes split = {.dim = 2, .length = config->hidden};
    SimSlot fused = sim_forward_module(p, 1, 0), qkv[3] = {0, 0, 0}, results[2];
    sim_program_call_many(p, SIM_OPERATOR_SPLIT, &split, 1, &fused, 3, qkv);
    for (uint32_t i = 0; i < 3; i++)
        sim_program_bind(p, qkv[i]);
    qkv[1] = write_heads(p, qkv[1], config->head_dim);
    qkv[2] = write_heads(p, qkv[2], config->head_dim);
    qkv[0] = write_heads(p, qkv[0], config->head_dim);
    results[0] = sim_hf_attention_write(p, &attention, qkv[0], qkv[1], qkv[2],
                                        has_mask ? 1 : SIM_SLOT_NONE, &results[1]);
    results[0] = sim_program_rebind(p, results[0], sim_forward_module(p, 2, results[0]));
    if (config->residual_dropout > 0)
        results[0] = sim_program_rebind(
            p, results[0], sim_forward_dropout(p, results[0], config->residual_dropout));
    sim_program_finish(p, sim_hf_attention_results(&attention), results);
    return p;
}

/* Children: c_fc 1, c_proj 2. */
static SimProgram *write_mlp(bool is_gelu_kernel, double dropout)
{
    SimProgram *p = sim_program_new(1);
    SimSlot hidden = sim_program_bind(p, sim_forward_module(p, 1, 0));
    SimSlot active = is_gelu_kernel ? sim_forward_unary(p, SIM_OPERATOR_GELU, hidden)
                                    : sim_hf_causal_lm_gelu_new(p, hidden);
    hidden = sim_program_rebind(p, hidden, active);
    hidden = sim_program_rebind(p, hidden, sim_forward_module(p, 2, hidden));
    if (dropout > 0)
        hidden = sim_program_rebind(p, hidden, sim_forward_dropout(p, hidden, dropout));
    sim_program_finish(p, 1, &hidden);
    return p;
}

/* Children: ln_1 1, attn 2, ln_2 5, mlp 6. Variables: hidden_states, residual, attn_output,
 * feed_forward_hidden_states. */
static SimProgram *write_block(bool is_eager)
{
    SimProgram *p = sim_program_new(is_eager ? 2 : 1);
    SimSlot normed = sim_program_bind(p, sim_forward_module(p, 1, 0));
    SimSlot inputs[] = {normed, 1}, outs[2];
    sim_program_call_module_many(p, 2, is_eager ? 2 : 1, inputs, is_eager ? 2 : 1, outs);
    SimSlot attention = sim_program_bind(p, outs[0]);
    if (is_eager)
        sim_program_bind(p, outs[1]); /* `_` */
    SimSlot sum = sim_forward_binary(p, SIM_OPERATOR_ADD, attention, 0);
    SimSlot residual = sim_program_rebind(p, normed, sum);
    SimSlot hidden = sim_program_bind(p, sim_forward_module(p, 5, residual));
    SimSlot mlp = sim_program_bind(p, sim_forward_module(p, 6, hidden));
    hidden = sim_program_rebind(p, hidden, sim_forward_binary(p, SIM_OPERATOR_ADD, residual, mlp));
    sim_program_finish(p, 1, &hidden);
    return p;
}

static uint32_t add_affine(SimModel *model, uint32_t parent, const char *name, uint64_t rows,
                           uint64_t columns, SimProgram *forward)
{
    uint32_t module = sim_module_tree_add_weight(model, parent, name, rows, columns, forward);
    sim_module_tree_add_parameter(model, module, "bias", columns > 0 ? columns : rows, 0);
    return module;
}

static void add_block(SimModel *model, uint32_t layers, uint32_t index,
                      const SimModelConfig *config, const Forwards *forwards)
{
    char name[16];
    g_snprintf(name, sizeof name, "%u", index);
    uint64_t h = config->hidden, f = config->intermediate;
    uint32_t block = sim_module_tree_add(model, layers, name);
    sim_module_tree_set_forward(model, block, forwards->block);
    add_affine(model, block, "ln_1", h, 0, forwards->norm);
    uint32_t attention = sim_module_tree_add(model, block, "attn");
    sim_module_tree_set_forward(model, attention, forwards->attention);
    add_affine(model, attention, "c_attn", h, 3 * h, forwards->conv1d);
    add_affine(model, attention, "c_proj", h, h, forwards->conv1d);
    add_affine(model, block, "ln_2", h, 0, forwards->norm);
    uint32_t mlp = sim_module_tree_add(model, block, "mlp");
    sim_module_tree_set_forward(model, mlp, forwards->mlp);
    add_affine(model, mlp, "c_fc", h, f, forwards->conv1d);
    add_affine(model, mlp, "c_proj", f, h, forwards->conv1d);
    g_array_append_val(model->blocks, block);
}

/* GPT2Model.forward: inputs_embeds is an argument that it binds itself, position_embeds and the
 * mask of eager attention its own variables; all live until it returns. */
static SimProgram *write_decoder(const SimModel *model, uint32_t decoder, uint32_t positions,
                                 double dropout, bool is_eager)
{
    SimProgram *p = sim_program_new(1);
    SimSlot embeds = sim_forward_module(p, model->embedding - decoder, 0);
    SimSlot ids = sim_program_bind(p, sim_hf_causal_lm_position_ids(p));
    sim_program_bind(p, embeds);
    SimSlot position = sim_program_bind(p, sim_forward_module(p, positions - decoder, ids));
    SimSlot sum = sim_forward_binary(p, SIM_OPERATOR_ADD, embeds, position);
    SimSlot hidden = sim_program_bind(p, sum);
    SimSlot mask = is_eager ? sim_program_bind(p, sim_hf_mask_write(p, true, 0)) : SIM_SLOT_NONE;
    if (dropout > 0)
        hidden = sim_program_rebind(p, hidden, sim_forward_dropout(p, hidden, dropout));
    for (guint i = 0; i < model->blocks->len; i++) {
        uint32_t block = g_array_index(model->blocks, uint32_t, i) - decoder;
        SimSlot inputs[] = {hidden, mask};
        SimSlot out = sim_program_call_module(p, block, is_eager ? 2 : 1, inputs);
        hidden = sim_program_rebind(p, hidden, out);
    }
    hidden = sim_program_rebind(p, hidden, sim_forward_module(p, model->norm - decoder, hidden));
    sim_program_finish(p, 1, &hidden);
    return p;
}

SimModel *sim_hf_model_build_gpt2(const SimModelConfig *config, const SimModelOptions *options)
{
    SimModel *model =
        sim_module_tree_new(config->name, sim_hf_config_architecture_name(config->architecture));
    bool is_eager = options->attention == SIM_ATTENTION_EAGER;
    Forwards forwards = {
        .conv1d = write_conv1d(),
        .norm = sim_hf_decoder_layer_norm_new(config->norm_eps, true),
        .attention = write_attention(config, options),
        .mlp = write_mlp(config->is_gelu_kernel, config->residual_dropout),
        .block = write_block(is_eager),
    };
    uint32_t decoder = sim_module_tree_add(model, 0, "transformer");
    model->embedding = sim_module_tree_add_weight(model, decoder, "wte", config->vocabulary,
                                                  config->hidden, sim_forward_embedding_new());
    uint32_t positions = sim_module_tree_add_weight(model, decoder, "wpe", config->max_positions,
                                                    config->hidden, sim_forward_embedding_new());
    uint32_t layers = sim_module_tree_add(model, decoder, "h");
    for (uint32_t i = 0; i < config->layers; i++)
        add_block(model, layers, i, config, &forwards);
    model->norm = add_affine(model, decoder, "ln_f", config->hidden, 0, forwards.norm);
    sim_module_tree_set_forward(
        model, decoder,
        write_decoder(model, decoder, positions, config->embedding_dropout, is_eager));
    sim_hf_causal_lm_finish(model, config, decoder);
    return model;
}
