/* SPDX-License-Identifier: Apache-2.0
 *
 * Operators that look things up by token: embedding and cross entropy. A label of -100 does not
 * count (ignore_index of torch.nn.functional.cross_entropy).
 */
#include "executor/compute_private.h"

#include <math.h>

#include "base/error.h"

#define IGNORED (-100)

static bool check_index(const SimComputeCall *call, int64_t index, uint64_t end, GError **error)
{
    if (index >= 0 && (uint64_t)index < end)
        return true;
    g_set_error(error, SIM_ERROR, SIM_ERROR_RANGE,
                "%s: token %" G_GINT64_FORMAT " is outside of 0..%" G_GUINT64_FORMAT,
                call->operator_name, index, end - 1);
    return false;
}

/* weight [V, H], tokens -> [.., H] */
bool sim_compute_embedding(const SimComputeCall *call, GError **error)
{
    if (!sim_compute_expect(call, 2, 1, error))
        return false;
    uint64_t rows = call->in[0].dims[0], width = call->in[0].dims[call->in[0].n_dims - 1];
    uint64_t tokens = sim_operand_elements(&call->in[1]);
    g_autofree float *weight = sim_operand_load(&call->in[0]);
    g_autofree int64_t *indices = sim_operand_load_integers(&call->in[1]);
    g_autofree float *out = g_new(float, tokens *width + 1);
    for (uint64_t t = 0; t < tokens; t++) {
        if (!check_index(call, indices[t], rows, error))
            return false;
        for (uint64_t i = 0; i < width; i++)
            out[t * width + i] = weight[(uint64_t)indices[t] * width + i];
    }
    sim_operand_store(&call->out[0], out);
    return true;
}

/* gradient [.., H], tokens -> added to [V, H], which is zero. */
bool sim_compute_embedding_grad(const SimComputeCall *call, GError **error)
{
    if (!sim_compute_expect(call, 2, 1, error))
        return false;
    uint64_t rows = call->out[0].dims[0], width = call->out[0].dims[1];
    uint64_t tokens = sim_operand_elements(&call->in[1]);
    g_autofree float *g = sim_operand_load(&call->in[0]);
    g_autofree int64_t *indices = sim_operand_load_integers(&call->in[1]);
    g_autofree float *out = sim_operand_load(&call->out[0]);
    for (uint64_t t = 0; t < tokens; t++) {
        if (!check_index(call, indices[t], rows, error))
            return false;
        for (uint64_t i = 0; i < width; i++)
            out[(uint64_t)indices[t] * width + i] += g[t * width + i];
    }
    sim_operand_store(&call->out[0], out);
    return true;
}

bool sim_compute_log_softmax(const SimComputeCall *call, GError **error)
{
    if (!sim_compute_expect(call, 1, 1, error) ||
        !sim_compute_expect_same(call, &call->in[0], &call->out[0], error))
        return false;
    uint64_t n = call->in[0].dims[call->in[0].n_dims - 1];
    uint64_t rows = sim_operand_elements(&call->in[0]) / n;
    g_autofree float *x = sim_operand_load(&call->in[0]);
    for (uint64_t row = 0; row < rows; row++) {
        float *values = x + row * n, largest = -INFINITY;
        double sum = 0;
        for (uint64_t i = 0; i < n; i++)
            largest = fmaxf(largest, values[i]);
        for (uint64_t i = 0; i < n; i++)
            sum += exp((double)values[i] - largest);
        double lse = largest + log(sum);
        for (uint64_t i = 0; i < n; i++)
            values[i] = (float)(values[i] - lse);
    }
    sim_operand_store(&call->out[0], x);
    return true;
}

/* gradient, log probabilities */
bool sim_compute_log_softmax_grad(const SimComputeCall *call, GError **error)
{
    if (!sim_compute_expect(call, 2, 1, error) ||
        !sim_compute_expect_same(call, &call->in[0], &call->in[1], error))
        return false;
    uint64_t n = call->in[0].dims[call->in[0].n_dims - 1];
    uint64_t rows = sim_operand_elements(&call->in[0]) / n;
    g_autofree float *g = sim_operand_load(&call->in[0]);
    g_autofree float *logs = sim_operand_load(&call->in[1]);
    for (uint64_t row = 0; row < rows; row++) {
        double sum = 0;
        for (uint64_t i = 0; i < n; i++)
            sum += g[row * n + i];
        for (uint64_t i = 0; i < n; i++)
            g[row * n + i] -= (float)(exp((double)logs[row * n + i]) * sum);
    }
    sim_operand_store(&call->out[0], g);
    return true;
}

/* log probabilities [T, V], labels -> their negative mean, how many labels count */
bool sim_compute_nll_loss(const SimComputeCall *call, GError **error)
{
    if (!sim_compute_expect(call, 2, 2, error))
        return false;
    uint64_t n = call->in[0].dims[call->in[0].n_dims - 1];
    uint64_t rows = sim_operand_elements(&call->in[1]);
    g_autofree float *logs = sim_operand_load(&call->in[0]);
    g_autofree int64_t *labels = sim_operand_load_integers(&call->in[1]);
    double sum = 0;
    uint64_t counted = 0;
    for (uint64_t row = 0; row < rows; row++) {
        if (labels[row] == IGNORED)
            continue;
        if (!check_index(call, labels[row], n, error))
            return false;
        sum -= logs[row * n + (uint64_t)labels[row]];
        counted++;
    }
    float loss = (float)(sum / (double)counted), count = (float)counted;
    sim_operand_store(&call->out[0], &loss);
    sim_operand_store(&call->out[1], &count);
    return true;
}

/* gradient of the loss, labels, their count -> into zeros */
bool sim_compute_nll_loss_grad(const SimComputeCall *call, GError **error)
{
    if (!sim_compute_expect(call, 3, 1, error))
        return false;
    uint64_t n = call->out[0].dims[call->out[0].n_dims - 1];
    uint64_t rows = sim_operand_elements(&call->in[1]);
    g_autofree float *g = sim_operand_load(&call->in[0]);
    g_autofree float *count = sim_operand_load(&call->in[2]);
    g_autofree int64_t *labels = sim_operand_load_integers(&call->in[1]);
    g_autofree float *out = sim_operand_load(&call->out[0]);
    for (uint64_t row = 0; row < rows; row++) {
        if (labels[row] == IGNORED)
            continue;
        if (!check_index(call, labels[row], n, error))
            return false;
        out[row * n + (uint64_t)labels[row]] = -g[0] / count[0];
    }
    sim_operand_store(&call->out[0], out);
    return true;
}
