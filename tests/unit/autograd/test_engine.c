/* SPDX-License-Identifier: Apache-2.0
 *
 * The engine's rules one by one: how gradients that meet are added up, when hooks are called, who
 * gets a parameter's gradient.
 */
#include "model/module_tree.h"
#include "model/forward.h"

#include "recording.h"

/* --- gradients that meet --------------------------------------------------------------------- */

typedef enum Consumer { LINEAR, SILU, RESIDUAL } Consumer;

/* h = embedding(ids); y = the sum of what CONSUMERS make of h; loss of head(y). Children: embedding
 * 1, linears 2.., head last. */
static SimModel *build_fan(const Consumer *consumers, uint32_t n)
{
    SimModel *model = sim_module_tree_new("fan", "Fan");
    model->embedding =
        sim_module_tree_add_weight(model, 0, "embedding", 64, 32, sim_forward_embedding_new());
    SimProgram *linear = sim_forward_linear_new(false);
    sim_module_tree_own(model, linear);
    for (uint32_t i = 0; i < n; i++) {
        char name[8];
        g_snprintf(name, sizeof name, "w%u", i);
        if (consumers[i] == LINEAR)
            sim_module_tree_add_weight(model, 0, name, 32, 32, linear);
    }
    model->head = sim_module_tree_add_weight(model, 0, "head", 64, 32, linear);
    SimProgram *p = sim_program_new(1);
    SimSlot h = sim_program_bind(p, sim_forward_module(p, 1, 0)), y = h;
    uint32_t child = 2;
    for (uint32_t i = 0; i < n; i++) {
        SimSlot part = h;
        if (consumers[i] == LINEAR)
            part = sim_forward_module(p, child++, h);
        else if (consumers[i] == SILU)
            part = sim_forward_unary(p, SIM_OPERATOR_SILU, h);
        y = i == 0 ? part : sim_forward_binary(p, SIM_OPERATOR_ADD, y, part);
    }
    int64_t rows[] = {SIM_DIM_REST, 64}, flat[] = {SIM_DIM_REST};
    SimSlot logits = sim_forward_view(p, sim_forward_module(p, model->head, y), 2, rows);
    SimSlot loss = sim_forward_cross_entropy(p, logits, sim_forward_view(p, 0, 1, flat));
    sim_program_finish(p, 1, &loss);
    sim_module_tree_set_forward(model, 0, p);
    return model;
}

/* Additions in backward: out of place they have an allocation of their own just before. */
static void count_additions(const Step *step, int *out_of_place, int *in_place)
{
    *out_of_place = *in_place = 0;
    for (size_t i = step->first_row; i < sim_plan_length(step->plan); i++) {
        const SimInstruction *row = sim_plan_instruction(step->plan, i);
        if (row->op != SIM_PLAN_KERNEL || row->phase != SIM_PHASE_BACKWARD ||
            strcmp(sim_plan_string(step->plan, row->operator_name), "add") != 0)
            continue;
        const SimTouch *touches = sim_plan_touches(step->plan, row);
        (*(touches[2].buffer == touches[0].buffer ? in_place : out_of_place))++;
    }
}

/* Nodes run from the youngest, so the last consumer's gradient is there first. A Linear's input
 * gradient is a view of its product ([B, S, H] of [T, H]): the base keeps it from being added into.
 */
static const struct {
    const char *what;
    Consumer consumers[3];
    uint32_t n;
    int out_of_place, in_place;
} fans[] = {
    {"two views: out of place", {LINEAR, LINEAR}, 2, 1, 0},
    {"three views: the first sum is nobody else's", {LINEAR, LINEAR, LINEAR}, 3, 1, 1},
    {"two whole tensors: in place", {SILU, SILU}, 2, 0, 1},
    {"a view into a whole tensor: in place", {LINEAR, SILU}, 2, 0, 1},
    {"a whole tensor into a view: out of place", {SILU, LINEAR}, 2, 1, 0},
    {"the gradient of a sum reaches both: the head's view first", {LINEAR, RESIDUAL}, 2, 1, 0},
};

START_TEST(gradients_that_meet_are_added_as_input_buffers_do)
{
    Step step = {0};
    int out_of_place = 0, in_place = 0;
    run_step(&step, build_fan(fans[_i].consumers, fans[_i].n), 16);
    count_additions(&step, &out_of_place, &in_place);
    ck_assert_msg(out_of_place == fans[_i].out_of_place && in_place == fans[_i].in_place,
                  "%s: %d out of place, %d in place", fans[_i].what, out_of_place, in_place);
    done_step(&step);
}
END_TEST

/* --- hooks ----------------------------------------------------------------------------------- */

typedef struct Log {
    Step *step;
    GString *text;
    uint32_t *gradients; /* by parameter: how often it came */
} Log;

static uint32_t token_of(const Log *log, uint32_t module)
{
    const SimModel *model = log->step->model;
    for (guint i = 0; i < model->blocks->len; i++)
        if (g_array_index(model->blocks, uint32_t, i) == module)
            return module;
    bool is_unit = module == model->embedding || module == model->norm || module == model->head;
    return is_unit ? module : SIM_AUTOGRAD_NO_TOKEN;
}

/* Units: embedding, blocks, norm with head (entered at the norm, left at the head), as torchtitan
 * wraps. */
static uint32_t enter(void *user_data, uint32_t module)
{
    Log *log = user_data;
    const SimModel *model = log->step->model;
    return module == model->head ? SIM_AUTOGRAD_NO_TOKEN : token_of(log, module);
}

static uint32_t leave(void *user_data, uint32_t module)
{
    Log *log = user_data;
    const SimModel *model = log->step->model;
    if (module == model->norm)
        return SIM_AUTOGRAD_NO_TOKEN;
    return module == model->head ? model->norm : token_of(log, module);
}

static const char *path_of(const Log *log, uint32_t module)
{
    return sim_model_module(log->step->model, module)->path;
}

static void log_pre_backward(void *user_data, uint32_t token, bool is_repeat)
{
    Log *log = user_data;
    g_string_append_printf(log->text, "pre %s%s\n", path_of(log, token), is_repeat ? " again" : "");
}

static void log_post_backward(void *user_data, uint32_t token)
{
    Log *log = user_data;
    g_string_append_printf(log->text, "post %s\n", path_of(log, token));
}

static uint32_t log_parameter(void *user_data, uint32_t parameter)
{
    Log *log = user_data;
    return log->step->parameters[parameter];
}

static void log_gradient(void *user_data, uint32_t parameter, uint32_t buffer)
{
    Log *log = user_data;
    const SimBuffer *found = sim_plan_buffer(log->step->plan, buffer);
    ck_assert_uint_eq(found->category, SIM_CATEGORY_UNSHARDED_GRADIENT);
    ck_assert_uint_eq(found->bytes, 2 * sim_model_parameter(log->step->model, parameter)->elements);
    log->gradients[parameter]++;
    g_string_append_printf(log->text, "%s\n",
                           sim_model_parameter(log->step->model, parameter)->path);
}

static char *run_logged(SimModel *model, uint64_t sequence, uint32_t *gradients)
{
    Step step = {0};
    Log log = {.step = &step, .text = g_string_new(NULL), .gradients = gradients};
    start_step(&step, model, sequence);
    step.hooks = (SimAutogradHooks){.user_data = &log,
                                    .pre_forward = enter,
                                    .post_forward = leave,
                                    .pre_backward = log_pre_backward,
                                    .post_backward = log_post_backward,
                                    .parameter = log_parameter,
                                    .gradient = log_gradient};
    sim_autograd_forward(step.autograd, 0, true);
    finish_step(&step);
    done_step(&step);
    return g_string_free(log.text, FALSE);
}

/* _fsdp_param_group.py: the post-backward node sits between a block's input and its operators, the
 * pre-backward hook on its output, so of a chain post(i) comes before pre(i - 1), and all gradients
 * of i before post(i). The embedding's input needs no gradient: no post_backward for it. A Linear's
 * weight gradient is accumulated when its node has run. */
START_TEST(hooks_frame_a_unit_as_fsdp_needs_it)
{
    SimModelOptions options = {.code = SIM_MODEL_CODE_TORCHTITAN};
    uint32_t gradients[64] = {0};
    g_autofree char *log =
        run_logged(build_recorded_net("llama-3.1-8b", &options, false), 512, gradients);
    ck_assert_str_eq(log, "pre norm\noutput.weight\nnorm.weight\npost norm\n"
                          "pre layers.1\n"
                          "layers.1.feed_forward.w2.weight\nlayers.1.feed_forward.w3.weight\n"
                          "layers.1.feed_forward.w1.weight\nlayers.1.ffn_norm.weight\n"
                          "layers.1.attention.wo.weight\nlayers.1.attention.wv.weight\n"
                          "layers.1.attention.wk.weight\nlayers.1.attention.wq.weight\n"
                          "layers.1.attention_norm.weight\npost layers.1\n"
                          "pre layers.0\n"
                          "layers.0.feed_forward.w2.weight\nlayers.0.feed_forward.w3.weight\n"
                          "layers.0.feed_forward.w1.weight\nlayers.0.ffn_norm.weight\n"
                          "layers.0.attention.wo.weight\nlayers.0.attention.wv.weight\n"
                          "layers.0.attention.wk.weight\nlayers.0.attention.wq.weight\n"
                          "layers.0.attention_norm.weight\npost layers.0\n"
                          "pre tok_embeddings\ntok_embeddings.weight\n");
}
END_TEST

START_TEST(tied_weight_has_one_gradient_at_the_end)
{
    SimModelOptions options = {.code = SIM_MODEL_CODE_TRANSFORMERS, .dropout = 0};
    SimModel *model = build_recorded_net("gpt2", &options, false);
    uint32_t holder = sim_model_module(model, model->embedding)->first_parameter;
    uint32_t tied = sim_model_module(model, model->head)->first_parameter;
    uint32_t gradients[64] = {0};
    g_autofree char *log = run_logged(model, 128, gradients);
    ck_assert_uint_eq(gradients[holder], 1);
    ck_assert_uint_eq(gradients[tied], 0);
    ck_assert(g_str_has_suffix(log, "transformer.wte.weight\n"));
}
END_TEST

/* A bias is an input of addmm itself, its weight goes through a transpose node first. */
START_TEST(bias_is_accumulated_before_its_weight)
{
    SimModelOptions options = {.code = SIM_MODEL_CODE_TRANSFORMERS};
    uint32_t gradients[64] = {0};
    g_autofree char *log =
        run_logged(build_recorded_net("qwen2.5-7b", &options, false), 512, gradients);
    ck_assert(strstr(log, "model.layers.1.self_attn.v_proj.bias\n"
                          "model.layers.1.self_attn.v_proj.weight\n") != NULL);
}
END_TEST

START_TEST(frozen_parameters_get_no_gradient_and_no_kernel)
{
    SimModelOptions options = {.code = SIM_MODEL_CODE_TORCHTITAN};
    SimModel *model = build_recorded_net("llama-3.1-8b", &options, false);
    for (guint i = 0; i < model->parameters->len; i++) {
        SimParameter *parameter = &g_array_index(model->parameters, SimParameter, i);
        parameter->is_frozen = !g_str_has_prefix(parameter->path, "layers.1.");
    }
    uint32_t gradients[64] = {0};
    g_autofree char *log = run_logged(model, 512, gradients);
    ck_assert(strstr(log, "layers.0") == NULL && strstr(log, "output.weight") == NULL);
    ck_assert(strstr(log, "pre norm") != NULL &&
              strstr(log, "layers.1.attention.wq.weight") != NULL);
    /* The block's input needs no gradient: no post-backward node, as for an embedding. */
    ck_assert(strstr(log, "post layers.1") == NULL && strstr(log, "post norm") != NULL);
}
END_TEST

/* --- microbatches ---------------------------------------------------------------------------- */

START_TEST(graphs_of_two_microbatches_live_side_by_side)
{
    SimModelOptions options = {.code = SIM_MODEL_CODE_TORCHTITAN};
    Step step = {0};
    start_step(&step, build_recorded_net("llama-3.2-1b", &options, false), 1024);
    for (uint32_t i = 0; i < 2; i++)
        sim_autograd_forward(step.autograd, i, true);
    sim_plan_context(step.plan)->phase = SIM_PHASE_BACKWARD;
    for (uint32_t i = 2; i-- > 0;) {
        sim_autograd_backward(step.autograd, i);
        sim_autograd_drop_loss(step.autograd, i);
    }
    /* What is left: parameters, buffers and each microbatch's gradients. */
    GError *error = NULL;
    ck_assert(sim_plan_check(step.plan, &error));
    size_t live = 0;
    for (size_t i = step.first_row; i < sim_plan_length(step.plan); i++) {
        const SimInstruction *row = sim_plan_instruction(step.plan, i);
        live += row->op == SIM_PLAN_ALLOC;
        live -= row->op == SIM_PLAN_FREE;
    }
    ck_assert_uint_eq(live, 2 * step.model->parameters->len);
    sim_autograd_free(g_steal_pointer(&step.autograd));
    done_step(&step);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("engine");
    TCase *tcase = tcase_create("engine");
    tcase_add_loop_test(tcase, gradients_that_meet_are_added_as_input_buffers_do, 0,
                        G_N_ELEMENTS(fans));
    tcase_add_test(tcase, hooks_frame_a_unit_as_fsdp_needs_it);
    tcase_add_test(tcase, tied_weight_has_one_gradient_at_the_end);
    tcase_add_test(tcase, bias_is_accumulated_before_its_weight);
    tcase_add_test(tcase, frozen_parameters_get_no_gradient_and_no_kernel);
    tcase_add_test(tcase, graphs_of_two_microbatches_live_side_by_side);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed > 0;
}
