/* SPDX-License-Identifier: Apache-2.0
 *
 * Phi-3 as transformers writes it (models/phi3/modeling_phi3.py): one fused product for query, key
 * and value, one for gate and up; rotated and other elements of a head joined again by torch.cat,
 * so that attention's output has to be copied.
 */
#include "model/hf_attention.h"
#include "model/hf_decoder.h"
#include "model/hf_rotary.h"
#include "model/module_tree.h"

typedef struct Forwards {
    SimProgram *linear, *norm, *attention, *mlp, *block;
} Forwards;

static SimSlot write_heads(SimProgram *p, SimSlot part, uint64_t head_dim)
{
    int64_t dims[] = {SIM_DIM_BATCH, SIM_DIM_SEQUENCE, SIM_DIM_REST, (int64_t)head_dim};
    SimSlot heads = sim_forward_view(p, part, 4, dims);
    return sim_program_rebind(p, part, sim_forward_transpose(p, heads, 1, 2));
}

/* forward(hidden_states, cos, sin[, mask]). Children: o_proj 1, qkv_proj 2. */
static SimProgram *write_attention(const SimModelConfig *config, const SimModelOptions *options,
                                   bool has_mask)
{
    SimProgram *p = sim_program_new(has_mask ? 4 : 3);
    SimHfAttention attention = sim_hf_attention_of(config, options);
    uint64_t dim = config->head_dim, query = config->heads * dim;
    uint64_t key = config->key_value_heads * dim;
    SimSlot fused = sim_program_bind(p, sim_forward_module(p, 2, 0)), results[2];
    SimSlot q = sim_program_bind(p, sim_forward_slice(p, fused, 2, 0, query));
    SimSlot k = sim_program_bind(p, sim_forward_slice(p, fused, 2, query, key));
    SimSlot v = sim_program_bind(p, sim_forward_slice(p, fused, 2, query + key, 0));
    q = write_heads(p, q, dim);
    k = write_heads(p, k, dim);
    v = write_heads(p, v, dim);
    sim_hf_rotary_apply_partly(p, 1, 2, dim, config->rotary_dim, false, &q, &k);
    results[0] =
        sim_hf_attention_write(p, &attention, q, k, v, has_mask ? 3 : SIM_SLOT_NONE, &results[1]);
    results[0] = sim_program_rebind(p, results[0], sim_forward_module(p, 1, results[0]));
    sim_program_finish(p, sim_hf_attention_results(&attention), results);
    return p;
}

/* Children: gate_up_proj 1, down_proj 2. */
static SimProgram *write_mlp(uint64_t intermediate)
{
    SimProgram *p = sim_program_new(1);
    SimAttributes halves = {.dim = 2, .length = intermediate};
    SimSlot up = sim_program_bind(p, sim_forward_module(p, 1, 0)), parts[2] = {0, 0};
    sim_program_call_many(p, SIM_OPERATOR_SPLIT, &halves, 1, &up, 2, parts);
    SimSlot gate = sim_program_bind(p, parts[0]);
    up = sim_program_rebind(p, up, parts[1]);
    SimSlot active = sim_forward_unary(p, SIM_OPERATOR_SILU, gate);
    up = sim_program_rebind(p, up, sim_forward_binary(p, SIM_OPERATOR_MUL, up, active));
    SimSlot out = sim_forward_module(p, 2, up);
    sim_program_finish(p, 1, &out);
    return p;
}

/* forward(hidden_states, cos, sin, position_ids[, mask]). Children: self_attn 1, mlp 4,
 * input_layernorm 7, post_attention_layernorm 8. */
static SimProgram *write_block(const SimModelConfig *config, const SimModelOptions *options,
                               bool has_mask)
{
    SimHfAttention attention = sim_hf_attention_of(config, options);
    double dropout = config->residual_dropout;
    SimProgram *p = sim_program_new(has_mask ? 5 : 4);
    SimSlot hidden = sim_program_bind(p, sim_forward_module(p, 7, 0));
    SimSlot inputs[] = {hidden, 1, 2, 4}, outs[2];
    sim_program_call_module_many(p, 1, has_mask ? 4 : 3, inputs,
                                 sim_hf_attention_results(&attention), outs);
    hidden = sim_program_rebind(p, hidden, outs[0]);
    if (sim_hf_attention_results(&attention) == 2)
        sim_program_bind(p, outs[1]);
    SimSlot residual =
        sim_forward_binary(p, SIM_OPERATOR_ADD, 0, sim_forward_dropout(p, hidden, dropout));
    sim_program_rebind(p, hidden, residual);
    hidden = sim_program_rebind_kept(p, residual, sim_forward_module(p, 8, residual));
    hidden = sim_program_rebind(p, hidden, sim_forward_module(p, 4, hidden));
    SimSlot sum =
        sim_forward_binary(p, SIM_OPERATOR_ADD, residual, sim_forward_dropout(p, hidden, dropout));
    hidden = sim_program_rebind(p, hidden, sum);
    sim_program_finish(p, 1, &hidden);
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
    sim_module_tree_set_forward(model, block, forwards->block);
    uint32_t attention = sim_module_tree_add(model, block, "self_attn");
    sim_module_tree_set_forward(model, attention, forwards->attention);
    sim_module_tree_add_weight(model, attention, "o_proj", h, q, forwards->linear);
    sim_module_tree_add_weight(model, attention, "qkv_proj", q + 2 * k, h, forwards->linear);
    uint32_t mlp = sim_module_tree_add(model, block, "mlp");
    sim_module_tree_set_forward(model, mlp, forwards->mlp);
    sim_module_tree_add_weight(model, mlp, "gate_up_proj", 2 * f, h, forwards->linear);
    sim_module_tree_add_weight(model, mlp, "down_proj", h, f, forwards->linear);
    sim_module_tree_add_weight(model, block, "input_layernorm", h, 0, forwards->norm);
    sim_module_tree_add_weight(model, block, "post_attention_layernorm", h, 0, forwards->norm);
    g_array_append_val(model->blocks, block);
}

static void add_decoder(SimModel *model, const SimModelConfig *config,
                        const SimModelOptions *options, const Forwards *forwards)
{
    SimSlot frequencies = sim_hf_rotary_add_buffers(model, config, NULL);
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
    sim_module_tree_set_forward(model, rotary, sim_hf_rotary_new(frequencies));
    SimHfDecoder writing = {.model = model,
                            .config = config,
                            .options = options,
                            .module = decoder,
                            .rotaries = {rotary},
                            .n_rotaries = 1};
    sim_module_tree_set_forward(model, decoder, sim_hf_decoder_new(&writing));
}

SimModel *sim_hf_model_build_phi3(const SimModelConfig *config, const SimModelOptions *options)
{
    SimModel *model =
        sim_module_tree_new(config->name, sim_hf_config_architecture_name(config->architecture));
    bool has_mask = sim_hf_decoder_has_mask(config, options, 0);
    Forwards forwards = {
        .linear = sim_forward_linear_new(false),
        .norm = sim_hf_decoder_rms_norm_new(config->norm_eps),
        .attention = write_attention(config, options, has_mask),
        .mlp = write_mlp(config->intermediate),
        .block = write_block(config, options, has_mask),
    };
    add_decoder(model, config, options, &forwards);
    sim_hf_causal_lm_finish(model, config, 1);
    return model;
}
