/* SPDX-License-Identifier: Apache-2.0
 *
 * Scaled dot product attention with a causal mask and grouped keys, head by head: query [B, heads,
 * S, D], key and value [B, key heads, S, D]. The backward goes the way of the flash kernels: the
 * probabilities come again from the row sums that the forward kept (lse), dO.O and the query's
 * gradient stand in scratch.
 */
#include <cblas.h>
#include <math.h>
#include <string.h>

#include "base/error.h"
#include "executor/arguments.h"
#include "executor/compute_private.h"

typedef struct Sizes {
    uint64_t batch, heads, groups, sequence, dim;
    bool is_causal;
    float scale;
} Sizes;

static bool measure(const SimComputeCall *call, const SimOperand *query, const SimOperand *key,
                    Sizes *sizes, GError **error)
{
    if (query->n_dims != 4 || key->n_dims != 4 || key->dims[1] == 0 ||
        query->dims[1] % key->dims[1] != 0 || key->dims[2] != query->dims[2] ||
        key->dims[3] != query->dims[3]) {
        g_set_error(error, SIM_ERROR, SIM_ERROR_RANGE,
                    "%s: expected query [B, heads, S, D] and key [B, key heads, S, D]",
                    call->operator_name);
        return false;
    }
    *sizes = (Sizes){query->dims[0],
                     query->dims[1],
                     key->dims[1],
                     query->dims[2],
                     query->dims[3],
                     sim_arguments_number(call->arguments, "causal", 1) != 0,
                     1 / sqrtf((float)query->dims[3])};
    return true;
}

/* scores = scale Q K^T, masked. */
static void multiply_scores(const Sizes *sizes, const float *q, const float *k, float *scores)
{
    int s = (int)sizes->sequence, d = (int)sizes->dim;
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, s, s, d, sizes->scale, q, d, k, d, 0,
                scores, s);
    for (uint64_t row = 0; sizes->is_causal && row < sizes->sequence; row++)
        for (uint64_t column = row + 1; column < sizes->sequence; column++)
            scores[row * sizes->sequence + column] = -INFINITY;
}

/* One head: scores become probabilities; *LSE the logarithm of each row's sum. */
static void normalise(uint64_t n, float *scores, float *lse)
{
    for (uint64_t row = 0; row < n; row++) {
        float *values = scores + row * n, largest = -INFINITY;
        double sum = 0;
        for (uint64_t i = 0; i < n; i++)
            largest = fmaxf(largest, values[i]);
        for (uint64_t i = 0; i < n; i++) {
            values[i] = expf(values[i] - largest);
            sum += values[i];
        }
        for (uint64_t i = 0; i < n; i++)
            values[i] = (float)(values[i] / sum);
        lse[row] = largest + (float)log(sum);
    }
}

bool sim_compute_attention(const SimComputeCall *call, GError **error)
{
    Sizes sizes;
    if (!sim_compute_expect(call, 3, 2, error) ||
        !measure(call, &call->in[0], &call->in[1], &sizes, error))
        return false;
    g_autofree float *q = sim_operand_load(&call->in[0]);
    g_autofree float *k = sim_operand_load(&call->in[1]);
    g_autofree float *v = sim_operand_load(&call->in[2]);
    uint64_t s = sizes.sequence, head_size = s * sizes.dim, group = sizes.heads / sizes.groups;
    g_autofree float *lse = g_new(float, sizes.batch *sizes.heads *s);
    g_autofree float *scores = g_new(float, s *s);
    for (uint64_t head = 0; head < sizes.batch * sizes.heads; head++) {
        uint64_t key = head / sizes.heads * sizes.groups + head % sizes.heads / group;
        float *query = q + head * head_size;
        multiply_scores(&sizes, query, k + key * head_size, scores);
        normalise(s, scores, lse + head * s);
        cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, (int)s, (int)sizes.dim, (int)s, 1,
                    scores, (int)s, v + key * head_size, (int)sizes.dim, 0, query, (int)sizes.dim);
    }
    sim_operand_store(&call->out[0], q);
    sim_operand_store(&call->out[1], lse);
    return true;
}

static bool check_scratch(const SimComputeCall *call, const SimOperand *scratch, uint64_t bytes,
                          GError **error)
{
    if (scratch->bytes >= bytes)
        return true;
    g_set_error(error, SIM_ERROR, SIM_ERROR_RANGE,
                "%s: expected scratch of %" G_GUINT64_FORMAT " B, found %" G_GUINT64_FORMAT,
                call->operator_name, bytes, scratch->bytes);
    return false;
}

/* dO, O -> scratch: the rows' dO.O; zeros for the query's gradient. */
bool sim_compute_attention_grad_prepare(const SimComputeCall *call, GError **error)
{
    if (!sim_compute_expect(call, 2, 2, error) ||
        !sim_compute_expect_same(call, &call->in[0], &call->in[1], error))
        return false;
    uint64_t n = sim_operand_elements(&call->in[0]);
    uint64_t dim = call->in[0].dims[call->in[0].n_dims - 1];
    if (!check_scratch(call, &call->out[0], n / dim * sizeof(float), error))
        return false;
    g_autofree float *g = sim_operand_load(&call->in[0]);
    g_autofree float *o = sim_operand_load(&call->in[1]);
    memset(call->out[0].data, 0, call->out[0].bytes);
    memset(call->out[1].data, 0, call->out[1].bytes);
    float *rows = (float *)(void *)call->out[0].data;
    for (uint64_t row = 0; row < n / dim; row++)
        rows[row] = cblas_sdot((int)dim, g + row * dim, 1, o + row * dim, 1);
    return true;
}

/* What one head of the backward works on; S x D each but for the squares. */
typedef struct Head {
    const float *g, *q, *k, *v, *lse, *products;
    float *dq, *dk, *dv, *probabilities, *gradients;
} Head;

static void run_head_backward(const Sizes *sizes, const Head *head)
{
    uint64_t n = sizes->sequence;
    int s = (int)n, d = (int)sizes->dim;
    float *p = head->probabilities, *dp = head->gradients;
    multiply_scores(sizes, head->q, head->k, p);
    for (uint64_t i = 0; i < n * n; i++)
        p[i] = expf(p[i] - head->lse[i / n]);
    cblas_sgemm(CblasRowMajor, CblasTrans, CblasNoTrans, s, d, s, 1, p, s, head->g, d, 0, head->dv,
                d);
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, s, s, d, 1, head->g, d, head->v, d, 0, dp,
                s);
    for (uint64_t i = 0; i < n * n; i++)
        dp[i] = p[i] * (dp[i] - head->products[i / n]);
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, s, d, s, sizes->scale, dp, s, head->k, d,
                1, head->dq, d);
    cblas_sgemm(CblasRowMajor, CblasTrans, CblasNoTrans, s, d, s, sizes->scale, dp, s, head->q, d,
                0, head->dk, d);
}

/* VALUES [B, heads, S, D] as the scratch that `sum` reads, [B, S, heads, D]. */
static void store_expanded(const Sizes *sizes, const SimOperand *scratch, SimDtype dtype,
                           const float *values)
{
    SimOperand out = *scratch;
    out.dtype = dtype;
    out.n_dims = 4;
    const uint64_t dims[] = {sizes->batch, sizes->heads, sizes->sequence, sizes->dim};
    const uint64_t strides[] = {sizes->sequence * sizes->heads * sizes->dim, sizes->dim,
                                sizes->heads * sizes->dim, 1};
    memcpy(out.dims, dims, sizeof dims);
    memcpy(out.strides, strides, sizeof strides);
    sim_operand_store(&out, values);
}

/* dO, Q, K, V, O, lse [, seed], scratch -> the query's gradient in scratch (f32), and the gradients
 * of key and value: themselves, or with grouped keys those of every query head in scratch. */
bool sim_compute_attention_grad(const SimComputeCall *call, GError **error)
{
    Sizes z;
    if (!sim_compute_expect(call, 8, 3, error) ||
        !measure(call, &call->in[1], &call->in[2], &z, error))
        return false;
    bool is_grouped = z.heads != z.groups;
    /* Scratch comes after outputs: the query's gradient is first where keys are grouped. */
    const SimOperand *query_out = &call->out[is_grouped ? 0 : 2];
    uint64_t n = z.batch * z.heads * z.sequence * z.dim;
    if (!check_scratch(call, query_out, n * sizeof(float), error) ||
        !check_scratch(call, &call->in[6], n / z.dim * sizeof(float), error))
        return false;
    g_autofree float *g = sim_operand_load(&call->in[0]);
    g_autofree float *q = sim_operand_load(&call->in[1]);
    g_autofree float *k = sim_operand_load(&call->in[2]);
    g_autofree float *v = sim_operand_load(&call->in[3]);
    g_autofree float *lse = sim_operand_load(&call->in[5]);
    g_autofree float *dk = g_new(float, n);
    g_autofree float *dv = g_new(float, n);
    g_autofree float *squares = g_new(float, 2 * z.sequence * z.sequence);
    uint64_t size = z.sequence * z.dim, group = z.heads / z.groups;
    for (uint64_t head = 0; head < z.batch * z.heads; head++) {
        uint64_t key = head / z.heads * z.groups + head % z.heads / group;
        const Head operands = {g + head * size,
                               q + head * size,
                               k + key * size,
                               v + key * size,
                               lse + head * z.sequence,
                               (const float *)(const void *)call->in[6].data + head * z.sequence,
                               (float *)(void *)query_out->data + head * size,
                               dk + head * size,
                               dv + head * size,
                               squares,
                               squares + z.sequence * z.sequence};
        run_head_backward(&z, &operands);
    }
    if (is_grouped) {
        store_expanded(&z, &call->out[1], call->in[2].dtype, dk);
        store_expanded(&z, &call->out[2], call->in[3].dtype, dv);
    } else {
        sim_operand_store(&call->out[0], dk);
        sim_operand_store(&call->out[1], dv);
    }
    return true;
}

/* The query's gradient from f32 to its own type. */
bool sim_compute_attention_grad_convert(const SimComputeCall *call, GError **error)
{
    if (!sim_compute_expect(call, 1, 1, error) ||
        !check_scratch(call, &call->in[0], sim_operand_elements(&call->out[0]) * sizeof(float),
                       error))
        return false;
    sim_operand_store(&call->out[0], (const float *)(const void *)call->in[0].data);
    return true;
}
