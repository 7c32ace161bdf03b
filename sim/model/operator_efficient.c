/* SPDX-License-Identifier: Apache-2.0
 *
 * scaled_dot_product_attention by the memory-efficient kernel, the only fused one that takes a mask
 * (aten/src/ATen/native/transformers/cuda/attention.cu, attention_backward.cu and
 * mem_eff_attention/kernel_backward.h).
 *
 * query [B, heads, S, head_dim], key and value [B, key_value_heads, S, head_dim] and, with a bias,
 * [B, 1, S, S]; the output lies as [B, S, heads, head_dim] whatever the query does.
 */
#include "model/operator_describe.h"

static uint64_t divide_up(uint64_t a, uint64_t b)
{
    return (a + b - 1) / b;
}

/* [B, heads, S, D] of memory [B, S, heads, D]. */
static SimLayout rows_first(const SimLayout *like, uint64_t heads)
{
    SimShape shape = {
        .dims = {like->shape.dims[0], like->shape.dims[2], heads, like->shape.dims[3]},
        .n_dims = 4};
    SimLayout rows = sim_layout_contiguous(&shape, like->dtype);
    return sim_layout_transpose(&rows, 1, 2);
}

static void set_figures(SimOperatorKernel *kernel, const SimOperatorCall *call, uint32_t first,
                        uint64_t products)
{
    const uint64_t *dims = call->inputs[first]->shape.dims;
    kernel->figures_kind = SIM_FIGURES_ATTENTION;
    kernel->figures[0] = dims[1];
    kernel->figures[1] = dims[2];
    kernel->figures[2] = dims[3];
    kernel->figures[3] = 1;
    kernel->flops = 2 * products * dims[0] * dims[1] * dims[2] *
                    call->inputs[first + 1]->shape.dims[2] * dims[3];
}

/* Random state first, unless there is dropout, for which it is on the CPU; rows of the log-sum-exp
 * are padded to 32; above 128 values a head the products are added up in memory, in f32. */
static void describe_forward(SimOperatorCall *call)
{
    const SimLayout *query = call->inputs[0];
    const uint64_t *dims = query->shape.dims;
    SimShape lse_shape = {.dims = {dims[0], dims[1], divide_up(dims[2], 32) * 32}, .n_dims = 3};
    SimShape scalar = {.n_dims = 0};
    SimLayout out = rows_first(query, dims[1]);
    SimLayout lse = sim_layout_contiguous(&lse_shape, SIM_DTYPE_F32);
    SimLayout state = sim_layout_contiguous(&scalar, SIM_DTYPE_I64);
    sim_operator_describe_output(call, &out);
    sim_operator_describe_output(call, &lse);
    bool has_state = call->operator_ == SIM_OPERATOR_EFFICIENT_ATTENTION ||
                     call->operator_ == SIM_OPERATOR_EFFICIENT_ATTENTION_BIAS;
    if (has_state) {
        sim_operator_describe_output(call, &state);
        sim_operator_describe_output(call, &state);
        static const uint32_t order[] = {2, 3, 0, 1};
        for (uint32_t i = 0; i < G_N_ELEMENTS(order); i++)
            call->events[i].number = order[i];
    }
    if (dims[3] > 128)
        sim_operator_describe_scratch(call, 4 * sim_layout_elements(&out));
    SimOperatorKernel *kernel =
        sim_operator_describe_kernel(call, call->operator_, SIM_OPERATOR_ALL, 3);
    set_figures(kernel, call, 0, 2);
}

typedef struct Tile {
    uint64_t queries, keys; /* of a block of the kernel */
    bool is_output_in_registers;
} Tile;

/* The first kernel of kernels/cutlassB.h that takes the head and fits in shared memory; cards with
 * 99 KiB of it (8.6, 8.9) have others. */
static Tile choose_tile(const SimOperatorCall *call, uint64_t head_dim)
{
    bool is_small =
        call->setting->compute_capability == 86 || call->setting->compute_capability == 89;
    if (head_dim <= 64)
        return (Tile){64, 64, true};
    if (is_small && head_dim <= 96)
        return (Tile){128, 64, true};
    if (!is_small && head_dim <= 128)
        return (Tile){128, 128, true};
    return (Tile){is_small ? 64 : 128, 64, false};
}

/* Partial gradients of the query for every block, with a lock of 16 bytes, and, unless they stay in
 * registers, of key and value for every part that the keys are cut into. */
static uint64_t workspace_bytes(const SimOperatorCall *call)
{
    const uint64_t *dims = call->inputs[1]->shape.dims;
    uint64_t batch = dims[0], heads = dims[1], queries = dims[2], head_dim = dims[3];
    Tile tile = choose_tile(call, head_dim);
    uint64_t blocks = divide_up(queries, tile.queries) * divide_up(head_dim, tile.keys);
    uint64_t bytes = blocks * (tile.queries * tile.keys * 4 + 16);
    if (!tile.is_output_in_registers) {
        uint64_t keys = call->inputs[2]->shape.dims[2];
        uint64_t parts = MAX(MIN(divide_up(keys, tile.keys), 200 / (batch * heads)), 1);
        uint64_t width = divide_up(head_dim, tile.queries) * tile.queries;
        bytes += 2 * parts * tile.keys * width * 4;
    }
    return batch * heads * ((bytes + 15) / 16 * 16);
}

/* gradient, query, key, value, [bias,] output, lse[, offset, seed] -> gradients of query, key,
 * value. With grouped keys key and value are repeated for every query head first, and their
 * gradients summed into the results. Scratch: rows of dO.O, then the workspace, freed in that
 * order. */
static void describe_backward(SimOperatorCall *call)
{
    const SimLayout *query = call->inputs[1], *key = call->inputs[2];
    uint64_t heads = query->shape.dims[1], groups = key->shape.dims[1];
    SimLayout query_out = rows_first(query, heads), key_out = rows_first(key, groups);
    uint64_t expanded = sim_layout_bytes(&key_out) / groups * heads;
    sim_operator_describe_output(call, &query_out);
    sim_operator_describe_output(call, &key_out);
    sim_operator_describe_output(call, &key_out);
    if (heads != groups) {
        sim_operator_describe_scratch(call, expanded);
        sim_operator_describe_scratch(call, expanded);
    }
    uint64_t rows = query->shape.dims[0] * heads * query->shape.dims[2];
    sim_operator_describe_scratch(call, 4 * rows);
    sim_operator_describe_scratch(call, workspace_bytes(call));
    SimOperatorKernel *kernel =
        sim_operator_describe_kernel(call, SIM_OPERATOR_EFFICIENT_ATTENTION_GRAD,
                                     (1U << (call->n_inputs - 1)) - 1, heads != groups ? 1 : 7);
    set_figures(kernel, call, 1, 5);
    sim_operator_describe_release_below(call);
    for (uint32_t i = 1; heads != groups && i <= 2; i++) {
        SimOperatorKernel *sum = sim_operator_describe_kernel(call, SIM_OPERATOR_SUM, 0, 1U << i);
        sum->hbm_bytes += expanded;
    }
}

bool sim_operator_describe_efficient(SimOperatorCall *call)
{
    switch (call->operator_) {
    case SIM_OPERATOR_EFFICIENT_ATTENTION:
    case SIM_OPERATOR_EFFICIENT_ATTENTION_BIAS:
    case SIM_OPERATOR_EFFICIENT_ATTENTION_DROPOUT:
    case SIM_OPERATOR_EFFICIENT_ATTENTION_BIAS_DROPOUT:
        describe_forward(call);
        return true;
    case SIM_OPERATOR_EFFICIENT_ATTENTION_GRAD:
        describe_backward(call);
        return true;
    default:
        return false;
    }
}
