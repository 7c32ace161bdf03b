/* SPDX-License-Identifier: Apache-2.0
 *
 * Operators whose result has an element for each (broadcast) element of their operands, and
 * reductions.
 */
#include "model/operator_describe.h"

static uint64_t divide_up(uint64_t a, uint64_t b)
{
    return (a + b - 1) / b;
}

static uint64_t last_power_of_2(uint64_t n)
{
    uint64_t power = 1;
    while (power * 2 <= n)
        power *= 2;
    return power;
}

/* Scratch of a reduction of ROWS x COLUMNS over the rows: how aten/src/ATen/native/cuda/Reduce.cuh
 * cuts it into blocks (setReduceConfig), 4 outputs a thread, and what it then asks for
 * (global_memory_size counts every thread of a block as if it wrote its own partial sum, and one
 * semaphore of 4 bytes a block of columns). */
static void describe_column_scratch(SimOperatorCall *call, uint64_t rows, uint64_t columns)
{
    const uint64_t vector = 4, threads = 512 / vector, warp = 32, threads_per_sm = 2048;
    uint64_t width = MIN(last_power_of_2(MAX(columns / vector, 1)), warp);
    uint64_t height = MIN(last_power_of_2(rows), threads / width);
    uint64_t grid = divide_up(columns, width * vector);
    uint64_t target = call->setting->sm_count * (threads_per_sm / (width * height));
    uint64_t values = divide_up(rows, height);
    bool is_shared = rows >= height * 16 || rows >= 256; /* by the warps of a block */
    if (!is_shared || values < 256 || grid > target)
        return;
    uint64_t blocks =
        MAX(MIN(divide_up(target, grid), divide_up(values, 16)), divide_up(values, 256));
    if (blocks <= 1)
        return;
    sim_operator_describe_scratch(call, 4 * columns * blocks * width * vector);
    sim_operator_describe_scratch(call, 4 * grid);
    SimOperatorKernel *clear = sim_operator_describe_kernel(call, SIM_OPERATOR_FILL, 0, 0);
    clear->hbm_bytes = 4 * grid; /* the semaphores */
}

static void describe_pointwise(SimOperatorCall *call, SimDtype dtype)
{
    SimLayout out = sim_layout_pointwise(call->inputs, call->n_inputs, dtype);
    sim_operator_describe_output(call, &out);
    sim_operator_describe_kernel(call, call->operator_, SIM_OPERATOR_ALL, 1);
}

/* f32 wins over half types and integers, half types over integers, complex over all. */
SimDtype sim_operator_describe_promoted(const SimOperatorCall *call)
{
    SimDtype dtype = call->inputs[0]->dtype;
    for (uint32_t i = 1; i < call->n_inputs; i++) {
        SimDtype other = call->inputs[i]->dtype;
        if (call->inputs[i]->shape.n_dims == 0)
            continue;
        bool is_integer = dtype == SIM_DTYPE_I32 || dtype == SIM_DTYPE_I64;
        if (other == SIM_DTYPE_C64 || (other == SIM_DTYPE_F32 && dtype != SIM_DTYPE_C64) ||
            is_integer)
            dtype = other;
    }
    return dtype;
}

/* Sum down to the shape of LIKE (at::sum_to): leading dimensions and those that LIKE has as 1. The
 * operator keeps every summed dimension as 1 and a view drops the leading ones, so the output is
 * allocated in the gradient's number of dimensions. */
static void describe_sum(SimOperatorCall *call)
{
    const SimLayout *in = call->inputs[0];
    SimShape shape = in->shape;
    uint32_t shift = shape.n_dims - call->like->shape.n_dims;
    uint64_t rows = 1, columns = 1;
    bool is_last_summed = false;
    for (uint32_t i = 0; i < shape.n_dims; i++) {
        bool is_summed =
            shape.dims[i] != 1 && (i < shift || call->like->shape.dims[i - shift] == 1);
        *(is_summed ? &rows : &columns) *= shape.dims[i];
        is_last_summed = is_summed;
        if (is_summed)
            shape.dims[i] = 1;
    }
    SimLayout out = sim_layout_contiguous(&shape, in->dtype);
    sim_operator_describe_output(call, &out);
    if (!is_last_summed)
        describe_column_scratch(call, rows, columns);
    sim_operator_describe_kernel(call, SIM_OPERATOR_SUM, 1, 1);
    call->outputs[0] = sim_layout_contiguous(&call->like->shape, in->dtype);
}

/* Over the last dimension, kept as 1. */
static void describe_mean(SimOperatorCall *call)
{
    SimShape shape = call->inputs[0]->shape;
    shape.dims[shape.n_dims - 1] = 1;
    SimLayout like = *call->inputs[0];
    like.shape = shape;
    const SimLayout *inputs[] = {&like};
    SimLayout out = sim_layout_pointwise(inputs, 1, call->inputs[0]->dtype);
    sim_operator_describe_output(call, &out);
    sim_operator_describe_kernel(call, SIM_OPERATOR_MEAN, 1, 1);
}

/* grad.expand(input) / n: as large as the input. */
static void describe_mean_grad(SimOperatorCall *call)
{
    SimLayout expanded = sim_layout_expand(call->inputs[0], &call->like->shape);
    const SimLayout *inputs[] = {&expanded};
    SimLayout out = sim_layout_pointwise(inputs, 1, expanded.dtype);
    sim_operator_describe_output(call, &out);
    SimOperatorKernel *kernel = sim_operator_describe_kernel(call, SIM_OPERATOR_MEAN_GRAD, 0, 1);
    kernel->reads = 1;
    kernel->hbm_bytes *= 2;
}

SimDtype sim_operator_describe_dtype(const SimOperatorCall *call)
{
    SimDtype dtype = call->attributes->dtype;
    return dtype == SIM_DTYPE_NONE ? call->setting->compute_dtype : dtype;
}

/* A second input is only asked for its type (type_as). */
static void describe_cast(SimOperatorCall *call)
{
    SimDtype dtype = call->like != NULL    ? call->like->dtype
                     : call->n_inputs == 2 ? call->inputs[1]->dtype
                                           : sim_operator_describe_dtype(call);
    call->n_inputs = 1;
    if (dtype == call->inputs[0]->dtype) {
        call->is_same = true;
        sim_operator_describe_view(call, call->inputs[0], 0);
        return;
    }
    describe_pointwise(call, dtype);
}

/* The mask first, one byte an element, then the result (aten/src/ATen/native/cuda/Dropout.cu). */
static void describe_dropout(SimOperatorCall *call)
{
    SimLayout mask = sim_layout_pointwise(call->inputs, 1, SIM_DTYPE_U8);
    SimLayout out = sim_layout_pointwise(call->inputs, 1, call->inputs[0]->dtype);
    sim_operator_describe_output(call, &mask);
    sim_operator_describe_output(call, &out);
    sim_operator_describe_kernel(call, SIM_OPERATOR_DROPOUT, 1, 3);
}

/* Without dimensions given: one for each token of a sample, I64. */
static void describe_arange(SimOperatorCall *call)
{
    const SimAttributes *attributes = call->attributes;
    bool is_given = attributes->n_dims > 0;
    SimShape shape = {.dims = {call->setting->sequence}, .n_dims = 1};
    if (is_given)
        shape = sim_operator_describe_shape(call);
    SimDtype dtype = attributes->dtype != SIM_DTYPE_NONE ? attributes->dtype : SIM_DTYPE_I64;
    SimLayout out = sim_layout_contiguous(&shape, dtype);
    sim_operator_describe_output(call, &out);
    sim_operator_describe_kernel(call, SIM_OPERATOR_ARANGE, 0, 1);
}

/* ones_like(input), or a new tensor of the shape given. */
static void describe_fill(SimOperatorCall *call)
{
    SimLayout out;
    if (call->n_inputs > 0) {
        out = *call->inputs[0];
    } else {
        SimShape shape = sim_operator_describe_shape(call);
        out = sim_layout_contiguous(&shape, sim_operator_describe_dtype(call));
    }
    sim_operator_describe_output(call, &out);
    sim_operator_describe_kernel(call, SIM_OPERATOR_FILL, 0, 1);
}

bool sim_operator_describe_pointwise(SimOperatorCall *call)
{
    switch (call->operator_) {
    case SIM_OPERATOR_ADD:
    case SIM_OPERATOR_MUL:
    case SIM_OPERATOR_MUL_COMPLEX:
    case SIM_OPERATOR_DIV:
    case SIM_OPERATOR_SILU_GRAD:
    case SIM_OPERATOR_TANH_GRAD:
    case SIM_OPERATOR_GELU_GRAD:
        describe_pointwise(call, sim_operator_describe_promoted(call));
        return true;
    case SIM_OPERATOR_ADD_SCALAR:
    case SIM_OPERATOR_MUL_SCALAR:
    case SIM_OPERATOR_CONJ:
    case SIM_OPERATOR_RECIPROCAL:
    case SIM_OPERATOR_FLOOR_DIVIDE:
    case SIM_OPERATOR_NEG:
    case SIM_OPERATOR_POW:
    case SIM_OPERATOR_RSQRT:
    case SIM_OPERATOR_COS:
    case SIM_OPERATOR_SIN:
    case SIM_OPERATOR_TANH:
    case SIM_OPERATOR_SILU:
    case SIM_OPERATOR_GELU:
    case SIM_OPERATOR_DROPOUT_GRAD:
        describe_pointwise(call, call->inputs[0]->dtype);
        return true;
    case SIM_OPERATOR_CAST:
        describe_cast(call);
        return true;
    case SIM_OPERATOR_SUM:
        describe_sum(call);
        return true;
    case SIM_OPERATOR_MEAN:
        describe_mean(call);
        return true;
    case SIM_OPERATOR_MEAN_GRAD:
        describe_mean_grad(call);
        return true;
    case SIM_OPERATOR_DROPOUT:
        describe_dropout(call);
        return true;
    case SIM_OPERATOR_ARANGE:
        describe_arange(call);
        return true;
    case SIM_OPERATOR_FILL:
        describe_fill(call);
        return true;
    default:
        return false;
    }
}
