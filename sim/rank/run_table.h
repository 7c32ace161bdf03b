/* SPDX-License-Identifier: Apache-2.0
 *
 * The kernels of all programs, in runs of those that follow each other on a stream with nothing
 * between them, and how long they take while collectives hold part of the GPU.
 *
 * What is held at a moment is a state; 0 is nothing. What is left of a run from any of its kernels
 * on has two numbers in each state that say all that matters (rank_program.h), computed when first
 * asked for. A job has a dozen states: an all-gather, a reduce-scatter, both, for each size of
 * unit.
 *
 * Memory: 24 bytes a kernel, 16 more for each state in which its run was looked at; 8 a run and
 * state, 8 a class of kernels and state.
 */
#pragma once

#include "hardware/kernel_cost.h"

#include <glib.h>
#include <stdbool.h>
#include <stdint.h>

/* What a collective holds of each member's GPU, from the member's arrival to the end. */
typedef struct SimLoad {
    uint32_t sms;
    uint32_t hbm_gbps; /* of the HBM's bandwidth, whole GB/s: the one place of rounding */
} SimLoad;

#define SIM_KERNEL_CLASS_FIXED UINT32_MAX /* never slowed: fixed durations, copies */

typedef struct SimRunKernel {
    SimTime issued;   /* by a host that never waits (rank_program.h) */
    SimTime duration; /* alone */
    uint32_t class_;
    uint32_t position; /* of its row in the program */
} SimRunKernel;

/* Of the kernels i..n of a run in one state: begun at r, they end at max(r + duration, tail). */
typedef struct SimRunTime {
    SimTime duration; /* d_i + ... + d_n */
    SimTime tail;     /* max over j from i on of (issued_j + d_j + ... + d_n) */
} SimRunTime;

typedef struct SimRunTable SimRunTable;

/* GPU is borrowed. */
SimRunTable *sim_run_table_new(const SimGpu *gpu);
void sim_run_table_free(SimRunTable *table);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(SimRunTable, sim_run_table_free)

/* The number of the class of kernels that cost COST; the same for equal costs. All classes and runs
 * are added before the first state is asked for. */
uint32_t sim_run_table_add_class(SimRunTable *table, const SimKernelCost *cost);

/* Copies KERNELS and returns the run's number. */
uint32_t sim_run_table_add_run(SimRunTable *table, const SimRunKernel *kernels, uint32_t count);

const SimRunKernel *sim_run_table_kernels(const SimRunTable *table, uint32_t run, uint32_t *count);

/* The state in which LOAD is held. O(1), the first time O(classes + runs). */
uint32_t sim_run_table_find_state(SimRunTable *table, SimLoad load);

/* One kernel in STATE. O(1). */
SimTime sim_run_table_duration(const SimRunTable *table, const SimRunKernel *kernel,
                               uint32_t state);

/* [kernels of RUN + 1] what is left from each kernel on, in STATE. Borrowed. O(1), the first time
 * O(kernels). */
const SimRunTime *sim_run_table_rest(SimRunTable *table, uint32_t run, uint32_t state);

/* What LEFT of a kernel in state FROM is in state TO, rounded up. O(1). */
SimTime sim_run_table_rescale(const SimRunTable *table, const SimRunKernel *kernel, uint32_t from,
                              uint32_t to, SimTime left);

/* How long a collective that arrives ELAPSED after KERNEL began waits for SMs: thread blocks are
 * not interrupted, so it waits for the end of the present wave if the kernel has a block for every
 * SM that STATE leaves. */
SimTime sim_run_table_wave_rest(const SimRunTable *table, const SimRunKernel *kernel,
                                uint32_t state, SimTime elapsed);
