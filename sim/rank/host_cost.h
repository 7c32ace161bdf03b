/* SPDX-License-Identifier: Apache-2.0
 *
 * What a row of the plan costs the host thread that issues it, in eager PyTorch.
 *
 *     kernel                  the GPU's `launch` (models/gpus): operator and launch, 8 us
 *     copy                    the same
 *     collective              71 us: c10d's operator, its bookkeeping, NCCL's enqueue
 *     record                  2.4 us
 *     wait                    1 us
 *     alloc, free, view       0: an operator allocates its outputs, that is in its kernel's cost
 *     host                    what the row says
 *
 * Operators that launch nothing (views, casts of nothing) and Python between them are not rows and
 * not counted, so a small model may be more host-bound than said here, never less.
 *
 * Source: public traces of eager PyTorch in facebookresearch/HolisticTraceAnalysis (tests/data), by
 * the profiler, whose own cost is part of them. 16-rank FSDP on A100 (ag_rs_base): tenth
 * percentiles of aten::mul with its launch 8 us, aten::copy_ 8 us, c10d::_allgather_base_ 71 us,
 * median of cudaStreamWaitEvent 1 us; nccl_data: median of cudaEventRecord 2.4 us.
 */
#pragma once

#include "hardware/gpu.h"
#include "plan/plan.h"

SimTime sim_host_cost_compute(const SimGpu *gpu, const SimInstruction *instruction);
