/* SPDX-License-Identifier: Apache-2.0
 *
 * The operators, at the granularity of PyTorch's dispatcher (one kernel, or the few kernels of one
 * call), and one call of one: what it allocates, in which order, and what it launches. Forward and
 * backward operators are of one kind; which belongs to which says the catalogue (catalogue.h).
 *
 * A call is described by events in the order in which PyTorch's host code makes them, because the
 * allocator sees order: most allocate their outputs, then scratch, launch, and free the scratch in
 * reverse; some do otherwise.
 */
#pragma once

#include "model/layout.h"

#include <stdbool.h>
#include <stdint.h>

/* X(constant, name in a plan). Views launch nothing. */
#define SIM_OPERATORS(X)                                                                           \
    X(IDENTITY, "identity")                                                                        \
    X(ALIAS, "alias")                                                                              \
    X(VIEW, "view")                                                                                \
    X(TRANSPOSE, "transpose")                                                                      \
    X(SLICE, "slice")                                                                              \
    X(EXPAND, "expand")                                                                            \
    X(SPLIT, "split")                                                                              \
    X(VIEW_AS_COMPLEX, "view_as_complex")                                                          \
    X(VIEW_AS_REAL, "view_as_real")                                                                \
    X(CLONE, "clone")                                                                              \
    X(CAST, "cast")                                                                                \
    X(CONJ, "conj")                                                                                \
    X(ADD, "add")                                                                                  \
    X(ADD_SCALAR, "add_scalar")                                                                    \
    X(MUL, "mul")                                                                                  \
    X(MUL_COMPLEX, "mul_complex")                                                                  \
    X(MUL_SCALAR, "mul_scalar")                                                                    \
    X(NEG, "neg")                                                                                  \
    X(POW, "pow")                                                                                  \
    X(RSQRT, "rsqrt")                                                                              \
    X(COS, "cos")                                                                                  \
    X(SIN, "sin")                                                                                  \
    X(TANH, "tanh")                                                                                \
    X(TANH_GRAD, "tanh_grad")                                                                      \
    X(SILU, "silu")                                                                                \
    X(SILU_GRAD, "silu_grad")                                                                      \
    X(GELU, "gelu")                                                                                \
    X(GELU_GRAD, "gelu_grad")                                                                      \
    X(MEAN, "mean")                                                                                \
    X(MEAN_GRAD, "mean_grad")                                                                      \
    X(SUM, "sum")                                                                                  \
    X(CAT, "cat")                                                                                  \
    X(CAT_GRAD, "cat_grad")                                                                        \
    X(SLICE_GRAD, "slice_grad")                                                                    \
    X(PAD, "pad")                                                                                  \
    X(ARANGE, "arange")                                                                            \
    X(FILL, "fill")                                                                                \
    X(DROPOUT, "dropout")                                                                          \
    X(DROPOUT_GRAD, "dropout_grad")                                                                \
    X(EMBEDDING, "embedding")                                                                      \
    X(EMBEDDING_GRAD, "embedding_grad")                                                            \
    X(LINEAR, "linear")                                                                            \
    X(LINEAR_BIAS, "linear_bias")                                                                  \
    X(LINEAR_GRAD_INPUT, "linear_grad_input")                                                      \
    X(LINEAR_GRAD_WEIGHT, "linear_grad_weight")                                                    \
    X(CONV1D, "conv1d")                                                                            \
    X(CONV1D_GRAD_INPUT, "conv1d_grad_input")                                                      \
    X(CONV1D_GRAD_WEIGHT, "conv1d_grad_weight")                                                    \
    X(RMS_NORM, "rms_norm")                                                                        \
    X(RMS_NORM_GRAD, "rms_norm_grad")                                                              \
    X(RMS_NORM_GRAD_WEIGHT, "rms_norm_grad_weight")                                                \
    X(LAYER_NORM, "layer_norm")                                                                    \
    X(LAYER_NORM_UNBIASED, "layer_norm_unbiased")                                                  \
    X(LAYER_NORM_GRAD, "layer_norm_grad")                                                          \
    X(LAYER_NORM_GRAD_WEIGHT, "layer_norm_grad_weight")                                            \
    X(ATTENTION, "attention")                                                                      \
    X(ATTENTION_GRAD, "attention_grad")                                                            \
    X(ATTENTION_GRAD_PREPARE, "attention_grad_prepare")                                            \
    X(ATTENTION_GRAD_CONVERT, "attention_grad_convert")                                            \
    X(LOG_SOFTMAX, "log_softmax")                                                                  \
    X(LOG_SOFTMAX_GRAD, "log_softmax_grad")                                                        \
    X(NLL_LOSS, "nll_loss")                                                                        \
    X(NLL_LOSS_GRAD, "nll_loss_grad")                                                              \
    X(COMPARE, "compare")                                                                          \
    X(LOGICAL_AND, "logical_and")                                                                  \
    X(TRIL, "tril")                                                                                \
    X(WHERE, "where")                                                                              \
    X(MASKED_FILL, "masked_fill")                                                                  \
    X(MASKED_FILL_GRAD, "masked_fill_grad")                                                        \
    X(RECIPROCAL, "reciprocal")                                                                    \
    X(EXPONENT, "exponent")                                                                        \
    X(COPY, "copy")                                                                                \
    X(BMM, "bmm")                                                                                  \
    X(BMM_GRAD_SELF, "bmm_grad_self")                                                              \
    X(BMM_GRAD_OTHER, "bmm_grad_other")                                                            \
    X(SOFTMAX, "softmax")                                                                          \
    X(SOFTMAX_GRAD, "softmax_grad")                                                                \
    X(SAFE_SOFTMAX, "safe_softmax")                                                                \
    X(EFFICIENT_ATTENTION, "efficient_attention")                                                  \
    X(EFFICIENT_ATTENTION_BIAS, "efficient_attention_bias")                                        \
    X(EFFICIENT_ATTENTION_DROPOUT, "efficient_attention_dropout")                                  \
    X(EFFICIENT_ATTENTION_BIAS_DROPOUT, "efficient_attention_bias_dropout")                        \
    X(EFFICIENT_ATTENTION_GRAD, "efficient_attention_grad")                                        \
    X(SUM_DIM, "sum_dim")                                                                          \
    X(EXPAND_GRAD, "expand_grad")                                                                  \
    X(TOPK, "topk")                                                                                \
    X(TOPK_GRAD, "topk_grad")                                                                      \
    X(DIV, "div")                                                                                  \
    X(DIV_IN_PLACE, "div_in_place")                                                                \
    X(FLOOR_DIVIDE, "floor_divide")                                                                \
    X(SORT, "sort")                                                                                \
    X(INDEX, "index")                                                                              \
    X(INDEX_GRAD, "index_grad")                                                                    \
    X(INDEX_PAIR, "index_pair")                                                                    \
    X(INDEX_PAIR_GRAD, "index_pair_grad")                                                          \
    X(INDEX_ADD, "index_add")                                                                      \
    X(NONZERO, "nonzero")                                                                          \
    X(SELECT, "select")                                                                            \
    X(SELECT_GRAD, "select_grad")                                                                  \
    X(INDEX_PUT, "index_put")                                                                      \
    X(EMPTY, "empty")                                                                              \
    X(HISTC, "histc")                                                                              \
    X(CUMSUM, "cumsum")                                                                            \
    X(GROUPED_MM, "grouped_mm")                                                                    \
    X(GROUPED_MM_GRAD_INPUT, "grouped_mm_grad_input")                                              \
    X(GROUPED_MM_GRAD_WEIGHT, "grouped_mm_grad_weight")                                            \
    X(OPAQUE, "opaque")                                                                            \
    X(OPAQUE_JOIN, "opaque_join")                                                                  \
    X(OPAQUE_GRAD, "opaque_grad")

typedef enum SimOperator {
#define X(constant, name) SIM_OPERATOR_##constant,
    SIM_OPERATORS(X)
#undef X
        SIM_OPERATOR_COUNT
} SimOperator;

const char *sim_operator_name(SimOperator operator_);

/* Dimensions of a VIEW that are known only in a job. */
#define SIM_DIM_REST INT64_C(-1)     /* what the others leave */
#define SIM_DIM_BATCH INT64_C(-2)    /* samples a microbatch */
#define SIM_DIM_SEQUENCE INT64_C(-3) /* tokens a sample */

/* What an operator is given besides tensors; zero where it has no such thing. */
typedef struct SimAttributes {
    int64_t dims[SIM_SHAPE_MAX_DIMS]; /* VIEW, EXPAND, ARANGE, FILL: shape; TRANSPOSE: the two */
    uint32_t n_dims;
    uint32_t dim;           /* SLICE, CAT, SPLIT, MEAN, SUM_DIM: along which */
    uint64_t start, length; /* SLICE: part, length 0 = to the end; SPLIT: length of each; PAD:
                             * elements added at the end; TOPK: how many; HISTC: bins; SUM_DIM:
                             * length 1 = the dimension stays; SELECT: start = which; NONZERO: rows
                             * are LENGTH a token, shared evenly by START */
    SimDtype dtype;         /* CAST, FILL, ARANGE, WHERE, CUMSUM; NONE = the job's compute dtype */
    double scalar;          /* eps, exponent, factor, dropout's p */
} SimAttributes;

/* What of a job an operator's scratch depends on. */
typedef struct SimOperatorSetting {
    uint64_t batch, sequence;
    uint32_t sm_count;
    uint32_t compute_capability; /* 90 = sm_90 */
    SimDtype compute_dtype;      /* what a CAST to NONE means */
} SimOperatorSetting;

#define SIM_OPERATOR_MAX_INPUTS 10
#define SIM_OPERATOR_MAX_OUTPUTS 5
#define SIM_OPERATOR_MAX_EVENTS 40

typedef enum SimFiguresKind {
    SIM_FIGURES_NONE,
    SIM_FIGURES_MATRIX,
    SIM_FIGURES_ATTENTION
} SimFiguresKind;

/* One launch. */
typedef struct SimOperatorKernel {
    SimOperator name;
    SimFiguresKind figures_kind;
    uint64_t figures[4];    /* m n k as cuBLAS sees them; heads, sequence, head_dim, causal */
    uint64_t flops;         /* multiply-add = 2; attention: of the full square */
    uint64_t hbm_bytes;     /* read + written, each tensor once */
    uint32_t reads, writes; /* bit i = input i, output i */
    uint32_t scratch_reads, scratch_writes; /* bit i = the scratch buffer allocated i-th */
} SimOperatorKernel;

typedef enum SimOperatorEventKind {
    SIM_OPERATOR_EVENT_OUTPUT,  /* allocates output NUMBER */
    SIM_OPERATOR_EVENT_SCRATCH, /* allocates BYTES; scratch is a stack */
    SIM_OPERATOR_EVENT_RELEASE, /* frees the NUMBER scratch buffers allocated last, last first */
    SIM_OPERATOR_EVENT_RELEASE_BELOW, /* frees the scratch buffer below the one allocated last */
    SIM_OPERATOR_EVENT_KERNEL,        /* launches kernel NUMBER */
} SimOperatorEventKind;

typedef struct SimOperatorEvent {
    SimOperatorEventKind kind;
    uint32_t number;
    uint64_t bytes;
} SimOperatorEvent;

typedef struct SimOperatorCall {
    /* given */
    SimOperator operator_;
    uint32_t n_inputs;
    const SimLayout *inputs[SIM_OPERATOR_MAX_INPUTS];
    const SimLayout *like; /* gradients: the layout of the forward's input; else NULL */
    const SimAttributes *attributes;
    const SimOperatorSetting *setting;
    /* answered */
    bool is_view; /* outputs are parts of input 0's storage; kernels (in place) are the only events
                   */
    bool is_same; /* output 0 is input 0 itself */
    uint32_t n_outputs, n_kernels, n_events, n_scratch;
    SimLayout outputs[SIM_OPERATOR_MAX_OUTPUTS];
    uint64_t offsets[SIM_OPERATOR_MAX_OUTPUTS]; /* views: elements from input 0's first */
    SimOperatorKernel kernels[8];
    SimOperatorEvent events[SIM_OPERATOR_MAX_EVENTS];
} SimOperatorCall;

/* Answers CALL. O(dimensions). */
void sim_operator_describe(SimOperatorCall *call);
