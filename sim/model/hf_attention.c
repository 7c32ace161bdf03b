/* SPDX-License-Identifier: Apache-2.0 */
#include "model/hf_attention.h"

SimHfAttention sim_hf_attention_of(const SimModelConfig *config, const SimModelOptions *options)
{
    return (SimHfAttention){
        .kind = options->attention,
        .heads = config->heads,
        .key_value_heads = config->key_value_heads,
        .head_dim = config->head_dim,
        .dropout = config->attention_dropout,
        .softcap = config->attention_softcap,
    };
}

uint32_t sim_hf_attention_results(const SimHfAttention *attention)
{
    return attention->kind == SIM_ATTENTION_EAGER ? 2 : 1;
}

/* [B, groups, S, d] -> [B, groups, repeats, S, d] -> [B, heads, S, d]: a copy where there are
 * several groups. */
static SimSlot write_repeat(SimProgram *p, const SimHfAttention *a, SimSlot x)
{
    int64_t groups = (int64_t)a->key_value_heads, dim = (int64_t)a->head_dim;
    int64_t apart[] = {SIM_DIM_BATCH, groups, 1, SIM_DIM_SEQUENCE, dim};
    int64_t together[] = {SIM_DIM_BATCH, (int64_t)a->heads, SIM_DIM_SEQUENCE, dim};
    SimAttributes repeated = {.dims = {SIM_DIM_BATCH, groups,
                                       (int64_t)(a->heads / a->key_value_heads), SIM_DIM_SEQUENCE,
                                       dim},
                              .n_dims = 5};
    SimSlot view = sim_forward_view(p, x, 5, apart);
    view = sim_program_call(p, SIM_OPERATOR_EXPAND, &repeated, 1, &view);
    return sim_forward_view(p, view, 4, together);
}

SimSlot sim_hf_attention_matmul(SimProgram *p, uint64_t heads, SimSlot a, SimSlot b, int64_t m,
                                int64_t k, int64_t n)
{
    int64_t left[] = {SIM_DIM_REST, m, k}, right[] = {SIM_DIM_REST, k, n};
    int64_t whole[] = {SIM_DIM_BATCH, (int64_t)heads, m, n};
    SimSlot operands[] = {sim_forward_view(p, a, 3, left), 0};
    operands[1] = sim_forward_view(p, b, 3, right);
    SimSlot product = sim_program_call(p, SIM_OPERATOR_BMM, NULL, 2, operands);
    return sim_forward_view(p, product, 4, whole);
}

/* The causal mask of the math backend: a triangle of bool, then 0 and -inf in f32. */
static SimSlot write_triangle(SimProgram *p)
{
    SimAttributes square = {
        .dims = {SIM_DIM_SEQUENCE, SIM_DIM_SEQUENCE}, .n_dims = 2, .dtype = SIM_DTYPE_U8};
    SimAttributes wide = {.dtype = SIM_DTYPE_F32};
    SimSlot ones = sim_program_call(p, SIM_OPERATOR_FILL, &square, 0, NULL);
    SimSlot triangle = sim_forward_unary(p, SIM_OPERATOR_TRIL, ones);
    return sim_program_call(p, SIM_OPERATOR_WHERE, &wide, 1, &triangle);
}

/* _scaled_dot_product_attention_math (aten/src/ATen/native/transformers/attention.cpp) for half
 * types: all in f32, query and key scaled by the root of the scale, and the weights cast back too,
 * though nobody takes them. MASK is added in place; causal without one. Variables of C++ die in
 * reverse, the weights that nobody takes after all. */
static SimSlot write_math(SimProgram *p, const SimHfAttention *a, SimSlot query, SimSlot key,
                          SimSlot value, SimSlot mask)
{
    int64_t dim = (int64_t)a->head_dim;
    bool is_grouped = a->heads != a->key_value_heads && mask == SIM_SLOT_NONE;
    sim_program_open_function(p);
    if (mask != SIM_SLOT_NONE)
        sim_program_bind(p, mask);
    SimSlot q = sim_program_bind(p, sim_forward_cast(p, query, SIM_DTYPE_F32));
    SimSlot k = sim_program_bind(p, sim_forward_cast(p, key, SIM_DTYPE_F32));
    SimSlot v = sim_program_bind(p, sim_forward_cast(p, value, SIM_DTYPE_F32));
    SimSlot scaled = sim_program_bind(p, sim_forward_scalar(p, SIM_OPERATOR_MUL_SCALAR, q, 1));
    SimSlot triangle =
        mask == SIM_SLOT_NONE ? sim_program_bind(p, write_triangle(p)) : SIM_SLOT_NONE;
    SimSlot all_k = is_grouped ? sim_program_bind(p, write_repeat(p, a, k)) : SIM_SLOT_NONE;
    SimSlot all_v = is_grouped ? sim_program_bind(p, write_repeat(p, a, v)) : SIM_SLOT_NONE;
    SimSlot turned = sim_forward_transpose(p, is_grouped ? all_k : k, 2, 3);
    turned = sim_program_bind(p, sim_forward_scalar(p, SIM_OPERATOR_MUL_SCALAR, turned, 1));
    SimSlot scores = sim_hf_attention_matmul(p, a->heads, scaled, turned, SIM_DIM_SEQUENCE, dim,
                                             SIM_DIM_SEQUENCE);
    sim_program_delete(p, turned);
    SimSlot weights = sim_program_bind(p, sim_forward_unary(p, SIM_OPERATOR_SAFE_SOFTMAX, scores));
    if (a->dropout > 0)
        weights = sim_program_rebind(p, weights, sim_forward_dropout(p, weights, a->dropout));
    SimSlot half = sim_program_bind(p, sim_forward_cast(p, weights, SIM_DTYPE_NONE));
    SimSlot out = sim_hf_attention_matmul(p, a->heads, weights, is_grouped ? all_v : v,
                                          SIM_DIM_SEQUENCE, SIM_DIM_SEQUENCE, dim);
    out = sim_forward_cast(p, out, SIM_DTYPE_NONE);
    SimSlot dying[] = {all_v, all_k, scaled, triangle, v, k, q, half};
    for (uint32_t i = 0; i < G_N_ELEMENTS(dying); i++)
        if (dying[i] != SIM_SLOT_NONE)
            sim_program_delete(p, dying[i]);
    sim_program_close_function(p, 1, &out);
    return out;
}

static SimSlot write_efficient(SimProgram *p, const SimHfAttention *a, SimSlot query, SimSlot key,
                               SimSlot value, SimSlot bias)
{
    static const SimOperator operators[2][2] = {
        {SIM_OPERATOR_EFFICIENT_ATTENTION, SIM_OPERATOR_EFFICIENT_ATTENTION_DROPOUT},
        {SIM_OPERATOR_EFFICIENT_ATTENTION_BIAS, SIM_OPERATOR_EFFICIENT_ATTENTION_BIAS_DROPOUT}};
    SimAttributes whole = {
        .dims = {SIM_DIM_BATCH, (int64_t)a->heads, SIM_DIM_SEQUENCE, SIM_DIM_SEQUENCE},
        .n_dims = 4};
    bool has_bias = bias != SIM_SLOT_NONE, has_dropout = a->dropout > 0;
    if (has_bias) /* seen for every head */
        bias = sim_program_call(p, SIM_OPERATOR_EXPAND, &whole, 1, &bias);
    SimSlot inputs[] = {query, key, value, bias};
    SimSlot outputs[] = {0, SIM_SLOT_NONE, SIM_SLOT_NONE, SIM_SLOT_NONE};
    SimAttributes attributes = {.scalar = a->dropout};
    sim_program_call_many(p, operators[has_bias][has_dropout], &attributes, has_bias ? 4 : 3,
                          inputs, has_dropout ? 2 : 4, outputs);
    return outputs[0];
}

SimSlot sim_hf_attention_sdpa(SimProgram *p, const SimHfAttention *a, SimSlot query, SimSlot key,
                              SimSlot value, SimSlot mask)
{
    SimAttributes half = {0};
    SimSlot bias = mask == SIM_SLOT_NONE ? SIM_SLOT_NONE
                                         : sim_program_call(p, SIM_OPERATOR_WHERE, &half, 1, &mask);
    if (a->kind == SIM_ATTENTION_MATH)
        return write_math(p, a, query, key, value, bias);
    bool is_flash = a->kind != SIM_ATTENTION_EFFICIENT && mask == SIM_SLOT_NONE;
    if (is_flash && a->head_dim <= 256)
        return sim_forward_attention(p, query, key, value, a->dropout);
    return write_efficient(p, a, query, key, value, bias);
}

static SimSlot write_sdpa(SimProgram *p, const SimHfAttention *a, SimSlot query, SimSlot key,
                          SimSlot value, SimSlot mask)
{
    bool is_repeated =
        a->heads != a->key_value_heads && (mask != SIM_SLOT_NONE || a->head_dim > 256);
    sim_program_open_function(p);
    if (is_repeated) {
        key = sim_program_bind(p, write_repeat(p, a, key));
        value = sim_program_bind(p, write_repeat(p, a, value));
    }
    SimSlot out = sim_hf_attention_sdpa(p, a, query, key, value, mask);
    SimSlot turned = sim_forward_transpose(p, out, 1, 2);
    out = sim_forward_unary(p, SIM_OPERATOR_CLONE, turned);
    sim_program_close_function(p, 1, &out);
    return out;
}

/* attn_weights / softcap, tanh, * softcap */
static SimSlot write_softcap(SimProgram *p, SimSlot weights, double cap)
{
    weights = sim_program_rebind(p, weights,
                                 sim_forward_scalar(p, SIM_OPERATOR_MUL_SCALAR, weights, 1 / cap));
    weights = sim_program_rebind(p, weights, sim_forward_unary(p, SIM_OPERATOR_TANH, weights));
    return sim_program_rebind(p, weights,
                              sim_forward_scalar(p, SIM_OPERATOR_MUL_SCALAR, weights, cap));
}

static SimSlot write_softmax(SimProgram *p, const SimHfAttention *a, SimSlot scores)
{
    if (a->has_half_softmax)
        return sim_forward_unary(p, SIM_OPERATOR_SOFTMAX, scores);
    SimSlot wide = sim_forward_cast(p, scores, SIM_DTYPE_F32);
    SimSlot shares = sim_forward_unary(p, SIM_OPERATOR_SOFTMAX, wide);
    return sim_forward_cast(p, shares, SIM_DTYPE_NONE);
}

/* Both results are unnamed. */
static SimSlot write_eager(SimProgram *p, const SimHfAttention *a, SimSlot query, SimSlot key,
                           SimSlot value, SimSlot mask, SimSlot *weights)
{
    int64_t dim = (int64_t)a->head_dim;
    sim_program_open_function(p);
    if (a->heads != a->key_value_heads) {
        key = sim_program_bind(p, write_repeat(p, a, key));
        value = sim_program_bind(p, write_repeat(p, a, value));
    }
    SimSlot turned = sim_forward_transpose(p, key, 2, 3);
    SimSlot scores = sim_hf_attention_matmul(p, a->heads, query, turned, SIM_DIM_SEQUENCE, dim,
                                             SIM_DIM_SEQUENCE);
    scores = sim_program_bind(p, sim_forward_scalar(p, SIM_OPERATOR_MUL_SCALAR, scores, 1));
    if (a->softcap > 0)
        scores = write_softcap(p, scores, a->softcap);
    if (mask != SIM_SLOT_NONE)
        scores =
            sim_program_rebind(p, scores, sim_forward_binary(p, SIM_OPERATOR_ADD, scores, mask));
    scores = sim_program_rebind(p, scores, write_softmax(p, a, scores));
    if (a->dropout > 0)
        scores = sim_program_rebind(p, scores, sim_forward_dropout(p, scores, a->dropout));
    SimSlot out = sim_hf_attention_matmul(p, a->heads, scores, value, SIM_DIM_SEQUENCE,
                                          SIM_DIM_SEQUENCE, dim);
    SimSlot results[] = {
        sim_forward_unary(p, SIM_OPERATOR_CLONE, sim_forward_transpose(p, out, 1, 2)), scores};
    sim_program_close_function(p, 2, results);
    *weights = results[1];
    return results[0];
}

SimSlot sim_hf_attention_write(SimProgram *p, const SimHfAttention *a, SimSlot query, SimSlot key,
                               SimSlot value, SimSlot mask, SimSlot *weights)
{
    int64_t dims[] = {SIM_DIM_BATCH, SIM_DIM_SEQUENCE, SIM_DIM_REST};
    *weights = SIM_SLOT_NONE;
    SimSlot out = a->kind == SIM_ATTENTION_EAGER
                      ? write_eager(p, a, query, key, value, mask, weights)
                      : write_sdpa(p, a, query, key, value, mask);
    sim_program_bind(p, out);
    if (*weights != SIM_SLOT_NONE)
        sim_program_bind(p, *weights);
    return sim_program_rebind(p, out, sim_forward_view(p, out, 3, dims));
}
