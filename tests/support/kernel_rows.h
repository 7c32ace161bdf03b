/* SPDX-License-Identifier: Apache-2.0
 *
 * Measured kernels (tests/oracle/kernels/README.md) as works that the cost model can be asked for.
 * For the tests of kernel costs and for the fit; each includes it once, so all functions are
 * static.
 */
#pragma once

#include "base/csv.h"
#include "base/units.h"
#include "hardware/kernel_cost.h"

#include <glib.h>
#include <stdlib.h>
#include <string.h>

#define KERNEL_ROW_MOST_WORKS 16

/* One measurement: kernels that ran one after the other, and how long they took together. */
typedef struct KernelRow {
    char *text; /* the shape, for messages */
    SimKernelWork works[KERNEL_ROW_MOST_WORKS];
    size_t n_works;
    double seconds;
    bool is_held_out;
} KernelRow;

static inline void kernel_row_clear(void *data)
{
    g_free(((KernelRow *)data)->text);
}

static inline GArray *kernel_rows_new(void)
{
    GArray *rows = g_array_new(FALSE, TRUE, sizeof(KernelRow));
    g_array_set_clear_func(rows, kernel_row_clear);
    return rows;
}

/* One shape in five, the same on every GPU (FNV-1a of its text, its high bits mixed in). */
static inline bool kernel_row_is_held_out(const char *shape)
{
    uint32_t hash = UINT32_C(2166136261);
    for (const char *at = shape; *at; at++)
        hash = (hash ^ (unsigned char)*at) * UINT32_C(16777619);
    hash = (hash ^ hash >> 15) * UINT32_C(2246822519);
    return (hash ^ hash >> 13) % 5 == 0;
}

static inline SimCsv *kernel_rows_load_csv(const char *name)
{
    g_autoptr(GError) error = NULL;
    g_autofree char *path =
        g_strdup_printf("%s/tests/oracle/kernels/%s.csv.gz", SIM_SOURCE_DIR, name);
    SimCsv *csv = sim_csv_load(path, NULL, &error);
    if (!csv)
        g_error("%s", error->message);
    return csv;
}

static inline double kernel_rows_number(const SimCsv *csv, size_t row, const char *column)
{
    return g_ascii_strtod(sim_csv_cell(csv, row, sim_csv_column(csv, column)), NULL);
}

static inline uint64_t kernel_rows_count(const SimCsv *csv, size_t row, const char *column)
{
    return g_ascii_strtoull(sim_csv_cell(csv, row, sim_csv_column(csv, column)), NULL, 10);
}

/* The products of GPU__gemm.csv with no dimension below LEAST. */
static inline GArray *kernel_rows_load_gemm(const char *gpu, uint64_t least)
{
    g_autofree char *name = g_strconcat(gpu, "__gemm", NULL);
    g_autoptr(SimCsv) csv = kernel_rows_load_csv(name);
    GArray *rows = kernel_rows_new();
    for (size_t i = 0; i < sim_csv_rows(csv); i++) {
        SimKernelWork work = {.kind = SIM_KERNEL_MATRIX_PRODUCT,
                              .precision = SIM_PRECISION_BF16,
                              .m = kernel_rows_count(csv, i, "m"),
                              .n = kernel_rows_count(csv, i, "n"),
                              .k = kernel_rows_count(csv, i, "k")};
        if (work.m < least || work.n < least || work.k < least)
            continue;
        work.flops = 2 * work.m * work.n * work.k;
        work.hbm_bytes = 2 * (work.m * work.k + work.n * work.k + work.m * work.n);
        KernelRow row = {
            .works = {work}, .n_works = 1, .seconds = kernel_rows_number(csv, i, "time_us") * 1e-6};
        row.text = g_strdup_printf("%" G_GUINT64_FORMAT ",%" G_GUINT64_FORMAT ",%" G_GUINT64_FORMAT,
                                   work.m, work.n, work.k);
        row.is_held_out = kernel_row_is_held_out(row.text);
        g_array_append_val(rows, row);
    }
    return rows;
}

/* Bytes of bf16 that one of TENSORS of queries or of keys takes. */
static inline uint64_t kernel_rows_tensor_bytes(uint64_t batch, uint64_t seq, uint64_t heads,
                                                uint64_t head_dim)
{
    return 2 * batch * seq * heads * head_dim;
}

/* The rows of GPU__attention_forward.csv under one mask, as kernel NAME of models/kernels. */
static inline GArray *kernel_rows_load_attention(const char *gpu, const char *name, bool causal)
{
    g_autofree char *file = g_strconcat(gpu, "__attention_forward", NULL);
    g_autoptr(SimCsv) csv = kernel_rows_load_csv(file);
    GArray *rows = kernel_rows_new();
    for (size_t i = 0; i < sim_csv_rows(csv); i++) {
        if ((kernel_rows_count(csv, i, "causal") == 1) != causal)
            continue;
        uint64_t batch = kernel_rows_count(csv, i, "batch");
        SimKernelWork work = {.kind = SIM_KERNEL_ATTENTION_FORWARD,
                              .precision = SIM_PRECISION_BF16,
                              .heads = kernel_rows_count(csv, i, "heads"),
                              .kv_heads = kernel_rows_count(csv, i, "kv_heads"),
                              .seq = kernel_rows_count(csv, i, "seq"),
                              .head_dim = kernel_rows_count(csv, i, "head_dim"),
                              .causal = causal,
                              .attention = name};
        work.flops = 4 * batch * work.heads * work.seq * work.seq * work.head_dim;
        /* Queries and outputs; keys and values are read and, causal, copied into the cache. */
        uint64_t passes = causal ? 6 : 2;
        work.hbm_bytes =
            2 * kernel_rows_tensor_bytes(batch, work.seq, work.heads, work.head_dim) +
            passes * kernel_rows_tensor_bytes(batch, work.seq, work.kv_heads, work.head_dim);
        KernelRow row = {
            .works = {work}, .n_works = 1, .seconds = kernel_rows_number(csv, i, "time_us") * 1e-6};
        row.text = g_strdup_printf("b=%d s=%d h=%d kv=%d d=%d", (int)batch, (int)work.seq,
                                   (int)work.heads, (int)work.kv_heads, (int)work.head_dim);
        row.is_held_out = kernel_row_is_held_out(row.text);
        g_array_append_val(rows, row);
    }
    return rows;
}

/* What the model says of all works of ROW together, in seconds. */
static inline double kernel_row_compute(const SimGpu *gpu, const KernelRow *row)
{
    SimTime sum = 0;
    for (size_t i = 0; i < row->n_works; i++)
        sum += sim_kernel_cost_compute(gpu, &row->works[i]);
    return (double)sum * 1e-12;
}

static inline int kernel_rows_compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

typedef struct KernelErrors {
    size_t n;
    double median, p90; /* of |model / measured - 1| */
} KernelErrors;

/* Over the rows that are, or are not, held out. */
static inline KernelErrors kernel_rows_compute_errors(const SimGpu *gpu, const GArray *rows,
                                                      bool held_out)
{
    KernelErrors errors = {0};
    g_autofree double *values = g_new(double, MAX(rows->len, 1));
    for (size_t i = 0; i < rows->len; i++) {
        const KernelRow *row = &g_array_index(rows, KernelRow, i);
        double relative = kernel_row_compute(gpu, row) / row->seconds - 1;
        if (row->is_held_out == held_out)
            values[errors.n++] = relative < 0 ? -relative : relative;
    }
    if (errors.n == 0)
        return errors;
    qsort(values, errors.n, sizeof(double), kernel_rows_compare);
    errors.median = values[errors.n / 2];
    errors.p90 = values[errors.n * 9 / 10];
    return errors;
}
