/* SPDX-License-Identifier: Apache-2.0
 *
 * Forwards that several models share, and short hands for writing one.
 */
#pragma once

#include "model/program.h"

/* Calls with one result. */
SimSlot sim_forward_unary(SimProgram *program, SimOperator operator_, SimSlot value);
SimSlot sim_forward_binary(SimProgram *program, SimOperator operator_, SimSlot a, SimSlot b);
SimSlot sim_forward_view(SimProgram *program, SimSlot value, uint32_t n_dims, const int64_t *dims);
SimSlot sim_forward_transpose(SimProgram *program, SimSlot value, int64_t dim0, int64_t dim1);
SimSlot sim_forward_cast(SimProgram *program, SimSlot value, SimDtype dtype);
SimSlot sim_forward_scalar(SimProgram *program, SimOperator operator_, SimSlot value,
                           double scalar);
SimSlot sim_forward_slice(SimProgram *program, SimSlot value, uint32_t dim, uint64_t start,
                          uint64_t length);
SimSlot sim_forward_module(SimProgram *program, uint32_t child, SimSlot value);

/* Flash attention of [B, heads, S, head_dim] tensors; extra outputs are kept by autograd alone. */
SimSlot sim_forward_attention(SimProgram *program, SimSlot query, SimSlot key, SimSlot value,
                              double dropout);

/* Dropout; VALUE itself where P is 0 (torch.dropout is then the identity). */
SimSlot sim_forward_dropout(SimProgram *program, SimSlot value, double p);

/* F.cross_entropy: log_softmax and nll_loss. */
SimSlot sim_forward_cross_entropy(SimProgram *program, SimSlot logits, SimSlot labels);

/* Whole forwards of leaf modules. */
SimProgram *sim_forward_linear_new(bool has_bias);
SimProgram *sim_forward_embedding_new(void);
SimProgram *sim_forward_fused_norm_new(double eps);
