/* SPDX-License-Identifier: Apache-2.0
 *
 * What is read from a config.json, and what is refused with which words.
 */
#include <check.h>
#include <glib/gstdio.h>
#include <string.h>

#include "base/error.h"
#include "model/hf_model.h"

#define LLAMA_BUT(more)                                                                            \
    "{\"model_type\":\"llama\",\"hidden_size\":64,\"num_hidden_layers\":2,"                        \
    "\"intermediate_size\":128,\"vocab_size\":100" more "}"

static SimModelConfig *load_text(const char *text, GError **error)
{
    GError *failure = NULL;
    g_autofree char *file = NULL;
    int fd = g_file_open_tmp("hf-config-XXXXXX.json", &file, &failure);
    ck_assert(fd >= 0);
    g_close(fd, NULL);
    ck_assert(g_file_set_contents(file, text, -1, &failure));
    SimModelConfig *config = sim_hf_config_load(file, error);
    g_unlink(file);
    return config;
}

static const struct {
    const char *text;
    SimError code;
    const char *says; /* must stand in the message */
} bad[] = {
    {"[1, 2]", SIM_ERROR_SCHEMA, "expected an object"},
    {"{\"hidden_size\": 1", SIM_ERROR_PARSE, ""},
    {"{\"hidden_size\": 64}", SIM_ERROR_SCHEMA, "model_type"},
    {"{\"model_type\":\"lama\"}", SIM_ERROR_SCHEMA, "did you mean 'llama'"},
    {"{\"architectures\":[\"LlamaForCausalLLM\"]}", SIM_ERROR_SCHEMA,
     "did you mean 'LlamaForCausalLM'"},
    {"{\"architectures\":[]}", SIM_ERROR_SCHEMA, "architectures[0]"},
    {"{\"architectures\":[7]}", SIM_ERROR_SCHEMA, "architectures[0]"},
    {LLAMA_BUT(""), SIM_ERROR_SCHEMA, "num_attention_heads"},
    {LLAMA_BUT(",\"num_attention_heads\":0"), SIM_ERROR_RANGE, "num_attention_heads"},
    {LLAMA_BUT(",\"num_attention_heads\":-4"), SIM_ERROR_RANGE, "-4"},
    {LLAMA_BUT(",\"num_attention_heads\":4.5"), SIM_ERROR_SCHEMA, "4.5"},
    {LLAMA_BUT(",\"num_attention_heads\":\"4\""), SIM_ERROR_SCHEMA, "num_attention_heads"},
    {LLAMA_BUT(",\"num_attention_heads\":6"), SIM_ERROR_RANGE, "multiple of num_attention_heads"},
    {LLAMA_BUT(",\"num_attention_heads\":4,\"num_key_value_heads\":3"), SIM_ERROR_RANGE,
     "multiple of num_key_value_heads"},
    {LLAMA_BUT(",\"num_attention_heads\":4,\"hidden_act\":\"silo\""), SIM_ERROR_SCHEMA,
     "did you mean 'silu'"},
    {LLAMA_BUT(",\"num_attention_heads\":4,\"rms_norm_eps\":-1"), SIM_ERROR_RANGE, "rms_norm_eps"},
    {LLAMA_BUT(",\"num_attention_heads\":4,\"tie_word_embeddings\":1"), SIM_ERROR_SCHEMA,
     "tie_word_embeddings"},
    {"{\"model_type\":\"llama\",\"hidden_size\":1000000000000000000}", SIM_ERROR_RANGE,
     "hidden_size"},
    {"{\"model_type\":\"gpt2\",\"n_embd\":100,\"n_layer\":2,\"n_head\":3,\"vocab_size\":10}",
     SIM_ERROR_RANGE, "multiple of n_head"},
    {"{\"model_type\":\"gpt2\",\"n_embd\":100,\"n_layer\":2,\"n_head\":4,\"vocab_size\":10,"
     "\"activation_function\":\"gelu_old\"}",
     SIM_ERROR_SCHEMA, "did you mean 'gelu_new'"},
};

START_TEST(bad_config_is_refused_with_its_path)
{
    g_autoptr(GError) error = NULL;
    g_autoptr(SimModelConfig) config = load_text(bad[_i].text, &error);
    ck_assert_ptr_null(config);
    ck_assert_msg(g_error_matches(error, SIM_ERROR, (gint)bad[_i].code), "%s: code %d, %s",
                  bad[_i].text, error->code, error->message);
    ck_assert_msg(strstr(error->message, bad[_i].says) != NULL, "%s: '%s' lacks '%s'", bad[_i].text,
                  error->message, bad[_i].says);
    ck_assert_msg(strstr(error->message, "hf-config-") != NULL, "%s", error->message);
    ck_assert_ptr_null(strchr(error->message, '\n'));
}
END_TEST

START_TEST(deep_nesting_is_refused)
{
    GString *text = g_string_new("{\"model_type\":");
    for (int i = 0; i < 1000000; i++)
        g_string_append_c(text, '[');
    g_autoptr(GError) error = NULL;
    ck_assert_ptr_null(load_text(text->str, &error));
    ck_assert(g_error_matches(error, SIM_ERROR, SIM_ERROR_PARSE));
    g_string_free(text, TRUE);
}
END_TEST

START_TEST(unknown_keys_are_welcome_and_defaults_are_transformers)
{
    GError *error = NULL;
    g_autoptr(SimModelConfig) config = load_text(
        LLAMA_BUT(",\"num_attention_heads\":4,\"auto_map\":{\"x\":[1]},\"bos\":null"), &error);
    ck_assert_msg(config != NULL, "%s", error != NULL ? error->message : "?");
    ck_assert_uint_eq(config->key_value_heads, 4); /* LlamaConfig: as many as heads */
    ck_assert_uint_eq(config->head_dim, 16);
    ck_assert_uint_eq(config->max_positions, 2048);
    ck_assert(!config->is_head_tied);
}
END_TEST

START_TEST(null_stands_for_the_default)
{
    GError *error = NULL;
    g_autoptr(SimModelConfig) config = load_text(
        "{\"model_type\":\"gpt2\",\"n_embd\":64,\"n_layer\":2,\"n_head\":4,\"vocab_size\":10,"
        "\"n_inner\":null}",
        &error);
    ck_assert_msg(config != NULL, "%s", error != NULL ? error->message : "?");
    ck_assert_uint_eq(config->intermediate, 256);
    ck_assert(config->is_head_tied);
}
END_TEST

START_TEST(torchtitan_code_is_refused_where_it_does_not_exist)
{
    GError *failure = NULL;
    g_autoptr(SimModelConfig) config =
        sim_hf_config_load(SIM_SOURCE_DIR "/models/nets/qwen3-8b.json", &failure);
    ck_assert(config != NULL && !sim_hf_model_has_code(config, SIM_MODEL_CODE_TORCHTITAN));
    SimModelOptions options = {.code = SIM_MODEL_CODE_TORCHTITAN};
    g_autoptr(GError) error = NULL;
    ck_assert_ptr_null(sim_hf_model_build(config, &options, &error));
    ck_assert(g_error_matches(error, SIM_ERROR, SIM_ERROR_UNSUPPORTED));
    ck_assert(strstr(error->message, "--code transformers") != NULL);
}
END_TEST

START_TEST(name_is_the_file_or_its_folder)
{
    GError *error = NULL;
    g_autofree char *folder = g_dir_make_tmp("hf-XXXXXX", &error);
    g_autofree char *file = g_build_filename(folder, "config.json", NULL);
    ck_assert(g_file_set_contents(file, LLAMA_BUT(",\"num_attention_heads\":4"), -1, &error));
    g_autoptr(SimModelConfig) config = sim_hf_config_load(file, &error);
    g_autofree char *expected = g_path_get_basename(folder);
    ck_assert_str_eq(config->name, expected);
    g_unlink(file);
    g_rmdir(folder);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("hf_config");
    TCase *tcase = tcase_create("hf_config");
    tcase_add_loop_test(tcase, bad_config_is_refused_with_its_path, 0, G_N_ELEMENTS(bad));
    tcase_add_test(tcase, deep_nesting_is_refused);
    tcase_add_test(tcase, unknown_keys_are_welcome_and_defaults_are_transformers);
    tcase_add_test(tcase, null_stands_for_the_default);
    tcase_add_test(tcase, torchtitan_code_is_refused_where_it_does_not_exist);
    tcase_add_test(tcase, name_is_the_file_or_its_folder);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed > 0;
}
