/* SPDX-License-Identifier: Apache-2.0
 *
 * Settings become the calls that the script would make: which units, in which order, with which
 * reshard_after_forward; and the actions of a step.
 */
#include <check.h>
#include <glib/gstdio.h>
#include <string.h>

#include "base/error.h"
#include "job/job.h"
#include "job/job_wrap.h"
#include "model/module_tree.h"

/* Four blocks as torchtitan names them. Elements: embedding and head 800, a block 64 + 256 = 320,
 * the norm 8. Where IS_TIED the head's weight is the embedding's. */
static SimModel *new_model(bool is_tied)
{
    SimModel *model = sim_module_tree_new("mine", "Mine");
    SimProgram *forward = sim_program_new(1);
    model->embedding = sim_module_tree_add_weight(model, 0, "tok_embeddings", 100, 8, forward);
    uint32_t embedding = model->parameters->len - 1;
    uint32_t layers = sim_module_tree_add(model, 0, "layers");
    for (int i = 0; i < 4; i++) {
        g_autofree char *name = g_strdup_printf("%d", i);
        uint32_t block = sim_module_tree_add(model, layers, name);
        sim_module_tree_set_forward(model, block, forward);
        sim_module_tree_add_weight(model, block, "wq", 8, 8, forward);
        sim_module_tree_add_weight(model, block, "w1", 32, 8, forward);
        g_array_append_val(model->blocks, block);
    }
    model->norm = sim_module_tree_add_weight(model, 0, "norm", 8, 0, forward);
    model->head = sim_module_tree_add_weight(model, 0, "output", 100, 8, forward);
    if (is_tied)
        sim_module_tree_tie(model, model->parameters->len - 1, embedding);
    model->is_head_tied = is_tied;
    return model;
}

static SimJob *build(const SimModel *model, const char *wrap, const char *reshard, GError **error)
{
    g_autoptr(SimSettings) settings = sim_settings_new();
    ck_assert(sim_settings_set(settings, "wrap", wrap, "--wrap", NULL));
    ck_assert(sim_settings_set(settings, "reshard-after-forward", reshard, "--x", NULL));
    ck_assert(sim_settings_settle(settings, 8, 4096, true, NULL));
    return sim_job_build(settings, model, error);
}

/* "layers.0=true layers.1=2 root=none". */
static char *describe(const SimJob *job)
{
    GString *text = g_string_new(NULL);
    for (guint i = 0; i < job->units->len; i++) {
        const SimJobUnit *unit = &g_array_index(job->units, SimJobUnit, i);
        const char *kinds[] = {"none", "false", "true", NULL};
        g_string_append_printf(text, "%s%s=", i > 0 ? " " : "", unit->name);
        if (unit->reshard_after_forward.kind == SIM_RESHARD_TO)
            g_string_append_printf(text, "%u", unit->reshard_after_forward.ranks);
        else
            g_string_append(text, kinds[unit->reshard_after_forward.kind]);
    }
    return g_string_free(text, FALSE);
}

static const struct {
    const char *wrap, *reshard;
    bool is_tied;
    const char *expected;
} grouped[] = {
    {"block", "default", false,
     "tok_embeddings=true layers.0=true layers.1=true layers.2=true layers.3=true "
     "norm+output=false root=none"},
    {"block", "last-block-kept", false,
     "tok_embeddings=true layers.0=true layers.1=true layers.2=true layers.3=false "
     "norm+output=false root=none"},
    {"block", "auto", false,
     "tok_embeddings=none layers.0=none layers.1=none layers.2=none layers.3=none "
     "norm+output=none root=none"},
    {"block", "true", false,
     "tok_embeddings=true layers.0=true layers.1=true layers.2=true layers.3=true "
     "norm+output=true root=none"},
    {"block", "false", false,
     "tok_embeddings=false layers.0=false layers.1=false layers.2=false layers.3=false "
     "norm+output=false root=none"},
    {"block", "2", false,
     "tok_embeddings=true layers.0=2 layers.1=2 layers.2=2 layers.3=2 norm+output=false root=none"},
    {"block", "1", false,
     "tok_embeddings=true layers.0=false layers.1=false layers.2=false layers.3=false "
     "norm+output=false root=none"},
    {"block", "8", false,
     "tok_embeddings=true layers.0=true layers.1=true layers.2=true layers.3=true "
     "norm+output=false root=none"},
    {"block+root", "default", false,
     "layers.0=true layers.1=true layers.2=true layers.3=true root=none"},
    /* A tied head cannot be in another unit than the embedding. */
    {"block", "last-block-kept", true,
     "layers.0=true layers.1=true layers.2=true layers.3=false root=none"},
    {"root", "default", false, "root=none"},
    {"root", "last-block-kept", false, "root=none"},
    {"root", "auto", false, "root=none"},
    {"root", "true", false, "root=true"},
    {"root", "false", false, "root=false"},
    {"root", "4", false, "root=4"},
    /* size_based_auto_wrap_policy, bottom-up. 256: each w1 is a unit, after which 64 are left of
     * its block, and of the root 8 + 4*64. */
    {"size:256", "true", false,
     "tok_embeddings=true layers.0.w1=true layers.1.w1=true layers.2.w1=true layers.3.w1=true "
     "output=true root=none"},
    /* 300: no leaf of a block is large enough, the blocks are. */
    {"size:300", "2", false,
     "tok_embeddings=2 layers.0=2 layers.1=2 layers.2=2 layers.3=2 output=2 root=none"},
    /* 500: the blocks are too small and `layers`, large enough, is never called. */
    {"size:500", "default", false, "tok_embeddings=true output=true root=none"},
    {"size:1k", "default", false, "root=none"},
    /* Neither end of a tie can be a unit of its own. */
    {"size:300", "default", true,
     "layers.0=true layers.1=true layers.2=true layers.3=true root=none"},
};

START_TEST(wrap_and_reshard_say_which_calls_are_made)
{
    g_autoptr(SimModel) model = new_model(grouped[_i].is_tied);
    g_autoptr(GError) error = NULL;
    g_autoptr(SimJob) job = build(model, grouped[_i].wrap, grouped[_i].reshard, &error);
    ck_assert_msg(job != NULL, "%s", error != NULL ? error->message : "");
    g_autofree char *text = describe(job);
    ck_assert_str_eq(text, grouped[_i].expected);
}
END_TEST

START_TEST(a_unit_of_two_modules_holds_both)
{
    g_autoptr(SimModel) model = new_model(false);
    g_autoptr(SimJob) job = build(model, "block", "default", NULL);
    const SimJobUnit *last = &g_array_index(job->units, SimJobUnit, 5);
    const SimJobUnit *root = &g_array_index(job->units, SimJobUnit, 6);
    ck_assert_uint_eq(last->modules->len, 2);
    ck_assert_uint_eq(g_array_index(last->modules, uint32_t, 0), model->norm);
    ck_assert_uint_eq(g_array_index(last->modules, uint32_t, 1), model->head);
    ck_assert_uint_eq(g_array_index(root->modules, uint32_t, 0), 0);
}
END_TEST

START_TEST(an_integer_must_divide_the_ranks)
{
    static const char *const texts[] = {"3", "9"};
    g_autoptr(SimModel) model = new_model(false);
    g_autoptr(GError) error = NULL;
    g_autoptr(SimJob) job = build(model, "block", texts[_i], &error);
    ck_assert_ptr_null(job);
    ck_assert(g_error_matches(error, SIM_ERROR, SIM_ERROR_RANGE));
    ck_assert(g_str_has_prefix(error->message, "--reshard-after-forward: expected "));
}
END_TEST

static const struct {
    const char *lines;
    SimError code;
    const char *expected; /* the units, or a part of the message */
} files[] = {
    {"layers.1\n\n  tok_embeddings  \n\"\"\n", 0, "layers.1=true tok_embeddings=true root=none"},
    {"layers.*\r\nnorm", 0,
     "layers.0=true layers.1=true layers.2=true layers.3=true norm=true root=none"},
    {"layers.*.w1\n", 0,
     "layers.0.w1=true layers.1.w1=true layers.2.w1=true layers.3.w1=true root=none"},
    {"", 0, "root=none"},
    {"norm\nlayer.1\n", SIM_ERROR_SCHEMA, ":2: unknown module 'layer.1'; did you mean 'layers.1'?"},
    {"*.w1\n", SIM_ERROR_SCHEMA, ":1: unknown module '*.w1'"},
    {"layers.1\nlayers.*\n", SIM_ERROR_SCHEMA, ":2: module 'layers.1' stands twice"},
    {"layers\n", SIM_ERROR_SCHEMA,
     ":1: module 'layers' is a container that is never called; expected its members"},
};

START_TEST(a_file_names_units_by_path_or_pattern)
{
    g_autofree char *folder = g_dir_make_tmp("fsdpsim-XXXXXX", NULL);
    g_autofree char *path = g_build_filename(folder, "units.txt", NULL);
    g_autoptr(SimModel) model = new_model(false);
    g_autoptr(GError) error = NULL;
    ck_assert(g_file_set_contents(path, files[_i].lines, -1, NULL));
    g_autoptr(SimJob) job = build(model, path, "default", &error);
    g_remove(path);
    g_rmdir(folder);
    if (files[_i].code != 0) {
        ck_assert_ptr_null(job);
        ck_assert_msg(strstr(error->message, files[_i].expected) != NULL, "%s", error->message);
        ck_assert_int_eq(error->code, (int)files[_i].code);
        return;
    }
    ck_assert_msg(job != NULL, "%s", error != NULL ? error->message : "");
    g_autofree char *text = describe(job);
    ck_assert_str_eq(text, files[_i].expected);
}
END_TEST

START_TEST(a_wrap_that_is_no_word_and_no_file_is_told)
{
    g_autoptr(SimModel) model = new_model(false);
    g_autoptr(GError) error = NULL;
    g_autoptr(SimJob) job = build(model, "blocks", "default", &error);
    ck_assert_ptr_null(job);
    ck_assert(g_error_matches(error, SIM_ERROR, SIM_ERROR_IO));
    ck_assert_msg(strstr(error->message, "block, block+root, root, size:N or a file") != NULL, "%s",
                  error->message);
}
END_TEST

static const struct {
    const char *pattern, *path;
    bool is_match;
} patterns[] = {
    {"layers.*", "layers.31", true},
    {"layers.*", "layers.3.wq", false},
    {"layers.*.wq", "layers.3.wq", true},
    {"layers.*", "layers.", false},
    {"", "", true},
    {"*", "norm", true},
    {"norm", "norms", false},
    {"norms", "norm", false},
    {"*.*", "a.b", true},
    {"*", "", false},
};

START_TEST(a_star_stands_for_one_component)
{
    ck_assert_int_eq(sim_job_wrap_matches(patterns[_i].pattern, patterns[_i].path),
                     patterns[_i].is_match);
}
END_TEST

/* Two microbatches: F0 B0 F1 B1, then clip, optimizer, zero_grad. */
START_TEST(a_step_is_its_microbatches_then_the_optimizer)
{
    static const SimJobActionKind kinds[] = {
        SIM_ACTION_FORWARD, SIM_ACTION_BACKWARD,  SIM_ACTION_FORWARD,  SIM_ACTION_BACKWARD,
        SIM_ACTION_CLIP,    SIM_ACTION_OPTIMIZER, SIM_ACTION_ZERO_GRAD};
    g_autoptr(SimModel) model = new_model(false);
    g_autoptr(SimSettings) settings = sim_settings_new();
    ck_assert(sim_settings_set(settings, "accumulate", "2", "--x", NULL));
    ck_assert(sim_settings_set(settings, "zero-grad", "keep", "--x", NULL));
    ck_assert(sim_settings_set(settings, "store-dtype", "bf16", "--x", NULL));
    ck_assert(sim_settings_settle(settings, 8, 2048, true, NULL));
    g_autoptr(SimJob) job = sim_job_build(settings, model, NULL);
    ck_assert_uint_eq(job->actions->len, G_N_ELEMENTS(kinds));
    for (guint i = 0; i < job->actions->len; i++)
        ck_assert_int_eq(g_array_index(job->actions, SimJobAction, i).kind, kinds[i]);
    ck_assert_uint_eq(g_array_index(job->actions, SimJobAction, 3).microbatch, 1);
    ck_assert(g_array_index(job->actions, SimJobAction, 6).value);
    ck_assert_uint_eq(job->ranks, 8);
    ck_assert_uint_eq(job->shard_size, 8);
    ck_assert_uint_eq(job->sequence, 2048);
    ck_assert_int_eq(job->store_dtype, SIM_DTYPE_BF16);
    ck_assert_int_eq(job->precision.param_dtype, SIM_DTYPE_BF16);
    ck_assert_int_eq(job->precision.reduce_dtype, SIM_DTYPE_F32);

    ck_assert(sim_settings_set(settings, "clip", "off", "--x", NULL));
    g_autoptr(SimJob) without_clip = sim_job_build(settings, model, NULL);
    ck_assert_uint_eq(without_clip->actions->len, G_N_ELEMENTS(kinds) - 1);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("job");
    TCase *tests = tcase_create("job");

    tcase_add_loop_test(tests, wrap_and_reshard_say_which_calls_are_made, 0, G_N_ELEMENTS(grouped));
    tcase_add_test(tests, a_unit_of_two_modules_holds_both);
    tcase_add_loop_test(tests, an_integer_must_divide_the_ranks, 0, 2);
    tcase_add_loop_test(tests, a_file_names_units_by_path_or_pattern, 0, G_N_ELEMENTS(files));
    tcase_add_test(tests, a_wrap_that_is_no_word_and_no_file_is_told);
    tcase_add_loop_test(tests, a_star_stands_for_one_component, 0, G_N_ELEMENTS(patterns));
    tcase_add_test(tests, a_step_is_its_microbatches_then_the_optimizer);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? 0 : 1;
}
