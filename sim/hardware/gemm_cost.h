/* SPDX-License-Identifier: Apache-2.0
 *
 * How long a matrix product takes that has the GPU to itself, by its shape. A library like cuBLAS
 * cuts the result into tiles, one thread block each, and runs them in waves of as many as there are
 * SMs; a last wave that is nearly empty takes as long as a full one. Large tiles load less for the
 * same arithmetic, small ones or a split of k fill the SMs better; of 8 tiles and 4 splits the
 * fastest counts:
 *
 *     tiles = batch * ceil(m / tile_m) * ceil(n / tile_n) * split     waves = ceil(tiles / SMs)
 *     k'    = 64 * ceil(k / split / 64) + depth
 *     i     = tile_m * tile_n / (tile_m + tile_n)                     FLOPs an element loaded
 *     rate  = peak * efficiency * (1 - power_drop * F / (F + power_flops))
 *             * [i / (i + tile_intensity)] / [85.33 / (85.33 + tile_intensity)]
 *     time  = start + max(waves * SMs * 2 * tile_m * tile_n * k' / rate,
 *                         (traffic + [split > 1] * 8 * split * split_cost * m * n) / bandwidth)
 *
 * with F = 2 batch m n k, the kernel's traffic and the constants of kernel_constants.h. Products of
 * a millisecond and more run slower on recent GPUs, at their power limit; in a training step, whose
 * products follow each other for longer than the limit averages over, all do ("sustained"). Waves:
 * the guide on matrix multiplication in NVIDIA's deep learning performance documentation. The
 * formula reaches a median error of 2 to 5 % on the tables of ai-dynamo/aiconfigurator for
 * dimensions from 1024 (tests/unit/hardware/test_kernel_cost_tables.c).
 */
#pragma once

#include "hardware/gpu.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct SimGemmShape {
    uint64_t m, n, k, batch;
    double hbm_bytes; /* read and written, without what a split of k adds */
    bool sustained;   /* one of many that keep the GPU at its power limit */
} SimGemmShape;

typedef struct SimGemmCost {
    double seconds;
    uint64_t tiles;  /* thread blocks of the fastest way; 0 if traffic decides the time */
    double fraction; /* of the peak that an SM with a tile reaches */
} SimGemmCost;

/* PEAK in FLOP/s. The dimensions are above zero. O(1), 32 ways are tried. */
SimGemmCost sim_gemm_cost_compute(const SimGpu *gpu, double peak, const SimGemmShape *shape);
