/* SPDX-License-Identifier: Apache-2.0
 *
 * Learns the constants of a collective inside a node from measured times: those of the pair
 * (algorithm, protocol) that NCCL takes for each measured size (fabric/selector.h).
 *
 * The formula of hardware/comm.h is linear in base, hop, extra, ramp and the reciprocals of both
 * rates, so that this is least squares of the relative errors under the condition that none is
 * negative, solved exactly: of all subsets of the unknowns the best whose solution is positive
 * (Lawson and Hanson, Solving Least Squares Problems, chapter 23). Errors above 8 per cent count
 * less (Huber), so that single outliers do not bend the rest. A ring is not allowed more than the
 * specification of the GPU's links, nor NVLS more than NCCL itself expects of it.
 *
 * NCCL takes LL128 inside a node for two or three sizes at most, so of it only the base is learnt:
 * a hop is NCCL's own 1.9 us, the wire carries 120 of 128 bytes, the copy is that of Simple.
 */
#pragma once

#include "hardware/cluster.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* One measured collective inside a node. */
typedef struct SimCalibrationPoint {
    SimCommOperation operation;
    uint32_t ranks; /* at least 2 */
    uint64_t bytes; /* the full buffer */
    bool in_place;
    double us;
} SimCalibrationPoint;

/* Which of a cluster's rows to learn. */
typedef struct SimCalibrationTarget {
    SimCommOperation operation;
    SimCommAlgorithm algorithm;
    SimCommProtocol protocol;
} SimCalibrationTarget;

/* Fills ROW from those POINTS that NCCL would run as TARGET on CLUSTER (whose own constants do not
 * matter, but which must have a tuner); false if they are too few. For LL128, ROW is the Simple
 * ring's when called. O(points). */
bool sim_calibration_compute(const SimCluster *cluster, const SimCalibrationPoint *points,
                             size_t count, const SimCalibrationTarget *target, SimCommRow *row);
