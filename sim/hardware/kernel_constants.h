/* SPDX-License-Identifier: Apache-2.0
 *
 * How near kernels come to the peaks of a GPU: the constants of sim/hardware/gemm_cost.h,
 * attention_cost.h and kernel_cost.h, which say what each does in the formula.
 *
 * Loaded from models/kernels/NAME.json, where each group stands beside its source. GPUs of one
 * generation share a file: peaks and bandwidth are the GPU's own (gpu.h), the constants are
 * relative to them. tests/accuracy/fit_kernels.c fits those of measured GPUs.
 *
 * The attention kernel that comes first is the one that counts unless another is asked for:
 * FlashAttention-2, which scaled_dot_product_attention takes
 * (aten/src/ATen/native/transformers/cuda/ sdp_utils.cpp, before its builds with cuDNN 9.15 put
 * cuDNN first on compute capability 9.0 and 10.0), and cuDNN on Blackwell, of which
 * FlashAttention-2 reaches a fifth of the peak.
 */
#pragma once

#include "hardware/basis.h"

#include <glib.h>
#include <stdbool.h>
#include <stddef.h>

/* One matrix product (gemm_cost.h). */
typedef struct SimGemmConstants {
    double start_us;        /* from one kernel to the next, of no work */
    double efficiency;      /* of the peak, in the largest tile */
    double tile_intensity;  /* elements: the smaller, the less small tiles cost */
    double depth;           /* fill and drain of a tile's pipeline, in units of k */
    double memory_fraction; /* of the HBM's bandwidth */
    double split_cost;      /* traffic of a split k, in f32 read and written once */
    double power_drop;      /* part of the rate that the longest products lose to the power limit */
    double power_flops;     /* where half of that is lost */
} SimGemmConstants;

#define SIM_ATTENTION_HEAD_DIMS 3 /* up to 96, up to 160, above */

/* One direction of one attention kernel under one mask (attention_cost.h). */
typedef struct SimAttentionConstants {
    char *kernel; /* "flash2", "flash3", "cudnn", ... */
    bool is_backward;
    bool is_causal;
    double start_us;
    double seq_half;        /* tokens: where half of the efficiency is reached */
    double block_waves;     /* waves of blocks with which half of it is reached */
    double memory_fraction; /* of the HBM's bandwidth */
    double efficiency[SIM_ATTENTION_HEAD_DIMS]; /* of the peak, on the FLOPs that are executed */
} SimAttentionConstants;

/* Kernels bound by memory that reach less of the bandwidth than copies do. */
typedef enum SimTraffic {
    SIM_TRAFFIC_NORM,
    SIM_TRAFFIC_NORM_GRAD,
    SIM_TRAFFIC_SOFTMAX, /* rows longer than shared memory, as vocabularies are */
    SIM_TRAFFIC_OPTIMIZER,
} SimTraffic;
#define SIM_TRAFFIC_COUNT 4

typedef struct SimKernelConstants {
    SimBasis basis;
    double boost; /* the highest clock over the one that the stated peak is for */
    SimGemmConstants gemm;
    double weight_gradient; /* rate of a product over tokens (layout NT), of the others' */
    double traffic[SIM_TRAFFIC_COUNT]; /* of the HBM's bandwidth, each tensor counted once */
    SimAttentionConstants *attention;  /* the first is of the kernel that PyTorch takes by itself */
    size_t n_attention;
} SimKernelConstants;

/* NAME: a name in MODELS/kernels, or a path that ends in .json. An unknown name is a SCHEMA error
 * with the nearest one. Errors also IO, PARSE, RANGE. */
SimKernelConstants *sim_kernel_constants_load(const char *models, const char *name, GError **error);
void sim_kernel_constants_free(SimKernelConstants *constants);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(SimKernelConstants, sim_kernel_constants_free)

/* The constants of KERNEL (NULL: what PyTorch takes), in this direction; those of the other mask if
 * it has none for this one, NULL if it has none at all. Borrowed. O(n_attention). */
const SimAttentionConstants *
sim_kernel_constants_find_attention(const SimKernelConstants *constants, const char *kernel,
                                    bool is_backward, bool is_causal);
