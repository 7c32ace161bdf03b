/* SPDX-License-Identifier: Apache-2.0 */
#include "model/hf_rotary.h"

SimSlot sim_hf_rotary_add_buffers(SimModel *model, const SimModelConfig *config, const char *prefix)
{
    static const char *const names[][2] = {
        {"inv_freq", "original_inv_freq"},
        {"sliding_attention_inv_freq", "sliding_attention_original_inv_freq"},
        {"full_attention_inv_freq", "full_attention_original_inv_freq"}};
    uint32_t kind = prefix == NULL ? 0 : *prefix == 's' ? 1 : 2;
    uint32_t first = model->buffers->len;
    for (uint32_t i = 0; i < 2; i++) {
        SimModelBuffer frequencies = {.name = names[kind][i],
                                      .dims = {(int64_t)config->rotary_dim / 2},
                                      .n_dims = 1,
                                      .dtype = SIM_DTYPE_F32};
        g_array_append_val(model->buffers, frequencies);
    }
    return SIM_SLOT_BUFFER(first);
}

SimProgram *sim_hf_rotary_new(SimSlot inverse_frequencies)
{
    SimProgram *p = sim_program_new(2);
    int64_t column[] = {1, SIM_DIM_SEQUENCE, 1};
    SimSlot wide = sim_forward_cast(p, sim_forward_view(p, 1, 3, column), SIM_DTYPE_F32);
    SimSlot inverse = sim_forward_cast(p, inverse_frequencies, SIM_DTYPE_F32);
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

static SimSlot write_rotate_half(SimProgram *p, SimSlot x, uint64_t dim)
{
    sim_program_open_function(p);
    SimSlot first = sim_program_bind(p, sim_forward_slice(p, x, 3, 0, dim / 2));
    SimSlot second = sim_program_bind(p, sim_forward_slice(p, x, 3, dim / 2, dim / 2));
    SimSlot halves[] = {sim_forward_unary(p, SIM_OPERATOR_NEG, second), first};
    SimAttributes last = {.dim = 3};
    SimSlot turned = sim_program_call(p, SIM_OPERATOR_CAT, &last, 2, halves);
    sim_program_close_function(p, 1, &turned);
    return turned;
}

/* (x * cos) + (rotate_half(x) * sin): an unnamed value. */
static SimSlot write_turned(SimProgram *p, SimSlot x, SimSlot cos, SimSlot sin, uint64_t dim)
{
    SimSlot straight = sim_forward_binary(p, SIM_OPERATOR_MUL, x, cos);
    SimSlot half = write_rotate_half(p, x, dim);
    SimSlot turned = sim_forward_binary(p, SIM_OPERATOR_MUL, half, sin);
    return sim_forward_binary(p, SIM_OPERATOR_ADD, straight, turned);
}

static void write_tables(SimProgram *p, uint64_t dim, SimSlot *cos, SimSlot *sin)
{
    int64_t dims[] = {1, 1, SIM_DIM_SEQUENCE, (int64_t)dim};
    *cos = sim_program_bind(p, sim_forward_view(p, *cos, 4, dims));
    *sin = sim_program_bind(p, sim_forward_view(p, *sin, 4, dims));
}

void sim_hf_rotary_apply(SimProgram *p, SimSlot cos, SimSlot sin, uint64_t head_dim, SimSlot *query,
                         SimSlot *key)
{
    sim_program_open_function(p);
    write_tables(p, head_dim, &cos, &sin);
    SimSlot embeds[] = {sim_program_bind(p, write_turned(p, *query, cos, sin, head_dim)), 0};
    embeds[1] = sim_program_bind(p, write_turned(p, *key, cos, sin, head_dim));
    sim_program_close_function(p, 2, embeds);
    *query = sim_program_rebind(p, *query, embeds[0]);
    *key = sim_program_rebind(p, *key, embeds[1]);
}

/* x[..., :dim] and x[..., dim:]; a slice that takes all is the tensor seen again. */
static void write_parts(SimProgram *p, SimSlot x, uint64_t head_dim, uint64_t dim, SimSlot parts[2])
{
    SimSlot first = dim == head_dim ? sim_forward_unary(p, SIM_OPERATOR_ALIAS, x)
                                    : sim_forward_slice(p, x, 3, 0, dim);
    parts[0] = sim_program_bind(p, first);
    parts[1] = sim_program_bind(p, sim_forward_slice(p, x, 3, dim, 0));
}

static SimSlot write_join(SimProgram *p, SimSlot turned, SimSlot rest)
{
    SimSlot parts[] = {turned, rest};
    SimAttributes last = {.dim = 3};
    return sim_program_call(p, SIM_OPERATOR_CAT, &last, 2, parts);
}

void sim_hf_rotary_apply_partly(SimProgram *p, SimSlot cos, SimSlot sin, uint64_t head_dim,
                                uint64_t rotary_dim, bool is_joined_last, SimSlot *query,
                                SimSlot *key)
{
    SimSlot *operands[] = {query, key}, parts[2][2], embeds[2];
    sim_program_open_function(p);
    write_tables(p, rotary_dim, &cos, &sin);
    for (uint32_t i = 0; i < 2; i++)
        write_parts(p, *operands[i], head_dim, rotary_dim, parts[i]);
    for (uint32_t i = 0; i < 2; i++) {
        SimSlot turned = write_turned(p, parts[i][0], cos, sin, rotary_dim);
        embeds[i] =
            sim_program_bind(p, is_joined_last ? turned : write_join(p, turned, parts[i][1]));
    }
    for (uint32_t i = 0; i < 2 && is_joined_last; i++)
        embeds[i] = sim_program_rebind(p, embeds[i], write_join(p, embeds[i], parts[i][1]));
    sim_program_close_function(p, 2, embeds);
    for (uint32_t i = 0; i < 2; i++)
        *operands[i] = sim_program_rebind(p, *operands[i], embeds[i]);
}
