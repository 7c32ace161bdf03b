/* SPDX-License-Identifier: Apache-2.0
 *
 * Headers of weights beside a config.json: shapes are held against it, lies are refused.
 */
#include <check.h>
#include <glib/gstdio.h>
#include <string.h>

#include "base/error.h"
#include "model/hf_model.h"

static const char config_text[] =
    "{\"model_type\":\"llama\",\"hidden_size\":4,\"num_hidden_layers\":1,\"num_attention_heads\":2,"
    "\"intermediate_size\":8,\"vocab_size\":10,\"tie_word_embeddings\":true}";

/* The one Llama layer of config_text, in BF16; the head is tied and not stored. */
static const struct {
    const char *name;
    uint64_t rows, columns;
} stored[] = {
    {"model.embed_tokens.weight", 10, 4},
    {"model.layers.0.self_attn.q_proj.weight", 4, 4},
    {"model.layers.0.self_attn.k_proj.weight", 4, 4},
    {"model.layers.0.self_attn.v_proj.weight", 4, 4},
    {"model.layers.0.self_attn.o_proj.weight", 4, 4},
    {"model.layers.0.mlp.gate_proj.weight", 8, 4},
    {"model.layers.0.mlp.up_proj.weight", 8, 4},
    {"model.layers.0.mlp.down_proj.weight", 4, 8},
    {"model.layers.0.input_layernorm.weight", 4, 0},
    {"model.layers.0.post_attention_layernorm.weight", 4, 0},
    {"model.norm.weight", 4, 0},
};

/* Header of tensors FIRST.. of N; *DATA: their bytes. */
static char *print_header(size_t first, size_t n, uint64_t *data)
{
    GString *text = g_string_new("{\"__metadata__\":{\"format\":\"pt\"}");
    *data = 0;
    for (size_t i = first; i < first + n; i++) {
        uint64_t columns = stored[i].columns, bytes = 2 * stored[i].rows * MAX(columns, 1);
        g_autofree char *shape = columns > 0
                                     ? g_strdup_printf("%d,%d", (int)stored[i].rows, (int)columns)
                                     : g_strdup_printf("%d", (int)stored[i].rows);
        g_string_append_printf(
            text, ",\"%s\":{\"dtype\":\"BF16\",\"shape\":[%s],\"data_offsets\":[%d,%d]}",
            stored[i].name, shape, (int)*data, (int)(*data + bytes));
        *data += bytes;
    }
    g_string_append_c(text, '}');
    return g_string_free(text, FALSE);
}

static void write_file(const char *folder, const char *name, const char *bytes, size_t length)
{
    g_autofree char *file = g_build_filename(folder, name, NULL);
    ck_assert(g_file_set_contents(file, bytes, (gssize)length, NULL));
}

/* LENGTH 0: the header's own. */
static void write_tensors(const char *folder, const char *name, const char *header, uint64_t length,
                          uint64_t data)
{
    g_autoptr(GByteArray) bytes = g_byte_array_new();
    uint64_t claimed = length > 0 ? length : strlen(header);
    for (uint32_t i = 0; i < 8; i++) {
        guint8 byte = (guint8)(claimed >> 8 * i);
        g_byte_array_append(bytes, &byte, 1);
    }
    g_byte_array_append(bytes, (const guint8 *)header, (guint)strlen(header));
    g_autofree guint8 *zeros = g_malloc0(data + 1);
    g_byte_array_append(bytes, zeros, (guint)data);
    write_file(folder, name, (const char *)bytes->data, bytes->len);
}

static char *make_folder(void)
{
    char *folder = g_dir_make_tmp("safetensors-XXXXXX", NULL);
    ck_assert_ptr_nonnull(folder);
    write_file(folder, "config.json", config_text, strlen(config_text));
    return folder;
}

static void remove_folder(const char *folder)
{
    const char *name;
    g_autoptr(GDir) dir = g_dir_open(folder, 0, NULL);
    while ((name = g_dir_read_name(dir)) != NULL) {
        g_autofree char *file = g_build_filename(folder, name, NULL);
        g_unlink(file);
    }
    g_rmdir(folder);
}

/* The model of FOLDER, or NULL and an error. */
static SimModel *load(const char *folder, GError **error)
{
    g_autofree char *file = g_build_filename(folder, "config.json", NULL);
    g_autoptr(SimModelConfig) config = sim_hf_config_load(file, error);
    SimModelOptions options = {.code = SIM_MODEL_CODE_TORCHTITAN};
    return config != NULL ? sim_hf_model_build(config, &options, error) : NULL;
}

START_TEST(folder_without_weights_is_read_as_before)
{
    g_autofree char *folder = make_folder();
    g_autoptr(SimModel) model = load(folder, NULL);
    ck_assert_ptr_nonnull(model);
    remove_folder(folder);
}
END_TEST

/* With its data, and cut off after the header. */
START_TEST(headers_that_agree_are_taken)
{
    uint64_t data;
    g_autofree char *folder = make_folder();
    g_autofree char *header = print_header(0, G_N_ELEMENTS(stored), &data);
    write_tensors(folder, "model.safetensors", header, 0, _i == 0 ? data : 0);
    GError *error = NULL;
    g_autoptr(SimModel) model = load(folder, &error);
    ck_assert_msg(model != NULL, "%s", error != NULL ? error->message : "?");
    remove_folder(folder);
}
END_TEST

START_TEST(index_gathers_shards)
{
    uint64_t data;
    g_autofree char *folder = make_folder(), *first = print_header(0, 5, &data);
    write_tensors(folder, "a.safetensors", first, 0, 0);
    g_autofree char *second = print_header(5, G_N_ELEMENTS(stored) - 5, &data);
    write_tensors(folder, "b.safetensors", second, 0, 0);
    GString *index = g_string_new("{\"weight_map\":{");
    for (size_t i = 0; i < G_N_ELEMENTS(stored); i++)
        g_string_append_printf(index, "%s\"%s\":\"%s.safetensors\"", i > 0 ? "," : "",
                               stored[i].name, i < 5 ? "a" : "b");
    g_string_append(index, "}}");
    write_file(folder, "model.safetensors.index.json", index->str, index->len);
    GError *error = NULL;
    g_autoptr(SimModel) model = load(folder, &error);
    ck_assert_msg(model != NULL, "%s", error != NULL ? error->message : "?");
    g_autofree char *shard = g_build_filename(folder, "b.safetensors", NULL);
    g_unlink(shard);
    ck_assert_ptr_null(load(folder, &error));
    ck_assert(g_error_matches(error, SIM_ERROR, SIM_ERROR_IO));
    ck_assert_ptr_nonnull(strstr(error->message, "b.safetensors"));
    g_error_free(error);
    g_string_free(index, TRUE);
    remove_folder(folder);
}
END_TEST

static const struct {
    const char *header;
    uint64_t length, data;
    SimError code;
    const char *says;
} bad[] = {
    {"{}", 1000000, 0, SIM_ERROR_MISMATCH, "1000000"},
    {"{\"a\":1}", 0, 0, SIM_ERROR_SCHEMA, "a: expected an object"},
    {"[]", 0, 0, SIM_ERROR_SCHEMA, "object as header"},
    {"{\"a\":", 0, 0, SIM_ERROR_PARSE, "model.safetensors"},
    {"{\"a\":{\"dtype\":\"BF17\",\"shape\":[1],\"data_offsets\":[0,2]}}", 0, 0, SIM_ERROR_SCHEMA,
     "BF16"},
    {"{\"a\":{\"dtype\":\"BF16\",\"shape\":[-1],\"data_offsets\":[0,2]}}", 0, 0, SIM_ERROR_RANGE,
     "a.shape"},
    {"{\"a\":{\"dtype\":\"BF16\",\"shape\":[4],\"data_offsets\":[0,9]}}", 0, 0, SIM_ERROR_MISMATCH,
     "8 bytes"},
    {"{\"a\":{\"dtype\":\"BF16\",\"shape\":[4],\"data_offsets\":[0,8]}}", 0, 7, SIM_ERROR_MISMATCH,
     "8 bytes of data"},
    {"{\"a\":{\"dtype\":\"BF16\",\"shape\":[4],\"data_offsets\":[0,8]}}", 0, 8, SIM_ERROR_MISMATCH,
     "model.embed_tokens.weight"},
    {"{\"model.embed_tokens.weight\":{\"dtype\":\"F32\",\"shape\":[9,4],\"data_offsets\":[0,144]}}",
     0, 0, SIM_ERROR_MISMATCH, "expected 10x4, as config.json says, found 9x4"},
};

START_TEST(lies_are_refused)
{
    g_autofree char *folder = make_folder();
    write_tensors(folder, "model.safetensors", bad[_i].header, bad[_i].length, bad[_i].data);
    GError *error = NULL;
    ck_assert_ptr_null(load(folder, &error));
    ck_assert_msg(g_error_matches(error, SIM_ERROR, (gint)bad[_i].code) &&
                      strstr(error->message, bad[_i].says) != NULL,
                  "expected \"%s\", found %s", bad[_i].says, error->message);
    ck_assert_ptr_null(strchr(error->message, '\n'));
    g_error_free(error);
    remove_folder(folder);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("safetensors");
    TCase *tcase = tcase_create("safetensors");
    tcase_add_test(tcase, folder_without_weights_is_read_as_before);
    tcase_add_loop_test(tcase, headers_that_agree_are_taken, 0, 2);
    tcase_add_test(tcase, index_gathers_shards);
    tcase_add_loop_test(tcase, lies_are_refused, 0, G_N_ELEMENTS(bad));
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed > 0;
}
