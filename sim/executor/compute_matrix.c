/* SPDX-License-Identifier: Apache-2.0
 *
 * Matrix products, by BLAS in f32: input [.., in], weight [out, in] (linear) or [in, out] (conv1d),
 * bias [out].
 */
#include "executor/compute_private.h"

#include <cblas.h>

#include "base/error.h"

typedef struct Product {
    int rows, in, out;
    bool is_conv1d;
} Product;

/* ROWS_OF is the operand with a row a token, WEIGHT as above. */
static bool describe(const SimComputeCall *call, const SimOperand *rows_of,
                     const SimOperand *weight, bool is_conv1d, Product *product, GError **error)
{
    if (weight->n_dims != 2 || rows_of->n_dims == 0) {
        g_set_error(error, SIM_ERROR, SIM_ERROR_RANGE, "%s: expected a matrix",
                    call->operator_name);
        return false;
    }
    uint64_t last = rows_of->dims[rows_of->n_dims - 1];
    *product = (Product){.rows = (int)(sim_operand_elements(rows_of) / last),
                         .in = (int)weight->dims[is_conv1d ? 0 : 1],
                         .out = (int)weight->dims[is_conv1d ? 1 : 0],
                         .is_conv1d = is_conv1d};
    return true;
}

static bool check_size(const SimComputeCall *call, const SimOperand *operand, int rows, int columns,
                       GError **error)
{
    if (sim_operand_elements(operand) == (uint64_t)rows * (uint64_t)columns)
        return true;
    g_set_error(error, SIM_ERROR, SIM_ERROR_RANGE,
                "%s: expected an operand of %d x %d, found %" G_GUINT64_FORMAT " elements",
                call->operator_name, rows, columns, sim_operand_elements(operand));
    return false;
}

static bool run_forward(const SimComputeCall *call, bool is_conv1d, bool has_bias, GError **error)
{
    Product p;
    if (!sim_compute_expect(call, has_bias ? 3 : 2, 1, error) ||
        !describe(call, &call->in[0], &call->in[1], is_conv1d, &p, error) ||
        !check_size(call, &call->in[0], p.rows, p.in, error) ||
        !check_size(call, &call->out[0], p.rows, p.out, error))
        return false;
    g_autofree float *x = sim_operand_load(&call->in[0]);
    g_autofree float *w = sim_operand_load(&call->in[1]);
    g_autofree float *y = g_new0(float, (size_t)p.rows *(size_t)p.out);
    if (has_bias) {
        g_autofree float *bias = sim_operand_load_as(&call->in[2], &call->out[0]);
        cblas_scopy(p.rows * p.out, bias, 1, y, 1);
    }
    cblas_sgemm(CblasRowMajor, CblasNoTrans, is_conv1d ? CblasNoTrans : CblasTrans, p.rows, p.out,
                p.in, 1, x, p.in, w, is_conv1d ? p.out : p.in, has_bias ? 1 : 0, y, p.out);
    sim_operand_store(&call->out[0], y);
    return true;
}

bool sim_compute_linear(const SimComputeCall *call, GError **error)
{
    return run_forward(call, false, false, error);
}

bool sim_compute_linear_bias(const SimComputeCall *call, GError **error)
{
    return run_forward(call, false, true, error);
}

bool sim_compute_conv1d(const SimComputeCall *call, GError **error)
{
    return run_forward(call, true, true, error);
}

/* gradient [.., out], weight -> [.., in]. */
static bool run_grad_input(const SimComputeCall *call, bool is_conv1d, GError **error)
{
    Product p;
    if (!sim_compute_expect(call, 2, 1, error) ||
        !describe(call, &call->in[0], &call->in[1], is_conv1d, &p, error) ||
        !check_size(call, &call->in[0], p.rows, p.out, error) ||
        !check_size(call, &call->out[0], p.rows, p.in, error))
        return false;
    g_autofree float *g = sim_operand_load(&call->in[0]);
    g_autofree float *w = sim_operand_load(&call->in[1]);
    g_autofree float *x = g_new(float, (size_t)p.rows *(size_t)p.in);
    cblas_sgemm(CblasRowMajor, CblasNoTrans, is_conv1d ? CblasTrans : CblasNoTrans, p.rows, p.in,
                p.out, 1, g, p.out, w, is_conv1d ? p.out : p.in, 0, x, p.in);
    sim_operand_store(&call->out[0], x);
    return true;
}

bool sim_compute_linear_grad_input(const SimComputeCall *call, GError **error)
{
    return run_grad_input(call, false, error);
}

bool sim_compute_conv1d_grad_input(const SimComputeCall *call, GError **error)
{
    return run_grad_input(call, true, error);
}

/* gradient [.., out], input [.., in] -> as the weight lies. */
static bool run_grad_weight(const SimComputeCall *call, bool is_conv1d, GError **error)
{
    Product p;
    if (!sim_compute_expect(call, 2, 1, error) ||
        !describe(call, &call->in[0], &call->out[0], is_conv1d, &p, error) ||
        !check_size(call, &call->in[0], p.rows, p.out, error) ||
        !check_size(call, &call->in[1], p.rows, p.in, error))
        return false;
    g_autofree float *g = sim_operand_load(&call->in[0]);
    g_autofree float *x = sim_operand_load(&call->in[1]);
    g_autofree float *w = g_new(float, (size_t)p.in *(size_t)p.out);
    if (is_conv1d)
        cblas_sgemm(CblasRowMajor, CblasTrans, CblasNoTrans, p.in, p.out, p.rows, 1, x, p.in, g,
                    p.out, 0, w, p.out);
    else
        cblas_sgemm(CblasRowMajor, CblasTrans, CblasNoTrans, p.out, p.in, p.rows, 1, g, p.out, x,
                    p.in, 0, w, p.in);
    sim_operand_store(&call->out[0], w);
    return true;
}

bool sim_compute_linear_grad_weight(const SimComputeCall *call, GError **error)
{
    return run_grad_weight(call, false, error);
}

bool sim_compute_conv1d_grad_weight(const SimComputeCall *call, GError **error)
{
    return run_grad_weight(call, true, error);
}
