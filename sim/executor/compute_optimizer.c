/* SPDX-License-Identifier: Apache-2.0
 *
 * Optimizers and clipping by norm. Settings are PyTorch's defaults unless `arguments` say
 * otherwise.
 */
#include "executor/compute_private.h"

#include <math.h>
#include <string.h>

#include "base/error.h"
#include "executor/arguments.h"

#define ADAMW_READS 5
#define ADAMW_WRITES 3

bool sim_compute_adamw_step(const SimComputeCall *call, GError **error)
{
    if (!sim_compute_expect(call, call->n_in, call->n_in, error))
        return false;
    for (uint32_t i = 0; i < call->n_in; i++) {
        g_autofree float *step = sim_operand_load(&call->in[i]);
        step[0] += 1;
        sim_operand_store(&call->out[i], step);
    }
    return true;
}

/* One tensor, from value, gradient, exp_avg, exp_avg_sq, step (torch/optim/adam.py with decoupled
 * weight decay). */
static void step_adamw(const SimComputeCall *call, const SimOperand *in, const SimOperand *out)
{
    double rate = sim_arguments_number(call->arguments, "lr", 1e-3);
    double beta1 = sim_arguments_number(call->arguments, "beta1", 0.9);
    double beta2 = sim_arguments_number(call->arguments, "beta2", 0.999);
    double eps = sim_arguments_number(call->arguments, "eps", 1e-8);
    double decay = sim_arguments_number(call->arguments, "weight_decay", 1e-2);
    g_autofree float *value = sim_operand_load(&in[0]);
    g_autofree float *gradient = sim_operand_load(&in[1]);
    g_autofree float *first = sim_operand_load(&in[2]);
    g_autofree float *second = sim_operand_load(&in[3]);
    g_autofree float *step = sim_operand_load(&in[4]);
    double correction1 = 1 - pow(beta1, step[0]), correction2 = sqrt(1 - pow(beta2, step[0]));
    uint64_t n = sim_operand_elements(&in[0]);
    for (uint64_t i = 0; i < n; i++) {
        double g = gradient[i];
        first[i] = (float)(beta1 * first[i] + (1 - beta1) * g);
        second[i] = (float)(beta2 * second[i] + (1 - beta2) * g * g);
        double divisor = sqrt(second[i]) / correction2 + eps;
        value[i] = (float)(value[i] * (1 - rate * decay) - rate / correction1 * first[i] / divisor);
    }
    sim_operand_store(&out[0], value);
    sim_operand_store(&out[1], first);
    sim_operand_store(&out[2], second);
}

bool sim_compute_adamw(const SimComputeCall *call, GError **error)
{
    uint32_t n = call->n_in / ADAMW_READS;
    if (!sim_compute_expect(call, n * ADAMW_READS, n * ADAMW_WRITES, error))
        return false;
    for (uint32_t i = 0; i < n; i++)
        step_adamw(call, call->in + i * ADAMW_READS, call->out + i * ADAMW_WRITES);
    return true;
}

/* value, gradient, tensor by tensor */
bool sim_compute_sgd(const SimComputeCall *call, GError **error)
{
    uint32_t n = call->n_in / 2;
    if (!sim_compute_expect(call, 2 * n, n, error))
        return false;
    float rate = (float)sim_arguments_number(call->arguments, "lr", 1e-3);
    for (uint32_t i = 0; i < n; i++) {
        if (!sim_compute_expect_same(call, &call->in[2 * i], &call->in[2 * i + 1], error))
            return false;
        g_autofree float *value = sim_operand_load(&call->in[2 * i]);
        g_autofree float *gradient = sim_operand_load(&call->in[2 * i + 1]);
        uint64_t elements = sim_operand_elements(&call->in[2 * i]);
        for (uint64_t j = 0; j < elements; j++)
            value[j] -= rate * gradient[j];
        sim_operand_store(&call->out[i], value);
    }
    return true;
}

/* --- clipping: torch.nn.utils.clip_grad_norm_ ------------------------------------------------- */

/* _foreach_norm: of each tensor's chunk of 65536 elements the sum of squares. */
#define CHUNK UINT64_C(65536)

static double sum_squares(const float *values, uint64_t n)
{
    double sum = 0;
    for (uint64_t i = 0; i < n; i++)
        sum += (double)values[i] * values[i];
    return sum;
}

bool sim_compute_partial_norms(const SimComputeCall *call, GError **error)
{
    if (!sim_compute_expect(call, call->n_in, 1, error))
        return false;
    uint64_t room = sim_operand_elements(&call->out[0]), used = 0;
    g_autofree float *sums = g_new0(float, room + 1);
    for (uint32_t i = 0; i < call->n_in; i++) {
        g_autofree float *values = sim_operand_load(&call->in[i]);
        uint64_t n = sim_operand_elements(&call->in[i]);
        for (uint64_t at = 0; at < n && used < room; at += CHUNK)
            sums[used++] = (float)sum_squares(values + at, MIN(CHUNK, n - at));
    }
    sim_operand_store(&call->out[0], sums);
    return true;
}

/* Partial sums, of which `chunks` says how many each tensor has -> a norm a tensor; or one tensor
 * -> its norm, and zeros for what blocks leave for each other. */
bool sim_compute_norm(const SimComputeCall *call, GError **error)
{
    g_autofree char *chunks = sim_arguments_text(call->arguments, "chunks");
    if (!sim_compute_expect(call, chunks != NULL ? 2 : 1, call->n_out, error))
        return false;
    g_autofree float *values = sim_operand_load(&call->in[0]);
    uint64_t n = sim_operand_elements(&call->in[0]), at = 0;
    g_auto(GStrv) counts = g_strsplit(chunks != NULL ? chunks : "", ",", -1);
    for (uint32_t i = 0; i < call->n_out; i++) {
        memset(call->out[i].data, 0, call->out[i].bytes);
        if (chunks == NULL && i > 0)
            continue;
        double sum = chunks == NULL ? sum_squares(values, n) : 0;
        uint64_t count =
            chunks != NULL && i < g_strv_length(counts) ? g_ascii_strtoull(counts[i], NULL, 10) : 0;
        for (uint64_t end = MIN(at + count, n); at < end; at++)
            sum += values[at];
        float norm = (float)sqrt(sum);
        memcpy(call->out[i].data, &norm, sizeof norm);
    }
    return true;
}

bool sim_compute_vector_norm(const SimComputeCall *call, GError **error)
{
    if (!sim_compute_expect(call, 1, 1, error))
        return false;
    g_autofree float *values = sim_operand_load(&call->in[0]);
    float norm = (float)sqrt(sum_squares(values, sim_operand_elements(&call->in[0])));
    sim_operand_store(&call->out[0], &norm);
    return true;
}

bool sim_compute_stack(const SimComputeCall *call, GError **error)
{
    if (!sim_compute_expect(call, call->n_in, 1, error))
        return false;
    uint64_t room = sim_operand_elements(&call->out[0]);
    g_autofree float *values = g_new0(float, room + 1);
    for (uint32_t i = 0; i < call->n_in && i < room; i++) {
        g_autofree float *value = sim_operand_load(&call->in[i]);
        values[i] = value[0];
    }
    sim_operand_store(&call->out[0], values);
    return true;
}

/* Tensors and, last, the factor -> the tensors. */
bool sim_compute_scale(const SimComputeCall *call, GError **error)
{
    if (!sim_compute_expect(call, call->n_out + 1, call->n_out, error))
        return false;
    g_autofree float *factor = sim_operand_load(&call->in[call->n_out]);
    for (uint32_t i = 0; i < call->n_out; i++) {
        g_autofree float *values = sim_operand_load(&call->in[i]);
        uint64_t n = sim_operand_elements(&call->in[i]);
        for (uint64_t j = 0; j < n; j++)
            values[j] *= factor[0];
        sim_operand_store(&call->out[i], values);
    }
    return true;
}
