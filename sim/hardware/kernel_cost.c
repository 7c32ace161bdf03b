/* SPDX-License-Identifier: Apache-2.0 */
#include "hardware/kernel_cost.h"

#define PICOSECONDS_A_SECOND 1e12
#define LONGEST 1e18 /* 11 days: any more is absurd, and sums of a few do not overflow */

/* Between two rows of the table linear, beyond its ends constant. */
static double find_fraction(const SimGpu *gpu, double flops)
{
    const SimGpuFraction *rows = gpu->matrix_product;
    size_t n = gpu->n_matrix_product;
    if (flops <= rows[0].flops)
        return rows[0].fraction;
    for (size_t i = 1; i < n; i++) {
        if (flops <= rows[i].flops) {
            double along = (flops - rows[i - 1].flops) / (rows[i].flops - rows[i - 1].flops);
            return rows[i - 1].fraction + along * (rows[i].fraction - rows[i - 1].fraction);
        }
    }
    return rows[n - 1].fraction;
}

/* The peak of the work's arithmetic; f32's where the GPU has none of its own. */
static double find_peak(const SimGpu *gpu, SimPrecision precision)
{
    double peak = gpu->flops_per_s[precision];
    return peak > 0 ? peak : gpu->flops_per_s[SIM_PRECISION_F32];
}

static double compute_fraction(const SimGpu *gpu, const SimKernelWork *work)
{
    switch (work->kind) {
    case SIM_KERNEL_MATRIX_PRODUCT:
        return find_fraction(gpu, (double)work->flops);
    case SIM_KERNEL_ATTENTION_FORWARD:
        return gpu->attention_forward_fraction;
    case SIM_KERNEL_ATTENTION_BACKWARD:
        return gpu->attention_backward_fraction;
    case SIM_KERNEL_MEMORY_BOUND:
        break;
    }
    return 1;
}

/* Rounded up, as all that takes time. */
static SimTime to_time(double seconds)
{
    double picoseconds = MIN(seconds * PICOSECONDS_A_SECOND, LONGEST);
    SimTime time = (SimTime)picoseconds;
    return (double)time < picoseconds ? time + 1 : time;
}

SimTime sim_kernel_cost_compute(const SimGpu *gpu, const SimKernelWork *work)
{
    double memory = (double)work->hbm_bytes / (gpu->hbm_bytes_per_s * gpu->memory_fraction);
    /* A kernel that only moves data needs its start and end on top: no loads are in flight then. */
    if (work->kind == SIM_KERNEL_MEMORY_BOUND)
        return gpu->kernel_time + to_time(memory);

    double arithmetic =
        (double)work->flops / (find_peak(gpu, work->precision) * compute_fraction(gpu, work));
    return MAX(gpu->kernel_time, to_time(MAX(arithmetic, memory)));
}
