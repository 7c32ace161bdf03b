/* SPDX-License-Identifier: Apache-2.0 */
#include "fabric/calibration.h"

#include <math.h>
#include <string.h>

#include "fabric/collective.h"
#include "fabric/nccl_cost.h"
#include "fabric/selector.h"

#define ROUNDS 10
#define SMALL_ERROR 0.08
#define LL128_HOP_US 1.9 /* src/graph/tuning.cc, hwLatencies */
#define LL128_FRACTION (120.0 / 128.0)
#define GB 1e9

/* The unknowns, each the factor of what stands beside it in the formula. */
enum { BASE, HOP, RATE, COPY, EXTRA, RAMP, N_UNKNOWNS };

typedef struct Equation {
    double factor[N_UNKNOWNS];
    double known; /* what is there already, microseconds */
    double us;
    double weight;
} Equation;

typedef struct Fit {
    GArray *equations; /* Equation */
    double best[N_UNKNOWNS];
    double least; /* weighted squares of relative errors */
} Fit;

/* The formula of hardware/comm.h: bytes in thousands, so that rates come out in GB/s. */
static Equation make_equation(const SimCalibrationPoint *point, const SimCalibrationTarget *target)
{
    bool is_ring = target->algorithm == SIM_COMM_RING;
    uint32_t others = point->ranks - 1;
    double steps = !is_ring ? 1 : point->operation == SIM_COMM_ALL_REDUCE ? 2.0 * others : others;
    double bytes = (double)point->bytes / (is_ring ? point->ranks : 1);
    Equation equation = {.us = point->us, .weight = 1};
    equation.factor[BASE] = 1;
    equation.factor[RATE] = steps * bytes / 1000;
    equation.factor[RAMP] = sqrt(steps * bytes / 1000);
    if (is_ring) {
        equation.factor[HOP] = steps;
        equation.factor[COPY] = point->in_place ? 0 : bytes / 1000;
        if (target->protocol == SIM_COMM_LL && bytes >= 2048)
            equation.factor[EXTRA] = steps;
    }
    return equation;
}

static GArray *collect_equations(const SimCluster *cluster, const SimCalibrationPoint *points,
                                 size_t count, const SimCalibrationTarget *target)
{
    GArray *equations = g_array_new(FALSE, FALSE, sizeof(Equation));
    for (size_t i = 0; i < count; i++) {
        const SimCalibrationPoint *point = &points[i];
        if (point->operation != target->operation)
            continue;
        SimGroupShape shape = {point->ranks, 1, point->ranks, point->ranks, point->ranks};
        SimNcclGraphs graphs = sim_nccl_graph_compute(cluster, &shape);
        SimSelection selection =
            sim_selector_compute(cluster, &shape, &graphs, point->operation, point->bytes);
        if (selection.algorithm != target->algorithm || selection.protocol != target->protocol)
            continue;
        Equation equation = make_equation(point, target);
        g_array_append_val(equations, equation);
    }
    return equations;
}

/* Solves the normal equations of the unknowns in SUBSET by elimination; false if they are
 * singular. */
static bool solve_subset(const GArray *equations, unsigned subset, double *solution)
{
    double matrix[N_UNKNOWNS][N_UNKNOWNS + 1] = {{0}};
    unsigned index[N_UNKNOWNS], n = 0;
    for (unsigned u = 0; u < N_UNKNOWNS; u++) {
        if (subset >> u & 1)
            index[n++] = u;
    }
    for (guint e = 0; e < equations->len; e++) {
        const Equation *equation = &g_array_index(equations, Equation, e);
        double weight = equation->weight / (equation->us * equation->us);
        for (unsigned i = 0; i < n; i++) {
            double factor = equation->factor[index[i]] * weight;
            for (unsigned j = 0; j < n; j++)
                matrix[i][j] += factor * equation->factor[index[j]];
            matrix[i][n] += factor * (equation->us - equation->known);
        }
    }
    for (unsigned i = 0; i < n; i++) {
        if (matrix[i][i] <= 0)
            return false;
    }
    double scale[N_UNKNOWNS];
    for (unsigned i = 0; i < n; i++)
        scale[i] = 1 / sqrt(matrix[i][i]);
    for (unsigned i = 0; i < n; i++) {
        for (unsigned j = 0; j < n; j++)
            matrix[i][j] *= scale[i] * scale[j];
        matrix[i][n] *= scale[i];
    }
    /* Positive definite, so the diagonal is pivot enough. */
    for (unsigned i = 0; i < n; i++) {
        if (matrix[i][i] < 1e-12)
            return false;
        for (unsigned row = i + 1; row < n; row++) {
            double times = matrix[row][i] / matrix[i][i];
            for (unsigned j = i; j <= n; j++)
                matrix[row][j] -= times * matrix[i][j];
        }
    }
    memset(solution, 0, N_UNKNOWNS * sizeof(*solution));
    for (unsigned i = n; i-- > 0;) {
        double sum = matrix[i][n];
        for (unsigned j = i + 1; j < n; j++)
            sum -= matrix[i][j] * solution[index[j]] / scale[j];
        solution[index[i]] = sum / matrix[i][i] * scale[i];
    }
    return true;
}

static double relative_error(const Equation *equation, const double *solution)
{
    double us = equation->known;
    for (unsigned u = 0; u < N_UNKNOWNS; u++)
        us += equation->factor[u] * solution[u];
    return us / equation->us - 1;
}

static void try_subset(Fit *fit, unsigned subset)
{
    double solution[N_UNKNOWNS];
    if (!solve_subset(fit->equations, subset, solution))
        return;
    double sum = 0;
    for (unsigned u = 0; u < N_UNKNOWNS; u++) {
        if (solution[u] < 0)
            return;
    }
    for (guint e = 0; e < fit->equations->len; e++) {
        const Equation *equation = &g_array_index(fit->equations, Equation, e);
        double error = relative_error(equation, solution);
        sum += equation->weight * error * error;
    }
    if (sum < fit->least) {
        fit->least = sum;
        memcpy(fit->best, solution, sizeof(solution));
    }
}

/* The best under the weights, then again with less weight where the error is large. */
static void solve(Fit *fit, unsigned allowed)
{
    for (unsigned round = 0; round < ROUNDS; round++) {
        fit->least = INFINITY;
        for (unsigned subset = 1; subset < 1U << N_UNKNOWNS; subset++) {
            if ((subset & allowed) == subset)
                try_subset(fit, subset);
        }
        for (guint e = 0; e < fit->equations->len; e++) {
            Equation *equation = &g_array_index(fit->equations, Equation, e);
            double error = fabs(relative_error(equation, fit->best));
            equation->weight = SMALL_ERROR / MAX(error, SMALL_ERROR);
        }
    }
}

/* Takes what is known of COEFFICIENT out of each equation. */
static void add_known(GArray *equations, unsigned unknown, double value)
{
    for (guint e = 0; e < equations->len; e++) {
        Equation *equation = &g_array_index(equations, Equation, e);
        equation->known += equation->factor[unknown] * value;
    }
}

/* GB/s that may not be exceeded. */
static double fastest_rate(const SimCluster *cluster, const SimCalibrationTarget *target)
{
    if (target->algorithm == SIM_COMM_RING)
        return cluster->nvlink_bytes_per_s / GB;
    uint32_t gpus = cluster->gpus_per_node;
    SimGroupShape shape = {gpus, 1, gpus, gpus, gpus};
    SimNcclGraphs graphs = sim_nccl_graph_compute(cluster, &shape);
    return (double)sim_nccl_cost_compute(cluster, &shape, &graphs, target->operation,
                                         target->algorithm, target->protocol, SIM_GIB)
        .bandwidth;
}

static bool fit_ll128(Fit *fit, SimCommRow *row)
{
    double rate = row->rate * LL128_FRACTION;
    add_known(fit->equations, HOP, LL128_HOP_US);
    add_known(fit->equations, RATE, GB / rate);
    if (row->copy_rate > 0)
        add_known(fit->equations, COPY, GB / row->copy_rate);
    solve(fit, 1U << BASE);
    *row = (SimCommRow){.base_us = fit->best[BASE],
                        .hop_us = LL128_HOP_US,
                        .rate = rate,
                        .copy_rate = row->copy_rate};
    return true;
}

bool sim_calibration_compute(const SimCluster *cluster, const SimCalibrationPoint *points,
                             size_t count, const SimCalibrationTarget *target, SimCommRow *row)
{
    g_autoptr(GArray) equations = collect_equations(cluster, points, count, target);
    Fit fit = {.equations = equations};
    bool is_ll128 = target->protocol == SIM_COMM_LL128;
    if (equations->len < (is_ll128 ? 1 : N_UNKNOWNS))
        return false;
    if (is_ll128) {
        fit_ll128(&fit, row);
    } else {
        double slowness = 1 / fastest_rate(cluster, target);
        add_known(equations, RATE, slowness);
        solve(&fit, (1U << N_UNKNOWNS) - 1);
        double copy = fit.best[COPY];
        *row = (SimCommRow){
            .base_us = fit.best[BASE],
            .hop_us = fit.best[HOP],
            .extra_us = fit.best[EXTRA],
            .rate = GB / (fit.best[RATE] + slowness),
            .copy_rate = copy > 0 ? GB / copy : 0,
            .ramp_us = fit.best[RAMP],
        };
    }
    row->operation = target->operation;
    row->algorithm = target->algorithm;
    row->protocol = target->protocol;
    row->from_ranks = 2;
    return true;
}
