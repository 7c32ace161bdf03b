/* SPDX-License-Identifier: Apache-2.0
 *
 * What the files that describe operators share: writing a call's events down in host order. Private
 * to operator_*.c.
 */
#pragma once

#include "model/operator.h"

/* Allocates the next output. */
void sim_operator_describe_output(SimOperatorCall *call, const SimLayout *layout);
/* The next output is a part of input 0, OFFSET elements in. */
void sim_operator_describe_view(SimOperatorCall *call, const SimLayout *layout, uint64_t offset);
void sim_operator_describe_scratch(SimOperatorCall *call, uint64_t bytes);
void sim_operator_describe_release(SimOperatorCall *call, uint32_t n);
void sim_operator_describe_release_below(SimOperatorCall *call);

#define SIM_OPERATOR_ALL UINT32_MAX
/* Launches NAME, which reads inputs READS and writes outputs WRITES (bits; ALL), each once. */
SimOperatorKernel *sim_operator_describe_kernel(SimOperatorCall *call, SimOperator name,
                                                uint32_t reads, uint32_t writes);

/* attributes->dims with the job's batch and sequence filled in, and what they leave of input 0. */
SimShape sim_operator_describe_shape(const SimOperatorCall *call);

/* cuBLAS's workspace, which a matrix product takes for the length of the call. */
uint64_t sim_operator_describe_workspace(const SimOperatorCall *call);

/* What a pointwise result of CALL's inputs is of (c10/core/ScalarType.cpp, promoteTypes). */
SimDtype sim_operator_describe_promoted(const SimOperatorCall *call);

/* attributes->dtype, or the job's compute dtype. */
SimDtype sim_operator_describe_dtype(const SimOperatorCall *call);

/* Storage of cub::DeviceRadixSort for pairs of 8 bytes by keys of BITS bits. */
uint64_t sim_operator_describe_sort_bytes(uint64_t items, uint64_t bits);

/* One file's operators each; false if CALL's operator is none of them. */
bool sim_operator_describe_views(SimOperatorCall *call);
bool sim_operator_describe_pointwise(SimOperatorCall *call);
bool sim_operator_describe_matrix(SimOperatorCall *call);
bool sim_operator_describe_norm(SimOperatorCall *call);
bool sim_operator_describe_attention(SimOperatorCall *call);
bool sim_operator_describe_tokens(SimOperatorCall *call);
bool sim_operator_describe_mask(SimOperatorCall *call);
bool sim_operator_describe_softmax(SimOperatorCall *call);
bool sim_operator_describe_efficient(SimOperatorCall *call);
bool sim_operator_describe_experts(SimOperatorCall *call);
bool sim_operator_describe_index(SimOperatorCall *call);
bool sim_operator_describe_opaque(SimOperatorCall *call);
