/* SPDX-License-Identifier: Apache-2.0 */
#include "job/job_file.h"
#include "support/decoder.h"

#include <check.h>
#include <glib/gstdio.h>
#include <string.h>

typedef struct Setup {
    SimModel *model;
    SimSettings *settings;
    char *folder, *file;
    SimJob *job;
    GError *error;
} Setup;

#define MESH "\"schema\":\"fsdpsim.job/1\",\"mesh\":{\"shard\":4}"
#define STEP                                                                                       \
    "\"step\":[{\"zero_grad\":\"set_to_none\"},{\"forward\":0},{\"backward\":0},{\"optimizer\":"   \
    "true}]"
#define BLOCKS "\"fully_shard\":[{\"modules\":\"layers.*\"},{\"modules\":\"\"}]"

static void setup_init(Setup *setup, const char *text)
{
    const Decoder net = {RECORDED_NET};
    *setup = (Setup){.model = decoder_new(&net), .settings = sim_settings_new()};
    ck_assert(sim_settings_settle(setup->settings, 4, 4096, true, NULL));
    setup->settings->clip = SIM_SWITCH_OFF;
    setup->folder = g_dir_make_tmp("job-XXXXXX", NULL);
    setup->file = g_build_filename(setup->folder, "job.json", NULL);
    ck_assert(g_file_set_contents(setup->file, text, -1, NULL));
    setup->job = sim_job_file_load(setup->file, setup->settings, setup->model, &setup->error);
}

static void setup_done(Setup *setup)
{
    g_unlink(setup->file);
    g_rmdir(setup->folder);
    g_free(setup->file);
    g_free(setup->folder);
    sim_job_free(setup->job);
    sim_settings_free(setup->settings);
    sim_model_free(setup->model);
    g_clear_error(&setup->error);
}

static void assert_loaded(const Setup *setup)
{
    ck_assert_msg(setup->job != NULL, "%s", setup->error == NULL ? "" : setup->error->message);
}

static const SimJobUnit *get_unit(const Setup *setup, uint32_t unit)
{
    return &g_array_index(setup->job->units, SimJobUnit, unit);
}

static const SimJobAction *get_action(const Setup *setup, uint32_t action)
{
    return &g_array_index(setup->job->actions, SimJobAction, action);
}

START_TEST(a_pattern_is_one_unit_a_match_and_a_list_is_one)
{
    Setup setup;
    setup_init(&setup, "{" MESH ",\"fully_shard\":[{\"modules\":\"tok_embeddings\"},"
                       "{\"modules\":\"layers.*\",\"reshard_after_forward\":2},"
                       "{\"modules\":[\"norm\",\"output\"],\"reshard_after_forward\":false},"
                       "{\"modules\":\"\",\"reshard_after_forward\":null}]," STEP "}");
    assert_loaded(&setup);
    static const char *const NAMES[] = {"tok_embeddings", "layers.0",    "layers.1", "layers.2",
                                        "layers.3",       "norm+output", "root"};
    ck_assert_uint_eq(setup.job->units->len, G_N_ELEMENTS(NAMES));
    for (uint32_t i = 0; i < G_N_ELEMENTS(NAMES); i++)
        ck_assert_str_eq(get_unit(&setup, i)->name, NAMES[i]);
    ck_assert_int_eq(get_unit(&setup, 0)->reshard_after_forward.kind, SIM_RESHARD_UNSET);
    ck_assert_int_eq(get_unit(&setup, 1)->reshard_after_forward.kind, SIM_RESHARD_TO);
    ck_assert_uint_eq(get_unit(&setup, 1)->reshard_after_forward.ranks, 2);
    ck_assert_int_eq(get_unit(&setup, 5)->reshard_after_forward.kind, SIM_RESHARD_FALSE);
    ck_assert_uint_eq(setup.job->ranks, 4);
    setup_done(&setup);
}
END_TEST

START_TEST(a_mesh_of_replicas_multiplies)
{
    Setup setup;
    setup_init(&setup, "{\"schema\":\"fsdpsim.job/1\",\"mesh\":{\"replicate\":3,\"shard\":4},"
                       "\"mp_policy\":{\"param_dtype\":\"bf16\",\"reduce_dtype\":null}," BLOCKS
                       "," STEP "}");
    assert_loaded(&setup);
    ck_assert_uint_eq(setup.job->ranks, 12);
    ck_assert_uint_eq(setup.job->shard_size, 4);
    ck_assert(setup.job->has_replicate_mesh);
    ck_assert_int_eq(setup.job->precision.param_dtype, SIM_DTYPE_BF16);
    ck_assert_int_eq(setup.job->precision.reduce_dtype, SIM_DTYPE_NONE);
    setup_done(&setup);
}
END_TEST

/* Flags go to the units below too, everything else stays on the module. */
START_TEST(flags_of_the_root_reach_all_units_and_factors_do_not)
{
    Setup setup;
    setup_init(&setup,
               "{" MESH "," BLOCKS ",\"set\":[{\"modules\":\"\",\"gradient_divide_factor\":8,"
               "\"reduce_scatter_max_input_buffers\":3,\"reshard_after_backward\":false},"
               "{\"modules\":\"layers.0\",\"modules_to_forward_prefetch\":[\"layers.1\","
               "\"layers.2\"],\"unshard_in_backward\":false}]," STEP "}");
    assert_loaded(&setup);
    ck_assert_double_eq(get_unit(&setup, 4)->gradient_divide_factor, 8);
    ck_assert_double_eq(get_unit(&setup, 0)->gradient_divide_factor, 0);
    ck_assert_uint_eq(setup.job->reduce_scatter_input_buffers, 3);
    ck_assert(get_unit(&setup, 0)->stays_sharded_in_backward);
    ck_assert_uint_eq(get_unit(&setup, 0)->forward_prefetch->len, 2);
    ck_assert_uint_eq(g_array_index(get_unit(&setup, 0)->forward_prefetch, uint32_t, 1), 2);
    ck_assert_uint_eq(setup.job->actions->len, 5 + 4);
    for (uint32_t i = 0; i < 5; i++) {
        ck_assert_int_eq(get_action(&setup, i)->kind, SIM_ACTION_SET);
        ck_assert_int_eq(get_action(&setup, i)->flag, SIM_FLAG_RESHARD_AFTER_BACKWARD);
        ck_assert_uint_eq(get_action(&setup, i)->unit, i);
    }
    setup_done(&setup);
}
END_TEST

START_TEST(a_step_is_read_call_by_call)
{
    static const SimJobActionKind KINDS[] = {
        SIM_ACTION_ZERO_GRAD, SIM_ACTION_UNSHARD,   SIM_ACTION_FORWARD,
        SIM_ACTION_FORWARD,   SIM_ACTION_RESHARD,   SIM_ACTION_BACKWARD,
        SIM_ACTION_CLIP,      SIM_ACTION_OPTIMIZER, SIM_ACTION_EVALUATE};
    Setup setup;
    setup_init(&setup,
               "{" MESH "," BLOCKS ",\"step\":[{\"zero_grad\":\"keep\"},{\"unshard\":\"layers.1\"},"
               "{\"forward\":0},{\"forward\":1},{\"reshard\":\"layers.0\"},{\"backward\":[0,1]},"
               "{\"clip\":true},{\"optimizer\":true},{\"evaluate\":\"\"}]}");
    assert_loaded(&setup);
    ck_assert_uint_eq(setup.job->actions->len, G_N_ELEMENTS(KINDS));
    for (uint32_t i = 0; i < G_N_ELEMENTS(KINDS); i++)
        ck_assert_int_eq(get_action(&setup, i)->kind, KINDS[i]);
    ck_assert(get_action(&setup, 0)->value);
    ck_assert_uint_eq(get_action(&setup, 1)->unit, 1);
    ck_assert_uint_eq(get_action(&setup, 5)->summed, 2);
    setup_done(&setup);
}
END_TEST

START_TEST(clipping_is_added_before_the_optimizer_where_the_file_does_not_clip)
{
    Setup setup;
    setup_init(&setup, "{" MESH "," BLOCKS "," STEP "}");
    assert_loaded(&setup);
    ck_assert_uint_eq(setup.job->actions->len, 4);
    sim_job_free(setup.job);
    setup.settings->clip = SIM_SWITCH_ON;
    setup.job = sim_job_file_load(setup.file, setup.settings, setup.model, &setup.error);
    assert_loaded(&setup);
    ck_assert_uint_eq(setup.job->actions->len, 5);
    ck_assert_int_eq(get_action(&setup, 3)->kind, SIM_ACTION_CLIP);
    setup_done(&setup);
}
END_TEST

START_TEST(frozen_tied_and_other_cuts_change_the_model_and_the_job)
{
    Setup setup;
    setup_init(&setup,
               "{" MESH ",\"fully_shard\":[{\"modules\":\"layers.*\",\"shard_dim\":"
               "{\"layers.*.attention.wq.weight\":1},\"ignored_params\":"
               "\"layers.*.ffn_norm.weight\"},{\"modules\":\"\"}],\"frozen\":[\"layers.2\"],"
               "\"tied\":[[\"tok_embeddings.weight\",\"output.weight\"]],\"checkpoint\":"
               "[{\"modules\":\"layers.0\",\"around\":\"fsdp\",\"policy\":\"selective\","
               "\"early_stop\":false}]," STEP "}");
    assert_loaded(&setup);
    uint32_t frozen = 0;
    for (uint32_t i = 0; i < setup.model->parameters->len; i++)
        frozen += sim_model_parameter(setup.model, i)->is_frozen;
    ck_assert_uint_eq(frozen, 9);
    ck_assert_uint_eq(sim_model_parameter(setup.model, setup.model->parameters->len - 1)->tied_to,
                      0);
    ck_assert_uint_eq(setup.job->ignored_parameters->len, 4);
    ck_assert_uint_eq(g_array_index(setup.job->shard_dims, uint32_t, 2), 1); /* layers.0 wq */
    ck_assert_uint_eq(g_array_index(setup.job->shard_dims, uint32_t, 3), 0);
    const SimJobCheckpoint *checkpoint =
        &g_array_index(setup.job->checkpoints, SimJobCheckpoint, 0);
    ck_assert(checkpoint->is_outside && checkpoint->is_selective && !checkpoint->stops_early);
    setup_done(&setup);
}
END_TEST

START_TEST(the_arguments_of_fsdp1_and_ddp_are_read)
{
    Setup setup;
    setup_init(&setup,
               "{" MESH ",\"api\":\"fsdp1\",\"wrap\":[\"layers.*\",\"\"],\"sharding_strategy\":"
               "\"SHARD_GRAD_OP\",\"backward_prefetch\":null,\"use_orig_params\":false," STEP "}");
    assert_loaded(&setup);
    ck_assert_int_eq(setup.job->api, SIM_API_FSDP1);
    ck_assert_uint_eq(setup.job->units->len, 5);
    ck_assert_int_eq(setup.job->fsdp1.strategy, SIM_STRATEGY_SHARD_GRAD_OP);
    ck_assert_int_eq(setup.job->fsdp1.backward_prefetch, SIM_BACKWARD_PREFETCH_NONE);
    ck_assert(setup.job->fsdp1.uses_flat_parameters && setup.job->fsdp1.limits_all_gathers);
    setup_done(&setup);
    setup_init(&setup, "{\"schema\":\"fsdpsim.job/1\",\"api\":\"ddp\",\"mesh\":{\"replicate\":4},"
                       "\"bucket_cap_mb\":0.5,\"static_graph\":true," STEP "}");
    assert_loaded(&setup);
    ck_assert_int_eq(setup.job->api, SIM_API_DDP);
    ck_assert_uint_eq(setup.job->ddp.bucket_cap_bytes, 524288);
    ck_assert(setup.job->ddp.static_graph);
    setup_done(&setup);
}
END_TEST

static const struct {
    const char *text, *message;
} REFUSED[] = {
    {"{", ":1:"},
    {"{\"schema\":\"fsdpsim.job/2\"}", "expected \"fsdpsim.job/1\""},
    {"{" MESH ",\"fuly_shard\":[]," STEP "}",
     "unknown key 'fuly_shard'; did you mean 'fully_shard'"},
    {"{\"schema\":\"fsdpsim.job/1\",\"mesh\":{\"shard\":0}," BLOCKS "," STEP "}", "shard"},
    {"{" MESH ",\"fully_shard\":[{\"modules\":\"layer.*\"}]," STEP "}",
     "fully_shard[0].modules: unknown module 'layer.*'"},
    {"{" MESH ",\"fully_shard\":[{\"modules\":[]}]," STEP "}",
     "expected a path or a list of paths"},
    {"{" MESH ",\"fully_shard\":[{\"modules\":\"\",\"reshard_after_forward\":0}]," STEP "}",
     "reshard_after_forward"},
    {"{" MESH "," BLOCKS ",\"set\":[{\"modules\":\"norm\"}]," STEP "}", "\"norm\" is not a unit"},
    {"{" MESH "," BLOCKS ",\"step\":[{\"backward\":0}]}", "has no forward before this backward"},
    {"{" MESH "," BLOCKS ",\"step\":[{\"forward\":0}]}", "has a forward but no backward"},
    {"{" MESH "," BLOCKS ",\"step\":[{\"forward\":0},{\"forward\":0}]}",
     "is run forward again before its backward"},
    {"{" MESH "," BLOCKS ",\"step\":[{\"forward\":-1}]}", "expected the number of a microbatch"},
    {"{" MESH "," BLOCKS ",\"step\":[{\"forward\":0,\"backward\":0}]}",
     "expected one call, found 2"},
    {"{" MESH "," BLOCKS ",\"step\":[{\"zero_grad\":\"none\"}]}", "unknown value 'none'"},
    {"{" MESH "," BLOCKS ",\"step\":[{\"forward\":0},{\"forward\":2},{\"backward\":[0,2]}]}",
     "expected microbatches that follow each other"},
    {"{" MESH "," BLOCKS ",\"mp_policy\":{\"param_dtype\":\"bf17\"}," STEP "}", "bf17"},
    {"{" MESH "," BLOCKS ",\"checkpoint\":[{\"modules\":\"layers.*\",\"reentrant\":true}]," STEP
     "}",
     "reentrant checkpoints are not simulated"},
    {"{" MESH "," BLOCKS ",\"tied\":[[\"output.weight\",\"norm.weight\"]]," STEP "}",
     "expected parameters of one shape"},
    {"{" MESH "," BLOCKS ",\"frozen\":[\"layers.9\"]," STEP "}", "unknown parameter 'layers.9'"},
    {"{" MESH "," BLOCKS "}", "step"},
};

START_TEST(bad_files_are_refused_with_the_place)
{
    Setup setup;
    setup_init(&setup, REFUSED[_i].text);
    ck_assert_ptr_null(setup.job);
    ck_assert_msg(strstr(setup.error->message, REFUSED[_i].message) != NULL, "%s",
                  setup.error->message);
    ck_assert_msg(strstr(setup.error->message, "job.json") != NULL, "%s", setup.error->message);
    ck_assert_ptr_null(strchr(setup.error->message, '\n'));
    setup_done(&setup);
}
END_TEST

static Suite *make_suite(void)
{
    Suite *suite = suite_create("job_file");
    TCase *tests = tcase_create("job_file");
    tcase_add_test(tests, a_pattern_is_one_unit_a_match_and_a_list_is_one);
    tcase_add_test(tests, a_mesh_of_replicas_multiplies);
    tcase_add_test(tests, flags_of_the_root_reach_all_units_and_factors_do_not);
    tcase_add_test(tests, a_step_is_read_call_by_call);
    tcase_add_test(tests, clipping_is_added_before_the_optimizer_where_the_file_does_not_clip);
    tcase_add_test(tests, frozen_tied_and_other_cuts_change_the_model_and_the_job);
    tcase_add_test(tests, the_arguments_of_fsdp1_and_ddp_are_read);
    tcase_add_loop_test(tests, bad_files_are_refused_with_the_place, 0, G_N_ELEMENTS(REFUSED));
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
