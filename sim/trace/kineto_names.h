/* SPDX-License-Identifier: Apache-2.0
 *
 * What PyTorch's profiler and NCCL call a collective: names by which tools recognise it. Source:
 * torch/csrc/distributed/c10d/ParamCommsUtils.cpp, ProcessGroupNCCL.cpp (record_param_comms) and
 * NCCL's src/device/generate.py. NCCL compiles one general kernel an operation, whose name says
 * RING_LL whatever algorithm and protocol run in it.
 */
#pragma once

#include "plan/plan.h"

#include <stdint.h>

typedef struct SimKinetoElements {
    uint64_t in, out; /* elements of this rank's input and output */
} SimKinetoElements;

/* Of the collective INSTRUCTION among MEMBERS ranks. */
SimKinetoElements sim_kineto_names_elements(SimCollectiveKind kind,
                                            const SimInstruction *instruction, uint32_t members);

const char *sim_kineto_names_collective(SimCollectiveKind kind); /* "_allgather_base" */
const char *sim_kineto_names_kernel(SimCollectiveKind kind);     /* "ncclDevKernel_..." */
const char *sim_kineto_names_dtype(SimDtype dtype);              /* "BFloat16" */
