/* SPDX-License-Identifier: Apache-2.0
 *
 * An element for each (broadcast) element of the operands. Gradients take the gradient first.
 */
#include "executor/compute_private.h"

#include <math.h>

#include "executor/arguments.h"

typedef float (*UnaryFunc)(float x, float scalar);
typedef float (*BinaryFunc)(float a, float b);

static bool run_unary(const SimComputeCall *call, UnaryFunc function, float scalar, GError **error)
{
    if (!sim_compute_expect(call, 1, 1, error))
        return false;
    const SimOperand *out = &call->out[0];
    g_autofree float *values = sim_operand_load_as(&call->in[0], out);
    uint64_t n = sim_operand_elements(out) * sim_operand_width(out);
    for (uint64_t i = 0; i < n; i++)
        values[i] = function(values[i], scalar);
    sim_operand_store(out, values);
    return true;
}

static bool run_binary(const SimComputeCall *call, BinaryFunc function, GError **error)
{
    if (!sim_compute_expect(call, 2, 1, error))
        return false;
    const SimOperand *out = &call->out[0];
    g_autofree float *a = sim_operand_load_as(&call->in[0], out);
    g_autofree float *b = sim_operand_load_as(&call->in[1], out);
    uint64_t n = sim_operand_elements(out) * sim_operand_width(out);
    for (uint64_t i = 0; i < n; i++)
        a[i] = function(a[i], b[i]);
    sim_operand_store(out, a);
    return true;
}

static float scalar_of(const SimComputeCall *call, float fallback)
{
    return (float)sim_arguments_number(call->arguments, "scalar", fallback);
}

#define UNARY(name, scalar, expression)                                                            \
    static float name##_value(float x, float s)                                                    \
    {                                                                                              \
        (void)s;                                                                                   \
        return (expression);                                                                       \
    }                                                                                              \
    bool sim_compute_##name(const SimComputeCall *call, GError **error)                            \
    {                                                                                              \
        return run_unary(call, name##_value, scalar, error);                                       \
    }

#define BINARY(name, expression)                                                                   \
    static float name##_value(float a, float b)                                                    \
    {                                                                                              \
        return (expression);                                                                       \
    }                                                                                              \
    bool sim_compute_##name(const SimComputeCall *call, GError **error)                            \
    {                                                                                              \
        return run_binary(call, name##_value, error);                                              \
    }

static float gelu_derivative(float x)
{
    const float root_half = 0.70710678118654752F, normal = 0.39894228040143268F;
    return 0.5F * (1 + erff(x * root_half)) + x * normal * expf(-0.5F * x * x);
}

static float silu_derivative(float x)
{
    float sigmoid = 1 / (1 + expf(-x));
    return sigmoid * (1 + x * (1 - sigmoid));
}

UNARY(add_scalar, scalar_of(call, 0), x + s)
UNARY(mul_scalar, scalar_of(call, 1), x *s)
UNARY(pow, scalar_of(call, 2), s == 2 ? x * x : powf(x, s))
UNARY(neg, 0, -x)
UNARY(rsqrt, 0, 1 / sqrtf(x))
UNARY(sqrt, 0, sqrtf(x))
UNARY(reciprocal, 0, 1 / x)
UNARY(clamp, (float)sim_arguments_number(call->arguments, "max", 1), x > s ? s : x)
UNARY(cos, 0, cosf(x))
UNARY(sin, 0, sinf(x))
UNARY(tanh, 0, tanhf(x))
UNARY(silu, 0, x / (1 + expf(-x)))
UNARY(gelu, 0, 0.5F * x * (1 + erff(x * 0.70710678118654752F)))
UNARY(clone, 0, x)
UNARY(divide, (float)sim_arguments_number(call->arguments, "factor", 1), x / s)

BINARY(silu_grad, a *silu_derivative(b))
BINARY(gelu_grad, a *gelu_derivative(b))
BINARY(tanh_grad, a *(1 - b * b))
BINARY(accumulate, a + b)

static float sum_of(float a, float b)
{
    return a + b;
}

static float product_of(float a, float b)
{
    return a * b;
}

/* Two tensors, or one and `scalar` (clipping). */
bool sim_compute_add(const SimComputeCall *call, GError **error)
{
    return call->n_in == 1 ? run_unary(call, add_scalar_value, scalar_of(call, 0), error)
                           : run_binary(call, sum_of, error);
}

bool sim_compute_mul(const SimComputeCall *call, GError **error)
{
    return call->n_in == 1 ? run_unary(call, mul_scalar_value, scalar_of(call, 1), error)
                           : run_binary(call, product_of, error);
}

bool sim_compute_conj(const SimComputeCall *call, GError **error)
{
    if (!sim_compute_expect(call, 1, 1, error))
        return false;
    g_autofree float *values = sim_operand_load_as(&call->in[0], &call->out[0]);
    uint64_t n = sim_operand_elements(&call->out[0]);
    for (uint64_t i = 0; i < n; i++)
        values[2 * i + 1] = -values[2 * i + 1];
    sim_operand_store(&call->out[0], values);
    return true;
}

bool sim_compute_mul_complex(const SimComputeCall *call, GError **error)
{
    if (!sim_compute_expect(call, 2, 1, error))
        return false;
    g_autofree float *a = sim_operand_load_as(&call->in[0], &call->out[0]);
    g_autofree float *b = sim_operand_load_as(&call->in[1], &call->out[0]);
    uint64_t n = sim_operand_elements(&call->out[0]);
    for (uint64_t i = 0; i < n; i++) {
        float re = a[2 * i] * b[2 * i] - a[2 * i + 1] * b[2 * i + 1];
        a[2 * i + 1] = a[2 * i] * b[2 * i + 1] + a[2 * i + 1] * b[2 * i];
        a[2 * i] = re;
    }
    sim_operand_store(&call->out[0], a);
    return true;
}
