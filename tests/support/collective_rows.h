/* SPDX-License-Identifier: Apache-2.0
 *
 * Measured collectives (tests/oracle/nccl/README.md) as calibration points. For tests and for the
 * fit; each includes it once, so all functions are static.
 */
#pragma once

#include "base/csv.h"
#include "base/units.h"
#include "fabric/calibration.h"
#include "fabric/collective.h"
#include "hardware/cluster.h"

#include <glib.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A GPU of series.csv.gz, the cluster that has it, and the longest ring measured. */
typedef struct CollectiveSeries {
    const char *gpu;
    const char *cluster;
} CollectiveSeries;

static const CollectiveSeries collective_series[] = {
    {"a100", "a100"}, {"h100", "h100"}, {"h200", "h200"},
    {"b200", "b200"}, {"b300", "b300"}, {"gb300", "gb200"},
};

static inline SimCsv *collective_rows_load_csv(const char *name)
{
    g_autoptr(GError) error = NULL;
    g_autofree char *path = g_strdup_printf("%s/tests/oracle/nccl/%s.csv.gz", SIM_SOURCE_DIR, name);
    SimCsv *csv = sim_csv_load(path, NULL, &error);
    if (!csv)
        g_error("%s", error->message);
    return csv;
}

static inline const char *collective_rows_cell(const SimCsv *csv, size_t row, const char *column)
{
    return sim_csv_cell(csv, row, sim_csv_column(csv, column));
}

static inline double collective_rows_number(const SimCsv *csv, size_t row, const char *column)
{
    return g_ascii_strtod(collective_rows_cell(csv, row, column), NULL);
}

/* False if it is none that FSDP needs. */
static inline bool collective_rows_find_operation(const char *name, SimCommOperation *operation)
{
    for (unsigned o = 0; o < SIM_COMM_OPERATION_COUNT; o++) {
        *operation = (SimCommOperation)o;
        if (g_str_equal(name, sim_comm_operation_name(*operation)))
            return true;
    }
    return false;
}

static inline SimCluster *collective_rows_load_cluster(const char *name)
{
    g_autoptr(GError) error = NULL;
    SimCluster *cluster = sim_cluster_load(SIM_SOURCE_DIR "/models", name, &error);
    if (!cluster)
        g_error("%s", error->message);
    return cluster;
}

/* The points of one GPU, nccl-tests out of place. */
static inline GArray *collective_rows_load(const char *gpu)
{
    g_autoptr(SimCsv) csv = collective_rows_load_csv("series");
    GArray *points = g_array_new(FALSE, FALSE, sizeof(SimCalibrationPoint));
    for (size_t i = 0; i < sim_csv_rows(csv); i++) {
        SimCalibrationPoint point = {
            .ranks = (uint32_t)collective_rows_number(csv, i, "ranks"),
            .bytes = (uint64_t)collective_rows_number(csv, i, "bytes"),
            .us = collective_rows_number(csv, i, "time_us"),
        };
        if (g_str_equal(collective_rows_cell(csv, i, "gpu"), gpu) &&
            collective_rows_find_operation(collective_rows_cell(csv, i, "collective"),
                                           &point.operation))
            g_array_append_val(points, point);
    }
    return points;
}

/* What the cluster predicts for ranks that fill whole nodes, or lie in one. */
static inline SimCollectiveCost
collective_rows_compute(const SimCluster *cluster, const SimCalibrationPoint *point, uint32_t nodes)
{
    uint32_t local = point->ranks / nodes;
    const SimCollectiveRequest request = {
        .operation = point->operation,
        .bytes = point->bytes,
        .in_place = point->in_place,
        .shape = {point->ranks, nodes, local, local,
                  MAX(local * cluster->nics_per_node / cluster->gpus_per_node, 1)},
    };
    return sim_collective_compute(cluster, &request);
}

/* Predicted over measured, less one. */
static inline double collective_rows_error(const SimCluster *cluster,
                                           const SimCalibrationPoint *point, uint32_t nodes)
{
    SimCollectiveCost cost = collective_rows_compute(cluster, point, nodes);
    return (double)sim_collective_alone(&cost) / SIM_MICROSECOND / point->us - 1;
}

static inline int collective_rows_compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Sorts VALUES; the smallest that a FRACTION of them do not exceed. */
static inline double collective_rows_quantile(GArray *values, double fraction)
{
    g_array_sort(values, collective_rows_compare);
    guint at = (guint)ceil(fraction * values->len);
    return g_array_index(values, double, at > 0 ? at - 1 : 0);
}

static inline double collective_rows_mean(const GArray *values)
{
    double sum = 0;
    for (guint i = 0; i < values->len; i++)
        sum += g_array_index(values, double, i);
    return sum / values->len;
}
