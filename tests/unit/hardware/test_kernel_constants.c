/* SPDX-License-Identifier: Apache-2.0
 *
 * Pins that every shipped file of kernel constants loads, which kernel is found, that a file is
 * read strictly, and what messages say.
 */
#include <glib.h>
#include <glib/gstdio.h>
#include <stdlib.h>
#include <string.h>

#include <check.h>

#include "base/error.h"
#include "hardware/cluster.h"
#include "hardware/kernel_constants.h"

#define MODELS SIM_SOURCE_DIR "/models"

START_TEST(every_shipped_file_loads)
{
    g_auto(GStrv) names = sim_cluster_list(MODELS, "kernels");
    ck_assert_uint_ge(g_strv_length(names), 8);
    for (size_t i = 0; names[i]; i++) {
        g_autoptr(GError) error = NULL;
        g_autoptr(SimKernelConstants) constants =
            sim_kernel_constants_load(MODELS, names[i], &error);
        ck_assert_msg(constants != NULL, "%s", error ? error->message : "");
        /* What PyTorch takes has a forward and a backward. */
        for (int is_backward = 0; is_backward < 2; is_backward++) {
            const SimAttentionConstants *row =
                sim_kernel_constants_find_attention(constants, NULL, is_backward == 1, true);
            ck_assert_msg(row != NULL, "%s", names[i]);
            ck_assert_str_eq(row->kernel, constants->attention[0].kernel);
        }
    }
}
END_TEST

START_TEST(attention_is_found_by_kernel_direction_and_mask)
{
    static const struct {
        const char *kernel;
        bool is_backward, is_causal;
        const char *found; /* NULL: none */
        bool found_causal;
    } cases[] = {
        {NULL, false, true, "flash2", true},     {NULL, true, false, "flash2", false},
        {"cudnn", false, false, "cudnn", false}, {"flash3", false, true, "flash3", true},
        {"flash3", true, true, "flash3", false}, /* only measured with a full mask */
        {"vllm_fa3", true, true, NULL, false},   {"flash9", false, true, NULL, false},
    };
    g_autoptr(GError) error = NULL;
    g_autoptr(SimKernelConstants) constants = sim_kernel_constants_load(MODELS, "h100", &error);
    ck_assert_msg(constants != NULL, "%s", error ? error->message : "");
    for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) {
        const SimAttentionConstants *row = sim_kernel_constants_find_attention(
            constants, cases[i].kernel, cases[i].is_backward, cases[i].is_causal);
        ck_assert_msg((row != NULL) == (cases[i].found != NULL), "case %zu", i);
        if (!row)
            continue;
        ck_assert_str_eq(row->kernel, cases[i].found);
        ck_assert(row->is_backward == cases[i].is_backward);
        ck_assert(row->is_causal == cases[i].found_causal);
    }
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
    {"\"depth\"", "\"dept\"", SIM_ERROR_SCHEMA, "did you mean 'depth'?"},
    {"\"split_cost\": ", "\"split_cost\": -", SIM_ERROR_RANGE, "$.gemm.split_cost"},
    {"\"boost\": {\"value\": 1", "\"boost\": {\"value\": 9", SIM_ERROR_RANGE, "$.boost.value"},
    {"\"softmax\"", "\"softmix\"", SIM_ERROR_SCHEMA, "did you mean 'softmax'?"},
    {"\"mask\": \"causal\"", "\"mask\": \"casual\"", SIM_ERROR_SCHEMA,
     "$.attention[0].mask: expected 'full' or 'causal', found 'casual'"},
    {"\"direction\": \"backward\"", "\"direction\": \"back\"", SIM_ERROR_SCHEMA,
     "expected 'forward' or 'backward', found 'back'"},
    {"\"efficiency\": [0.", "\"efficiency\": [0.5, 0.", SIM_ERROR_RANGE,
     "$.attention[0].efficiency: expected 3 fractions"},
    {"\"efficiency\": [0.", "\"efficiency\": [-0.", SIM_ERROR_RANGE,
     "$.attention[0].efficiency: expected 3 fractions"},
    {"\"source\": \"fitted on the GEMM", "\"sauce\": \"fitted on the GEMM", SIM_ERROR_SCHEMA,
     "did you mean 'source'?"},
    {"\"calibrated\"", "\"callibrated\"", SIM_ERROR_SCHEMA, "did you mean 'calibrated'?"},
    {"fsdpsim.kernels/1", "fsdpsim.kernels/2", SIM_ERROR_SCHEMA, "$.schema"},
};

START_TEST(a_bad_file_is_named_with_its_path)
{
    const BadFile *bad = &bad_files[_i];
    g_autofree char *text = NULL;
    ck_assert(g_file_get_contents(MODELS "/kernels/h100.json", &text, NULL, NULL));
    ck_assert_ptr_nonnull(strstr(text, bad->from));
    g_autoptr(GString) changed = g_string_new(text);
    g_string_replace(changed, bad->from, bad->to, 1);
    g_autofree char *folder = g_dir_make_tmp("fsdpsim-XXXXXX", NULL);
    g_autofree char *file = g_build_filename(folder, "kernels.json", NULL);
    ck_assert(g_file_set_contents(file, changed->str, -1, NULL));

    g_autoptr(GError) error = NULL;
    ck_assert_ptr_null(sim_kernel_constants_load(MODELS, file, &error));
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
    Suite *suite = suite_create("kernel_constants");
    TCase *shipped = tcase_create("shipped");
    tcase_add_test(shipped, every_shipped_file_loads);
    tcase_add_test(shipped, attention_is_found_by_kernel_direction_and_mask);
    suite_add_tcase(suite, shipped);
    TCase *bad = tcase_create("bad input");
    tcase_add_loop_test(bad, a_bad_file_is_named_with_its_path, 0, G_N_ELEMENTS(bad_files));
    suite_add_tcase(suite, bad);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
