/* SPDX-License-Identifier: Apache-2.0
 *
 * Normalisations over the last dimension, of which the weight is a vector.
 */
#include "executor/compute_private.h"

#include <math.h>

#include "executor/arguments.h"

/* x, weight [, bias] -> y [, mean], reciprocal of the deviation. */
static bool run_forward(const SimComputeCall *call, bool is_centred, GError **error)
{
    uint32_t n_in = is_centred ? 3 : 2;
    if (!sim_compute_expect(call, n_in, n_in, error) ||
        !sim_compute_expect_same(call, &call->in[0], &call->out[0], error))
        return false;
    uint64_t n = sim_operand_elements(&call->in[1]);
    uint64_t rows = sim_operand_elements(&call->in[0]) / n;
    double eps = sim_arguments_number(call->arguments, "eps", 1e-5);
    g_autofree float *x = sim_operand_load(&call->in[0]);
    g_autofree float *w = sim_operand_load(&call->in[1]);
    g_autofree float *bias = is_centred ? sim_operand_load(&call->in[2]) : g_new0(float, n);
    g_autofree float *means = g_new0(float, rows + 1);
    g_autofree float *scales = g_new(float, rows + 1);
    for (uint64_t row = 0; row < rows; row++) {
        float *values = x + row * n;
        double mean = 0, square = 0;
        for (uint64_t i = 0; is_centred && i < n; i++)
            mean += values[i];
        mean /= (double)n;
        for (uint64_t i = 0; i < n; i++)
            square += (values[i] - mean) * (values[i] - mean);
        double scale = 1 / sqrt(square / (double)n + eps);
        for (uint64_t i = 0; i < n; i++)
            values[i] = (float)((values[i] - mean) * scale) * w[i] + bias[i];
        means[row] = (float)mean;
        scales[row] = (float)scale;
    }
    sim_operand_store(&call->out[0], x);
    if (is_centred)
        sim_operand_store(&call->out[1], means);
    sim_operand_store(&call->out[n_in - 1], scales);
    return true;
}

bool sim_compute_rms_norm(const SimComputeCall *call, GError **error)
{
    return run_forward(call, false, error);
}

bool sim_compute_layer_norm(const SimComputeCall *call, GError **error)
{
    return run_forward(call, true, error);
}

/* What both gradients read: gradient, x [, mean], scale; x is normalised in place. */
typedef struct Operands {
    float *g, *x;
    float *scales;
    uint64_t rows, n;
} Operands;

static void load(const SimComputeCall *call, bool is_centred, Operands *o)
{
    o->n = call->in[1].dims[call->in[1].n_dims - 1];
    o->rows = sim_operand_elements(&call->in[1]) / o->n;
    o->g = sim_operand_load(&call->in[0]);
    o->x = sim_operand_load(&call->in[1]);
    g_autofree float *means =
        is_centred ? sim_operand_load(&call->in[2]) : g_new0(float, o->rows + 1);
    o->scales = sim_operand_load(&call->in[is_centred ? 3 : 2]);
    for (uint64_t row = 0; row < o->rows; row++)
        for (uint64_t i = 0; i < o->n; i++)
            o->x[row * o->n + i] = (o->x[row * o->n + i] - means[row]) * o->scales[row];
}

static void done(Operands *o)
{
    g_free(o->g);
    g_free(o->x);
    g_free(o->scales);
}

/* With h = g w and y normalised: scale (h - [mean h] - y mean(h y)). */
static bool run_grad(const SimComputeCall *call, bool is_centred, GError **error)
{
    if (!sim_compute_expect(call, is_centred ? 6 : 4, 1, error) ||
        !sim_compute_expect_same(call, &call->in[0], &call->in[1], error))
        return false;
    Operands o;
    load(call, is_centred, &o);
    g_autofree float *w = sim_operand_load(&call->in[is_centred ? 4 : 3]);
    for (uint64_t row = 0; row < o.rows; row++) {
        float *g = o.g + row * o.n, *x = o.x + row * o.n;
        double sum = 0, product = 0;
        for (uint64_t i = 0; i < o.n; i++) {
            g[i] *= w[i];
            sum += g[i];
            product += (double)g[i] * x[i];
        }
        double mean = is_centred ? sum / (double)o.n : 0;
        for (uint64_t i = 0; i < o.n; i++)
            g[i] = (float)(o.scales[row] * (g[i] - mean - x[i] * product / (double)o.n));
    }
    sim_operand_store(&call->out[0], o.g);
    done(&o);
    return true;
}

bool sim_compute_rms_norm_grad(const SimComputeCall *call, GError **error)
{
    return run_grad(call, false, error);
}

bool sim_compute_layer_norm_grad(const SimComputeCall *call, GError **error)
{
    return run_grad(call, true, error);
}

static bool run_grad_weight(const SimComputeCall *call, bool is_centred, GError **error)
{
    if (!sim_compute_expect(call, is_centred ? 4 : 3, is_centred ? 2 : 1, error) ||
        !sim_compute_expect_same(call, &call->in[0], &call->in[1], error))
        return false;
    Operands o;
    load(call, is_centred, &o);
    g_autofree float *weight = g_new(float, o.n);
    g_autofree float *bias = g_new(float, o.n);
    for (uint64_t i = 0; i < o.n; i++) {
        double product = 0, sum = 0;
        for (uint64_t row = 0; row < o.rows; row++) {
            product += (double)o.g[row * o.n + i] * o.x[row * o.n + i];
            sum += o.g[row * o.n + i];
        }
        weight[i] = (float)product;
        bias[i] = (float)sum;
    }
    sim_operand_store(&call->out[0], weight);
    if (is_centred)
        sim_operand_store(&call->out[1], bias);
    done(&o);
    return true;
}

bool sim_compute_rms_norm_grad_weight(const SimComputeCall *call, GError **error)
{
    return run_grad_weight(call, false, error);
}

bool sim_compute_layer_norm_grad_weight(const SimComputeCall *call, GError **error)
{
    return run_grad_weight(call, true, error);
}
