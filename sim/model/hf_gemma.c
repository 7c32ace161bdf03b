/* SPDX-License-Identifier: Apache-2.0
 *
 * Gemma 2 and Gemma 3 as transformers writes them (models/gemma2, models/gemma3): scaled
 * embeddings, norms in f32 to the end, with weights around zero, before and after attention and
 * MLP, a window in some layers, soft caps (2), norms of query and key and a rotary base for each
 * kind of layer (3).
 */
#include "model/hf_attention.h"
#include "model/hf_decoder.h"
#include "model/hf_rotary.h"
#include "model/module_tree.h"

/* Where the children of an attention and an MLP are, counted from the module itself. */
enum { Q_PROJ = 1, K_PROJ, V_PROJ, O_PROJ, Q_NORM, K_NORM };

typedef struct Forwards {
    SimProgram *projection, *linear, *norm, *mlp; /* projection: of attention, perhaps biased */
    SimProgram *attention[2], *block[2];          /* without a mask, with one */
} Forwards;

/* x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + eps) of x.float(), times 1 + weight.float() */
static SimProgram *write_norm(double eps)
{
    SimProgram *p = sim_program_new(1);
    sim_program_open_function(p);
    SimSlot x = sim_program_bind(p, sim_forward_cast(p, 0, SIM_DTYPE_F32));
    SimSlot square = sim_forward_scalar(p, SIM_OPERATOR_POW, x, 2);
    SimSlot mean = sim_forward_unary(p, SIM_OPERATOR_MEAN, square);
    SimSlot shifted = sim_forward_scalar(p, SIM_OPERATOR_ADD_SCALAR, mean, eps);
    SimSlot scale = sim_forward_unary(p, SIM_OPERATOR_RSQRT, shifted);
    SimSlot normed = sim_forward_binary(p, SIM_OPERATOR_MUL, x, scale);
    sim_program_close_function(p, 1, &normed);
    SimSlot out = sim_program_bind(p, normed);
    SimSlot weight = sim_forward_cast(p, SIM_SLOT_PARAMETER(0), SIM_DTYPE_F32);
    SimSlot factor = sim_forward_scalar(p, SIM_OPERATOR_ADD_SCALAR, weight, 1);
    out = sim_program_rebind(p, out, sim_forward_binary(p, SIM_OPERATOR_MUL, out, factor));
    SimSlot half = sim_forward_cast(p, out, SIM_DTYPE_NONE);
    sim_program_finish(p, 1, &half);
    return p;
}

/* The scale is a buffer of one f32. */
static SimProgram *write_embedding(SimSlot scale)
{
    SimProgram *p = sim_program_new(1);
    SimSlot rows = sim_forward_binary(p, SIM_OPERATOR_EMBEDDING, SIM_SLOT_PARAMETER(0), 0);
    SimSlot factor = sim_forward_cast(p, scale, SIM_DTYPE_NONE);
    SimSlot out = sim_forward_binary(p, SIM_OPERATOR_MUL, rows, factor);
    sim_program_finish(p, 1, &out);
    return p;
}

static SimSlot write_heads(SimProgram *p, uint32_t projection, uint64_t head_dim)
{
    int64_t dims[] = {SIM_DIM_BATCH, SIM_DIM_SEQUENCE, SIM_DIM_REST, (int64_t)head_dim};
    SimSlot heads = sim_forward_view(p, sim_forward_module(p, projection, 0), 4, dims);
    return sim_program_bind(p, sim_forward_transpose(p, heads, 1, 2));
}

/* forward(hidden_states, cos, sin[, mask]) */
static SimProgram *write_attention(const SimModelConfig *config, const SimModelOptions *options,
                                   bool has_mask)
{
    SimProgram *p = sim_program_new(has_mask ? 4 : 3);
    SimHfAttention attention = sim_hf_attention_of(config, options);
    SimSlot q = write_heads(p, Q_PROJ, config->head_dim);
    SimSlot k = write_heads(p, K_PROJ, config->head_dim);
    SimSlot v = write_heads(p, V_PROJ, config->head_dim), results[2];
    if (config->has_qk_norm) {
        q = sim_program_rebind(p, q, sim_forward_module(p, Q_NORM, q));
        k = sim_program_rebind(p, k, sim_forward_module(p, K_NORM, k));
    }
    sim_hf_rotary_apply(p, 1, 2, config->head_dim, &q, &k);
    results[0] =
        sim_hf_attention_write(p, &attention, q, k, v, has_mask ? 3 : SIM_SLOT_NONE, &results[1]);
    results[0] = sim_program_rebind(p, results[0], sim_forward_module(p, O_PROJ, results[0]));
    sim_program_finish(p, sim_hf_attention_results(&attention), results);
    return p;
}

/* forward(hidden_states, cos, sin, position_ids[, mask]). Children: self_attn 1, mlp, then
 * input_layernorm, post_attention_layernorm, pre_feedforward_layernorm,
 * post_feedforward_layernorm. */
static SimProgram *write_block(const SimModelConfig *config, const SimModelOptions *options,
                               bool has_mask)
{
    SimHfAttention attention = sim_hf_attention_of(config, options);
    uint32_t mlp = config->has_qk_norm ? 8 : 6, norms = mlp + 4;
    SimProgram *p = sim_program_new(has_mask ? 5 : 4);
    SimSlot hidden = sim_program_bind(p, sim_forward_module(p, norms, 0));
    SimSlot inputs[] = {hidden, 1, 2, 4}, outs[2];
    sim_program_call_module_many(p, 1, has_mask ? 4 : 3, inputs,
                                 sim_hf_attention_results(&attention), outs);
    hidden = sim_program_rebind(p, hidden, outs[0]);
    if (sim_hf_attention_results(&attention) == 2)
        sim_program_bind(p, outs[1]);
    hidden = sim_program_rebind(p, hidden, sim_forward_module(p, norms + 1, hidden));
    SimSlot residual = sim_forward_binary(p, SIM_OPERATOR_ADD, 0, hidden);
    sim_program_rebind(p, hidden, residual);
    hidden = sim_program_rebind_kept(p, residual, sim_forward_module(p, norms + 2, residual));
    hidden = sim_program_rebind(p, hidden, sim_forward_module(p, mlp, hidden));
    hidden = sim_program_rebind(p, hidden, sim_forward_module(p, norms + 3, hidden));
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
    bool has_bias = config->has_qkv_bias;
    uint32_t attention = sim_module_tree_add(model, block, "self_attn");
    sim_module_tree_set_forward(model, attention, forwards->attention[has_mask]);
    sim_module_tree_add_linear(model, attention, "q_proj", h, q, has_bias, forwards->projection);
    sim_module_tree_add_linear(model, attention, "k_proj", h, k, has_bias, forwards->projection);
    sim_module_tree_add_linear(model, attention, "v_proj", h, k, has_bias, forwards->projection);
    sim_module_tree_add_linear(model, attention, "o_proj", q, h, has_bias, forwards->projection);
    if (config->has_qk_norm) {
        sim_module_tree_add_weight(model, attention, "q_norm", dim, 0, forwards->norm);
        sim_module_tree_add_weight(model, attention, "k_norm", dim, 0, forwards->norm);
    }
}

static void add_block(SimModel *model, uint32_t layers, uint32_t index,
                      const SimModelConfig *config, const SimModelOptions *options,
                      const Forwards *forwards)
{
    static const char *const norms[] = {"input_layernorm", "post_attention_layernorm",
                                        "pre_feedforward_layernorm", "post_feedforward_layernorm"};
    char name[16];
    g_snprintf(name, sizeof name, "%u", index);
    uint64_t h = config->hidden, f = config->intermediate;
    bool has_mask = sim_hf_decoder_has_mask(config, options, index);
    uint32_t block = sim_module_tree_add(model, layers, name);
    sim_module_tree_set_forward(model, block, forwards->block[has_mask]);
    add_attention(model, block, config, forwards, has_mask);
    uint32_t mlp = sim_module_tree_add(model, block, "mlp");
    sim_module_tree_set_forward(model, mlp, forwards->mlp);
    sim_module_tree_add_weight(model, mlp, "gate_proj", f, h, forwards->linear);
    sim_module_tree_add_weight(model, mlp, "up_proj", f, h, forwards->linear);
    sim_module_tree_add_weight(model, mlp, "down_proj", h, f, forwards->linear);
    for (uint32_t i = 0; i < G_N_ELEMENTS(norms); i++)
        sim_module_tree_add_weight(model, block, norms[i], h, 0, forwards->norm);
    g_array_append_val(model->blocks, block);
}

/* Gemma 3 has a table for each kind of layer. */
static void add_decoder(SimModel *model, const SimModelConfig *config,
                        const SimModelOptions *options, const Forwards *forwards)
{
    bool is_3 = config->architecture == SIM_ARCHITECTURE_GEMMA3;
    SimModelBuffer scale = {.name = "embed_scale", .n_dims = 0, .dtype = SIM_DTYPE_F32};
    g_array_append_val(model->buffers, scale);
    SimProgram *embedding = write_embedding(SIM_SLOT_BUFFER(model->buffers->len - 1));
    uint32_t decoder = sim_module_tree_add(model, 0, "model");
    model->embedding = sim_module_tree_add_weight(model, decoder, "embed_tokens",
                                                  config->vocabulary, config->hidden, embedding);
    uint32_t layers = sim_module_tree_add(model, decoder, "layers");
    for (uint32_t i = 0; i < config->layers; i++)
        add_block(model, layers, i, config, options, forwards);
    model->norm =
        sim_module_tree_add_weight(model, decoder, "norm", config->hidden, 0, forwards->norm);
    SimHfDecoder writing = {.model = model,
                            .config = config,
                            .options = options,
                            .module = decoder,
                            .n_rotaries = is_3 ? 2 : 1,
                            .has_mapping = true,
                            .has_both_masks = true};
    static const char *const prefixes[] = {"sliding_attention_", "full_attention_"};
    for (uint32_t i = 0; i < writing.n_rotaries; i++) {
        SimSlot buffer = sim_hf_rotary_add_buffers(model, config, is_3 ? prefixes[i] : NULL);
        writing.rotaries[i] = sim_module_tree_add(model, decoder, "rotary_emb");
        sim_module_tree_set_forward(model, writing.rotaries[i], sim_hf_rotary_new(buffer));
    }
    sim_module_tree_set_forward(model, decoder, sim_hf_decoder_new(&writing));
}

SimModel *sim_hf_model_build_gemma(const SimModelConfig *config, const SimModelOptions *options)
{
    SimModel *model =
        sim_module_tree_new(config->name, sim_hf_config_architecture_name(config->architecture));
    Forwards forwards = {
        .projection = sim_module_tree_own(model, sim_forward_linear_new(config->has_qkv_bias)),
        .linear = sim_module_tree_own(model, sim_forward_linear_new(false)),
        .norm = sim_module_tree_own(model, write_norm(config->norm_eps)),
        .mlp = sim_module_tree_own(model, sim_hf_decoder_gated_mlp_new(SIM_OPERATOR_GELU)),
    };
    for (uint32_t mask = 0; mask < 2; mask++) {
        forwards.attention[mask] =
            sim_module_tree_own(model, write_attention(config, options, mask == 1));
        forwards.block[mask] = sim_module_tree_own(model, write_block(config, options, mask == 1));
    }
    add_decoder(model, config, options, &forwards);
    sim_hf_causal_lm_finish(model, config, 1);
    return model;
}
