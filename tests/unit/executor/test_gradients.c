/* SPDX-License-Identifier: Apache-2.0
 *
 * Backward operators against finite differences of their forwards: for random weights r, the
 * gradient of sum(r * f(x)) by the backward operator, given r, must be
 * (sum(r f(x + h)) - sum(r f(x - h))) / 2h in each element. In f32 with h = 1e-2 the truncation
 * (h^2 f''') and the rounding (1e-7 |f| / h) are both near 1e-4 for functions of size 1.
 */
#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "executor/compute.h"

#define STEP 1e-2F
#define TOLERANCE 4e-3

typedef struct Tensor {
    SimOperand operand;
    float values[4096];
} Tensor;

/* SHAPE "2x3x4", filled from NAME around MIDDLE. */
static Tensor *make(const char *shape, const char *name, float middle)
{
    Tensor *tensor = g_new0(Tensor, 1);
    tensor->operand.start = (unsigned char *)tensor->values;
    tensor->operand.bytes = sizeof tensor->values;
    sim_operand_set_shape(&tensor->operand, shape, SIM_DTYPE_F32);
    uint64_t n = sim_operand_elements(&tensor->operand);
    ck_assert_uint_le(n, G_N_ELEMENTS(tensor->values));
    tensor->operand.bytes = n * sizeof(float);
    for (uint64_t i = 0; i < n; i++)
        tensor->values[i] = middle + 2 * (float)sim_compute_value(1, name, i) - 1;
    return tensor;
}

static void run(const char *name, const char *arguments, Tensor *const *in, uint32_t n_in,
                Tensor *const *out, uint32_t n_out)
{
    SimOperand ins[10], outs[6];
    for (uint32_t i = 0; i < n_in; i++)
        ins[i] = in[i]->operand;
    for (uint32_t i = 0; i < n_out; i++)
        outs[i] = out[i]->operand;
    SimComputeCall call = {.operator_name = name,
                           .arguments = arguments,
                           .n_in = n_in,
                           .n_out = n_out,
                           .in = ins,
                           .out = outs,
                           .is_described = true,
                           .members = 1};
    g_autoptr(GError) error = NULL;
    SimComputeFunc function = sim_compute_find(name);
    ck_assert_msg(function != NULL, "%s", name);
    ck_assert_msg(function(&call, &error), "%s: %s", name, error != NULL ? error->message : "");
}

/* One forward: operands, and outputs of which the first is differentiated. */
typedef struct Forward {
    const char *name, *arguments;
    Tensor *in[4], *out[4];
    uint32_t n_in, n_out;
} Forward;

static double weigh(const Forward *f, const Tensor *weights)
{
    run(f->name, f->arguments, f->in, f->n_in, f->out, f->n_out);
    double sum = 0;
    for (uint64_t i = 0; i < sim_operand_elements(&f->out[0]->operand); i++)
        sum += (double)weights->values[i] * f->out[0]->values[i];
    return sum;
}

/* GRADIENT is that of input INDEX for output weights WEIGHTS. */
static void check(const Forward *f, uint32_t index, const Tensor *weights, const Tensor *gradient)
{
    Tensor *x = f->in[index];
    for (uint64_t i = 0; i < sim_operand_elements(&x->operand); i++) {
        float before = x->values[i];
        x->values[i] = before + STEP;
        double above = weigh(f, weights);
        x->values[i] = before - STEP;
        double below = weigh(f, weights);
        x->values[i] = before;
        double expected = (above - below) / (2 * (double)STEP);
        ck_assert_msg(fabs(gradient->values[i] - expected) <= TOLERANCE * fmax(1, fabs(expected)),
                      "%s, input %u, element %d: expected %g, found %g", f->name, index, (int)i,
                      expected, (double)gradient->values[i]);
    }
    weigh(f, weights);
}

START_TEST(pointwise_gradients_are_derivatives)
{
    /* tanh's backward takes its result, the others their argument. */
    static const char *const names[][2] = {
        {"silu", "silu_grad"}, {"gelu", "gelu_grad"}, {"tanh", "tanh_grad"}};
    for (size_t i = 0; i < G_N_ELEMENTS(names); i++) {
        Tensor *x = make("3x5", "x", 0), *y = make("3x5", "y", 0);
        Tensor *weights = make("3x5", "r", 0), *gradient = make("3x5", "g", 0);
        Forward f = {names[i][0], "", {x}, {y}, 1, 1};
        weigh(&f, weights);
        Tensor *in[] = {weights, strcmp(names[i][0], "tanh") == 0 ? y : x};
        run(names[i][1], "", in, 2, &gradient, 1);
        check(&f, 0, weights, gradient);
    }
}
END_TEST

START_TEST(linear_gradients_are_derivatives)
{
    static const struct {
        const char *name, *input, *weight, *shape;
        uint32_t n_in;
    } rows[] = {{"linear", "linear_grad_input", "linear_grad_weight", "5x4", 2},
                {"conv1d", "conv1d_grad_input", "conv1d_grad_weight", "4x5", 3}};
    for (size_t i = 0; i < G_N_ELEMENTS(rows); i++) {
        Tensor *x = make("2x3x4", "x", 0), *w = make(rows[i].shape, "w", 0);
        Tensor *bias = make("5", "b", 0), *y = make("2x3x5", "y", 0);
        Tensor *weights = make("2x3x5", "r", 0);
        Tensor *gx = make("2x3x4", "gx", 0), *gw = make(rows[i].shape, "gw", 0);
        Forward f = {rows[i].name, "", {x, w, bias}, {y}, rows[i].n_in, 1};
        Tensor *in[] = {weights, w}, *in_weight[] = {weights, x};
        run(rows[i].input, "", in, 2, &gx, 1);
        run(rows[i].weight, "", in_weight, 2, &gw, 1);
        check(&f, 0, weights, gx);
        check(&f, 1, weights, gw);
    }
}
END_TEST

START_TEST(rms_norm_gradients_are_derivatives)
{
    Tensor *x = make("3x6", "x", 0), *w = make("6", "w", 1), *y = make("3x6", "y", 0);
    Tensor *scale = make("3x1", "s", 0), *weights = make("3x6", "r", 0);
    Tensor *gx = make("3x6", "gx", 0), *gw = make("6", "gw", 0);
    Forward f = {"rms_norm", "eps=1e-05", {x, w}, {y, scale}, 2, 2};
    weigh(&f, weights);
    Tensor *in[] = {weights, x, scale, w};
    run("rms_norm_grad", "", in, 4, &gx, 1);
    run("rms_norm_grad_weight", "", in, 3, &gw, 1);
    check(&f, 0, weights, gx);
    check(&f, 1, weights, gw);
}
END_TEST

START_TEST(layer_norm_gradients_are_derivatives)
{
    Tensor *x = make("3x6", "x", 0), *w = make("6", "w", 1), *bias = make("6", "b", 0);
    Tensor *y = make("3x6", "y", 0), *mean = make("3x1", "m", 0), *scale = make("3x1", "s", 0);
    Tensor *weights = make("3x6", "r", 0), *gx = make("3x6", "gx", 0);
    Tensor *gw[] = {make("6", "gw", 0), make("6", "gb", 0)};
    Forward f = {"layer_norm", "eps=1e-05", {x, w, bias}, {y, mean, scale}, 3, 3};
    weigh(&f, weights);
    Tensor *in[] = {weights, x, mean, scale, w, bias};
    run("layer_norm_grad", "", in, 6, &gx, 1);
    run("layer_norm_grad_weight", "", in, 4, gw, 2);
    check(&f, 0, weights, gx);
    check(&f, 1, weights, gw[0]);
    check(&f, 2, weights, gw[1]);
}
END_TEST

/* 4 heads over 4 or over 2 key heads: then `sum` makes 2 gradients of 4. */
START_TEST(attention_gradients_are_derivatives)
{
    static const char *const key_shapes[] = {"2x4x3x4", "2x2x3x4"};
    for (size_t i = 0; i < G_N_ELEMENTS(key_shapes); i++) {
        bool is_grouped = i == 1;
        Tensor *q = make("2x4x3x4", "q", 0), *k = make(key_shapes[i], "k", 0);
        Tensor *v = make(key_shapes[i], "v", 0), *o = make("2x4x3x4", "o", 0);
        Tensor *lse = make("2x4x3", "l", 0), *weights = make("2x4x3x4", "r", 0);
        Tensor *gq = make("2x4x3x4", "gq", 0), *gk = make(key_shapes[i], "gk", 0);
        Tensor *gv = make(key_shapes[i], "gv", 0);
        Tensor *scratch[4];
        for (int j = 0; j < 4; j++)
            scratch[j] = make(j == 0 ? "24" : "96", "t", 0);
        Forward f = {"attention", "causal=1", {q, k, v}, {o, lse}, 3, 2};
        weigh(&f, weights);
        Tensor *prepare[] = {weights, o};
        run("attention_grad_prepare", "", prepare, 2, scratch, 2);
        Tensor *in[] = {weights, q, k, v, o, lse, scratch[0], scratch[1]};
        Tensor *out[] = {gk, gv, scratch[1]};
        run("attention_grad", "causal=1", in, 8, is_grouped ? scratch + 1 : out, 3);
        run("attention_grad_convert", "", scratch + 1, 1, &gq, 1);
        for (int j = 2; is_grouped && j < 4; j++) {
            scratch[j]->operand.dtype = SIM_DTYPE_U8;
            run("sum", "", scratch + j, 1, j == 2 ? &gk : &gv, 1);
        }
        check(&f, 0, weights, gq);
        check(&f, 1, weights, gk);
        check(&f, 2, weights, gv);
    }
}
END_TEST

/* log_softmax and the mean over labels, of which one does not count: d loss / d logits = (softmax -
 * one-hot) / counted. */
START_TEST(cross_entropy_gradient_is_a_derivative)
{
    Tensor *x = make("4x7", "x", 0), *logs = make("4x7", "p", 0), *loss = make("1", "l", 0);
    Tensor *count = make("1", "c", 0), *weights = make("1", "r", 0);
    Tensor *g = make("4x7", "g", 0), *gx = make("4x7", "gx", 0), *labels = make("8", "t", 0);
    const int64_t targets[] = {2, 6, -100, 0};
    memcpy(labels->values, targets, sizeof targets);
    labels->operand.dtype = SIM_DTYPE_I64;
    labels->operand.dims[0] = 4;
    weights->values[0] = 1;
    Forward softmax = {"log_softmax", "", {x}, {logs}, 1, 1};
    run(softmax.name, "", &x, 1, &logs, 1);
    Tensor *in_loss[] = {logs, labels}, *out_loss[] = {loss, count};
    run("nll_loss", "", in_loss, 2, out_loss, 2);
    ck_assert_float_eq(count->values[0], 3);
    memset(g->values, 0, sizeof g->values);
    Tensor *in_grad[] = {weights, labels, count};
    run("nll_loss_grad", "", in_grad, 3, &g, 1);
    Tensor *in_softmax[] = {g, logs};
    run("log_softmax_grad", "", in_softmax, 2, &gx, 1);
    /* sum(g * log_softmax(x)) is the loss: g does not depend on x. */
    check(&softmax, 0, g, gx);
}
END_TEST

START_TEST(embedding_gradient_adds_up_equal_tokens)
{
    Tensor *weight = make("5x3", "w", 0), *tokens = make("8", "t", 0), *y = make("4x3", "y", 0);
    Tensor *weights = make("4x3", "r", 0), *gradient = make("5x3", "g", 0);
    const int64_t indices[] = {1, 4, 1, 0};
    memcpy(tokens->values, indices, sizeof indices);
    tokens->operand.dtype = SIM_DTYPE_I64;
    tokens->operand.dims[0] = 4;
    Forward f = {"embedding", "", {weight, tokens}, {y}, 2, 1};
    weigh(&f, weights);
    memset(gradient->values, 0, sizeof gradient->values);
    Tensor *in[] = {weights, tokens};
    run("embedding_grad", "", in, 2, &gradient, 1);
    check(&f, 0, weights, gradient);
}
END_TEST

/* AdamW's first step moves each weight by lr against the gradient's sign, after decay: m / (1 -
 * beta1) = g, sqrt(v / (1 - beta2)) = |g|. */
START_TEST(adamw_steps_by_the_rate_at_first)
{
    Tensor *value = make("4", "v", 0), *g = make("4", "g", 0), *first = make("4", "m", 0);
    Tensor *second = make("4", "s", 0), *step = make("1", "n", 0);
    memset(first->values, 0, sizeof first->values);
    memset(second->values, 0, sizeof second->values);
    step->values[0] = 1;
    float before[4];
    memcpy(before, value->values, sizeof before);
    Tensor *in[] = {value, g, first, second, step}, *out[] = {value, first, second};
    run("adamw", "lr=0.1 weight_decay=0.01", in, 5, out, 3);
    for (int i = 0; i < 4; i++) {
        double expected = before[i] * (1 - 0.1 * 0.01) - copysign(0.1, (double)g->values[i]);
        ck_assert_double_eq_tol(value->values[i], expected, 1e-5);
    }
}
END_TEST

/* 1 + 2^-8 lies between two bf16 numbers, 1 and 1 + 2^-7: the even one; 1 + 3 2^-8 goes up. */
START_TEST(bf16_rounds_to_the_nearest_even)
{
    static const struct {
        float from, to;
    } rows[] = {{1 + 0x1p-8F, 1},
                {1 + 3 * 0x1p-8F, 1 + 0x1p-6F},
                {1 + 0x1.02p-8F, 1 + 0x1p-7F},
                {-(1 + 0x1p-8F), -1},
                {0x1p-133F, 0x1p-133F}};
    for (size_t i = 0; i < G_N_ELEMENTS(rows); i++) {
        uint16_t half;
        float back;
        sim_operand_round(&rows[i].from, 1, SIM_DTYPE_BF16, &half);
        sim_operand_widen(&half, SIM_DTYPE_BF16, 1, &back);
        ck_assert_msg(back == rows[i].to, "%a: expected %a, found %a", (double)rows[i].from,
                      (double)rows[i].to, (double)back);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("gradients");
    TCase *tcase = tcase_create("all");
    tcase_add_test(tcase, pointwise_gradients_are_derivatives);
    tcase_add_test(tcase, linear_gradients_are_derivatives);
    tcase_add_test(tcase, rms_norm_gradients_are_derivatives);
    tcase_add_test(tcase, layer_norm_gradients_are_derivatives);
    tcase_add_test(tcase, attention_gradients_are_derivatives);
    tcase_add_test(tcase, cross_entropy_gradient_is_a_derivative);
    tcase_add_test(tcase, embedding_gradient_adds_up_equal_tokens);
    tcase_add_test(tcase, adamw_steps_by_the_rate_at_first);
    tcase_add_test(tcase, bf16_rounds_to_the_nearest_even);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
