/* SPDX-License-Identifier: Apache-2.0
 *
 * What the two kernels that copy all parameters of a unit at once need to know where: tables of
 * 8-byte numbers, copied from the host into a buffer of the caching allocator that lives for the
 * launch (aten/src/ATen/native/cuda/TensorShape.cu, pack_vecs). Small, but a whole segment may
 * exist for them.
 */
#pragma once

#include "fsdp/fsdp2_context.h"

/* split_with_sizes_copy of an all-gather's output: for each parameter its destination, its source
 * and the bytes of one rank's piece; for each thread block the parameter it works on; where each
 * parameter's blocks begin. */
void sim_fsdp2_launch_tables_split(SimFsdp2Context *context, const SimFsdp2State *state);

/* _chunk_cat of the gradients that exist: six numbers a parameter, two running sums, one a thread
 * block. */
void sim_fsdp2_launch_tables_chunk_cat(SimFsdp2Context *context, const SimFsdp2State *state);
