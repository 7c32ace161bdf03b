/* SPDX-License-Identifier: Apache-2.0 */
#include "model/hf_mask.h"

bool sim_hf_mask_exists(bool is_eager, uint64_t window, uint64_t sequence)
{
    return is_eager || (window > 0 && sequence >= window);
}

static SimSlot write_arange(SimProgram *p, int64_t length)
{
    SimAttributes attributes = {.dims = {length}, .n_dims = 1};
    return sim_program_call(p, SIM_OPERATOR_ARANGE, &attributes, 0, NULL);
}

static SimSlot write_positions(SimProgram *p)
{
    SimSlot counted = write_arange(p, SIM_DIM_SEQUENCE);
    return sim_program_bind(p, sim_forward_scalar(p, SIM_OPERATOR_ADD_SCALAR, counted, 0));
}

/* and_masks(sliding_window_overlay, causal_mask_function) */
static SimSlot write_sliding(SimProgram *p, SimSlot rows, SimSlot columns, uint64_t window)
{
    SimAttributes scalar = {.dtype = SIM_DTYPE_U8};
    sim_program_open_function(p);
    SimSlot result = sim_program_bind(p, sim_program_call(p, SIM_OPERATOR_FILL, &scalar, 0, NULL));
    SimSlot first = sim_forward_scalar(p, SIM_OPERATOR_ADD_SCALAR, rows, -(double)window);
    SimSlot inside = sim_forward_binary(p, SIM_OPERATOR_COMPARE, columns, first);
    result = sim_program_rebind(p, result,
                                sim_forward_binary(p, SIM_OPERATOR_LOGICAL_AND, result, inside));
    SimSlot before = sim_forward_binary(p, SIM_OPERATOR_COMPARE, columns, rows);
    result = sim_program_rebind(p, result,
                                sim_forward_binary(p, SIM_OPERATOR_LOGICAL_AND, result, before));
    sim_program_close_function(p, 1, &result);
    return result;
}

/* sdpa_mask(...) */
static SimSlot write_boolean(SimProgram *p, uint64_t window)
{
    int64_t row[] = {1, 1, 1, SIM_DIM_SEQUENCE}, column[] = {1, 1, SIM_DIM_SEQUENCE, 1};
    sim_program_open_function(p);
    sim_program_bind(p, write_arange(p, SIM_DIM_BATCH));
    sim_program_bind(p, write_arange(p, 1)); /* heads */
    SimSlot queries = write_positions(p), keys = write_positions(p);
    sim_program_open_function(p);
    SimSlot rows = sim_program_bind(p, sim_forward_view(p, queries, 4, column));
    SimSlot columns = sim_program_bind(p, sim_forward_view(p, keys, 4, row));
    SimSlot mask = window > 0 ? write_sliding(p, rows, columns, window)
                              : sim_forward_binary(p, SIM_OPERATOR_COMPARE, columns, rows);
    sim_program_close_function(p, 1, &mask);
    SimAttributes whole = {.dims = {SIM_DIM_BATCH, 1, SIM_DIM_SEQUENCE, SIM_DIM_SEQUENCE},
                           .n_dims = 4};
    mask = sim_program_call(p, SIM_OPERATOR_EXPAND, &whole, 1, &mask);
    sim_program_close_function(p, 1, &mask);
    return mask;
}

SimSlot sim_hf_mask_write(SimProgram *p, bool is_eager, uint64_t window)
{
    if (!is_eager)
        return write_boolean(p, window);
    SimAttributes scalar = {0};
    sim_program_open_function(p);
    SimSlot mask = sim_program_bind(p, write_boolean(p, window));
    SimSlot zero = sim_program_call(p, SIM_OPERATOR_FILL, &scalar, 0, NULL);
    mask = sim_program_rebind(p, mask, sim_forward_binary(p, SIM_OPERATOR_WHERE, mask, zero));
    sim_program_close_function(p, 1, &mask);
    return mask;
}
