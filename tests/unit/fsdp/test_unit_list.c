/* SPDX-License-Identifier: Apache-2.0 */
#include "fsdp/unit_list.h"
#include "support/decoder.h"
#include "support/fully_shard.h"

#include <check.h>

static const SimReshard UNSET = {SIM_RESHARD_UNSET, 0};

typedef struct Setup {
    SimModel *model;
    SimJob *job;
    SimPlan *plan;
    SimUnitList *units;
    GError *error;
} Setup;

/* CALLS: of fully_shard, NULL-terminated. */
static void setup_init(Setup *setup, const Decoder *net, const char *const *calls)
{
    *setup = (Setup){.model = decoder_new(net), .job = fully_shard_new(2, 1)};
    setup->plan = sim_plan_new(2);
    for (size_t i = 0; calls[i] != NULL; i++)
        fully_shard(setup->job, setup->model, calls[i], UNSET);
    setup->units = sim_unit_list_new(setup->job, setup->model, setup->plan, &setup->error);
}

static void setup_done(Setup *setup)
{
    sim_unit_list_free(setup->units);
    sim_plan_free(setup->plan);
    sim_job_free(setup->job);
    sim_model_free(setup->model);
    g_clear_error(&setup->error);
}

/* The names of a unit's parameters, in its order, joined with spaces. */
static char *print_parameters(const Setup *setup, uint32_t unit)
{
    GString *text = g_string_new(NULL);
    const GArray *parameters = sim_unit_list_get(setup->units, unit)->parameters;
    for (uint32_t i = 0; i < parameters->len; i++)
        g_string_append_printf(
            text, "%s%s", i == 0 ? "" : " ",
            sim_plan_string(setup->plan, g_array_index(parameters, SimUnitParameter, i).tail));
    return g_string_free(text, FALSE);
}

START_TEST(the_root_owns_what_no_block_took)
{
    static const char *const CALLS[] = {"layers.0", "layers.1", "layers.2", "layers.3", "", NULL};
    Setup setup;
    const Decoder net = {RECORDED_NET};
    setup_init(&setup, &net, CALLS);
    ck_assert_ptr_nonnull(setup.units);
    g_autofree char *block = print_parameters(&setup, 0);
    ck_assert_str_eq(block, "attention_norm.weight attention.wq.weight attention.wk.weight "
                            "attention.wv.weight attention.wo.weight ffn_norm.weight "
                            "feed_forward.w1.weight feed_forward.w2.weight feed_forward.w3.weight");
    g_autofree char *root = print_parameters(&setup, 4);
    ck_assert_str_eq(root, "tok_embeddings.weight norm.weight output.weight");
    ck_assert_uint_eq(setup.units->root, 4);
    ck_assert_uint_eq(setup.units->traversal[0], 4);
    ck_assert_uint_eq(setup.units->traversal[1], 0);
    setup_done(&setup);
}
END_TEST

/* _get_managed_modules visits children before it appends the module itself. */
START_TEST(a_modules_own_parameter_comes_after_its_childrens)
{
    static const char *const CALLS[] = {"layers.0", "", NULL};
    Setup setup;
    const Decoder net = {RECORDED_NET, .extra_rows = 7, .extra_in = 1};
    setup_init(&setup, &net, CALLS);
    ck_assert_ptr_nonnull(setup.units);
    g_autofree char *block = print_parameters(&setup, 0);
    ck_assert(g_str_has_suffix(block, "feed_forward.w3.weight extra"));
    setup_done(&setup);
}
END_TEST

START_TEST(an_outer_unit_owns_what_inner_ones_left)
{
    static const char *const CALLS[] = {"layers.0.attention", "layers.0.feed_forward", "layers.0",
                                        "", NULL};
    Setup setup;
    const Decoder net = {RECORDED_NET};
    setup_init(&setup, &net, CALLS);
    ck_assert_ptr_nonnull(setup.units);
    g_autofree char *block = print_parameters(&setup, 2);
    ck_assert_str_eq(block, "attention_norm.weight ffn_norm.weight");
    ck_assert_uint_eq(sim_unit_list_get(setup.units, 0)->enclosing, 2);
    ck_assert_uint_eq(sim_unit_list_get(setup.units, 2)->enclosing, 3);
    ck_assert_uint_eq(sim_unit_list_get(setup.units, 3)->enclosing, SIM_MODEL_NONE);
    setup_done(&setup);
}
END_TEST

/* A block has 29,100 elements; on two ranks 101 rows become 51 each, so the shards are
 * 60/2 + 30x60 + 2 x 15x60 + 30x60 + 60/2 + 51x60 + 30x101 + 51x60 = 14,610 elements of 2 bytes. */
START_TEST(shard_bytes_count_padded_rows_in_the_gathered_type)
{
    static const char *const CALLS[] = {"layers.0", "", NULL};
    Setup setup;
    const Decoder net = {RECORDED_NET};
    setup_init(&setup, &net, CALLS);
    const SimUnit *block = sim_unit_list_get(setup.units, 0);
    ck_assert_uint_eq(block->shard_bytes, 2 * 14610);
    ck_assert(block->needs_cast);
    ck_assert_int_eq(block->gather_dtype, SIM_DTYPE_BF16);
    ck_assert_int_eq(block->reduce_dtype, SIM_DTYPE_F32);
    setup_done(&setup);
}
END_TEST

static const struct {
    const char *calls[4];
    bool is_tied;
    const char *message;
} REFUSED[] = {
    {{"layers.0", NULL}, false, "no call wraps the root module"},
    {{"layers.0", "layers.0", "", NULL}, false, "is in two calls"},
    {{"tok_embeddings", "", NULL}, true, "output.weight: tied to tok_embeddings.weight"},
};

START_TEST(what_pytorch_refuses_is_an_error)
{
    Setup setup;
    const Decoder net = {RECORDED_NET, .is_head_tied = REFUSED[_i].is_tied};
    setup_init(&setup, &net, REFUSED[_i].calls);
    ck_assert_ptr_null(setup.units);
    ck_assert_msg(strstr(setup.error->message, REFUSED[_i].message) != NULL, "%s",
                  setup.error->message);
    setup_done(&setup);
}
END_TEST

static Suite *make_suite(void)
{
    Suite *suite = suite_create("unit_list");
    TCase *tests = tcase_create("unit_list");
    tcase_add_test(tests, the_root_owns_what_no_block_took);
    tcase_add_test(tests, a_modules_own_parameter_comes_after_its_childrens);
    tcase_add_test(tests, an_outer_unit_owns_what_inner_ones_left);
    tcase_add_test(tests, shard_bytes_count_padded_rows_in_the_gathered_type);
    tcase_add_loop_test(tests, what_pytorch_refuses_is_an_error, 0, G_N_ELEMENTS(REFUSED));
    suite_add_tcase(suite, tests);
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
