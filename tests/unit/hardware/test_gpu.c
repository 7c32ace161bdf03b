/* SPDX-License-Identifier: Apache-2.0
 *
 * Pins that every shipped GPU loads, that a file is read strictly, and what messages say.
 */
#include <glib.h>
#include <glib/gstdio.h>
#include <stdlib.h>
#include <string.h>

#include <check.h>

#include "base/error.h"
#include "hardware/cluster.h"
#include "hardware/gpu.h"

#define MODELS SIM_SOURCE_DIR "/models"

START_TEST(every_shipped_gpu_loads)
{
    g_auto(GStrv) names = sim_cluster_list(MODELS, "gpus");
    ck_assert_uint_ge(g_strv_length(names), 11);
    for (size_t i = 0; names[i]; i++) {
        g_autoptr(GError) error = NULL;
        g_autoptr(SimGpu) gpu = sim_gpu_load(MODELS, names[i], &error);
        ck_assert_msg(gpu != NULL, "%s", error ? error->message : "");
        ck_assert_str_eq(gpu->name, names[i]);
        ck_assert_double_gt(gpu->flops_per_s[SIM_PRECISION_BF16],
                            gpu->flops_per_s[SIM_PRECISION_F32]);
        for (size_t row = 1; row < gpu->n_matrix_product; row++)
            ck_assert_double_gt(gpu->matrix_product[row].flops, gpu->matrix_product[row - 1].flops);
    }
}
END_TEST

/* 79.18 GiB = 79.18 * 2^30 = 85,018,877,624.3 bytes. */
START_TEST(an_h100_is_as_its_data_sheet_says)
{
    g_autoptr(GError) error = NULL;
    g_autoptr(SimGpu) gpu = sim_gpu_load(MODELS, "h100", &error);
    ck_assert_msg(gpu != NULL, "%s", error ? error->message : "");
    ck_assert_uint_ge(gpu->memory_bytes, UINT64_C(85018877624));
    ck_assert_uint_le(gpu->memory_bytes, UINT64_C(85018877625));
    ck_assert_uint_eq(gpu->context_bytes, SIM_GIB / 2);
    ck_assert_uint_eq(gpu->sms, 132);
    ck_assert_double_eq(gpu->hbm_bytes_per_s, 3350e9);
    ck_assert_double_eq(gpu->flops_per_s[SIM_PRECISION_BF16], 989.4e12);
    ck_assert_int_eq(gpu->basis, SIM_BASIS_CALIBRATED);
    ck_assert_int_eq(gpu->launch_time, 8 * SIM_MICROSECOND);
}
END_TEST

START_TEST(dtypes_are_computed_in_their_own_precision)
{
    ck_assert_int_eq(sim_gpu_precision(SIM_DTYPE_F32), SIM_PRECISION_F32);
    ck_assert_int_eq(sim_gpu_precision(SIM_DTYPE_BF16), SIM_PRECISION_BF16);
    ck_assert_int_eq(sim_gpu_precision(SIM_DTYPE_F16), SIM_PRECISION_F16);
    ck_assert_int_eq(sim_gpu_precision(SIM_DTYPE_F8), SIM_PRECISION_F8);
    ck_assert_int_eq(sim_gpu_precision(SIM_DTYPE_I64), SIM_PRECISION_F32);
}
END_TEST

START_TEST(an_unknown_name_gets_the_nearest)
{
    g_autoptr(GError) error = NULL;
    ck_assert_ptr_null(sim_gpu_load(MODELS, "h10O", &error));
    ck_assert(g_error_matches(error, SIM_ERROR, SIM_ERROR_SCHEMA));
    ck_assert_ptr_nonnull(strstr(error->message, "did you mean 'h100'?"));
}
END_TEST

/* One change to the shipped file, and what the message must name. */
typedef struct BadFile {
    const char *from;
    const char *to;
    SimError code;
    const char *said;
} BadFile;

static const BadFile bad_files[] = {
    {"\"value\": \"3350GB/s\"", "\"value\": \"3350\"", SIM_ERROR_PARSE, "$.hbm.value: "},
    {"\"value\": \"3350GB/s\"", "\"value\": 3350", SIM_ERROR_SCHEMA, "$.hbm.value: "},
    {"\"value\": \"3350GB/s\"", "\"value\": \"0GB/s\"", SIM_ERROR_RANGE, "$.hbm.value: "},
    {"\"value\": 132", "\"value\": -1", SIM_ERROR_RANGE, "$.sms.value: "},
    {"\"sms\"", "\"sm\"", SIM_ERROR_SCHEMA, "did you mean 'sms'?"},
    {"\"bf16\"", "\"bf15\"", SIM_ERROR_SCHEMA, "did you mean 'bf16'?"},
    {"\"value\": 0.85, \"source\"", "\"value\": 0.85, \"sauce\"", SIM_ERROR_SCHEMA, "sauce"},
    {"\"value\": 0.85, \"source\": \"", "\"value\": 0.85, \"source\": \"\", \"x\": \"",
     SIM_ERROR_SCHEMA, "$.memory_fraction: "},
    {"[316000000, 0.078]", "[316000, 0.078]", SIM_ERROR_RANGE, "$.matrix_product.value[1]: "},
    {"[316000000, 0.078]", "[316000000, 1.1]", SIM_ERROR_RANGE, "$.matrix_product.value[1]: "},
    {"[316000000, 0.078]", "[316000000]", SIM_ERROR_SCHEMA, "$.matrix_product.value[1]: "},
    {"\"calibrated\"", "\"callibrated\"", SIM_ERROR_SCHEMA, "did you mean 'calibrated'?"},
    {"fsdpsim.gpu/1", "fsdpsim.gpu/2", SIM_ERROR_SCHEMA, "$.schema: "},
    {"\"0.5GiB\"", "\"500GiB\"", SIM_ERROR_RANGE, "$.context.value: "},
};

START_TEST(a_bad_file_is_named_with_its_path)
{
    const BadFile *bad = &bad_files[_i];
    g_autofree char *text = NULL;
    ck_assert(g_file_get_contents(MODELS "/gpus/h100.json", &text, NULL, NULL));
    ck_assert_ptr_nonnull(strstr(text, bad->from));
    g_autoptr(GString) changed = g_string_new(text);
    g_string_replace(changed, bad->from, bad->to, 1);
    g_autofree char *folder = g_dir_make_tmp("fsdpsim-XXXXXX", NULL);
    g_autofree char *file = g_build_filename(folder, "gpu.json", NULL);
    ck_assert(g_file_set_contents(file, changed->str, -1, NULL));

    g_autoptr(GError) error = NULL;
    ck_assert_ptr_null(sim_gpu_load(MODELS, file, &error));
    ck_assert_msg(strstr(error->message, bad->said) != NULL, "%s", error->message);
    ck_assert_msg(g_error_matches(error, SIM_ERROR, (int)bad->code), "%s", error->message);
    ck_assert_ptr_nonnull(strstr(error->message, file));
    ck_assert_ptr_null(strchr(error->message, '\n'));
    g_remove(file);
    g_rmdir(folder);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("gpu");
    TCase *shipped = tcase_create("shipped");
    tcase_add_test(shipped, every_shipped_gpu_loads);
    tcase_add_test(shipped, an_h100_is_as_its_data_sheet_says);
    tcase_add_test(shipped, dtypes_are_computed_in_their_own_precision);
    suite_add_tcase(suite, shipped);
    TCase *bad = tcase_create("bad input");
    tcase_add_test(bad, an_unknown_name_gets_the_nearest);
    tcase_add_loop_test(bad, a_bad_file_is_named_with_its_path, 0, G_N_ELEMENTS(bad_files));
    suite_add_tcase(suite, bad);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
