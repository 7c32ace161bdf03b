/* SPDX-License-Identifier: Apache-2.0 */
#include <check.h>
#include <glib/gstdio.h>
#include <string.h>

#include "base/error.h"
#include "job/settings.h"

static bool load_text(SimSettings *settings, const char *text, GError **error)
{
    g_autofree char *folder = g_dir_make_tmp("fsdpsim-XXXXXX", NULL);
    g_autofree char *path = g_build_filename(folder, "c.json", NULL);
    ck_assert(g_file_set_contents(path, text, -1, NULL));
    g_autoptr(GError) failure = NULL;
    bool is_loaded = sim_settings_load(settings, path, &failure);
    if (!is_loaded) {
        ck_assert_msg(g_str_has_prefix(failure->message, path), "%s", failure->message);
        g_set_error(error, failure->domain, failure->code, "c.json%s",
                    failure->message + strlen(path));
    }
    g_remove(path);
    g_rmdir(folder);
    return is_loaded;
}

static char *print_text(const SimSettings *settings)
{
    g_autoptr(cJSON) object = sim_settings_print(settings);
    char *printed = cJSON_PrintUnformatted(object);
    char *text = g_strdup(printed);
    cJSON_free(printed);
    return text;
}

START_TEST(the_defaults_are_those_of_a_torchtitan_job)
{
    g_autoptr(SimSettings) settings = sim_settings_new();
    ck_assert_int_eq(settings->gpus, 0);
    ck_assert_str_eq(settings->cluster, "h100");
    ck_assert_int_eq(settings->batch, 1);
    ck_assert_int_eq(settings->steps, 4);
    ck_assert_int_eq(settings->code, SIM_SETTINGS_UNSET);
    ck_assert_str_eq(settings->wrap, "block");
    ck_assert_str_eq(settings->reshard_after_forward, "default");
    ck_assert_int_eq(settings->param_dtype, SIM_SETTINGS_UNSET);
    ck_assert_int_eq(settings->reduce_dtype, SIM_DTYPE_F32);
    ck_assert_int_eq(settings->clip, SIM_SWITCH_ON);
    ck_assert_ptr_null(settings->hbm);
    ck_assert_uint_eq(settings->given, 0);
}
END_TEST

/* A value of each kind; the text that is printed for it in JSON. */
static const struct {
    const char *name, *text, *json;
} good[] = {
    {"gpus", "1024", "\"gpus\":1024"},
    {"cluster", "node:4 gpu:8 type:h100", "\"cluster\":\"node:4 gpu:8 type:h100\""},
    {"seq", "8192", "\"seq\":8192"},
    {"code", "transformers", "\"code\":\"transformers\""},
    {"norm", "composite", "\"norm\":\"composite\""},
    {"reshard-after-forward", "last-block-kept", "\"reshard_after_forward\":\"last-block-kept\""},
    {"reshard_after_forward", "2", "\"reshard_after_forward\":\"2\""},
    {"param-dtype", "f16", "\"param_dtype\":\"f16\""},
    {"store-dtype", "bf16", "\"store_dtype\":\"bf16\""},
    {"wrap", "size:100M", "\"wrap\":\"size:100M\""},
    {"wrap", "units.txt", "\"wrap\":\"units.txt\""},
    {"steps", "auto", "\"steps\":\"auto\""},
    {"dropout", "0.1", "\"dropout\":\"0.1\""},
    {"loss", "chunked:8", "\"loss\":\"chunked:8\""},
    {"checkpoint", "every:2", "\"checkpoint\":\"every:2\""},
    {"early-stop", "on", "\"early_stop\":\"on\""},
    {"frozen", "layers.*", "\"frozen\":[\"layers.*\"]"},
    {"optimizer", "sgd-momentum", "\"optimizer\":\"sgd-momentum\""},
    {"attention", "eager", "\"attention\":\"eager\""},
    {"zero-grad", "keep", "\"zero_grad\":\"keep\""},
    {"clip", "off", "\"clip\":\"off\""},
    {"allocator", "expandable_segments:True,max_split_size_mb:128",
     "\"allocator\":\"expandable_segments:True,max_split_size_mb:128\""},
    {"hbm", "79.18GiB", "\"hbm\":\"79.18GiB\""},
    {"hbm", "unlimited", "\"hbm\":\"unlimited\""},
    {"ranks", "0-7,64", "\"ranks\":\"0-7,64\""},
    {"ranks", "all", "\"ranks\":\"all\""},
};

START_TEST(what_is_set_is_printed_and_read_back)
{
    g_autoptr(SimSettings) settings = sim_settings_new();
    g_autoptr(GError) error = NULL;
    ck_assert_msg(sim_settings_set(settings, good[_i].name, good[_i].text, "--x", &error), "%s",
                  error != NULL ? error->message : "");
    g_autofree char *text = print_text(settings);
    ck_assert_msg(strstr(text, good[_i].json) != NULL, "%s", text);

    g_autoptr(SimSettings) again = sim_settings_new();
    ck_assert(load_text(again, text, NULL));
    g_autofree char *text_again = print_text(again);
    ck_assert_str_eq(text, text_again);
}
END_TEST

static const struct {
    const char *name, *text;
    SimError code;
    const char *expected;
} bad[] = {
    {"gpu", "8", SIM_ERROR_SCHEMA, "--x: unknown setting 'gpu'; did you mean 'gpus'?"},
    {"checkpoint", "ful", SIM_ERROR_SCHEMA, "full"},
    {"checkpoint", "every:0", SIM_ERROR_SCHEMA,
     "--x: expected none, full, selective or every:K, found 'every:0'"},
    {"loss", "chunked", SIM_ERROR_SCHEMA, "--x: expected cross-entropy, kept-logits or chunked:N"},
    {"loss", "chunked:-1", SIM_ERROR_SCHEMA,
     "--x: expected cross-entropy, kept-logits or chunked:N"},
    {"dropout", "1", SIM_ERROR_RANGE, "--x: expected a rate from 0 to below 1, found '1'"},
    {"dropout", "0.1x", SIM_ERROR_RANGE, "--x: expected a rate from 0 to below 1"},
    {"frozen", "", SIM_ERROR_SCHEMA, "--x: expected the path of a module"},
    {"steps", "automatic", SIM_ERROR_PARSE, "--x: expected a whole number from 1 to 65536"},
    {"attention", "flash2", SIM_ERROR_SCHEMA, "did you mean 'flash'?"},
    {"gpus", "0", SIM_ERROR_RANGE, "--x: expected a whole number from 1 to 1048576, found '0'"},
    {"gpus", "1000000000", SIM_ERROR_RANGE, "--x: expected a whole number from 1 to 1048576"},
    {"gpus", "eight", SIM_ERROR_PARSE, "--x: expected a whole number from 1 to 1048576"},
    {"batch", "-1", SIM_ERROR_RANGE, "--x: expected a whole number"},
    {"code", "titan", SIM_ERROR_SCHEMA, "--x: unknown value 'titan'; did you mean 'torchtitan'?"},
    {"param-dtype", "fp32", SIM_ERROR_SCHEMA, "did you mean 'f32'? (one of f32, bf16, f16)"},
    {"clip", "true", SIM_ERROR_SCHEMA, "(one of off, on)"},
    {"optimizer", "adamv", SIM_ERROR_SCHEMA, "did you mean 'adamw'?"},
    {"reshard-after-forward", "last-block-kep", SIM_ERROR_SCHEMA, "(nearest: last-block-kept)"},
    {"reshard-after-forward", "0", SIM_ERROR_RANGE, "--x: expected a whole number from 1"},
    {"wrap", "", SIM_ERROR_SCHEMA, "--x: expected block, block+root, root, size:N or a file"},
    {"wrap", "size:0", SIM_ERROR_RANGE, "--x: expected a number of parameters above 0"},
    {"wrap", "size:big", SIM_ERROR_PARSE, "--x: expected a count, as in 100M"},
    {"allocator", "expandable_segment:True", SIM_ERROR_SCHEMA, "--x: "},
    {"hbm", "80 GiBytes", SIM_ERROR_PARSE, "--x: unlimited, or a size: expected bytes"},
    {"hbm", "0", SIM_ERROR_RANGE, "--x: expected unlimited, or a size above 0"},
    {"ranks", "7-0", SIM_ERROR_RANGE, "--x: all, or ranks as in 0-7,64: "},
    {"ranks", "0,,1", SIM_ERROR_PARSE, "--x: expected all, or ranks as in 0-7,64, found '0,,1'"},
    {"ranks", "", SIM_ERROR_PARSE, "--x: expected all, or ranks as in 0-7,64, found ''"},
};

START_TEST(a_value_that_cannot_be_is_named_and_changes_nothing)
{
    g_autoptr(SimSettings) settings = sim_settings_new();
    g_autofree char *before = print_text(settings);
    g_autoptr(GError) error = NULL;
    ck_assert_msg(!sim_settings_set(settings, bad[_i].name, bad[_i].text, "--x", &error), "%s %s",
                  bad[_i].name, bad[_i].text);
    ck_assert_msg(strstr(error->message, bad[_i].expected) != NULL, "expected '%s', got '%s'",
                  bad[_i].expected, error->message);
    ck_assert_msg(g_error_matches(error, SIM_ERROR, (gint)bad[_i].code), "code %d: %s", error->code,
                  error->message);
    g_autofree char *after = print_text(settings);
    ck_assert_str_eq(before, after);
    ck_assert_uint_eq(settings->given, 0);
}
END_TEST

static const struct {
    const char *text;
    SimError code;
    const char *expected;
} bad_files[] = {
    {"[1]", SIM_ERROR_SCHEMA, "c.json"},
    {"{", SIM_ERROR_PARSE, "c.json"},
    {"{\"gpu\": 8}", SIM_ERROR_SCHEMA, "'gpus'"},
    {"{\"batch\": 1.5}", SIM_ERROR_SCHEMA, "c.json: batch: expected a whole number"},
    {"{\"batch\": \"many\"}", SIM_ERROR_PARSE, "c.json: batch: expected a whole number from 1"},
    {"{\"batch\": 1e300}", SIM_ERROR_SCHEMA, "c.json: batch: expected a whole number"},
    {"{\"clip\": {}}", SIM_ERROR_SCHEMA, "c.json: clip: expected off|on"},
    {"{\"wrap\": \"size:0\"}", SIM_ERROR_RANGE, "c.json: wrap: "},
};

/* A list grows with each use of the option; a file's list gives way to it, and replaces the
 * default otherwise. */
START_TEST(a_list_takes_all_uses_of_its_option)
{
    g_autoptr(SimSettings) settings = sim_settings_new();
    ck_assert(sim_settings_set(settings, "frozen", "layers.0", "--frozen", NULL));
    ck_assert(sim_settings_set(settings, "frozen", "norm", "--frozen", NULL));
    ck_assert(load_text(settings, "{\"frozen\": [\"output\"]}", NULL));
    ck_assert_str_eq(settings->frozen, "layers.0,norm");

    g_autoptr(SimSettings) from_file = sim_settings_new();
    ck_assert(load_text(from_file, "{\"frozen\": [\"output\", \"norm\"]}", NULL));
    ck_assert_str_eq(from_file->frozen, "output,norm");
    g_autoptr(GError) error = NULL;
    ck_assert(!load_text(from_file, "{\"frozen\": [1]}", &error));
    ck_assert_msg(strstr(error->message, "c.json: frozen: expected a list of strings") != NULL,
                  "%s", error->message);
}
END_TEST

START_TEST(a_file_is_named_with_its_key)
{
    g_autoptr(SimSettings) settings = sim_settings_new();
    g_autoptr(GError) error = NULL;
    ck_assert_msg(!load_text(settings, bad_files[_i].text, &error), "%s", bad_files[_i].text);
    ck_assert_msg(strstr(error->message, bad_files[_i].expected) != NULL, "expected '%s', got '%s'",
                  bad_files[_i].expected, error->message);
    ck_assert_msg(g_error_matches(error, SIM_ERROR, (gint)bad_files[_i].code), "code %d: %s",
                  error->code, error->message);
}
END_TEST

START_TEST(an_option_wins_over_the_file_in_either_order)
{
    for (int is_option_first = 0; is_option_first < 2; is_option_first++) {
        g_autoptr(SimSettings) settings = sim_settings_new();
        if (is_option_first)
            ck_assert(sim_settings_set(settings, "batch", "3", "--batch", NULL));
        ck_assert(load_text(settings,
                            "{\"batch\": 2, \"seq\": 512, \"clip\": false, "
                            "\"reshard_after_forward\": true, \"hbm\": 1073741824}",
                            NULL));
        if (!is_option_first)
            ck_assert(sim_settings_set(settings, "batch", "3", "--batch", NULL));
        ck_assert_int_eq(settings->batch, 3);
        ck_assert_int_eq(settings->sequence, 512);
        ck_assert_int_eq(settings->clip, SIM_SWITCH_OFF);
        ck_assert_str_eq(settings->reshard_after_forward, "true");
        ck_assert_str_eq(settings->hbm, "1073741824");
    }
}
END_TEST

START_TEST(null_is_the_default)
{
    g_autoptr(SimSettings) settings = sim_settings_new();
    ck_assert(load_text(settings, "{\"batch\": 2, \"hbm\": \"8GiB\"}", NULL));
    ck_assert(load_text(settings, "{\"batch\": null, \"hbm\": null, \"code\": null}", NULL));
    ck_assert_int_eq(settings->batch, 1);
    ck_assert_ptr_null(settings->hbm);
    ck_assert_int_eq(settings->code, SIM_SETTINGS_UNSET);
}
END_TEST

START_TEST(settling_fills_what_depends_on_model_and_cluster)
{
    g_autoptr(SimSettings) settings = sim_settings_new();
    ck_assert(sim_settings_settle(settings, 8, 131072, true, NULL));
    ck_assert_int_eq(settings->gpus, 8);
    ck_assert_int_eq(settings->sequence, 4096);
    ck_assert_int_eq(settings->code, SIM_CODE_TORCHTITAN);
    ck_assert_int_eq(settings->norm, SIM_NORM_FUSED);

    g_autoptr(SimSettings) other = sim_settings_new();
    ck_assert(sim_settings_settle(other, 2, 1024, false, NULL));
    ck_assert_int_eq(other->sequence, 1024);
    ck_assert_int_eq(other->code, SIM_CODE_TRANSFORMERS);
    ck_assert_int_eq(other->norm, SIM_NORM_COMPOSITE);

    g_autoptr(SimSettings) refused = sim_settings_new();
    g_autoptr(GError) error = NULL;
    ck_assert(sim_settings_set(refused, "norm", "fused", "--norm", NULL));
    ck_assert(!sim_settings_settle(refused, 2, 1024, false, &error));
    ck_assert(g_error_matches(error, SIM_ERROR, SIM_ERROR_UNSUPPORTED));
}
END_TEST

/* Every line of the table can be set by its own name, and its help tells the default. */
START_TEST(the_table_knows_its_own_names)
{
    const char *groups[] = {"job", "model code", "FSDP", "memory", "simulation", NULL};
    g_autoptr(SimSettings) settings = sim_settings_new();
    for (size_t i = 0; i < sim_settings_count(); i++) {
        const SimSettingInfo *info = sim_settings_info(i);
        g_autoptr(GError) error = NULL;
        g_autofree char *unknown = g_strdup_printf("unknown setting '%s'", info->name);
        sim_settings_set(settings, info->name, "8", "--x", &error);
        ck_assert(error == NULL || strstr(error->message, unknown) == NULL);
        ck_assert(g_strv_contains(groups, info->group));
        ck_assert_msg(strstr(info->help, "(default: ") != NULL, "%s", info->name);
        for (size_t j = 0; j < i; j++)
            ck_assert_str_ne(info->name, sim_settings_info(j)->name);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("settings");
    TCase *tests = tcase_create("settings");

    tcase_add_test(tests, the_defaults_are_those_of_a_torchtitan_job);
    tcase_add_loop_test(tests, what_is_set_is_printed_and_read_back, 0, G_N_ELEMENTS(good));
    tcase_add_loop_test(tests, a_value_that_cannot_be_is_named_and_changes_nothing, 0,
                        G_N_ELEMENTS(bad));
    tcase_add_loop_test(tests, a_file_is_named_with_its_key, 0, G_N_ELEMENTS(bad_files));
    tcase_add_test(tests, an_option_wins_over_the_file_in_either_order);
    tcase_add_test(tests, null_is_the_default);
    tcase_add_test(tests, a_list_takes_all_uses_of_its_option);
    tcase_add_test(tests, settling_fills_what_depends_on_model_and_cluster);
    tcase_add_test(tests, the_table_knows_its_own_names);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? 0 : 1;
}
