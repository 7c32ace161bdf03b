/* SPDX-License-Identifier: Apache-2.0
 *
 * Between shards and whole tensors: what a rank puts into an all-gather, what it takes out, and
 * what it puts into a reduce-scatter. Parts of equal size, one a rank of the group.
 */
#include <math.h>
#include <string.h>

#include "base/error.h"
#include "executor/arguments.h"
#include "executor/compute_private.h"

static bool fail_size(const SimComputeCall *call, uint64_t expected, uint64_t found, GError **error)
{
    g_set_error(error, SIM_ERROR, SIM_ERROR_RANGE,
                "%s: expected %" G_GUINT64_FORMAT " B, found %" G_GUINT64_FORMAT,
                call->operator_name, expected, found);
    return false;
}

static uint64_t count_bytes(const SimOperand *operands, uint32_t n)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < n; i++)
        bytes += operands[i].bytes;
    return bytes;
}

/* All reads behind each other. */
bool sim_compute_copy_in(const SimComputeCall *call, GError **error)
{
    if (!sim_compute_expect(call, call->n_in, 1, error))
        return false;
    uint64_t bytes = count_bytes(call->in, call->n_in);
    if (bytes != call->out[0].bytes)
        return fail_size(call, call->out[0].bytes, bytes, error);
    unsigned char *out = call->out[0].data;
    for (uint32_t i = 0; i < call->n_in; i++) {
        memcpy(out, call->in[i].data, call->in[i].bytes);
        out += call->in[i].bytes;
    }
    return true;
}

/* A part a rank, in each a shard of every output -> the outputs whole. */
bool sim_compute_copy_out(const SimComputeCall *call, GError **error)
{
    if (!sim_compute_expect(call, 1, call->n_out, error))
        return false;
    uint64_t bytes = count_bytes(call->out, call->n_out);
    if (bytes != call->in[0].bytes)
        return fail_size(call, call->in[0].bytes, bytes, error);
    const unsigned char *in = call->in[0].data;
    for (uint32_t rank = 0; rank < call->members; rank++)
        for (uint32_t i = 0; i < call->n_out; i++) {
            uint64_t shard = call->out[i].bytes / call->members;
            memcpy(call->out[i].data + rank * shard, in, shard);
            in += shard;
        }
    return true;
}

/* Whole gradients -> a part a rank, in each that rank's rows of every gradient, filled up with
 * zeros to the rows of the first rank (torch.chunk), in the type of the output. */
bool sim_compute_chunk_cat(const SimComputeCall *call, GError **error)
{
    if (!sim_compute_expect(call, call->n_in, 1, error))
        return false;
    const SimOperand *out = &call->out[0];
    uint32_t size = sim_dtype_bytes(out->dtype);
    unsigned char *to = out->data, *end = to + out->bytes;
    for (uint32_t rank = 0; rank < call->members; rank++)
        for (uint32_t i = 0; i < call->n_in; i++) {
            const SimOperand *in = &call->in[i];
            uint64_t elements = sim_operand_elements(in);
            uint64_t rows = in->dims[0], row = elements / MAX(rows, 1);
            uint64_t shard_rows = (rows + call->members - 1) / call->members;
            uint64_t first = MIN(rank * shard_rows, rows);
            uint64_t own = MIN(shard_rows, rows - first) * row, all = shard_rows * row;
            if (to + all * size > end)
                return fail_size(call, out->bytes, count_bytes(call->in, call->n_in), error);
            g_autofree float *values = g_new0(float, all + 1);
            sim_operand_widen(in->data + first * row * sim_dtype_bytes(in->dtype), in->dtype, own,
                              values);
            sim_operand_round(values, all, out->dtype, to);
            to += all * size;
        }
    return to == end || fail_size(call, out->bytes, (uint64_t)(to - out->data), error);
}

/* Elements of all reads, behind each other, into the writes, behind each other. */
static bool convert(const SimComputeCall *call, GError **error)
{
    uint64_t in_elements = 0, out_elements = 0;
    for (uint32_t i = 0; i < call->n_in; i++)
        in_elements += sim_operand_elements(&call->in[i]);
    for (uint32_t i = 0; i < call->n_out; i++)
        out_elements += call->out[i].bytes / sim_dtype_bytes(call->out[i].dtype);
    if (in_elements > out_elements || call->n_out == 0)
        return fail_size(call, out_elements, in_elements, error);
    g_autofree float *values = g_new0(float, out_elements + 1);
    float *at = values;
    for (uint32_t i = 0; i < call->n_in; i++) {
        g_autofree float *loaded = sim_operand_load(&call->in[i]);
        memcpy(at, loaded, sim_operand_elements(&call->in[i]) * sizeof *at);
        at += sim_operand_elements(&call->in[i]);
    }
    at = values;
    for (uint32_t i = 0; i < call->n_out; i++) {
        uint64_t n = call->out[i].bytes / sim_dtype_bytes(call->out[i].dtype);
        sim_operand_round(at, n, call->out[i].dtype, call->out[i].data);
        at += n;
    }
    return true;
}

/* One tensor, or lists of them. */
bool sim_compute_cast(const SimComputeCall *call, GError **error)
{
    if (!call->is_described)
        return convert(call, error);
    g_autofree float *values = sim_operand_load_as(&call->in[0], &call->out[0]);
    sim_operand_store(&call->out[0], values);
    return true;
}

bool sim_compute_copy(const SimComputeCall *call, GError **error)
{
    return convert(call, error);
}

bool sim_compute_zeros(const SimComputeCall *call, GError **error)
{
    (void)error;
    for (uint32_t i = 0; i < call->n_out; i++)
        memset(call->out[i].data, 0, call->out[i].bytes);
    return true;
}

/* Tokens of the rank's samples: element i belongs to global sample rank * batch + i / sequence. */
static void fill_tokens(const SimComputeCall *call, const char *name, uint64_t seed, uint64_t below)
{
    const SimOperand *out = &call->out[0];
    uint64_t n = sim_operand_elements(out), sequence = out->n_dims > 1 ? out->dims[1] : 1;
    uint64_t batch = n / sequence;
    g_autofree char *key = g_strdup_printf("%s step %d microbatch %d", name, MAX(call->step, 0),
                                           MAX(call->microbatch, 0));
    g_autofree int64_t *tokens = g_new(int64_t, n + 1);
    for (uint64_t i = 0; i < n; i++) {
        uint64_t sample = call->rank * batch + i / sequence;
        double value = sim_compute_value(seed, key, sample * sequence + i % sequence);
        tokens[i] = (int64_t)(value * (double)below);
    }
    sim_operand_store_integers(out, tokens);
}

/* Rotations by position times frequency, [S, D / 2] complex, or the frequencies [D / 2]. */
static void fill_rotary(const SimComputeCall *call, double base)
{
    const SimOperand *out = &call->out[0];
    uint64_t pairs = out->dims[out->n_dims - 1], n = sim_operand_elements(out);
    bool is_complex = out->dtype == SIM_DTYPE_C64;
    g_autofree float *values = g_new(float, 2 * n + 1);
    for (uint64_t i = 0; i < n; i++) {
        double frequency = pow(base, -(double)(i % pairs) / (double)pairs);
        double angle = frequency * (double)(i / pairs);
        if (is_complex) {
            values[2 * i] = (float)cos(angle);
            values[2 * i + 1] = (float)sin(angle);
        } else {
            values[i] = (float)frequency;
        }
    }
    sim_operand_store(out, values);
}

/* N elements of the parameter NAME from FIRST on. Matrices get values around 0 that keep a
 * product's size, vectors values around 1. */
static void fill_parameter(const char *name, uint64_t seed, uint64_t first, uint64_t n,
                           bool is_matrix, uint64_t columns, float *values)
{
    double middle = is_matrix ? 0 : 1;
    double spread = is_matrix ? sqrt(3.0 / (double)columns) : 0.1;
    for (uint64_t i = 0; i < n; i++)
        values[i] = (float)(middle + spread * (2 * sim_compute_value(seed, name, first + i) - 1));
}

/* Of the vector whose parts TEXT describes, "NAME@OFFSET:SHAPE;...", the N elements from FIRST on;
 * nothing lies between the parts but zeros. */
static void fill_parts(const char *text, uint64_t seed, uint64_t first, uint64_t n, float *values)
{
    g_auto(GStrv) parts = g_strsplit(text, ";", -1);
    for (uint32_t i = 0; parts[i] != NULL; i++) {
        SimComputePart part;
        if (!sim_compute_parse_part(parts[i], &part))
            continue;
        uint64_t begin = MAX(first, part.offset);
        uint64_t end = MIN(first + n, part.offset + part.elements);
        if (begin < end)
            fill_parameter(parts[i], seed, begin - part.offset, end - begin, part.is_matrix,
                           part.columns, values + (begin - first));
    }
}

/* A shard: element i of the rank at place p is element p * n + i of the whole, a parameter or, for
 * FSDP1, several of them behind each other. */
static void fill_shard(const SimComputeCall *call, const char *name, uint64_t seed)
{
    const SimOperand *out = &call->out[0];
    uint64_t n = out->bytes / sim_dtype_bytes(out->dtype);
    g_autofree char *parts = sim_arguments_text(call->arguments, "parts");
    g_autofree float *values = g_new0(float, n + 1);
    if (parts != NULL)
        fill_parts(parts, seed, call->place * n, n, values);
    else
        fill_parameter(name, seed, call->place * n, n, out->n_dims > 1, out->dims[out->n_dims - 1],
                       values);
    sim_operand_round(values, n, out->dtype, out->data);
}

/* With a name: values of a parameter or tokens; with `value`: that, everywhere; without an operand
 * it clears what no one reads. */
bool sim_compute_fill(const SimComputeCall *call, GError **error)
{
    if (call->n_out == 0)
        return true;
    if (!sim_compute_expect(call, 0, 1, error))
        return false;
    const SimOperand *out = &call->out[0];
    g_autofree char *name = sim_arguments_text(call->arguments, "name");
    uint64_t seed = (uint64_t)sim_arguments_number(call->arguments, "seed", 0);
    double below = sim_arguments_number(call->arguments, "below", 0);
    double base = sim_arguments_number(call->arguments, "rotations", 0) +
                  sim_arguments_number(call->arguments, "frequencies", 0);
    if (below > 0 && name != NULL) {
        fill_tokens(call, name, seed, (uint64_t)below);
    } else if (base > 0) {
        fill_rotary(call, base);
    } else if (name != NULL) {
        fill_shard(call, name, seed);
    } else {
        double value = sim_arguments_number(call->arguments, "value", 0);
        uint64_t n = sim_operand_elements(out) * sim_operand_width(out);
        g_autofree float *values = g_new(float, n + 1);
        g_autofree int64_t *integers = g_new(int64_t, n + 1);
        for (uint64_t i = 0; i < n; i++) {
            values[i] = (float)value;
            integers[i] = (int64_t)value;
        }
        if (out->dtype == SIM_DTYPE_I64)
            sim_operand_store_integers(out, integers);
        else
            sim_operand_store(out, values);
    }
    return true;
}
