/* SPDX-License-Identifier: Apache-2.0 */
#include "hardware/kernel_cost.h"

#include "hardware/attention_cost.h"
#include "hardware/gemm_cost.h"

#define PICOSECONDS_A_SECOND 1e12
#define LONGEST 1e18 /* 11 days: any more is absurd, and sums of a few do not overflow */

/* The most that overlapping slows a kernel whose waves are not what slows it: at most 40 % on A100,
 * H100, MI210 and MI250 in the published comparison of overlapped with sequential execution. */
#define LARGEST_SLOWDOWN 1.4

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

static double element_bytes(SimPrecision precision)
{
    switch (precision) {
    case SIM_PRECISION_F32:
    case SIM_PRECISION_TF32:
        return 4;
    case SIM_PRECISION_BF16:
    case SIM_PRECISION_F16:
        return 2;
    case SIM_PRECISION_F8:
        break;
    }
    return 1;
}

/* Rounded up, as all that takes time. */
static SimTime round_up(double picoseconds)
{
    SimTime time = (SimTime)MIN(picoseconds, LONGEST);
    return (double)time < MIN(picoseconds, LONGEST) ? time + 1 : time;
}

static SimTime to_time(double seconds)
{
    return round_up(seconds * PICOSECONDS_A_SECOND);
}

/* Part of the bandwidth that a kernel bound by memory reaches. */
static double memory_fraction(const SimGpu *gpu, SimKernelKind kind)
{
    if (!gpu->kernels)
        return gpu->memory_fraction;
    switch (kind) {
    case SIM_KERNEL_NORM:
        return gpu->kernels->traffic[SIM_TRAFFIC_NORM];
    case SIM_KERNEL_NORM_GRAD:
        return gpu->kernels->traffic[SIM_TRAFFIC_NORM_GRAD];
    case SIM_KERNEL_SOFTMAX:
        return gpu->kernels->traffic[SIM_TRAFFIC_SOFTMAX];
    case SIM_KERNEL_OPTIMIZER:
        return gpu->kernels->traffic[SIM_TRAFFIC_OPTIMIZER];
    case SIM_KERNEL_MEMORY_BOUND:
    case SIM_KERNEL_MATRIX_PRODUCT:
    case SIM_KERNEL_ATTENTION_FORWARD:
    case SIM_KERNEL_ATTENTION_BACKWARD:
        break;
    }
    return gpu->memory_fraction;
}

static SimKernelCost describe_memory_bound(const SimGpu *gpu, const SimKernelWork *work)
{
    double rate = gpu->hbm_bytes_per_s * memory_fraction(gpu, work->kind);
    return (SimKernelCost){
        .duration = gpu->kernel_time + to_time((double)work->hbm_bytes / rate),
        .is_memory_bound = true,
    };
}

static SimKernelCost describe_product(const SimGpu *gpu, const SimKernelWork *work)
{
    SimGemmShape shape = {.m = work->m,
                          .n = work->n,
                          .k = work->k,
                          .batch = MAX(work->batch, 1),
                          .hbm_bytes = (double)work->hbm_bytes,
                          .sustained = work->sustained};
    if (work->hbm_bytes == 0) {
        double m = (double)work->m, n = (double)work->n, k = (double)work->k;
        shape.hbm_bytes =
            element_bytes(work->precision) * (double)shape.batch * (m * k + n * k + m * n);
    }
    double peak = find_peak(gpu, work->precision);
    if (work->layout == SIM_GEMM_NT)
        peak *= gpu->kernels->weight_gradient;
    SimGemmCost gemm = sim_gemm_cost_compute(gpu, peak, &shape);
    return (SimKernelCost){
        .duration = to_time(gemm.seconds),
        .is_memory_bound = gemm.tiles == 0,
        .tiles = gemm.tiles,
        .lone_tile = MIN(1, gemm.fraction / gpu->kernels->boost),
    };
}

/* NULL if neither the file nor the dimensions say enough. */
static const SimAttentionConstants *find_attention(const SimGpu *gpu, const SimKernelWork *work)
{
    bool is_backward = work->kind == SIM_KERNEL_ATTENTION_BACKWARD;
    if (!gpu->kernels || work->seq == 0 || work->head_dim == 0 || work->flops == 0)
        return NULL;
    return sim_kernel_constants_find_attention(gpu->kernels, work->attention, is_backward,
                                               work->causal);
}

static SimKernelCost describe_attention(const SimGpu *gpu, const SimKernelWork *work,
                                        const SimAttentionConstants *constants)
{
    SimAttentionShape shape = {
        .seq = work->seq,
        .head_dim = work->head_dim,
        .flops = (double)work->flops,
        .hbm_bytes = (double)work->hbm_bytes,
        .is_backward = constants->is_backward,
        .is_causal = work->causal,
    };
    double peak = find_peak(gpu, work->precision);
    return (SimKernelCost){.duration =
                               to_time(sim_attention_cost_compute(gpu, constants, peak, &shape))};
}

/* Without dimensions: the fraction of the FLOPs alone. */
static SimKernelCost describe_by_flops(const SimGpu *gpu, const SimKernelWork *work)
{
    double flops = (double)work->flops;
    double fraction = find_fraction(gpu, flops);
    if (work->kind == SIM_KERNEL_ATTENTION_FORWARD)
        fraction = gpu->attention_forward_fraction;
    if (work->kind == SIM_KERNEL_ATTENTION_BACKWARD)
        fraction = gpu->attention_backward_fraction;
    if (work->causal)
        flops /= 2;
    double arithmetic = flops / (find_peak(gpu, work->precision) * fraction);
    double memory = (double)work->hbm_bytes / (gpu->hbm_bytes_per_s * gpu->memory_fraction);
    return (SimKernelCost){
        .duration = MAX(gpu->kernel_time, to_time(MAX(arithmetic, memory))),
        .is_memory_bound = memory > arithmetic,
    };
}

static SimKernelCost describe(const SimGpu *gpu, const SimKernelWork *work)
{
    switch (work->kind) {
    case SIM_KERNEL_MATRIX_PRODUCT:
        if (gpu->kernels && work->m > 0 && work->n > 0 && work->k > 0)
            return describe_product(gpu, work);
        return describe_by_flops(gpu, work);
    case SIM_KERNEL_ATTENTION_FORWARD:
    case SIM_KERNEL_ATTENTION_BACKWARD: {
        const SimAttentionConstants *constants = find_attention(gpu, work);
        return constants ? describe_attention(gpu, work, constants) : describe_by_flops(gpu, work);
    }
    case SIM_KERNEL_MEMORY_BOUND:
    case SIM_KERNEL_NORM:
    case SIM_KERNEL_NORM_GRAD:
    case SIM_KERNEL_SOFTMAX:
    case SIM_KERNEL_OPTIMIZER:
        break;
    }
    return describe_memory_bound(gpu, work);
}

SimKernelCost sim_kernel_cost_describe(const SimGpu *gpu, const SimKernelWork *work)
{
    SimKernelCost cost = describe(gpu, work);
    if (cost.duration > 0)
        cost.hbm_bytes_per_s =
            (double)work->hbm_bytes / ((double)cost.duration / PICOSECONDS_A_SECOND);
    return cost;
}

SimTime sim_kernel_cost_compute(const SimGpu *gpu, const SimKernelWork *work)
{
    return describe(gpu, work).duration;
}

/* Time of TILES thread blocks on SMS, in that of one full wave. The last wave shares the power of
 * the GPU among fewer. */
static double count_waves(const SimKernelCost *cost, uint32_t sms)
{
    double waves = (double)(cost->tiles / sms);
    uint64_t last = cost->tiles % sms;
    if (last > 0)
        waves += MAX(cost->lone_tile, (double)last / sms);
    return waves;
}

/* Of two that want more than there is each gets half, unless the other wants less. */
static double slow_memory(const SimGpu *gpu, double demand, double taken)
{
    double capacity = gpu->hbm_bytes_per_s * gpu->memory_fraction;
    double share = MAX(capacity / 2, capacity - taken);
    return demand > share ? demand / share : 1;
}

SimTime sim_kernel_cost_slowed(const SimGpu *gpu, const SimKernelCost *cost, uint32_t sms_held,
                               double hbm_taken)
{
    uint32_t free_sms = gpu->sms > sms_held ? gpu->sms - sms_held : 1;
    double slowdown = slow_memory(gpu, cost->hbm_bytes_per_s, hbm_taken);
    bool has_waves = !cost->is_memory_bound && cost->tiles > 0;
    if (!cost->is_memory_bound && !has_waves)
        slowdown = MAX(slowdown, (double)gpu->sms / free_sms);
    slowdown = MIN(slowdown, LARGEST_SLOWDOWN);
    if (has_waves)
        slowdown = MAX(slowdown, count_waves(cost, free_sms) / count_waves(cost, gpu->sms));
    return slowdown > 1 ? round_up((double)cost->duration * slowdown) : cost->duration;
}
