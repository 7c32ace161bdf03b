/* SPDX-License-Identifier: Apache-2.0
 *
 * Reductions, and operators that move elements.
 */
#include <string.h>

#include "base/error.h"
#include "executor/arguments.h"
#include "executor/compute_private.h"

/* Over the last dimension. */
bool sim_compute_mean(const SimComputeCall *call, GError **error)
{
    if (!sim_compute_expect(call, 1, 1, error))
        return false;
    g_autofree float *values = sim_operand_load(&call->in[0]);
    uint64_t rows = sim_operand_elements(&call->out[0]);
    uint64_t n = sim_operand_elements(&call->in[0]) / rows;
    for (uint64_t row = 0; row < rows; row++) {
        double sum = 0;
        for (uint64_t i = 0; i < n; i++)
            sum += values[row * n + i];
        values[row] = (float)(sum / (double)n);
    }
    sim_operand_store(&call->out[0], values);
    return true;
}

bool sim_compute_mean_grad(const SimComputeCall *call, GError **error)
{
    if (!sim_compute_expect(call, 1, 1, error))
        return false;
    g_autofree float *values = sim_operand_load_as(&call->in[0], &call->out[0]);
    uint64_t elements = sim_operand_elements(&call->out[0]);
    float factor = (float)sim_operand_elements(&call->in[0]) / (float)elements;
    for (uint64_t i = 0; i < elements; i++)
        values[i] *= factor;
    sim_operand_store(&call->out[0], values);
    return true;
}

/* Attention's scratch: gradients of keys or values for every query head, [batch, sequence, heads,
 * head_dim], become those of the key heads, [batch, key heads, sequence, head_dim]. */
static bool sum_heads(const SimComputeCall *call, GError **error)
{
    const SimOperand *out = &call->out[0];
    uint64_t groups = out->dims[1], sequence = out->dims[2], dim = out->dims[3];
    SimOperand wide = call->in[0];
    wide.dtype = out->dtype;
    wide.n_dims = 4;
    uint64_t rows = out->dims[0] * sequence * dim * sim_dtype_bytes(out->dtype);
    uint64_t heads = call->in[0].bytes / rows;
    if (heads == 0 || heads % groups != 0) {
        g_set_error(error, SIM_ERROR, SIM_ERROR_RANGE,
                    "sum: %" G_GUINT64_FORMAT " heads for %" G_GUINT64_FORMAT " key heads", heads,
                    groups);
        return false;
    }
    uint64_t n = out->dims[0] * sequence * heads * dim;
    g_autofree float *values = g_new(float, n);
    sim_operand_widen(wide.data, wide.dtype, n, values);
    g_autofree float *sums = g_new0(float, sim_operand_elements(out));
    for (uint64_t i = 0; i < n; i++) {
        uint64_t head = i / dim % heads, token = i / (dim * heads);
        uint64_t b = token / sequence, s = token % sequence;
        sums[((b * groups + head / (heads / groups)) * sequence + s) * dim + i % dim] += values[i];
    }
    sim_operand_store(out, sums);
    return true;
}

/* To the shape of the output: leading dimensions, and those that it has as 1. */
bool sim_compute_sum(const SimComputeCall *call, GError **error)
{
    if (!sim_compute_expect(call, 1, 1, error))
        return false;
    const SimOperand *in = &call->in[0], *out = &call->out[0];
    if (in->dtype == SIM_DTYPE_U8 && out->n_dims == 4)
        return sum_heads(call, error);
    uint64_t n = sim_operand_elements(in), strides[SIM_OPERAND_MAX_DIMS] = {0}, stride = 1;
    uint32_t shift = in->n_dims - out->n_dims;
    for (uint32_t i = out->n_dims; i-- > 0;) {
        strides[i + shift] = out->dims[i] == 1 ? 0 : stride;
        stride *= out->dims[i];
    }
    g_autofree float *values = sim_operand_load(in);
    g_autofree double *sums = g_new0(double, stride);
    for (uint64_t i = 0; i < n; i++) {
        uint64_t rest = i, at = 0;
        for (uint32_t j = in->n_dims; j-- > 0;) {
            at += rest % in->dims[j] * strides[j];
            rest /= in->dims[j];
        }
        sums[at] += values[i];
    }
    for (uint64_t i = 0; i < stride; i++)
        values[i] = (float)sums[i];
    sim_operand_store(out, values);
    return true;
}

/* The part of OPERAND from START on, LENGTH long, along DIM. */
static SimOperand part_of(const SimOperand *operand, uint32_t dim, uint64_t start, uint64_t length)
{
    SimOperand part = *operand;
    part.data += start * operand->strides[dim] * sim_dtype_bytes(operand->dtype);
    part.dims[dim] = length;
    return part;
}

static bool copy_part(const SimComputeCall *call, const SimOperand *from, const SimOperand *to,
                      GError **error)
{
    if (!sim_compute_expect_same(call, from, to, error))
        return false;
    if (from->dtype == SIM_DTYPE_I64) {
        g_autofree int64_t *integers = sim_operand_load_integers(from);
        sim_operand_store_integers(to, integers);
        return true;
    }
    g_autofree float *values = sim_operand_load(from);
    sim_operand_store(to, values);
    return true;
}

static bool check_dim(const SimComputeCall *call, const SimOperand *whole, uint32_t dim,
                      uint64_t end, GError **error)
{
    if (dim < whole->n_dims && end <= whole->dims[dim])
        return true;
    g_set_error(error, SIM_ERROR, SIM_ERROR_RANGE, "%s: dimension %u has no place for the operands",
                call->operator_name, dim);
    return false;
}

/* FSDP2's pieces of a parameter that is cut in another dimension than 0: one piece a rank, each
 * with the parameter's dimensions but a part of DIM. PIECES lies flat, WHOLE has the shape. */
static bool move_pieces(const SimComputeCall *call, bool is_joining, GError **error)
{
    uint32_t dim = (uint32_t)sim_arguments_number(call->arguments, "dim", 0);
    const SimOperand *whole = is_joining ? &call->out[0] : &call->in[0];
    const SimOperand *pieces = is_joining ? &call->in[0] : &call->out[0];
    if (!check_dim(call, whole, dim, 0, error) ||
        !sim_compute_expect_same(call, pieces, whole, error))
        return false;
    SimOperand piece = *whole;
    piece.dtype = pieces->dtype;
    piece.dims[dim] = whole->dims[dim] / call->members;
    uint64_t stride = 1;
    for (uint32_t i = piece.n_dims; i-- > 0;) {
        piece.strides[i] = stride;
        stride *= piece.dims[i];
    }
    for (uint32_t i = 0; i < call->members; i++) {
        SimOperand part = part_of(whole, dim, i * piece.dims[dim], piece.dims[dim]);
        piece.data = pieces->data + i * stride * sim_dtype_bytes(piece.dtype);
        if (!copy_part(call, is_joining ? &piece : &part, is_joining ? &part : &piece, error))
            return false;
    }
    return true;
}

/* FSDP1: vectors behind each other. */
static bool join_flat(const SimComputeCall *call, GError **error)
{
    SimOperand rest = call->out[0];
    rest.n_dims = 1;
    rest.strides[0] = 1;
    uint64_t left = call->out[0].bytes;
    for (uint32_t i = 0; i < call->n_in; i++) {
        rest.dims[0] = sim_operand_elements(&call->in[i]);
        uint64_t bytes = rest.dims[0] * sim_dtype_bytes(rest.dtype);
        if (bytes > left) {
            g_set_error(error, SIM_ERROR, SIM_ERROR_RANGE, "cat: the output is too small");
            return false;
        }
        if (!copy_part(call, &call->in[i], &rest, error))
            return false;
        rest.data += bytes;
        left -= bytes;
    }
    memset(rest.data, 0, left);
    return true;
}

bool sim_compute_cat(const SimComputeCall *call, GError **error)
{
    if (!call->is_described && call->n_out == 1) {
        size_t length;
        bool has_dim = sim_arguments_find(call->arguments, "dim", &length) != NULL;
        return has_dim && call->n_in == 1 ? move_pieces(call, true, error) : join_flat(call, error);
    }
    if (!sim_compute_expect(call, call->n_in, 1, error))
        return false;
    uint32_t dim = (uint32_t)sim_arguments_number(call->arguments, "dim", 0);
    uint64_t start = 0;
    for (uint32_t i = 0; i < call->n_in; i++) {
        if (!check_dim(call, &call->in[i], dim, 0, error) ||
            !check_dim(call, &call->out[0], dim, start + call->in[i].dims[dim], error))
            return false;
        SimOperand part = part_of(&call->out[0], dim, start, call->in[i].dims[dim]);
        if (!copy_part(call, &call->in[i], &part, error))
            return false;
        start += call->in[i].dims[dim];
    }
    return true;
}

bool sim_compute_chunk(const SimComputeCall *call, GError **error)
{
    return sim_compute_expect(call, 1, 1, error) && move_pieces(call, false, error);
}

/* Into zeros. */
bool sim_compute_slice_grad(const SimComputeCall *call, GError **error)
{
    if (!sim_compute_expect(call, 1, 1, error))
        return false;
    uint32_t dim = (uint32_t)sim_arguments_number(call->arguments, "dim", 0);
    uint64_t start = (uint64_t)sim_arguments_number(call->arguments, "start", 0);
    if (!check_dim(call, &call->in[0], dim, 0, error) ||
        !check_dim(call, &call->out[0], dim, start + call->in[0].dims[dim], error))
        return false;
    SimOperand part = part_of(&call->out[0], dim, start, call->in[0].dims[dim]);
    return copy_part(call, &call->in[0], &part, error);
}

/* Into what filled the output, at its beginning, along the last dimension. */
bool sim_compute_pad(const SimComputeCall *call, GError **error)
{
    if (!sim_compute_expect(call, 1, 1, error))
        return false;
    uint32_t dim = call->in[0].n_dims - 1;
    if (!check_dim(call, &call->out[0], dim, call->in[0].dims[dim], error))
        return false;
    SimOperand part = part_of(&call->out[0], dim, 0, call->in[0].dims[dim]);
    return copy_part(call, &call->in[0], &part, error);
}

bool sim_compute_arange(const SimComputeCall *call, GError **error)
{
    if (!sim_compute_expect(call, 0, 1, error))
        return false;
    uint64_t n = sim_operand_elements(&call->out[0]);
    g_autofree int64_t *values = g_new(int64_t, n + 1);
    for (uint64_t i = 0; i < n; i++)
        values[i] = (int64_t)i;
    sim_operand_store_integers(&call->out[0], values);
    return true;
}
