/* SPDX-License-Identifier: Apache-2.0
 *
 * Llama, Mistral, Mixtral, Qwen2, Qwen3, Qwen3-MoE as transformers writes them
 * (models/llama/modeling_llama.py and those generated from it): the norm in f32 operators,
 * rotate_half, grouped keys given to SDPA where there is no mask, the loss inside the model with
 * labels shifted by padding.
 */
#include "model/hf_attention.h"
#include "model/hf_decoder.h"
#include "model/hf_experts.h"
#include "model/hf_rotary.h"
#include "model/module_tree.h"

/* Where the children of an attention, an MLP and a block are, counted from the module itself. */
enum { Q_PROJ = 1, K_PROJ, V_PROJ, O_PROJ, Q_NORM, K_NORM };

/* Layers with and without a mask, with a mixture of experts and without, differ. */
typedef struct Forwards {
    SimProgram *linear, *linear_bias, *norm, *mlp;
    SimProgram *attention[2], *block[2][2];
    SimHfExperts experts;
} Forwards;

static SimProgram *linear_of(const Forwards *forwards, bool has_bias)
{
    return has_bias ? forwards->linear_bias : forwards->linear;
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

/* forward(hidden_states, cos, sin[, mask]) */
static SimProgram *write_attention(const SimModelConfig *config, const SimModelOptions *options,
                                   bool has_mask)
{
    SimProgram *p = sim_program_new(has_mask ? 4 : 3);
    SimHfAttention attention = sim_hf_attention_of(config, options);
    uint64_t head_dim = config->head_dim;
    SimSlot q = write_heads(p, Q_PROJ, config->has_qk_norm ? Q_NORM : 0, head_dim);
    SimSlot k = write_heads(p, K_PROJ, config->has_qk_norm ? K_NORM : 0, head_dim);
    SimSlot v = write_heads(p, V_PROJ, 0, head_dim), results[2];
    sim_hf_rotary_apply(p, 1, 2, head_dim, &q, &k);
    results[0] =
        sim_hf_attention_write(p, &attention, q, k, v, has_mask ? 3 : SIM_SLOT_NONE, &results[1]);
    results[0] = sim_program_rebind(p, results[0], sim_forward_module(p, O_PROJ, results[0]));
    sim_program_finish(p, sim_hf_attention_results(&attention), results);
    return p;
}

/* forward(hidden_states, cos, sin, position_ids[, mask]): position_ids are not used, but a
 * checkpoint keeps all arguments. Variables: hidden_states, then residual, which is the argument
 * until the attention is added. Eager attention's weights keep a name, `_`. */
static SimProgram *write_block(const SimModelConfig *config, const SimModelOptions *options,
                               bool has_mask, bool is_sparse)
{
    SimHfAttention attention = sim_hf_attention_of(config, options);
    uint32_t mlp = config->has_qk_norm ? 8 : 6, input_norm = mlp + (is_sparse ? 3 : 4);
    SimProgram *p = sim_program_new(has_mask ? 5 : 4);
    SimSlot hidden = sim_program_bind(p, sim_forward_module(p, input_norm, 0));
    SimSlot inputs[] = {hidden, 1, 2, 4}, outs[2];
    sim_program_call_module_many(p, 1, has_mask ? 4 : 3, inputs,
                                 sim_hf_attention_results(&attention), outs);
    hidden = sim_program_rebind(p, hidden, outs[0]);
    if (sim_hf_attention_results(&attention) == 2)
        sim_program_bind(p, outs[1]);
    SimSlot residual = sim_forward_binary(p, SIM_OPERATOR_ADD, 0, hidden);
    sim_program_rebind(p, hidden, residual);
    hidden = sim_program_rebind_kept(p, residual, sim_forward_module(p, input_norm + 1, residual));
    hidden = sim_program_rebind(p, hidden, sim_forward_module(p, mlp, hidden));
    SimSlot sum = sim_forward_binary(p, SIM_OPERATOR_ADD, residual, hidden);
    hidden = sim_program_rebind(p, hidden, sum);
    sim_program_finish(p, 1, &hidden);
    return p;
}

static void add_attention(SimModel *model, uint32_t block, const SimModelConfig *config,
                          const Forwards *forwards, bool has_mask)
{
    uint64_t h = config->hidden, dim = config->head_dim;
    uint64_t q = config->heads * dim, k = config->key_value_heads * dim;
    SimProgram *qkv = linear_of(forwards, config->has_qkv_bias);
    uint32_t attention = sim_module_tree_add(model, block, "self_attn");
    sim_module_tree_set_forward(model, attention, forwards->attention[has_mask]);
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

static void add_mlp(SimModel *model, uint32_t block, const SimModelConfig *config,
                    const Forwards *forwards)
{
    uint64_t h = config->hidden, f = config->intermediate;
    bool has_bias = config->has_mlp_bias;
    SimProgram *linear = linear_of(forwards, has_bias);
    uint32_t mlp = sim_module_tree_add(model, block, "mlp");
    sim_module_tree_set_forward(model, mlp, forwards->mlp);
    sim_module_tree_add_linear(model, mlp, "gate_proj", h, f, has_bias, linear);
    sim_module_tree_add_linear(model, mlp, "up_proj", h, f, has_bias, linear);
    sim_module_tree_add_linear(model, mlp, "down_proj", f, h, has_bias, linear);
}

static void add_block(SimModel *model, uint32_t layers, uint32_t index,
                      const SimModelConfig *config, const SimModelOptions *options,
                      const Forwards *forwards)
{
    char name[16];
    g_snprintf(name, sizeof name, "%u", index);
    uint64_t h = config->hidden;
    bool has_mask = sim_hf_decoder_has_mask(config, options, index);
    bool is_sparse = sim_hf_config_is_sparse(config, index);
    uint32_t block = sim_module_tree_add(model, layers, name);
    sim_module_tree_set_forward(model, block, forwards->block[has_mask][is_sparse]);
    add_attention(model, block, config, forwards, has_mask);
    if (is_sparse)
        sim_hf_experts_add(model, block, config, &forwards->experts);
    else
        add_mlp(model, block, config, forwards);
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
        add_block(model, layers, i, config, options, forwards);
    model->norm =
        sim_module_tree_add_weight(model, decoder, "norm", config->hidden, 0, forwards->norm);
    uint32_t rotary = sim_module_tree_add(model, decoder, "rotary_emb");
    sim_module_tree_set_forward(model, rotary, sim_hf_rotary_new(frequencies));
    SimHfDecoder writing = {
        .model = model,
        .config = config,
        .options = options,
        .module = decoder,
        .rotaries = {rotary},
        .n_rotaries = 1,
        .has_mapping = config->architecture == SIM_ARCHITECTURE_QWEN2 ||
                       config->architecture == SIM_ARCHITECTURE_QWEN3,
    };
    sim_module_tree_set_forward(model, decoder, sim_hf_decoder_new(&writing));
}

SimModel *sim_hf_model_build_llama(const SimModelConfig *config, const SimModelOptions *options)
{
    SimModel *model =
        sim_module_tree_new(config->name, sim_hf_config_architecture_name(config->architecture));
    Forwards forwards = {
        .linear = sim_module_tree_own(model, sim_forward_linear_new(false)),
        .linear_bias = sim_module_tree_own(model, sim_forward_linear_new(true)),
        .norm = sim_module_tree_own(model, sim_hf_decoder_rms_norm_new(config->norm_eps)),
        .mlp = sim_module_tree_own(model, sim_hf_decoder_gated_mlp_new(SIM_OPERATOR_SILU)),
    };
    for (uint32_t mask = 0; mask < 2; mask++) {
        forwards.attention[mask] =
            sim_module_tree_own(model, write_attention(config, options, mask == 1));
        for (uint32_t sparse = 0; sparse < 2; sparse++)
            forwards.block[mask][sparse] =
                sim_module_tree_own(model, write_block(config, options, mask == 1, sparse == 1));
    }
    if (config->experts > 0)
        forwards.experts = sim_hf_experts_new(model, config, options);
    add_decoder(model, config, options, &forwards);
    sim_hf_causal_lm_finish(model, config, 1);
    return model;
}
