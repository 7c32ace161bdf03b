/* SPDX-License-Identifier: Apache-2.0
 *
 * Fits the constants of models/kernels on the measurements of tests/oracle/kernels, one group at a
 * time, and prints them as the JSON that stands there, with the errors on the rows fitted and on
 * those held out:
 *
 *     fit_kernels gemm GPU TABLE                     GPU of models/gpus, TABLE as the file's name
 * begins fit_kernels attention GPU KERNEL DIRECTION MASK TABLE fit_kernels training GPU KERNEL
 * DIRECTION MASK [ROWS' GPU] fit_kernels traffic GPU norm|norm_grad|softmax|optimizer [ROWS' GPU]
 *
 * Minimises the sum of |log(model / measured)|, products of 1e10 FLOPs and more twice, by the
 * simplex method of Nelder and Mead in the logarithms of the constants, from the constants that the
 * file has. The works of a row that another constant decides keep their times.
 */
#include <math.h>
#include <stdio.h>

#include "support/training_rows.h"

#define MOST_CONSTANTS 8
#define EVALUATIONS 400
#define RESTARTS 3

/* A constant, where it is, and the range it may take. */
typedef struct Unknown {
    const char *name;
    double *value;
    double min, max;
} Unknown;

typedef struct Fit {
    const SimGpu *gpu;
    const GArray *rows;
    Unknown unknowns[MOST_CONSTANTS];
    size_t n;
} Fit;

static void place(const Fit *fit, const double *point)
{
    for (size_t i = 0; i < fit->n; i++)
        *fit->unknowns[i].value = CLAMP(exp(point[i]), fit->unknowns[i].min, fit->unknowns[i].max);
}

static double evaluate(const Fit *fit, const double *point)
{
    double sum = 0;
    place(fit, point);
    for (size_t i = 0; i < fit->rows->len; i++) {
        const KernelRow *row = &g_array_index(fit->rows, KernelRow, i);
        double weight = row->works[0].flops >= UINT64_C(10000000000) ? 2 : 1;
        if (!row->is_held_out)
            sum += weight * fabs(log(kernel_row_compute(fit->gpu, row) / row->seconds));
    }
    return sum;
}

typedef struct Corner {
    double at[MOST_CONSTANTS];
    double value;
} Corner;

static int compare_corners(const void *a, const void *b)
{
    double x = ((const Corner *)a)->value, y = ((const Corner *)b)->value;
    return (x > y) - (x < y);
}

/* The point FACTOR of the way from the worst corner through the centre of the others. */
static Corner step(const Fit *fit, const Corner *corners, double factor)
{
    Corner out = {.value = 0};
    for (size_t j = 0; j < fit->n; j++) {
        double centre = 0;
        for (size_t i = 0; i < fit->n; i++)
            centre += corners[i].at[j] / (double)fit->n;
        out.at[j] = centre + factor * (centre - corners[fit->n].at[j]);
    }
    out.value = evaluate(fit, out.at);
    return out;
}

static void shrink(const Fit *fit, Corner *corners)
{
    for (size_t i = 1; i <= fit->n; i++) {
        for (size_t j = 0; j < fit->n; j++)
            corners[i].at[j] = (corners[i].at[j] + corners[0].at[j]) / 2;
        corners[i].value = evaluate(fit, corners[i].at);
    }
}

static void minimise(const Fit *fit, double size)
{
    Corner corners[MOST_CONSTANTS + 1] = {0};
    for (size_t i = 0; i <= fit->n; i++) {
        for (size_t j = 0; j < fit->n; j++)
            corners[i].at[j] = log(MAX(*fit->unknowns[j].value, 1e-3));
        if (i > 0)
            corners[i].at[i - 1] += size;
    }
    for (size_t i = 0; i <= fit->n; i++)
        corners[i].value = evaluate(fit, corners[i].at);
    for (int n = 0; n < EVALUATIONS; n++) {
        qsort(corners, fit->n + 1, sizeof(Corner), compare_corners);
        Corner *worst = &corners[fit->n];
        Corner next = step(fit, corners, 1);
        if (next.value < corners[0].value) {
            Corner further = step(fit, corners, 2);
            *worst = further.value < next.value ? further : next;
        } else if (next.value < corners[fit->n - 1].value) {
            *worst = next;
        } else {
            Corner nearer = step(fit, corners, next.value < worst->value ? 0.5 : -0.5);
            if (nearer.value < MIN(next.value, worst->value))
                *worst = nearer;
            else
                shrink(fit, corners);
        }
    }
    qsort(corners, fit->n + 1, sizeof(Corner), compare_corners);
    place(fit, corners[0].at);
}

static void add_unknown(Fit *fit, const char *name, double *value, double min, double max)
{
    g_assert(fit->n < MOST_CONSTANTS);
    fit->unknowns[fit->n++] = (Unknown){name, value, min, max};
}

static void add_gemm_unknowns(Fit *fit, SimGemmConstants *gemm)
{
    add_unknown(fit, "start_us", &gemm->start_us, 0.1, 20);
    add_unknown(fit, "efficiency", &gemm->efficiency, 0.1, 1);
    add_unknown(fit, "tile_intensity", &gemm->tile_intensity, 0.1, 80);
    add_unknown(fit, "depth", &gemm->depth, 1, 2000);
    add_unknown(fit, "memory_fraction", &gemm->memory_fraction, 0.1, 1);
    add_unknown(fit, "split_cost", &gemm->split_cost, 0.1, 4);
    add_unknown(fit, "power_drop", &gemm->power_drop, 0.001, 0.5);
    add_unknown(fit, "power_flops", &gemm->power_flops, 1e9, 1e14);
}

/* Only head dimensions that were measured. Published rates are of long kernels and say little about
 * start and bandwidth, which then are the 5 us and the part of the bandwidth that copies reach. */
static void add_attention_unknowns(Fit *fit, SimAttentionConstants *attention, bool is_published)
{
    static const char *const names[] = {"efficiency[0]", "efficiency[1]", "efficiency[2]"};
    bool is_measured[SIM_ATTENTION_HEAD_DIMS] = {false};
    for (size_t i = 0; i < fit->rows->len; i++) {
        const KernelRow *row = &g_array_index(fit->rows, KernelRow, i);
        for (size_t j = 0; j < row->n_works; j++) {
            uint64_t head_dim = row->works[j].head_dim;
            if (head_dim > 0)
                is_measured[head_dim <= 96 ? 0 : head_dim <= 160 ? 1 : 2] = true;
        }
    }
    double bandwidth = fit->gpu->memory_fraction;
    add_unknown(fit, "start_us", &attention->start_us, is_published ? 5 : 1, is_published ? 5 : 20);
    add_unknown(fit, "memory_fraction", &attention->memory_fraction, is_published ? bandwidth : 0.1,
                is_published ? bandwidth : 1);
    add_unknown(fit, "seq_half", &attention->seq_half, 1, 5000);
    add_unknown(fit, "block_waves", &attention->block_waves, 0.01, 5);
    for (size_t i = 0; i < SIM_ATTENTION_HEAD_DIMS; i++) {
        if (is_measured[i])
            add_unknown(fit, names[i], &attention->efficiency[i], 0.05, 1);
    }
}

static void print_result(const Fit *fit)
{
    for (size_t i = 0; i < fit->n; i++)
        printf("%s\"%s\": %.4g", i ? ", " : "", fit->unknowns[i].name, *fit->unknowns[i].value);
    for (int held_out = 0; held_out < 2; held_out++) {
        KernelErrors errors = kernel_rows_compute_errors(fit->gpu, fit->rows, held_out == 1);
        printf("\n  %-8s %5zu rows, error median %.1f %%, 90th percentile %.1f %%",
               held_out ? "held out" : "fitted", errors.n, 100 * errors.median, 100 * errors.p90);
    }
    printf("\n");
}

static void run(Fit *fit)
{
    double size = 0.3;
    for (int i = 0; i < RESTARTS; i++, size /= 2)
        minimise(fit, size);
    print_result(fit);
}

static bool is_norm_row(const TrainingRow *row, SimKernelKind kind)
{
    const KernelRow *kernels = &row->row;
    return kernels->n_works > 0 && kernels->works[kernels->n_works - 1].kind == kind &&
           (kind != SIM_KERNEL_NORM_GRAD || !row->is_both);
}

/* The rows without a reason to stand apart that ATTENTION, or else KIND, decides. */
static GArray *select_rows(GArray *training, const char *gpu, const char *attention,
                           SimKernelKind kind, bool is_backward, bool is_causal)
{
    GArray *rows = g_array_new(FALSE, TRUE, sizeof(KernelRow));
    for (size_t i = 0; i < training->len; i++) {
        const TrainingRow *row = &g_array_index(training, TrainingRow, i);
        bool is_other_gpu = !row->gpu && g_str_has_prefix(row->row.text, gpu);
        bool has_reason = row->apart && !(is_other_gpu && g_str_has_prefix(row->apart, "no file"));
        if (has_reason || !(is_other_gpu || g_strcmp0(row->gpu, gpu) == 0))
            continue;
        bool is_wanted = attention ? g_strcmp0(row->attention, attention) == 0 &&
                                         row->is_causal == is_causal &&
                                         (row->is_backward || row->is_both) == is_backward
                                   : is_norm_row(row, kind);
        if (is_wanted)
            g_array_append_val(rows, row->row);
    }
    return rows;
}

static void fit_training(SimGpu *gpu, const char *rows_gpu, const char *kernel, bool is_backward,
                         bool is_causal)
{
    g_autoptr(GArray) training = training_rows_load();
    g_autoptr(GArray) rows =
        select_rows(training, rows_gpu, kernel, SIM_KERNEL_NORM, is_backward, is_causal);
    const SimAttentionConstants *found =
        sim_kernel_constants_find_attention(gpu->kernels, kernel, is_backward, is_causal);
    if (!found || rows->len == 0)
        g_error("no rows, or no such kernel in the file");
    Fit fit = {.gpu = gpu, .rows = rows};
    SimAttentionConstants *row = &gpu->kernels->attention[found - gpu->kernels->attention];
    add_attention_unknowns(&fit, row, true);
    run(&fit);
}

static void fit_traffic(SimGpu *gpu, const char *rows_gpu, const char *name)
{
    static const struct {
        const char *name;
        SimKernelKind kind;
    } kinds[] = {{"norm", SIM_KERNEL_NORM},
                 {"norm_grad", SIM_KERNEL_NORM_GRAD},
                 {"softmax", SIM_KERNEL_SOFTMAX},
                 {"optimizer", SIM_KERNEL_OPTIMIZER}};
    g_autoptr(GArray) training = training_rows_load();
    for (size_t i = 0; i < G_N_ELEMENTS(kinds); i++) {
        if (!g_str_equal(kinds[i].name, name))
            continue;
        g_autoptr(GArray) rows = select_rows(training, rows_gpu, NULL, kinds[i].kind, false, false);
        Fit fit = {.gpu = gpu, .rows = rows};
        add_unknown(&fit, name, &gpu->kernels->traffic[i], 0.05, 1);
        run(&fit);
    }
}

static void fit_table(SimGpu *gpu, char **arguments)
{
    bool is_gemm = g_str_equal(arguments[1], "gemm");
    g_autoptr(GArray) rows = NULL;
    Fit fit = {.gpu = gpu};
    if (is_gemm) {
        fit.rows = rows = kernel_rows_load_gemm(arguments[3], 1);
        add_gemm_unknowns(&fit, &gpu->kernels->gemm);
    } else {
        bool is_causal = g_str_equal(arguments[5], "causal");
        const SimAttentionConstants *found =
            sim_kernel_constants_find_attention(gpu->kernels, arguments[3], false, is_causal);
        fit.rows = rows = kernel_rows_load_attention(arguments[6], arguments[3], is_causal);
        if (!found)
            g_error("the file has no such kernel");
        add_attention_unknowns(&fit, &gpu->kernels->attention[found - gpu->kernels->attention],
                               false);
    }
    run(&fit);
}

int main(int n_arguments, char **arguments)
{
    g_autoptr(GError) error = NULL;
    const char *what = n_arguments > 3 ? arguments[1] : "";
    g_autoptr(SimGpu) gpu =
        n_arguments > 3 ? sim_gpu_load(SIM_SOURCE_DIR "/models", arguments[2], &error) : NULL;
    if (error)
        g_error("%s", error->message);
    if (g_str_equal(what, "traffic")) {
        fit_traffic(gpu, n_arguments > 4 ? arguments[4] : arguments[2], arguments[3]);
    } else if (g_str_equal(what, "training") && n_arguments > 5) {
        fit_training(gpu, n_arguments > 6 ? arguments[6] : arguments[2], arguments[3],
                     g_str_equal(arguments[4], "backward"), g_str_equal(arguments[5], "causal"));
    } else if ((g_str_equal(what, "gemm")) || (g_str_equal(what, "attention") && n_arguments > 6)) {
        fit_table(gpu, arguments);
    } else {
        fprintf(stderr, "usage: see the head of tests/accuracy/fit_kernels.c\n");
        return 2;
    }
    return 0;
}
