/* SPDX-License-Identifier: Apache-2.0 */
#include "hardware/gemm_cost.h"

#include <float.h>

#define K_STEP 64 /* elements of k that a thread block loads at once */
#define LARGEST_INTENSITY (128.0 * 256.0 / (128.0 + 256.0))
#define PARTIAL_BYTES 8 /* a partial sum in f32, written and read */
#define MICROSECOND 1e-6

typedef struct Tile {
    uint32_t m, n;
} Tile;

/* Tiles that cuBLAS's and CUTLASS's kernels come in. */
static const Tile tile_sizes[] = {{256, 128}, {128, 256}, {128, 128}, {64, 256},
                                  {256, 64},  {128, 64},  {64, 128},  {64, 64}};
static const uint32_t splits[] = {1, 2, 4, 8};

static uint64_t divide_up(uint64_t a, uint64_t b)
{
    return a / b + (a % b != 0);
}

static double saturate(double intensity, double half)
{
    return intensity / (intensity + half);
}

/* What all ways have in common. */
typedef struct Product {
    const SimGpu *gpu;
    const SimGemmConstants *constants;
    const SimGemmShape *shape;
    double peak;
    double fraction; /* of the peak, in the largest tile */
} Product;

static SimGemmCost compute_way(const Product *product, Tile tile, uint32_t split)
{
    const SimGemmConstants *constants = product->constants;
    const SimGemmShape *shape = product->shape;
    uint32_t sms = product->gpu->sms;
    SimGemmCost cost = {.tiles = shape->batch * divide_up(shape->m, tile.m) *
                                 divide_up(shape->n, tile.n) * split};
    double intensity = (double)tile.m * tile.n / (tile.m + tile.n);
    cost.fraction = product->fraction * saturate(intensity, constants->tile_intensity) /
                    saturate(LARGEST_INTENSITY, constants->tile_intensity);
    double depth =
        K_STEP * (double)divide_up(shape->k, (uint64_t)split * K_STEP) + constants->depth;
    double arithmetic = (double)divide_up(cost.tiles, sms) * sms * 2.0 * tile.m * tile.n * depth /
                        (product->peak * cost.fraction);
    double bytes = shape->hbm_bytes;
    if (split > 1)
        bytes += PARTIAL_BYTES * constants->split_cost * split * (double)shape->batch *
                 (double)shape->m * (double)shape->n;
    double memory = bytes / (product->gpu->hbm_bytes_per_s * constants->memory_fraction);
    if (memory > arithmetic)
        cost.tiles = 0;
    cost.seconds = constants->start_us * MICROSECOND + MAX(arithmetic, memory);
    return cost;
}

SimGemmCost sim_gemm_cost_compute(const SimGpu *gpu, double peak, const SimGemmShape *shape)
{
    const SimGemmConstants *constants = &gpu->kernels->gemm;
    double flops =
        2.0 * (double)shape->batch * (double)shape->m * (double)shape->n * (double)shape->k;
    double part = shape->sustained ? 1 : flops / (flops + constants->power_flops);
    double power = constants->power_drop * part;
    Product product = {gpu, constants, shape, peak, constants->efficiency * (1 - power)};
    if (shape->sustained)
        product.fraction *= gpu->sustained_clock;
    SimGemmCost best = {.seconds = DBL_MAX};
    for (size_t i = 0; i < G_N_ELEMENTS(tile_sizes); i++) {
        for (size_t j = 0; j < G_N_ELEMENTS(splits); j++) {
            SimGemmCost cost = compute_way(&product, tile_sizes[i], splits[j]);
            if (cost.seconds < best.seconds)
                best = cost;
        }
    }
    return best;
}
