/* SPDX-License-Identifier: Apache-2.0 */
#include "model/catalogue.h"

#define GRAD(i) (SIM_REFERENCE_GRADIENT | (i))
#define IN(i) (SIM_REFERENCE_INPUT | (i))
#define OUT(i) (SIM_REFERENCE_OUTPUT | (i))
#define TMP(i) (SIM_REFERENCE_TEMPORARY | (i))
#define RESULT(i) (SIM_REFERENCE_RESULT | (i))
#define LIST(...)                                                                                  \
    {                                                                                              \
        __VA_ARGS__                                                                                \
    }
#define COUNT(...) (sizeof((uint8_t[]){__VA_ARGS__}))

/* operator, layout like input, wanted by, sources, results */
#define STEP(name, like_, wanted, sources_, results_)                                              \
    {                                                                                              \
        .operator_ = SIM_OPERATOR_##name, .like = (like_), .wanted_by = (wanted),                  \
        .n_sources = COUNT sources_, .n_results = COUNT results_, .sources = LIST sources_,        \
        .results = LIST results_                                                                   \
    }

static const SimGradientStep identity_steps[] = {STEP(IDENTITY, 0, 1, (GRAD(0)), (RESULT(0)))};
static const SimGradientStep view_steps[] = {STEP(VIEW, 0, 1, (GRAD(0)), (RESULT(0)))};
static const SimGradientStep transpose_steps[] = {STEP(TRANSPOSE, 0, 1, (GRAD(0)), (RESULT(0)))};
static const SimGradientStep slice_steps[] = {STEP(SLICE_GRAD, 0, 1, (GRAD(0)), (RESULT(0)))};
static const SimGradientStep as_complex_steps[] = {
    STEP(VIEW_AS_REAL, 0, 1, (GRAD(0)), (RESULT(0)))};
static const SimGradientStep as_real_steps[] = {
    STEP(VIEW_AS_COMPLEX, 0, 1, (GRAD(0)), (RESULT(0)))};
static const SimGradientStep split_steps[] = {
    STEP(CAT, 0, 1, (GRAD(0), GRAD(1), GRAD(2)), (RESULT(0)))};
static const SimGradientStep cast_steps[] = {STEP(CAST, 0, 1, (GRAD(0)), (RESULT(0)))};
static const SimGradientStep add_steps[] = {STEP(IDENTITY, 0, 1, (GRAD(0)), (RESULT(0))),
                                            STEP(IDENTITY, 0, 2, (GRAD(0)), (RESULT(1)))};
/* `other` comes before `self` in the generated code. */
static const SimGradientStep mul_steps[] = {STEP(MUL, 0, 2, (GRAD(0), IN(0)), (RESULT(1))),
                                            STEP(MUL, 0, 1, (GRAD(0), IN(1)), (RESULT(0)))};
/* The conjugate of the other factor is materialised. */
static const SimGradientStep mul_complex_steps[] = {
    STEP(CONJ, 0, 1, (IN(1)), (TMP(0))), STEP(MUL_COMPLEX, 0, 1, (GRAD(0), TMP(0)), (RESULT(0)))};
static const SimGradientStep mul_scalar_steps[] = {STEP(MUL_SCALAR, 0, 1, (GRAD(0)), (RESULT(0)))};
static const SimGradientStep neg_steps[] = {STEP(NEG, 0, 1, (GRAD(0)), (RESULT(0)))};
/* grad * (exponent * self.pow(exponent - 1)) */
static const SimGradientStep pow_steps[] = {STEP(POW, 0, 1, (IN(0)), (TMP(0))),
                                            STEP(MUL_SCALAR, 0, 1, (TMP(0)), (TMP(1))),
                                            STEP(MUL, 0, 1, (GRAD(0), TMP(1)), (RESULT(0)))};
/* -0.5 * grad * result.pow(3) */
static const SimGradientStep rsqrt_steps[] = {STEP(POW, 0, 1, (OUT(0)), (TMP(0))),
                                              STEP(MUL_SCALAR, 0, 1, (GRAD(0)), (TMP(1))),
                                              STEP(MUL, 0, 1, (TMP(1), TMP(0)), (RESULT(0)))};
static const SimGradientStep tanh_steps[] = {STEP(TANH_GRAD, 0, 1, (GRAD(0), OUT(0)), (RESULT(0)))};
static const SimGradientStep silu_steps[] = {STEP(SILU_GRAD, 0, 1, (GRAD(0), IN(0)), (RESULT(0)))};
static const SimGradientStep gelu_steps[] = {STEP(GELU_GRAD, 0, 1, (GRAD(0), IN(0)), (RESULT(0)))};
static const SimGradientStep mean_steps[] = {STEP(MEAN_GRAD, 0, 1, (GRAD(0)), (RESULT(0)))};
static const SimGradientStep cat_steps[] = {
    STEP(CAT_GRAD, 0, 3, (GRAD(0)), (RESULT(0), RESULT(1)))};
/* Output 0 is the mask. */
static const SimGradientStep dropout_steps[] = {
    STEP(DROPOUT_GRAD, 0, 1, (GRAD(1), OUT(0)), (RESULT(0)))};
static const SimGradientStep embedding_steps[] = {
    STEP(EMBEDDING_GRAD, 0, 1, (GRAD(0), IN(1)), (RESULT(0)))};
/* Without a bias the weight's gradient comes first (mm: mat2 before self); with one the input's
 * (addmm: mat1, mat2), and the bias's is the gradient itself, summed to the bias's shape. */
static const SimGradientStep linear_steps[] = {
    STEP(LINEAR_GRAD_WEIGHT, 1, 2, (GRAD(0), IN(0)), (RESULT(1))),
    STEP(LINEAR_GRAD_INPUT, 0, 1, (GRAD(0), IN(1)), (RESULT(0)))};
static const SimGradientStep linear_bias_steps[] = {
    STEP(LINEAR_GRAD_INPUT, 0, 1, (GRAD(0), IN(1)), (RESULT(0))),
    STEP(LINEAR_GRAD_WEIGHT, 1, 2, (GRAD(0), IN(0)), (RESULT(1))),
    STEP(IDENTITY, 2, 4, (GRAD(0)), (RESULT(2)))};
static const SimGradientStep conv1d_steps[] = {
    STEP(CONV1D_GRAD_INPUT, 0, 1, (GRAD(0), IN(1)), (RESULT(0))),
    STEP(CONV1D_GRAD_WEIGHT, 1, 2, (GRAD(0), IN(0)), (RESULT(1))),
    STEP(IDENTITY, 2, 4, (GRAD(0)), (RESULT(2)))};
static const SimGradientStep rms_norm_steps[] = {
    STEP(RMS_NORM_GRAD, 0, 3, (GRAD(0), IN(0), OUT(1), IN(1)), (RESULT(0), RESULT(1)))};
static const SimGradientStep layer_norm_steps[] = {
    STEP(LAYER_NORM_GRAD, 0, 7, (GRAD(0), IN(0), OUT(1), OUT(2), IN(1), IN(2)),
         (RESULT(0), RESULT(1), RESULT(2)))};
static const SimGradientStep layer_norm_unbiased_steps[] = {
    STEP(LAYER_NORM_GRAD, 0, 3, (GRAD(0), IN(0), OUT(1), OUT(2), IN(1)), (RESULT(0), RESULT(1)))};
static const SimGradientStep attention_steps[] = {
    STEP(ATTENTION_GRAD, 0, 7, (GRAD(0), IN(0), IN(1), IN(2), OUT(0), OUT(1), OUT(2), OUT(3)),
         (RESULT(0), RESULT(1), RESULT(2)))};
static const SimGradientStep log_softmax_steps[] = {
    STEP(LOG_SOFTMAX_GRAD, 0, 1, (GRAD(0), OUT(0)), (RESULT(0)))};
static const SimGradientStep nll_loss_steps[] = {
    STEP(NLL_LOSS_GRAD, 0, 1, (GRAD(0), IN(0), IN(1), OUT(1)), (RESULT(0)))};

/* Efficient attention's random state is released offset first; with dropout it is on the CPU. */
static const SimGradientStep efficient_dropout_steps[] = {
    STEP(EFFICIENT_ATTENTION_GRAD, 0, 7, (GRAD(0), IN(0), IN(1), IN(2), OUT(0), OUT(1)),
         (RESULT(0), RESULT(1), RESULT(2)))};
static const SimGradientStep efficient_bias_dropout_steps[] = {
    STEP(EFFICIENT_ATTENTION_GRAD, 0, 7, (GRAD(0), IN(0), IN(1), IN(2), IN(3), OUT(0), OUT(1)),
         (RESULT(0), RESULT(1), RESULT(2)))};
static const SimGradientStep efficient_steps[] = {STEP(
    EFFICIENT_ATTENTION_GRAD, 0, 7, (GRAD(0), IN(0), IN(1), IN(2), OUT(0), OUT(1), OUT(3), OUT(2)),
    (RESULT(0), RESULT(1), RESULT(2)))};
static const SimGradientStep efficient_bias_steps[] = {
    STEP(EFFICIENT_ATTENTION_GRAD, 0, 7,
         (GRAD(0), IN(0), IN(1), IN(2), IN(3), OUT(0), OUT(1), OUT(3), OUT(2)),
         (RESULT(0), RESULT(1), RESULT(2)))};
static const SimGradientStep masked_fill_steps[] = {
    STEP(MASKED_FILL_GRAD, 0, 1, (GRAD(0), IN(1)), (RESULT(0)))};
static const SimGradientStep bmm_steps[] = {
    STEP(BMM_GRAD_OTHER, 1, 2, (IN(0), GRAD(0)), (RESULT(1))),
    STEP(BMM_GRAD_SELF, 0, 1, (GRAD(0), IN(1)), (RESULT(0)))};
static const SimGradientStep softmax_steps[] = {
    STEP(SOFTMAX_GRAD, 0, 1, (GRAD(0), OUT(0)), (RESULT(0)))};
static const SimGradientStep sum_dim_steps[] = {STEP(EXPAND_GRAD, 0, 1, (GRAD(0)), (RESULT(0)))};
static const SimGradientStep topk_steps[] = {STEP(TOPK_GRAD, 0, 1, (GRAD(0), OUT(1)), (RESULT(0)))};
/* self, a copy of what it was, other: -grad * ((self / other) / other), then grad / other. */
static const SimGradientStep div_in_place_steps[] = {
    STEP(DIV, 0, 4, (IN(1), IN(2)), (TMP(0))), STEP(DIV, 0, 4, (TMP(0), IN(2)), (TMP(1))),
    STEP(NEG, 0, 4, (GRAD(0)), (TMP(2))), STEP(MUL, 0, 4, (TMP(2), TMP(1)), (RESULT(2))),
    STEP(DIV, 0, 1, (GRAD(0), IN(2)), (RESULT(0)))};
static const SimGradientStep index_steps[] = {
    STEP(INDEX_GRAD, 0, 1, (GRAD(0), IN(1)), (RESULT(0)))};
static const SimGradientStep index_pair_steps[] = {
    STEP(INDEX_PAIR_GRAD, 0, 1, (GRAD(0), IN(1), IN(2)), (RESULT(0)))};
/* self, index, source: the source is kept for its shape. */
static const SimGradientStep index_add_steps[] = {
    STEP(IDENTITY, 0, 1, (GRAD(0)), (RESULT(0))),
    STEP(INDEX, 2, 4, (GRAD(0), IN(1), IN(2)), (RESULT(2)))};
static const SimGradientStep select_steps[] = {STEP(SELECT_GRAD, 0, 1, (GRAD(0)), (RESULT(0)))};
static const SimGradientStep grouped_mm_steps[] = {
    STEP(GROUPED_MM_GRAD_WEIGHT, 1, 2, (GRAD(0), IN(0), IN(2)), (RESULT(1))),
    STEP(GROUPED_MM_GRAD_INPUT, 0, 1, (GRAD(0), IN(1), IN(2)), (RESULT(0)))};
static const SimGradientStep opaque_steps[] = {STEP(OPAQUE_GRAD, 0, 1, (GRAD(0)), (RESULT(0)))};
static const SimGradientStep opaque_join_steps[] = {
    STEP(OPAQUE_GRAD, 1, 2, (GRAD(0), IN(1)), (RESULT(1))),
    STEP(IDENTITY, 0, 1, (GRAD(0)), (RESULT(0)))};

#define FORMULA(name, steps_, ...)                                                                 \
    [SIM_OPERATOR_##name] = {.steps = (steps_),                                                    \
                             .n_steps = G_N_ELEMENTS(steps_),                                      \
                             .n_saved = COUNT(__VA_ARGS__) - 1,                                    \
                             .saved = {__VA_ARGS__}}
/* Closes a list of saved references. */
#define END 0xff

/* Release order: the inputs by their names in derivatives.yaml, then the outputs. */
static const SimFormula formulas[SIM_OPERATOR_COUNT] = {
    FORMULA(IDENTITY, identity_steps, END),
    FORMULA(ALIAS, identity_steps, END),
    FORMULA(VIEW, view_steps, END),
    FORMULA(TRANSPOSE, transpose_steps, END),
    FORMULA(SLICE, slice_steps, END),
    FORMULA(EXPAND, identity_steps, END),
    FORMULA(SPLIT, split_steps, END),
    FORMULA(VIEW_AS_COMPLEX, as_complex_steps, END),
    FORMULA(VIEW_AS_REAL, as_real_steps, END),
    FORMULA(CLONE, identity_steps, END),
    FORMULA(CAST, cast_steps, END),
    FORMULA(ADD, add_steps, END),
    FORMULA(ADD_SCALAR, identity_steps, END),
    FORMULA(MUL, mul_steps, IN(1), IN(0), END),
    FORMULA(MUL_COMPLEX, mul_complex_steps, IN(1), IN(0), END),
    FORMULA(MUL_SCALAR, mul_scalar_steps, END),
    FORMULA(NEG, neg_steps, END),
    FORMULA(POW, pow_steps, IN(0), END),
    FORMULA(RSQRT, rsqrt_steps, OUT(0), END),
    FORMULA(TANH, tanh_steps, OUT(0), END),
    FORMULA(SILU, silu_steps, IN(0), END),
    FORMULA(GELU, gelu_steps, IN(0), END),
    FORMULA(MEAN, mean_steps, END),
    FORMULA(CAT, cat_steps, END),
    FORMULA(DROPOUT, dropout_steps, OUT(0), END),
    FORMULA(EMBEDDING, embedding_steps, IN(1), END),
    FORMULA(LINEAR, linear_steps, IN(1), IN(0), END),
    FORMULA(LINEAR_BIAS, linear_bias_steps, IN(0), IN(1), END),
    FORMULA(CONV1D, conv1d_steps, IN(0), IN(1), END),
    FORMULA(RMS_NORM, rms_norm_steps, IN(0), IN(1), OUT(1), END),
    FORMULA(LAYER_NORM, layer_norm_steps, IN(2), IN(0), IN(1), OUT(1), OUT(2), END),
    FORMULA(LAYER_NORM_UNBIASED, layer_norm_unbiased_steps, IN(0), IN(1), OUT(1), OUT(2), END),
    FORMULA(ATTENTION, attention_steps, IN(1), IN(0), IN(2), OUT(1), OUT(0), OUT(2), OUT(3), END),
    FORMULA(LOG_SOFTMAX, log_softmax_steps, OUT(0), END),
    FORMULA(NLL_LOSS, nll_loss_steps, IN(0), IN(1), OUT(1), END),
    FORMULA(EFFICIENT_ATTENTION, efficient_steps, IN(1), IN(0), IN(2), OUT(1), OUT(0), OUT(3),
            OUT(2), END),
    FORMULA(EFFICIENT_ATTENTION_BIAS, efficient_bias_steps, IN(3), IN(1), IN(0), IN(2), OUT(1),
            OUT(0), OUT(3), OUT(2), END),
    FORMULA(EFFICIENT_ATTENTION_DROPOUT, efficient_dropout_steps, IN(1), IN(0), IN(2), OUT(1),
            OUT(0), END),
    FORMULA(EFFICIENT_ATTENTION_BIAS_DROPOUT, efficient_bias_dropout_steps, IN(3), IN(1), IN(0),
            IN(2), OUT(1), OUT(0), END),
    FORMULA(MASKED_FILL, masked_fill_steps, IN(1), END),
    FORMULA(BMM, bmm_steps, IN(1), IN(0), END),
    FORMULA(SOFTMAX, softmax_steps, OUT(0), END),
    FORMULA(SAFE_SOFTMAX, softmax_steps, OUT(0), END),
    FORMULA(SUM_DIM, sum_dim_steps, END),
    FORMULA(TOPK, topk_steps, OUT(1), END),
    FORMULA(DIV_IN_PLACE, div_in_place_steps, IN(2), IN(1), END),
    FORMULA(INDEX, index_steps, IN(1), END),
    FORMULA(INDEX_PAIR, index_pair_steps, IN(1), IN(2), END),
    FORMULA(INDEX_ADD, index_add_steps, IN(1), IN(2), END),
    FORMULA(SELECT, select_steps, END),
    FORMULA(GROUPED_MM, grouped_mm_steps, IN(1), IN(2), IN(0), END),
    FORMULA(OPAQUE, opaque_steps, END),
    FORMULA(OPAQUE_JOIN, opaque_join_steps, IN(1), END),
};

const SimFormula *sim_catalogue_formula(SimOperator operator_)
{
    g_assert(operator_ < SIM_OPERATOR_COUNT);
    return &formulas[operator_];
}

static bool is_read(const SimFormula *formula, uint8_t reference, uint32_t wanted)
{
    for (uint32_t i = 0; i < formula->n_steps; i++) {
        const SimGradientStep *step = &formula->steps[i];
        if ((step->wanted_by & wanted) == 0)
            continue;
        for (uint32_t j = 0; j < step->n_sources; j++)
            if (step->sources[j] == reference)
                return true;
    }
    return false;
}

uint32_t sim_catalogue_saved(const SimFormula *formula, uint32_t wanted)
{
    uint32_t saved = 0;
    for (uint32_t i = 0; i < formula->n_saved; i++)
        if (is_read(formula, formula->saved[i], wanted))
            saved |= 1U << i;
    return saved;
}
