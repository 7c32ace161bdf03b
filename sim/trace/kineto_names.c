/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/kineto_names.h"

SimKinetoElements sim_kineto_names_elements(SimCollectiveKind kind,
                                            const SimInstruction *instruction, uint32_t members)
{
    uint64_t whole = instruction->bytes / MAX(1, sim_dtype_bytes((SimDtype)instruction->dtype));
    SimKinetoElements elements = {whole, whole};
    if (kind == SIM_COLLECTIVE_ALL_GATHER) {
        elements.in = whole / members;
    } else if (kind == SIM_COLLECTIVE_REDUCE_SCATTER) {
        elements.out = whole / members;
    }
    return elements;
}

const char *sim_kineto_names_collective(SimCollectiveKind kind)
{
    switch (kind) {
    case SIM_COLLECTIVE_ALL_GATHER:
        return "_allgather_base";
    case SIM_COLLECTIVE_REDUCE_SCATTER:
        return "_reduce_scatter_base";
    case SIM_COLLECTIVE_ALL_REDUCE:
        return "allreduce";
    case SIM_COLLECTIVE_BROADCAST:
        return "broadcast";
    case SIM_COLLECTIVE_NONE:
    case SIM_COLLECTIVE_COUNT:
        break;
    }
    return "";
}

const char *sim_kineto_names_kernel(SimCollectiveKind kind)
{
    switch (kind) {
    case SIM_COLLECTIVE_ALL_GATHER:
        return "ncclDevKernel_AllGather_RING_LL";
    case SIM_COLLECTIVE_REDUCE_SCATTER:
        return "ncclDevKernel_ReduceScatter_Sum_f32_RING_LL";
    case SIM_COLLECTIVE_ALL_REDUCE:
        return "ncclDevKernel_AllReduce_Sum_f32_RING_LL";
    case SIM_COLLECTIVE_BROADCAST:
        return "ncclDevKernel_Broadcast_RING_LL";
    case SIM_COLLECTIVE_NONE:
    case SIM_COLLECTIVE_COUNT:
        break;
    }
    return "";
}

const char *sim_kineto_names_dtype(SimDtype dtype)
{
    switch (dtype) {
    case SIM_DTYPE_F32:
        return "Float";
    case SIM_DTYPE_BF16:
        return "BFloat16";
    case SIM_DTYPE_F16:
        return "Half";
    case SIM_DTYPE_F8:
        return "Float8_e4m3fn";
    case SIM_DTYPE_I64:
        return "Long";
    case SIM_DTYPE_U8:
        return "Byte";
    case SIM_DTYPE_C64:
        return "ComplexFloat";
    case SIM_DTYPE_I32:
        return "Int";
    case SIM_DTYPE_NONE:
    case SIM_DTYPE_COUNT:
        break;
    }
    return "";
}
