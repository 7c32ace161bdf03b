/* SPDX-License-Identifier: Apache-2.0 */
#include "model/hf_decoder.h"

#include "model/hf_mask.h"

SimProgram *sim_hf_decoder_gated_mlp_new(SimOperator activation)
{
    enum { GATE_PROJ = 1, UP_PROJ, DOWN_PROJ };
    SimProgram *p = sim_program_new(1);
    SimSlot gate = sim_forward_unary(p, activation, sim_forward_module(p, GATE_PROJ, 0));
    SimSlot up = sim_forward_module(p, UP_PROJ, 0);
    SimSlot product = sim_forward_binary(p, SIM_OPERATOR_MUL, gate, up);
    SimSlot out = sim_program_bind(p, sim_forward_module(p, DOWN_PROJ, product));
    sim_program_finish(p, 1, &out);
    return p;
}

SimProgram *sim_hf_decoder_rms_norm_new(double eps)
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

SimProgram *sim_hf_decoder_layer_norm_new(double eps, bool has_bias)
{
    SimProgram *p = sim_program_new(1);
    SimSlot inputs[] = {0, SIM_SLOT_PARAMETER(0), SIM_SLOT_PARAMETER(1)};
    SimSlot outputs[] = {0, SIM_SLOT_NONE, SIM_SLOT_NONE};
    SimAttributes attributes = {.scalar = eps};
    sim_program_call_many(p, has_bias ? SIM_OPERATOR_LAYER_NORM : SIM_OPERATOR_LAYER_NORM_UNBIASED,
                          &attributes, has_bias ? 3 : 2, inputs, 3, outputs);
    sim_program_finish(p, 1, outputs);
    return p;
}

static bool is_eager(const SimModelOptions *options)
{
    return options->attention == SIM_ATTENTION_EAGER;
}

bool sim_hf_decoder_has_mask(const SimModelConfig *config, const SimModelOptions *options,
                             uint64_t layer)
{
    uint64_t window = sim_hf_config_slides(config, layer) ? config->sliding_window : 0;
    return sim_hf_mask_exists(is_eager(options), window, options->sequence);
}

/* masks[0] for layers that see all, masks[1] for those that slide; NONE where there is none. */
static void write_masks(SimProgram *p, const SimHfDecoder *decoder, SimSlot masks[2])
{
    const SimModelConfig *config = decoder->config;
    bool is_wanted[2] = {decoder->has_both_masks, decoder->has_both_masks};
    for (uint64_t i = 0; i < config->layers; i++)
        is_wanted[sim_hf_config_slides(config, i)] = true;
    for (uint32_t i = 0; i < 2; i++) {
        uint64_t window = i == 0 ? 0 : config->sliding_window;
        bool exists = is_wanted[i] && sim_hf_mask_exists(is_eager(decoder->options), window,
                                                         decoder->options->sequence);
        masks[i] =
            exists ? sim_hf_mask_write(p, is_eager(decoder->options), window) : SIM_SLOT_NONE;
    }
}

/* Who dies when the decoder returns, in this order: position_ids and inputs_embeds, which are
 * arguments that it binds itself, then its own variables; but where both are in the dictionary
 * mask_kwargs too, that is what lets go of them, embeddings first, after the masks. */
static void bind_arguments(SimProgram *p, const SimHfDecoder *decoder, SimSlot embeds, SimSlot ids,
                           const SimSlot masks[2])
{
    if (!decoder->has_mapping) {
        sim_program_bind(p, ids);
        sim_program_bind(p, embeds);
    }
    for (uint32_t i = 0; i < 2; i++)
        if (masks[i] != SIM_SLOT_NONE)
            sim_program_bind(p, masks[i]);
    if (decoder->has_mapping) {
        sim_program_bind(p, embeds);
        sim_program_bind(p, ids);
    }
}

/* The tables, unnamed until the first block has its place among the variables. */
static void write_tables(SimProgram *p, const SimHfDecoder *decoder, SimSlot hidden, SimSlot ids,
                         SimSlot tables[2][2])
{
    SimSlot inputs[] = {hidden, ids};
    for (uint32_t i = 0; i < decoder->n_rotaries; i++)
        sim_program_call_module_many(p, decoder->rotaries[i] - decoder->module, 2, inputs, 2,
                                     tables[i]);
}

SimProgram *sim_hf_decoder_new(const SimHfDecoder *decoder)
{
    const SimModel *model = decoder->model;
    SimProgram *p = sim_program_new(1);
    SimSlot embeds = sim_forward_module(p, model->embedding - decoder->module, 0);
    SimSlot ids = sim_hf_causal_lm_position_ids(p), masks[2], tables[2][2];
    write_masks(p, decoder, masks);
    bind_arguments(p, decoder, embeds, ids, masks);
    SimSlot hidden = embeds;
    if (decoder->embedding_dropout > 0)
        hidden = sim_program_bind(p, sim_forward_dropout(p, embeds, decoder->embedding_dropout));
    write_tables(p, decoder, hidden, ids, tables);
    for (uint32_t i = 0; i < decoder->n_rotaries; i++)
        for (uint32_t j = 0; j < 2; j++)
            sim_program_bind(p, tables[i][j]);
    for (guint i = 0; i < model->blocks->len; i++) {
        bool slides = sim_hf_config_slides(decoder->config, i);
        const SimSlot *table = tables[decoder->n_rotaries == 2 && !slides];
        uint32_t block = g_array_index(model->blocks, uint32_t, i) - decoder->module;
        SimSlot arguments[] = {hidden, table[0], table[1], ids, masks[slides]};
        uint32_t n = masks[slides] == SIM_SLOT_NONE ? 4 : 5;
        SimSlot out = sim_program_call_module(p, block, n, arguments);
        hidden = hidden == embeds ? sim_program_bind(p, out) : sim_program_rebind(p, hidden, out);
    }
    SimSlot normed = sim_forward_module(p, model->norm - decoder->module, hidden);
    hidden = sim_program_rebind(p, hidden, normed);
    sim_program_finish(p, 1, &hidden);
    return p;
}
