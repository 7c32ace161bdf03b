/* SPDX-License-Identifier: Apache-2.0
 *
 * scaled_dot_product_attention by the flash kernel (csrc/flash_attn/flash_api.cpp, which PyTorch
 * vendors; aten/src/ATen/native/transformers/attention.cpp).
 *
 * query [B, heads, S, head_dim], key and value [B, key_value_heads, S, head_dim]; the output lies
 * as the query does.
 */
#include "model/operator_describe.h"

static uint64_t round_up(uint64_t n, uint64_t multiple)
{
    return (n + multiple - 1) / multiple * multiple;
}

/* FLOPs of the full square: torch/utils/flop_counter.py gives no discount to a causal mask. */
static void set_figures(SimOperatorKernel *kernel, const SimLayout *query, const SimLayout *key,
                        uint64_t matrix_products)
{
    const uint64_t *dims = query->shape.dims;
    kernel->figures_kind = SIM_FIGURES_ATTENTION;
    kernel->figures[0] = dims[1];
    kernel->figures[1] = dims[2];
    kernel->figures[2] = dims[3];
    kernel->figures[3] = 1;
    kernel->flops =
        2 * matrix_products * dims[0] * dims[1] * dims[2] * key->shape.dims[2] * dims[3];
}

/* Into how many parts flash cuts the keys where the queries alone would leave SMs idle
 * (num_splits_heuristic of flash_api.cpp): the fewest that keep them 85 % as busy as the best
 * number would. A kernel has 128 threads, so an SM counts twice. Not with dropout. */
static uint64_t count_splits(const SimOperatorCall *call)
{
    const uint64_t *dims = call->inputs[0]->shape.dims;
    uint64_t width = dims[3] <= 64 ? 256 : dims[3] <= 128 ? 128 : 64;
    uint64_t blocks = dims[0] * dims[1] * ((dims[2] + 63) / 64),
             slots = 2 * call->setting->sm_count;
    uint64_t columns = (call->inputs[1]->shape.dims[2] + width - 1) / width;
    uint64_t most = MIN(MIN(columns, slots), 128);
    if (call->attributes->scalar > 0 || 10 * blocks >= 8 * slots)
        return 1;
    double best = 0;
    for (int pass = 0; pass < 2; pass++)
        for (uint64_t splits = 1; splits <= most; splits++) {
            uint64_t part = (columns + splits - 1) / splits;
            if (splits > 1 && part == (columns + splits - 2) / (splits - 1))
                continue; /* no fewer blocks a part than with one part less */
            uint64_t waves = (blocks * splits + slots - 1) / slots;
            double busy = (double)(blocks * splits) / (double)(waves * slots);
            if (pass == 0)
                best = MAX(best, busy);
            else if (busy >= 0.85 * best)
                return splits;
        }
    return 1;
}

/* Partial results of each part, in f32. */
static void describe_splits(SimOperatorCall *call, uint64_t rows)
{
    uint64_t splits = count_splits(call), head_dim = call->inputs[0]->shape.dims[3];
    if (splits == 1)
        return;
    sim_operator_describe_scratch(call, 4 * splits * rows);
    sim_operator_describe_scratch(call, 4 * splits * rows *
                                            round_up(head_dim, head_dim <= 128 ? 32 : 64));
}

/* Random state: philox seed of two 64-bit words and an unused one. With dropout
 * the seed exists twice for a moment, and the unused word comes before it. */
static void describe_forward(SimOperatorCall *call)
{
    const SimLayout *query = call->inputs[0];
    SimShape lse_shape = {
        .dims = {query->shape.dims[0], query->shape.dims[1], query->shape.dims[2]}, .n_dims = 3};
    SimShape seed_shape = {.dims = {2}, .n_dims = 1}, unused_shape = {.n_dims = 0};
    SimLayout out = sim_layout_pointwise(call->inputs, 1, query->dtype);
    SimLayout lse = sim_layout_contiguous(&lse_shape, SIM_DTYPE_F32);
    SimLayout seed = sim_layout_contiguous(&seed_shape, SIM_DTYPE_I64);
    SimLayout unused = sim_layout_contiguous(&unused_shape, SIM_DTYPE_I64);
    sim_operator_describe_output(call, &out);
    sim_operator_describe_output(call, &lse);
    describe_splits(call, sim_layout_elements(&lse));
    bool has_dropout = call->attributes->scalar > 0;
    if (has_dropout)
        sim_operator_describe_scratch(call, sim_layout_bytes(&seed));
    sim_operator_describe_output(call, &seed);
    sim_operator_describe_output(call, &unused);
    if (has_dropout) {
        SimOperatorEvent *last = &call->events[call->n_events - 1], swapped = *last;
        last[0] = last[-1];
        last[-1] = swapped;
    }
    SimOperatorKernel *kernel =
        sim_operator_describe_kernel(call, SIM_OPERATOR_ATTENTION, 7, has_dropout ? 7 : 3);
    set_figures(kernel, query, call->inputs[1], 2);
    if (call->n_scratch == 2) /* of splits: freed in the order in which they were made */
        sim_operator_describe_release_below(call);
}

/* Gradient and output are brought to [B, S, heads, head_dim] in one piece first
 * (_flash_attention_backward of attention_backward.cu). */
static void describe_contiguous(SimOperatorCall *call, uint32_t input)
{
    SimLayout rows = sim_layout_transpose(call->inputs[input], 1, 2);
    if (sim_layout_is_contiguous(&rows))
        return;
    sim_operator_describe_scratch(call, sim_layout_bytes(&rows));
    SimOperatorKernel *copy =
        sim_operator_describe_kernel(call, SIM_OPERATOR_CLONE, 1U << input, 0);
    copy->hbm_bytes *= 2;
}

/* gradient, query, key, value, output, lse, seed, unused -> gradients of query, key, value.
 * Scratch: rows of dO.O, the query gradient in f32 (sequence rounded to 128, head_dim to 32) and,
 * with grouped keys, key and value gradients for every query head, summed at the end. Five matrix
 * products against the forward's two. */
static void describe_backward(SimOperatorCall *call)
{
    const SimLayout *query = call->inputs[1], *key = call->inputs[2];
    const uint64_t *dims = query->shape.dims;
    const SimLayout *value[] = {call->inputs[3]}, *q[] = {query}, *k[] = {key};
    SimLayout query_out = sim_layout_pointwise(q, 1, query->dtype);
    SimLayout key_out = sim_layout_pointwise(k, 1, key->dtype);
    SimLayout value_out = sim_layout_pointwise(value, 1, key->dtype);
    describe_contiguous(call, 0);
    describe_contiguous(call, 4);
    sim_operator_describe_output(call, &query_out);
    sim_operator_describe_output(call, &key_out);
    sim_operator_describe_output(call, &value_out);
    uint64_t rows = dims[0] * dims[1] * round_up(dims[2], 128);
    bool is_grouped = key->shape.dims[1] != dims[1];
    uint64_t expanded =
        dims[0] * key->shape.dims[2] * dims[1] * dims[3] * sim_dtype_bytes(key->dtype);
    sim_operator_describe_scratch(call, 4 * rows);
    sim_operator_describe_scratch(call, 4 * rows * round_up(dims[3], 32));
    if (is_grouped) {
        sim_operator_describe_scratch(call, expanded);
        sim_operator_describe_scratch(call, expanded);
    }
    SimOperatorKernel *prepare =
        sim_operator_describe_kernel(call, SIM_OPERATOR_ATTENTION_GRAD_PREPARE, 0x11, 0);
    prepare->hbm_bytes += 4 * sim_layout_elements(query); /* zeroes the f32 query gradient */
    prepare->scratch_writes = 3;
    /* Without dropout nobody writes the seed, or reads it. */
    uint32_t reads = call->attributes->scalar > 0 ? 0x7f : 0x3f;
    SimOperatorKernel *main_kernel =
        sim_operator_describe_kernel(call, SIM_OPERATOR_ATTENTION_GRAD, reads, is_grouped ? 0 : 6);
    main_kernel->hbm_bytes += sim_layout_bytes(query);
    main_kernel->scratch_reads = 3;
    main_kernel->scratch_writes = is_grouped ? 0xe : 2;
    set_figures(main_kernel, query, key, 5);
    SimOperatorKernel *convert =
        sim_operator_describe_kernel(call, SIM_OPERATOR_ATTENTION_GRAD_CONVERT, 0, 1);
    convert->hbm_bytes += 4 * sim_layout_elements(query);
    convert->scratch_reads = 2;
    for (uint32_t i = 1; is_grouped && i <= 2; i++) {
        SimOperatorKernel *sum = sim_operator_describe_kernel(call, SIM_OPERATOR_SUM, 0, 1U << i);
        sum->hbm_bytes += expanded;
        sum->scratch_reads = 2U << i;
    }
}

bool sim_operator_describe_attention(SimOperatorCall *call)
{
    switch (call->operator_) {
    case SIM_OPERATOR_ATTENTION:
        describe_forward(call);
        return true;
    case SIM_OPERATOR_ATTENTION_GRAD:
        describe_backward(call);
        return true;
    default:
        return false;
    }
}
