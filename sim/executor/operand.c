/* SPDX-License-Identifier: Apache-2.0 */
#include "executor/operand.h"

#include <string.h>

#include "base/error.h"

uint64_t sim_operand_elements(const SimOperand *operand)
{
    uint64_t elements = 1;
    for (uint32_t i = 0; i < operand->n_dims; i++)
        elements *= operand->dims[i];
    return elements;
}

uint32_t sim_operand_width(const SimOperand *operand)
{
    return operand->dtype == SIM_DTYPE_C64 ? 2 : 1;
}

static void make_dense(SimOperand *operand)
{
    uint64_t stride = 1;
    for (uint32_t i = operand->n_dims; i-- > 0;) {
        operand->strides[i] = stride;
        stride *= operand->dims[i];
    }
}

bool sim_operand_is_dense(const SimOperand *operand)
{
    uint64_t stride = 1;
    for (uint32_t i = operand->n_dims; i-- > 0;) {
        if (operand->dims[i] != 1 && operand->strides[i] != stride)
            return false;
        stride *= operand->dims[i];
    }
    return true;
}

/* "2x3x4" at *AT up to END. */
static uint32_t parse_list(const char **at, const char *end, uint64_t *numbers)
{
    uint32_t n = 0;
    while (*at < end && g_ascii_isdigit(**at) && n < SIM_OPERAND_MAX_DIMS) {
        char *next;
        numbers[n++] = g_ascii_strtoull(*at, &next, 10);
        *at = next;
        if (*at < end && **at == 'x')
            (*at)++;
    }
    return n;
}

static bool is_inside(const SimOperand *operand)
{
    if (sim_operand_elements(operand) == 0)
        return true;
    uint64_t last = 0;
    for (uint32_t i = 0; i < operand->n_dims; i++)
        last += (operand->dims[i] - 1) * operand->strides[i];
    uint64_t before = (uint64_t)(operand->data - operand->start);
    return before + (last + 1) * sim_dtype_bytes(operand->dtype) <= operand->bytes;
}

bool sim_operand_parse(SimOperand *operand, const char *text, size_t length, GError **error)
{
    const char *at = text, *end = text + length;
    uint64_t offset = 0;
    operand->n_dims = parse_list(&at, end, operand->dims);
    make_dense(operand);
    bool is_sound = true;
    if (at < end && *at == '/') {
        at++;
        is_sound = parse_list(&at, end, operand->strides) == operand->n_dims;
    }
    if (at < end && *at == '@') {
        char *next;
        offset = g_ascii_strtoull(at + 1, &next, 10);
        at = next;
    }
    is_sound = is_sound && at < end && *at == ':';
    g_autofree char *name = is_sound ? g_strndup(at + 1, (size_t)(end - at - 1)) : g_strdup("");
    if (!is_sound) {
        g_set_error(error, SIM_ERROR, SIM_ERROR_PARSE,
                    "expected an operand like 1x64x256/16384x256x1@0:f32, found '%.*s'",
                    (int)length, text);
        return false;
    }
    if (!sim_dtype_parse(name, "operand", &operand->dtype, error))
        return false;
    operand->data = operand->start + offset * sim_dtype_bytes(operand->dtype);
    if (!is_inside(operand)) {
        g_set_error(error, SIM_ERROR, SIM_ERROR_RANGE,
                    "operand %.*s does not fit in %" G_GUINT64_FORMAT " B", (int)length, text,
                    operand->bytes);
        return false;
    }
    return true;
}

void sim_operand_set_shape(SimOperand *operand, const char *shape, SimDtype dtype)
{
    operand->dtype = dtype != SIM_DTYPE_NONE ? dtype : SIM_DTYPE_U8;
    operand->data = operand->start;
    const char *at = shape;
    operand->n_dims = parse_list(&at, shape + strlen(shape), operand->dims);
    make_dense(operand);
    uint64_t elements = operand->bytes / sim_dtype_bytes(operand->dtype);
    if (operand->n_dims > 0 && sim_operand_elements(operand) <= elements)
        return;
    operand->n_dims = 1;
    operand->dims[0] = elements;
    operand->strides[0] = 1;
}

/* --- elements ----------------------------------------------------------------------------------
 */

static float widen_half(uint16_t half)
{
    uint32_t sign = (uint32_t)(half & 0x8000) << 16, exponent = half >> 10 & 0x1f;
    uint32_t mantissa = half & 0x3ff, bits;
    if (exponent == 0x1f) {
        bits = sign | 0x7f800000 | mantissa << 13;
    } else if (exponent != 0) {
        bits = sign | (exponent + 112) << 23 | mantissa << 13;
    } else {
        float small = (float)mantissa * 0x1p-24F;
        return sign != 0 ? -small : small;
    }
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static uint16_t round_to_half(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    uint32_t sign = bits >> 16 & 0x8000, magnitude = bits & 0x7fffffff;
    if (magnitude > 0x7f800000)
        return (uint16_t)(sign | 0x7e00);
    if (magnitude >= 0x477ff000) /* 65520 rounds to infinity */
        return (uint16_t)(sign | 0x7c00);
    if (magnitude < 0x38800000) { /* below 2^-14: a multiple of 2^-24 */
        float small;
        memcpy(&small, &magnitude, sizeof small);
        /* The addition rounds at the last bit of a half. */
        float shifted = small + 0.5F;
        uint32_t shifted_bits;
        memcpy(&shifted_bits, &shifted, sizeof shifted_bits);
        return (uint16_t)(sign | (shifted_bits - 0x3f000000));
    }
    uint32_t odd = magnitude >> 13 & 1;
    return (uint16_t)(sign | (magnitude - (112U << 23) + 0xfff + odd) >> 13);
}

static uint16_t round_to_bf16(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    if ((bits & 0x7fffffff) > 0x7f800000)
        return (uint16_t)(bits >> 16 | 0x40);
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

void sim_operand_widen(const void *in, SimDtype from, uint64_t n, float *out)
{
    const uint16_t *halves = in;
    const int64_t *integers = in;
    const unsigned char *bytes = in;
    for (uint64_t i = 0; from == SIM_DTYPE_BF16 && i < n; i++) {
        uint32_t bits = (uint32_t)halves[i] << 16;
        memcpy(&out[i], &bits, sizeof bits);
    }
    for (uint64_t i = 0; from == SIM_DTYPE_F16 && i < n; i++)
        out[i] = widen_half(halves[i]);
    for (uint64_t i = 0; from == SIM_DTYPE_I64 && i < n; i++)
        out[i] = (float)integers[i];
    for (uint64_t i = 0; from == SIM_DTYPE_U8 && i < n; i++)
        out[i] = bytes[i];
    if (from == SIM_DTYPE_F32 || from == SIM_DTYPE_C64)
        memcpy(out, in, n * sim_dtype_bytes(from));
}

void sim_operand_round(const float *in, uint64_t n, SimDtype to, void *out)
{
    uint16_t *halves = out;
    int64_t *integers = out;
    unsigned char *bytes = out;
    for (uint64_t i = 0; to == SIM_DTYPE_BF16 && i < n; i++)
        halves[i] = round_to_bf16(in[i]);
    for (uint64_t i = 0; to == SIM_DTYPE_F16 && i < n; i++)
        halves[i] = round_to_half(in[i]);
    for (uint64_t i = 0; to == SIM_DTYPE_I64 && i < n; i++)
        integers[i] = (int64_t)in[i];
    for (uint64_t i = 0; to == SIM_DTYPE_U8 && i < n; i++)
        bytes[i] = (unsigned char)in[i];
    if (to == SIM_DTYPE_F32 || to == SIM_DTYPE_C64)
        memcpy(out, in, n * sim_dtype_bytes(to));
}

/* --- strided access ----------------------------------------------------------------------------
 * A row is the last dimension; a walk visits the rows in logical order.
 */
typedef struct Walk {
    uint64_t index[SIM_OPERAND_MAX_DIMS];
    uint64_t rows, length, stride; /* of a row, and between its elements */
} Walk;

static Walk start_walk(const SimOperand *operand)
{
    Walk walk = {.rows = 1, .length = 1, .stride = 1};
    if (operand->n_dims == 0)
        return walk;
    walk.length = operand->dims[operand->n_dims - 1];
    walk.stride = operand->strides[operand->n_dims - 1];
    for (uint32_t i = 0; i + 1 < operand->n_dims; i++)
        walk.rows *= operand->dims[i];
    return walk;
}

/* Where the row begins, in elements; goes on to the next. */
static uint64_t next_row(const SimOperand *operand, Walk *walk)
{
    uint64_t offset = 0;
    for (uint32_t i = 0; i + 1 < operand->n_dims; i++)
        offset += walk->index[i] * operand->strides[i];
    for (uint32_t i = operand->n_dims; i-- > 1;) {
        if (++walk->index[i - 1] < operand->dims[i - 1])
            break;
        walk->index[i - 1] = 0;
    }
    return offset;
}

static float *load(const SimOperand *operand)
{
    uint32_t width = sim_operand_width(operand), size = sim_dtype_bytes(operand->dtype);
    float *values = g_new(float, sim_operand_elements(operand) * width + 1);
    if (sim_operand_is_dense(operand)) {
        sim_operand_widen(operand->data, operand->dtype, sim_operand_elements(operand), values);
        return values;
    }
    Walk walk = start_walk(operand);
    float *out = values;
    for (uint64_t row = 0; row < walk.rows; row++) {
        const unsigned char *in = operand->data + next_row(operand, &walk) * size;
        if (walk.stride == 1) {
            sim_operand_widen(in, operand->dtype, walk.length, out);
            out += walk.length * width;
            continue;
        }
        for (uint64_t i = 0; i < walk.length; i++, out += width)
            sim_operand_widen(in + i * walk.stride * size, operand->dtype, 1, out);
    }
    return values;
}

float *sim_operand_load(const SimOperand *operand)
{
    return load(operand);
}

float *sim_operand_load_as(const SimOperand *operand, const SimOperand *like)
{
    SimOperand wide = *operand;
    wide.n_dims = MAX(like->n_dims, operand->n_dims);
    uint32_t shift = wide.n_dims - operand->n_dims, like_shift = wide.n_dims - like->n_dims;
    for (uint32_t i = wide.n_dims; i-- > 0;) {
        uint64_t own = i >= shift ? operand->dims[i - shift] : 1;
        uint64_t wanted = i >= like_shift ? like->dims[i - like_shift] : 1;
        wide.dims[i] = own == 1 ? wanted : own;
        wide.strides[i] = own == 1 ? 0 : operand->strides[i - shift];
    }
    return load(&wide);
}

void sim_operand_store(const SimOperand *operand, const float *values)
{
    uint32_t width = sim_operand_width(operand), size = sim_dtype_bytes(operand->dtype);
    if (sim_operand_is_dense(operand)) {
        sim_operand_round(values, sim_operand_elements(operand), operand->dtype, operand->data);
        return;
    }
    Walk walk = start_walk(operand);
    for (uint64_t row = 0; row < walk.rows; row++) {
        unsigned char *out = operand->data + next_row(operand, &walk) * size;
        for (uint64_t i = 0; i < walk.length; i++, values += width)
            sim_operand_round(values, 1, operand->dtype, out + i * walk.stride * size);
    }
}

int64_t *sim_operand_load_integers(const SimOperand *operand)
{
    uint32_t size = sim_dtype_bytes(operand->dtype);
    int64_t *values = g_new(int64_t, sim_operand_elements(operand) + 1), *out = values;
    Walk walk = start_walk(operand);
    for (uint64_t row = 0; row < walk.rows; row++) {
        const unsigned char *in = operand->data + next_row(operand, &walk) * size;
        for (uint64_t i = 0; i < walk.length; i++, out++) {
            *out = 0;
            if (operand->dtype == SIM_DTYPE_I64)
                memcpy(out, in + i * walk.stride * size, sizeof *out);
            else
                *out = in[i * walk.stride * size];
        }
    }
    return values;
}

void sim_operand_store_integers(const SimOperand *operand, const int64_t *values)
{
    uint32_t size = sim_dtype_bytes(operand->dtype);
    Walk walk = start_walk(operand);
    for (uint64_t row = 0; row < walk.rows; row++) {
        unsigned char *out = operand->data + next_row(operand, &walk) * size;
        for (uint64_t i = 0; i < walk.length; i++, values++) {
            unsigned char byte = (unsigned char)*values;
            memcpy(out + i * walk.stride * size, size == 1 ? (const void *)&byte : values, size);
        }
    }
}
