/* SPDX-License-Identifier: Apache-2.0
 *
 * The operators, family by family.
 */
#pragma once

#include "executor/compute.h"

/* X(function, name in a plan) */
#define SIM_COMPUTE_OPERATORS(X)                                                                   \
    X(accumulate, "accumulate")                                                                    \
    X(adamw, "adamw")                                                                              \
    X(adamw_step, "adamw_step")                                                                    \
    X(add, "add")                                                                                  \
    X(add_scalar, "add_scalar")                                                                    \
    X(arange, "arange")                                                                            \
    X(attention, "attention")                                                                      \
    X(attention_grad, "attention_grad")                                                            \
    X(attention_grad_convert, "attention_grad_convert")                                            \
    X(attention_grad_prepare, "attention_grad_prepare")                                            \
    X(cast, "cast")                                                                                \
    X(cat, "cat")                                                                                  \
    X(chunk, "chunk")                                                                              \
    X(chunk_cat, "chunk_cat")                                                                      \
    X(clamp, "clamp")                                                                              \
    X(clone, "clone")                                                                              \
    X(conj, "conj")                                                                                \
    X(conv1d, "conv1d")                                                                            \
    X(conv1d_grad_input, "conv1d_grad_input")                                                      \
    X(conv1d_grad_weight, "conv1d_grad_weight")                                                    \
    X(copy, "copy")                                                                                \
    X(copy_in, "copy_in")                                                                          \
    X(copy_out, "copy_out")                                                                        \
    X(cos, "cos")                                                                                  \
    X(divide, "divide")                                                                            \
    X(embedding, "embedding")                                                                      \
    X(embedding_grad, "embedding_grad")                                                            \
    X(fill, "fill")                                                                                \
    X(gelu, "gelu")                                                                                \
    X(gelu_grad, "gelu_grad")                                                                      \
    X(layer_norm, "layer_norm")                                                                    \
    X(layer_norm_grad, "layer_norm_grad")                                                          \
    X(layer_norm_grad_weight, "layer_norm_grad_weight")                                            \
    X(linear, "linear")                                                                            \
    X(linear_bias, "linear_bias")                                                                  \
    X(linear_grad_input, "linear_grad_input")                                                      \
    X(linear_grad_weight, "linear_grad_weight")                                                    \
    X(log_softmax, "log_softmax")                                                                  \
    X(log_softmax_grad, "log_softmax_grad")                                                        \
    X(mean, "mean")                                                                                \
    X(mean_grad, "mean_grad")                                                                      \
    X(mul, "mul")                                                                                  \
    X(mul_complex, "mul_complex")                                                                  \
    X(mul_scalar, "mul_scalar")                                                                    \
    X(neg, "neg")                                                                                  \
    X(nll_loss, "nll_loss")                                                                        \
    X(nll_loss_grad, "nll_loss_grad")                                                              \
    X(norm, "norm")                                                                                \
    X(pad, "pad")                                                                                  \
    X(partial_norms, "partial_norms")                                                              \
    X(pow, "pow")                                                                                  \
    X(reciprocal, "reciprocal")                                                                    \
    X(rms_norm, "rms_norm")                                                                        \
    X(rms_norm_grad, "rms_norm_grad")                                                              \
    X(rms_norm_grad_weight, "rms_norm_grad_weight")                                                \
    X(rsqrt, "rsqrt")                                                                              \
    X(scale, "scale")                                                                              \
    X(sgd, "sgd")                                                                                  \
    X(silu, "silu")                                                                                \
    X(silu_grad, "silu_grad")                                                                      \
    X(sin, "sin")                                                                                  \
    X(slice_grad, "slice_grad")                                                                    \
    X(sqrt, "sqrt")                                                                                \
    X(stack, "stack")                                                                              \
    X(sum, "sum")                                                                                  \
    X(tanh, "tanh")                                                                                \
    X(tanh_grad, "tanh_grad")                                                                      \
    X(vector_norm, "vector_norm")                                                                  \
    X(zeros, "zeros")

bool sim_compute_accumulate(const SimComputeCall *call, GError **error);
bool sim_compute_adamw(const SimComputeCall *call, GError **error);
bool sim_compute_adamw_step(const SimComputeCall *call, GError **error);
bool sim_compute_add(const SimComputeCall *call, GError **error);
bool sim_compute_add_scalar(const SimComputeCall *call, GError **error);
bool sim_compute_arange(const SimComputeCall *call, GError **error);
bool sim_compute_attention(const SimComputeCall *call, GError **error);
bool sim_compute_attention_grad(const SimComputeCall *call, GError **error);
bool sim_compute_attention_grad_convert(const SimComputeCall *call, GError **error);
bool sim_compute_attention_grad_prepare(const SimComputeCall *call, GError **error);
bool sim_compute_cast(const SimComputeCall *call, GError **error);
bool sim_compute_cat(const SimComputeCall *call, GError **error);
bool sim_compute_chunk(const SimComputeCall *call, GError **error);
bool sim_compute_chunk_cat(const SimComputeCall *call, GError **error);
bool sim_compute_clamp(const SimComputeCall *call, GError **error);
bool sim_compute_clone(const SimComputeCall *call, GError **error);
bool sim_compute_conj(const SimComputeCall *call, GError **error);
bool sim_compute_conv1d(const SimComputeCall *call, GError **error);
bool sim_compute_conv1d_grad_input(const SimComputeCall *call, GError **error);
bool sim_compute_conv1d_grad_weight(const SimComputeCall *call, GError **error);
bool sim_compute_copy(const SimComputeCall *call, GError **error);
bool sim_compute_copy_in(const SimComputeCall *call, GError **error);
bool sim_compute_copy_out(const SimComputeCall *call, GError **error);
bool sim_compute_cos(const SimComputeCall *call, GError **error);
bool sim_compute_divide(const SimComputeCall *call, GError **error);
bool sim_compute_embedding(const SimComputeCall *call, GError **error);
bool sim_compute_embedding_grad(const SimComputeCall *call, GError **error);
bool sim_compute_fill(const SimComputeCall *call, GError **error);
bool sim_compute_gelu(const SimComputeCall *call, GError **error);
bool sim_compute_gelu_grad(const SimComputeCall *call, GError **error);
bool sim_compute_layer_norm(const SimComputeCall *call, GError **error);
bool sim_compute_layer_norm_grad(const SimComputeCall *call, GError **error);
bool sim_compute_layer_norm_grad_weight(const SimComputeCall *call, GError **error);
bool sim_compute_linear(const SimComputeCall *call, GError **error);
bool sim_compute_linear_bias(const SimComputeCall *call, GError **error);
bool sim_compute_linear_grad_input(const SimComputeCall *call, GError **error);
bool sim_compute_linear_grad_weight(const SimComputeCall *call, GError **error);
bool sim_compute_log_softmax(const SimComputeCall *call, GError **error);
bool sim_compute_log_softmax_grad(const SimComputeCall *call, GError **error);
bool sim_compute_mean(const SimComputeCall *call, GError **error);
bool sim_compute_mean_grad(const SimComputeCall *call, GError **error);
bool sim_compute_mul(const SimComputeCall *call, GError **error);
bool sim_compute_mul_complex(const SimComputeCall *call, GError **error);
bool sim_compute_mul_scalar(const SimComputeCall *call, GError **error);
bool sim_compute_neg(const SimComputeCall *call, GError **error);
bool sim_compute_nll_loss(const SimComputeCall *call, GError **error);
bool sim_compute_nll_loss_grad(const SimComputeCall *call, GError **error);
bool sim_compute_norm(const SimComputeCall *call, GError **error);
bool sim_compute_pad(const SimComputeCall *call, GError **error);
bool sim_compute_partial_norms(const SimComputeCall *call, GError **error);
bool sim_compute_pow(const SimComputeCall *call, GError **error);
bool sim_compute_reciprocal(const SimComputeCall *call, GError **error);
bool sim_compute_rms_norm(const SimComputeCall *call, GError **error);
bool sim_compute_rms_norm_grad(const SimComputeCall *call, GError **error);
bool sim_compute_rms_norm_grad_weight(const SimComputeCall *call, GError **error);
bool sim_compute_rsqrt(const SimComputeCall *call, GError **error);
bool sim_compute_scale(const SimComputeCall *call, GError **error);
bool sim_compute_sgd(const SimComputeCall *call, GError **error);
bool sim_compute_silu(const SimComputeCall *call, GError **error);
bool sim_compute_silu_grad(const SimComputeCall *call, GError **error);
bool sim_compute_sin(const SimComputeCall *call, GError **error);
bool sim_compute_slice_grad(const SimComputeCall *call, GError **error);
bool sim_compute_sqrt(const SimComputeCall *call, GError **error);
bool sim_compute_stack(const SimComputeCall *call, GError **error);
bool sim_compute_sum(const SimComputeCall *call, GError **error);
bool sim_compute_tanh(const SimComputeCall *call, GError **error);
bool sim_compute_tanh_grad(const SimComputeCall *call, GError **error);
bool sim_compute_vector_norm(const SimComputeCall *call, GError **error);
bool sim_compute_zeros(const SimComputeCall *call, GError **error);

/* Are there so many operands? Error SCHEMA. */
bool sim_compute_expect(const SimComputeCall *call, uint32_t n_in, uint32_t n_out, GError **error);

/* Do A and B have as many elements? Error RANGE. */
bool sim_compute_expect_same(const SimComputeCall *call, const SimOperand *a, const SimOperand *b,
                             GError **error);
