/* SPDX-License-Identifier: Apache-2.0
 *
 * Module trees: files that models/write_modules.py wrote with PyTorch (data/modules/README.md), and
 * what is wrong with a file.
 */
#include "base/error.h"
#include "model/modules_json.h"
#include "model/program.h"

#include <check.h>
#include <string.h>

#define FOLDER SIM_SOURCE_DIR "/tests/unit/model/data/modules/"

static SimModel *load(const char *name)
{
    g_autoptr(GError) error = NULL;
    g_autofree char *file = g_strconcat(FOLDER, name, ".json", NULL);
    g_autoptr(cJSON) json = sim_json_load(file, &error);
    ck_assert_ptr_nonnull(json);
    ck_assert(sim_modules_json_is_tree(json));
    SimModel *model = sim_modules_json_read(json, name, 1, 4, &error);
    ck_assert_msg(model != NULL, "%s", error == NULL ? "" : error->message);
    return model;
}

/* 3 blocks: 4 matrices of 768 x 768, two of 768 x 3072 with bias, two norms with bias: 7,084,800;
 * beside them 32 + 32 + 16 rows of 768 and a norm with bias: 62,976. */
START_TEST(the_net_of_pytorchs_own_memory_test_has_its_parameters)
{
    g_autoptr(SimModel) model = load("pytorch_transformer");
    ck_assert_uint_eq(sim_model_elements(model), 3 * 7084800 + 62976);
    ck_assert_uint_eq(model->blocks->len, 3);
    uint32_t block = g_array_index(model->blocks, uint32_t, 2);
    ck_assert_str_eq(sim_model_module(model, block)->path, "layers.2");
    ck_assert_str_eq(sim_model_parameter(model, 2)->path, "layers.0.attention_norm.weight");
    ck_assert_str_eq(sim_model_parameter(model, model->parameters->len - 1)->path, "output.weight");
    ck_assert_ptr_null(model->without_calls);
    ck_assert_uint_eq(model->figures.vocabulary, 32);
}
END_TEST

START_TEST(tied_parameters_count_once)
{
    g_autoptr(SimModel) model = load("stacked");
    /* embedding 200 x 48; blocks: norm and scale of 48, three matrices of 48 x 101 */
    ck_assert_uint_eq(sim_model_elements(model), 200 * 48 + 3 * (2 * 48 + 3 * 48 * 101));
    const SimParameter *head = sim_model_parameter(model, model->parameters->len - 1);
    ck_assert_str_eq(head->path, "head.weight");
    ck_assert_uint_eq(head->tied_to, 0);
}
END_TEST

/* In Gated `gate` is a variable, gate * w3(x) is not: it dies before it, both after the last call.
 * silu's operand dies at once. */
START_TEST(variables_die_where_the_file_says)
{
    g_autoptr(SimModel) model = load("stacked");
    uint32_t gated = sim_model_find_module(model, "layers.0.gated");
    const SimProgram *program = sim_model_module(model, gated)->forward;
    const SimProgramCall *calls = (const SimProgramCall *)(gpointer)program->calls->data;
    const SimSlot *dying = (const SimSlot *)(gpointer)program->dying->data;
    ck_assert_uint_eq(program->calls->len, 5);
    ck_assert_int_eq(calls[1].operator_, SIM_OPERATOR_SILU);
    ck_assert_uint_eq(calls[1].n_dying, 1);
    ck_assert_uint_eq(dying[calls[1].first_dying], calls[0].outputs[0]);
    ck_assert_uint_eq(calls[4].n_dying, 2);
    ck_assert_uint_eq(dying[calls[4].first_dying], calls[3].outputs[0]);
    ck_assert_uint_eq(dying[calls[4].first_dying + 1], calls[1].outputs[0]);
}
END_TEST

START_TEST(modules_without_calls_keep_their_parameters_and_members)
{
    g_autoptr(SimModel) model = load("vision");
    ck_assert_uint_eq(model->without_calls->len, 2);
    uint32_t stage = g_array_index(model->without_calls, uint32_t, 0);
    ck_assert_str_eq(sim_model_module(model, stage)->path, "stages.0");
    const SimProgram *conv = sim_model_module(model, stage + 1)->forward;
    ck_assert_ptr_nonnull(conv);
    ck_assert_uint_eq(conv->calls->len, 2); /* weight and bias */
    ck_assert_uint_eq(sim_model_parameter(model, 0)->elements, 16 * 16 * 3 * 3);
}
END_TEST

/* --- what is wrong ------------------------------------------------------------------------------
 */

#define HEAD "{\"schema\": \"fsdpsim.modules/1\", \"name\": \"m\", \"inputs\": [\"t\"], "
#define TABLE                                                                                      \
    "{\"path\": \"e\", \"parameters\": [{\"name\": \"w\", \"shape\": [9, 6]}], \"inputs\": "       \
    "[\"t\"], \"outputs\": [\"y\"], \"calls\": [{\"operator\": \"embedding\", \"inputs\": "        \
    "[\"w\", \"t\"], \"outputs\": [\"y\"]}]}"
#define ROOT(calls)                                                                                \
    HEAD "\"modules\": [{\"path\": \"\", \"inputs\": [\"t\"], \"outputs\": [\"y\"], \"calls\": ["  \
         "{\"module\": \"e\", \"inputs\": [\"t\"], \"outputs\": [\"x\"]}, " calls "]}, " TABLE     \
         "]}"

static const struct {
    const char *text, *message;
} WRONG[] = {
    {"{\"schema\": \"fsdpsim.modules/2\", \"name\": \"m\", \"inputs\": [\"t\"], \"modules\": []}",
     "m: schema: expected fsdpsim.modules/1, found 'fsdpsim.modules/2'"},
    {HEAD "\"modules\": []}", "m: expected a module with parameters, found 'none'"},
    {HEAD "\"modules\": [], \"modles\": 1}", "'modles'"},
    {HEAD "\"modules\": [{\"path\": \"a.b\"}, {\"path\": \"c\"}, {\"path\": \"a.d\"}]}",
     "m: modules[2].path: expected a module path, each once, in the order of named_modules, found "
     "'a.d'"},
    {HEAD "\"modules\": [{\"path\": \"a\"}, {\"path\": \"a\"}]}", "m: modules[1].path"},
    {HEAD "\"modules\": [{\"path\": \"a\", \"parameters\": [{\"name\": \"w\", \"shape\": [0]}]}]}",
     "m: modules[0].parameters[0].shape[0]: expected 1 to 5 of: a number of 1 or more"},
    {HEAD "\"modules\": [{\"path\": \"a\", \"parameters\": [{\"name\": \"w\", \"shape\": "
          "[\"batch\"]}]}]}",
     "m: modules[0].parameters[0].shape: expected numbers"},
    {HEAD "\"modules\": [{\"path\": \"a\", \"parameters\": [{\"name\": \"w\", \"shape\": "
          "[67108864, 67108864]}]}]}",
     "m: modules[0].parameters[0].shape[1]: expected"},
    {HEAD "\"loss\": \"summ\", \"modules\": [" TABLE "]}", "did you mean 'sum'"},
    {ROOT("{\"operator\": \"sillu\", \"inputs\": [\"x\"], \"outputs\": [\"y\"]}"),
     "m: modules[0].calls[1].operator: unknown operator 'sillu'; did you mean 'silu'"},
    {ROOT("{\"operator\": \"silu\", \"inputs\": [\"z\"], \"outputs\": [\"y\"]}"),
     "m: modules[0].calls[1].inputs[0]: expected a living variable, a parameter of the module or a "
     "buffer, found 'z'"},
    /* A deleted variable has no name left. */
    {ROOT("{\"operator\": \"silu\", \"inputs\": [\"x\"], \"outputs\": [\"z\"], \"delete\": "
          "[\"x\"]}, {\"operator\": \"silu\", \"inputs\": [\"\"], \"outputs\": [\"y\"]}"),
     "m: modules[0].calls[2].inputs[0]: expected a living variable"},
    {ROOT("{\"operator\": \"silu\", \"inputs\": [\"x\", \"x\"], \"outputs\": [\"y\"]}"),
     "m: modules[0].calls[1].inputs[1]: expected no more inputs"},
    {ROOT("{\"operator\": \"silu\", \"inputs\": [\"x\"], \"outputs\": [\"x\"]}"),
     "expected a name that nothing living has"},
    {ROOT("{\"operator\": \"silu\", \"inputs\": [\"x\"], \"outputs\": [\"y\"], \"delete\": "
          "[\"t\"]}"),
     "m: modules[0].calls[1].delete[0]"},
    {ROOT("{\"operator\": \"silu\", \"inputs\": [\"x\"], \"outputs\": [\"z\"]}"),
     "m: modules[0].outputs[0]: expected a living variable, once, found 'y'"},
    {ROOT("{\"operator\": \"silu\", \"inputs\": [\"x\"], \"outputs\": [\"y\"], \"dim\": 1}"),
     "'dim'"},
    {ROOT("{\"operator\": \"bmm\", \"inputs\": [\"x\", \"x\"], \"outputs\": [\"y\"]}"),
     "m: module \"\", calls[1]: bmm: expected [n, a, b] and [n, b, c], found [1x4x6], [1x4x6] "
     "(batch 1, sequence 4)"},
    {ROOT("{\"operator\": \"view\", \"inputs\": [\"x\"], \"outputs\": [\"y\"], \"shape\": [5]}"),
     "view: expected a shape of as many elements"},
    {ROOT("{\"module\": \"f\", \"inputs\": [\"x\"], \"outputs\": [\"y\"]}"),
     "m: modules[0].calls[1].module: expected a module below the one that calls it, found 'f'"},
    {ROOT("{\"operator\": \"sum_dim\", \"inputs\": [\"x\"], \"outputs\": [\"y\"], \"dim\": 1}"),
     "m: loss: cross_entropy: expected logits"},
    {HEAD "\"loss\": \"sum\", \"modules\": [{\"path\": \"\", \"parameters\": [{\"name\": \"w\", "
          "\"shape\": [2]}], \"inputs\": [\"t\"], \"outputs\": [\"t\"], \"calls\": []}]}",
     "a result of the root that depends on a parameter"},
    {HEAD "\"tied\": [[\"e.w\", \"e.v\"]], \"modules\": [" TABLE "]}",
     "m: tied[0]: expected two parameters of one shape"},
};

START_TEST(a_wrong_file_is_an_error_that_says_where)
{
    g_autoptr(GError) error = NULL;
    g_autoptr(cJSON) json = cJSON_Parse(WRONG[_i].text);
    ck_assert_ptr_nonnull(json);
    g_autoptr(SimModel) model = sim_modules_json_read(json, "m", 1, 4, &error);
    ck_assert_ptr_null(model);
    ck_assert_msg(strstr(error->message, WRONG[_i].message) != NULL, "%s", error->message);
}
END_TEST

static Suite *make_suite(void)
{
    Suite *suite = suite_create("modules_json");
    TCase *trees = tcase_create("trees");
    tcase_add_test(trees, the_net_of_pytorchs_own_memory_test_has_its_parameters);
    tcase_add_test(trees, tied_parameters_count_once);
    tcase_add_test(trees, variables_die_where_the_file_says);
    tcase_add_test(trees, modules_without_calls_keep_their_parameters_and_members);
    suite_add_tcase(suite, trees);
    TCase *wrong = tcase_create("wrong");
    tcase_add_loop_test(wrong, a_wrong_file_is_an_error_that_says_where, 0,
                        (int)G_N_ELEMENTS(WRONG));
    suite_add_tcase(suite, wrong);
    return suite;
}

int main(void)
{
    SRunner *runner = srunner_create(make_suite());
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? 0 : 1;
}
