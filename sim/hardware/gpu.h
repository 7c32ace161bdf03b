/* SPDX-License-Identifier: Apache-2.0
 *
 * One GPU as the simulation sees it: memory, peak rates, and which part of them real kernels reach.
 *
 * Loaded from models/gpus/NAME.json, where every value stands beside its source:
 *
 *     "hbm": {"value": "3350GB/s", "source": "NVIDIA H100 datasheet"}
 *
 * "kernels" names a file of models/kernels (kernel_constants.h), which similar GPUs share.
 *
 * Sizes, rates and durations are strings with a unit, counts and fractions are numbers. Keys are
 * strict: an unknown or missing one is an error that names its path.
 */
#pragma once

#include "base/dtype.h"
#include "base/units.h"
#include "hardware/basis.h"
#include "hardware/kernel_constants.h"

#include <glib.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* In which arithmetic a kernel computes. f32 is without TF32, as PyTorch's default is. */
typedef enum SimPrecision {
    SIM_PRECISION_F32,
    SIM_PRECISION_TF32,
    SIM_PRECISION_BF16,
    SIM_PRECISION_F16,
    SIM_PRECISION_F8,
} SimPrecision;
#define SIM_PRECISION_COUNT 5

#define SIM_GPU_MAX_FRACTIONS 12

/* Achieved part of the peak at a size, between two rows linear in the FLOPs. */
typedef struct SimGpuFraction {
    double flops;
    double fraction;
} SimGpuFraction;

typedef struct SimGpu {
    char *name;  /* "h100" */
    char *title; /* "NVIDIA H100 SXM 80 GB" */
    SimBasis basis;
    uint64_t memory_bytes;       /* the total that cudaMemGetInfo gives */
    uint64_t context_bytes;      /* CUDA context and loaded kernels, taken from that total */
    uint32_t compute_capability; /* 90 = sm_90: decides sizes of cuBLAS workspaces */
    uint32_t sms;
    double hbm_bytes_per_s;
    double flops_per_s[SIM_PRECISION_COUNT]; /* dense peak; 0 where the GPU has none */
    double memory_fraction;                  /* of hbm_bytes_per_s, large memory-bound kernels */
    SimGpuFraction matrix_product[SIM_GPU_MAX_FRACTIONS]; /* by FLOPs of one product, ascending */
    size_t n_matrix_product;
    double attention_forward_fraction;  /* of the peak, counted on the FLOPs that are executed */
    double attention_backward_fraction; /* the same */
    SimTime launch_time;                /* what one kernel costs the host thread that launches it */
    SimTime kernel_time;                /* the shortest time a kernel takes on the GPU */
    SimKernelConstants *kernels;        /* by shape; NULL: by the fractions above alone */
    double sustained_clock;  /* that the power limit leaves to products, over that of the GPU on
                                which `kernels` were measured; 1 where the file does not say */
    double pcie_bytes_per_s; /* between GPU and host, one direction, as achieved */
} SimGpu;

/* NAME: a name in MODELS/gpus, or a path that ends in .json. MODELS is the folder models/. An
 * unknown name is a SCHEMA error with the nearest one. Errors also IO, PARSE, RANGE. */
SimGpu *sim_gpu_load(const char *models, const char *name, GError **error);
void sim_gpu_free(SimGpu *gpu);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(SimGpu, sim_gpu_free)

/* In what a kernel on elements of DTYPE computes; integers, which do no arithmetic that matters,
 * and NONE count as f32. */
SimPrecision sim_gpu_precision(SimDtype dtype);
