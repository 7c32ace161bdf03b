/* SPDX-License-Identifier: Apache-2.0
 *
 * Parameters of the nets that ship: names, shapes and order as recorded, totals as published.
 */
#include <check.h>
#include <string.h>

#include "base/csv.h"
#include "model/hf_model.h"

static SimModel *build(const char *net, SimModelCode code)
{
    g_autofree char *file = g_strdup_printf("%s/models/nets/%s.json", SIM_SOURCE_DIR, net);
    GError *error = NULL;
    g_autoptr(SimModelConfig) config = sim_hf_config_load(file, &error);
    ck_assert_msg(config != NULL, "%s", error != NULL ? error->message : "?");
    SimModelOptions options = {.code = code, .dropout = -1};
    SimModel *model = sim_hf_model_build(config, &options, &error);
    ck_assert_msg(model != NULL, "%s", error != NULL ? error->message : "?");
    return model;
}

/* The totals that the publishers' files add up to (a tied head counts once); MPT's as
 * transformers builds it. */
static const struct {
    const char *net;
    guint64 total;
} totals[] = {
    {"llama-3.1-8b", G_GUINT64_CONSTANT(8030261248)},
    {"llama-3.1-70b", G_GUINT64_CONSTANT(70553706496)},
    {"llama-3.1-405b", G_GUINT64_CONSTANT(405853388800)},
    {"llama-2-7b", G_GUINT64_CONSTANT(6738415616)},
    {"llama-2-13b", G_GUINT64_CONSTANT(13015864320)},
    {"llama-2-70b", G_GUINT64_CONSTANT(68976648192)},
    {"llama-3.2-1b", G_GUINT64_CONSTANT(1235814400)},
    {"llama-3.2-3b", G_GUINT64_CONSTANT(3212749824)},
    {"tinyllama-1.1b", G_GUINT64_CONSTANT(1100048384)},
    {"qwen2.5-1.5b", G_GUINT64_CONSTANT(1543714304)},
    {"qwen2.5-7b", G_GUINT64_CONSTANT(7615616512)},
    {"qwen3-8b", G_GUINT64_CONSTANT(8190735360)},
    {"qwen3-32b", G_GUINT64_CONSTANT(32762123264)},
    {"mistral-7b", G_GUINT64_CONSTANT(7241732096)},
    {"mistral-7b-v0.3", G_GUINT64_CONSTANT(7248023552)},
    {"gpt2", G_GUINT64_CONSTANT(124439808)},
    {"gpt2-medium", G_GUINT64_CONSTANT(354823168)},
    {"gpt2-large", G_GUINT64_CONSTANT(774030080)},
    {"gpt2-xl", G_GUINT64_CONSTANT(1557611200)},
    {"mixtral-8x7b", G_GUINT64_CONSTANT(46702792704)},
    {"qwen3-30b-a3b", G_GUINT64_CONSTANT(30532122624)},
    {"gemma-2-9b", G_GUINT64_CONSTANT(9241705984)},
    {"gemma-3-1b", G_GUINT64_CONSTANT(999885952)},
    {"phi-3-mini", G_GUINT64_CONSTANT(3821079552)},
    {"gpt-neox-20b", G_GUINT64_CONSTANT(20554567680)},
    {"mpt-125m", G_GUINT64_CONSTANT(123636480)},
    {"mpt-350m", G_GUINT64_CONSTANT(353616896)},
    {"mpt-760m", G_GUINT64_CONSTANT(756917760)},
    {"mpt-1b", G_GUINT64_CONSTANT(1311213568)},
    {"mpt-3b", G_GUINT64_CONSTANT(2645690880)},
    {"mpt-7b", G_GUINT64_CONSTANT(6649024512)},
    {"mpt-13b", G_GUINT64_CONSTANT(12841210880)},
    {"mpt-30b", G_GUINT64_CONSTANT(29956742144)},
    {"mpt-70b", G_GUINT64_CONSTANT(64838443008)},
};

START_TEST(total_is_the_published_one_in_every_code_style)
{
    g_autoptr(SimModel) transformers = build(totals[_i].net, SIM_MODEL_CODE_TRANSFORMERS);
    ck_assert_uint_eq(transformers->config_parameters, totals[_i].total);
    ck_assert_uint_eq(sim_model_elements(transformers), totals[_i].total);
    if (!g_str_has_prefix(totals[_i].net, "llama"))
        return;
    g_autoptr(SimModel) torchtitan = build(totals[_i].net, SIM_MODEL_CODE_TORCHTITAN);
    ck_assert_uint_eq(torchtitan->config_parameters, totals[_i].total);
}
END_TEST

START_TEST(torchtitan_unties_the_head)
{
    g_autoptr(SimModel) model = build("llama-3.2-1b", SIM_MODEL_CODE_TORCHTITAN);
    /* 128256 x 2048 once more than published */
    ck_assert_uint_eq(sim_model_elements(model), G_GUINT64_CONSTANT(1235814400) + 128256 * 2048);
    ck_assert(!model->is_head_tied);
}
END_TEST

static void compare_net(const SimCsv *csv, size_t *row, const char *net, const char *setting)
{
    bool is_titan = strcmp(setting, "titan") == 0;
    g_autoptr(SimModel) model =
        build(net, is_titan ? SIM_MODEL_CODE_TORCHTITAN : SIM_MODEL_CODE_TRANSFORMERS);
    int columns[] = {sim_csv_column(csv, "model"), sim_csv_column(csv, "setting"),
                     sim_csv_column(csv, "fqn"), sim_csv_column(csv, "shape"),
                     sim_csv_column(csv, "tied_to")};
    uint32_t i = 0;
    for (; *row < sim_csv_rows(csv) && strcmp(sim_csv_cell(csv, *row, columns[0]), net) == 0 &&
           strcmp(sim_csv_cell(csv, *row, columns[1]), setting) == 0;
         (*row)++, i++) {
        ck_assert_uint_lt(i, model->parameters->len);
        const SimParameter *parameter = sim_model_parameter(model, i);
        g_autofree char *shape = sim_shape_print(&parameter->shape);
        ck_assert_str_eq(parameter->path, sim_csv_cell(csv, *row, columns[2]));
        ck_assert_str_eq(shape, sim_csv_cell(csv, *row, columns[3]));
        const char *tied = parameter->tied_to == SIM_MODEL_NONE
                               ? ""
                               : sim_model_parameter(model, parameter->tied_to)->path;
        ck_assert_str_eq(tied, sim_csv_cell(csv, *row, columns[4]));
    }
    ck_assert_uint_eq(i, model->parameters->len);
}

START_TEST(names_shapes_and_order_are_pytorchs)
{
    GError *error = NULL;
    g_autoptr(SimCsv) csv =
        sim_csv_load(SIM_SOURCE_DIR "/tests/unit/model/data/params.csv.gz", NULL, &error);
    ck_assert_msg(csv != NULL, "%s", error != NULL ? error->message : "?");
    size_t row = 0, nets = 0;
    for (; row < sim_csv_rows(csv); nets++) {
        g_autofree char *net = g_strdup(sim_csv_cell(csv, row, sim_csv_column(csv, "model")));
        g_autofree char *setting = g_strdup(sim_csv_cell(csv, row, sim_csv_column(csv, "setting")));
        compare_net(csv, &row, net, setting);
    }
    ck_assert_uint_eq(nets, 18);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("parameters");
    TCase *tcase = tcase_create("parameters");
    tcase_add_loop_test(tcase, total_is_the_published_one_in_every_code_style, 0,
                        G_N_ELEMENTS(totals));
    tcase_add_test(tcase, torchtitan_unties_the_head);
    tcase_add_test(tcase, names_shapes_and_order_are_pytorchs);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed > 0;
}
