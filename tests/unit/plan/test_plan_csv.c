/* SPDX-License-Identifier: Apache-2.0
 *
 * A plan written and read back is the same plan; what is wrong with a file is told with its line.
 */
#include <check.h>
#include <glib/gstdio.h>
#include <string.h>

#include "base/error.h"
#include "known_plans.h"
#include "plan/plan_csv.h"
#include "plan_difference.h"
#include "random_plan.h"

#define HEADER                                                                                     \
    "rank,op,stream,name,step,phase,microbatch,unit,buffer,bytes,shape,dtype,category,reads,"      \
    "writes,operator,arguments,event,group,collective,flops,hbm_bytes,duration\n"

static SimPlan *load_text(const char *text, GError **error)
{
    g_autofree char *folder = g_dir_make_tmp("fsdpsim-XXXXXX", NULL);
    g_autofree char *path = g_build_filename(folder, "p.csv", NULL);
    ck_assert(g_file_set_contents(path, text, -1, NULL));
    g_autoptr(GError) failure = NULL;
    SimPlan *plan = sim_plan_csv_load(path, &failure);
    if (plan == NULL) {
        ck_assert_msg(g_str_has_prefix(failure->message, path), "%s", failure->message);
        g_set_error(error, failure->domain, failure->code, "p.csv%s",
                    failure->message + strlen(path));
    }
    g_remove(path);
    g_rmdir(folder);
    return plan;
}

static SimPlan *load_sound(const char *text)
{
    g_autoptr(GError) error = NULL;
    SimPlan *plan = load_text(text, &error);
    ck_assert_msg(plan != NULL, "%s", error != NULL ? error->message : "");
    return plan;
}

static char *save_text(const SimPlan *plan)
{
    g_autofree char *folder = g_dir_make_tmp("fsdpsim-XXXXXX", NULL);
    g_autofree char *path = g_build_filename(folder, "p.csv", NULL);
    g_autoptr(SimOutputFile) file = sim_output_file_new(path, NULL);
    char *text;
    sim_plan_csv_save(plan, file);
    ck_assert(sim_output_file_commit(file, NULL));
    ck_assert(g_file_get_contents(path, &text, NULL, NULL));
    g_remove(path);
    g_rmdir(folder);
    return text;
}

static void assert_round_trip(const SimPlan *plan)
{
    g_autoptr(GError) error = NULL;
    ck_assert_msg(sim_plan_check(plan, &error), "%s", error != NULL ? error->message : "");
    g_autofree char *text = save_text(plan);
    g_autoptr(SimPlan) again = load_sound(text);
    g_autofree char *difference = plan_difference(plan, again);
    ck_assert_msg(difference == NULL, "%s", difference);
    g_autofree char *text_again = save_text(again);
    ck_assert_str_eq(text, text_again);
}

START_TEST(a_random_plan_comes_back_in_every_field)
{
    g_autoptr(SimPlan) plan = random_plan_new((uint32_t)_i);
    assert_round_trip(plan);
}
END_TEST

START_TEST(a_copy_is_equal_and_goes_its_own_way)
{
    g_autoptr(SimPlan) plan = random_plan_new((uint32_t)_i);
    g_autoptr(SimPlan) copy = sim_plan_copy(plan);
    g_autofree char *difference = plan_difference(plan, copy);
    ck_assert_msg(difference == NULL, "%s", difference);
    size_t length = sim_plan_length(plan);
    sim_plan_record(copy, 0, sim_plan_parse_name(copy, "new#1"));
    sim_plan_mark(copy, "more");
    ck_assert_uint_eq(sim_plan_length(plan), length);
    ck_assert_uint_eq(sim_plan_length(copy), length + 2);
}
END_TEST

START_TEST(the_known_plans_come_back)
{
    g_autoptr(SimPlan) ring = known_plans_ring_step(64);
    g_autoptr(SimPlan) overlap = known_plans_overlap_test(true);
    assert_round_trip(ring);
    assert_round_trip(overlap);
}
END_TEST

START_TEST(columns_may_come_in_any_order_and_be_left_out)
{
    g_autoptr(SimPlan) plan = load_sound("duration,op,stream,name\n"
                                         "1.5ms,kernel,compute,a\n"
                                         "2us,host,,data loader\n"
                                         ",mark,,here\n");
    ck_assert_uint_eq(sim_plan_length(plan), 3);
    ck_assert_uint_eq(sim_plan_ranks(plan), 1);
    ck_assert_int_eq(sim_plan_instruction(plan, 0)->duration, 1500 * SIM_MICROSECOND);
    ck_assert_int_eq(sim_plan_instruction(plan, 1)->duration, 2 * SIM_MICROSECOND);
    ck_assert_int_eq(sim_plan_instruction(plan, 2)->duration, -1);
    ck_assert_int_eq(sim_plan_instruction(plan, 0)->step, -1);
    ck_assert_ptr_null(sim_plan_get_meta(plan, "cluster"));
}
END_TEST

/* One unit's gather as the format's own examples write it, on four ranks whose shards are uneven:
 * rows 3,3,3,1 of 10 rows of 1000 bytes, padded to 12. */
START_TEST(every_kind_of_cell_is_read)
{
    g_autoptr(SimPlan) plan = load_sound(
        HEADER ",meta,,ranks,,,,,,,,,,,,,4,,,,,,\n"
               ",meta,,cluster,,,,,,,,,,,,,flat,,,,,,\n"
               ",group,,shard,,,,,,,,,,,,,0-3,,,,,,\n"
               ",group,,replicate,,,,,,,,,,,,,\"0,2 1,3\",,,,,,\n"
               "0-2,alloc,compute,,,init,,layers.0,P:layers.0:w,3000,3x250,f32,parameter_shard,,,"
               ",,,,,,,\n"
               "3,alloc,compute,,,init,,layers.0,P:layers.0:w,1000,1x250,f32,parameter_shard,,,"
               ",,,,,,,\n"
               ",alloc,all_gather,,0,forward,0,layers.0,A:layers.0#7,12000,,bf16,"
               "all_gather_output,,,,,,,,,,\n"
               "0-2,kernel,compute,copy in,0,forward,0,layers.0,,,,,,P:layers.0:w,"
               "A:layers.0#7[R*3000:3000],copy_in,,,,,,3000,\n"
               ",collective,all_gather,,0,forward,0,layers.0,,12000,,bf16,,"
               "A:layers.0#7[R*3000:3000],A:layers.0#7,,,,shard,all_gather,,,\n"
               ",record,all_gather,,0,forward,0,layers.0,,,,,,,,,,ag:layers.0#7,,,,,\n"
               ",wait,compute,,0,forward,0,layers.0,,,,,,,,,,ag:layers.0#7,,,,,\n"
               ",wait,reduce_scatter,,,,,,,,,,,,,,,stream:compute,,,,,\n"
               ",view,,,,,,,own,,,bf16,,A:layers.0#7[R*3000:3000],,,,,,,,,\n"
               ",record_stream,compute,,,,,,A:layers.0#7,,,,,,,,,,,,,,\n"
               ",copy,compute,,,,,,,4096,,,,own,,,d2h,,,,,,\n"
               ",free,,,,,,,A:layers.0#7,,,,,,,,,,,,,,\n"
               ",alloc,host,,,,,,H,64,,u8,buffer,,,,,,,,,,\n");
    const SimInstruction *collective = sim_plan_instruction(plan, 4);
    ck_assert_uint_eq(sim_plan_ranks(plan), 4);
    ck_assert_str_eq(sim_plan_get_meta(plan, "cluster"), "flat");
    ck_assert_uint_eq(sim_plan_group_lists(plan, sim_plan_find_group(plan, "replicate")), 2);
    ck_assert_uint_eq(sim_plan_instruction(plan, 0)->buffer, 0);
    ck_assert_uint_eq(sim_plan_instruction(plan, 1)->buffer, 1);
    ck_assert_str_eq(sim_plan_rank_set_text(plan, sim_plan_instruction(plan, 0)->rank_set), "0-2");
    /* The ranks 0-2 mean the first of the two buffers of one name. */
    ck_assert_uint_eq(sim_plan_touches(plan, sim_plan_instruction(plan, 3))->buffer, 0);
    ck_assert_int_eq(collective->collective, SIM_COLLECTIVE_ALL_GATHER);
    ck_assert_uint_eq(collective->n_reads, 1);
    ck_assert(sim_plan_touches(plan, collective)[0].times_rank);
    ck_assert_uint_eq(sim_plan_touches(plan, collective)[0].offset, 3000);
    ck_assert_uint_eq(sim_plan_touches(plan, collective)[1].bytes, 0);
    ck_assert_uint_eq(sim_plan_instruction(plan, 6)->event, sim_plan_instruction(plan, 5)->event);
    ck_assert(sim_plan_instruction(plan, 7)->is_event_of_stream);
    ck_assert_str_eq(sim_plan_stream_name(plan, sim_plan_instruction(plan, 7)->event), "compute");
    ck_assert_uint_eq(sim_plan_root_buffer(plan, 3), 2);
    ck_assert(sim_plan_instruction(plan, 10)->is_device_to_host);
    ck_assert(sim_plan_buffer(plan, 4)->is_host);
    assert_round_trip(plan);
}
END_TEST

/* Each TEXT follows the header line; EXPECTED is the whole message. */
static const struct {
    const char *text;
    SimError code;
    const char *expected;
} bad_files[] = {
    {"op,stream\nkernel,compute,1\n", SIM_ERROR_PARSE, "p.csv:2: "},
    {"op,strem\nkernel,compute\n", SIM_ERROR_SCHEMA, "'stream'"},
    {"stream\ncompute\n", SIM_ERROR_SCHEMA, "p.csv:1: expected a column 'op'"},
    {"op,stream\nkernel,compute\nkernl,compute\n", SIM_ERROR_SCHEMA, "p.csv:3: column 'op': "},
    {"op,stream\nkernl,compute\n", SIM_ERROR_SCHEMA, "did you mean 'kernel'?"},
    {"op,stream\nkernel,\n", SIM_ERROR_SCHEMA,
     "p.csv:2: kernel: expected a value in column 'stream'"},
    {"op,stream,buffer\nalloc,compute,x\n", SIM_ERROR_SCHEMA,
     "p.csv:2: alloc: expected a value in column 'bytes'"},
    {"op,stream,event\nwait,compute,\n", SIM_ERROR_SCHEMA,
     "p.csv:2: wait: expected a value in column 'event'"},
    {"op,name\nhost,x\n", SIM_ERROR_SCHEMA, "p.csv:2: host: expected a value in column 'duration'"},
    {"op,name\nmark,\n", SIM_ERROR_SCHEMA, "p.csv:2: mark: expected a value in column 'name'"},
    {"op,stream,buffer,bytes\nalloc,compute,x,-5\n", SIM_ERROR_RANGE, "p.csv:2: column 'bytes': "},
    {"op,stream,buffer,bytes\nalloc,compute,x,1k\n", SIM_ERROR_PARSE, "p.csv:2: column 'bytes': "},
    {"op,stream,duration\nkernel,compute,5\n", SIM_ERROR_PARSE, "p.csv:2: column 'duration': "},
    {"op,stream,phase\nkernel,compute,forwards\n", SIM_ERROR_SCHEMA, "did you mean 'forward'?"},
    {"op,stream,dtype\nkernel,compute,fp32\n", SIM_ERROR_SCHEMA, "did you mean 'f32'?"},
    {"op,stream,buffer,bytes,category\nalloc,compute,x,8,activations\n", SIM_ERROR_SCHEMA,
     "did you mean 'activation'?"},
    {"op,stream,buffer,bytes\nalloc,compute,layers.1,8\nfree,,layers.2,\n", SIM_ERROR_SCHEMA,
     "p.csv:3: unknown buffer 'layers.2'; did you mean 'layers.1'?"},
    {"op,stream,buffer,bytes\nfree,,x,\n", SIM_ERROR_SCHEMA,
     "p.csv:2: unknown buffer 'x': no buffer lives here"},
    {"op,stream,buffer,bytes\nalloc,compute,x,8\nfree,,x,\nfree,,x,\n", SIM_ERROR_SCHEMA,
     "p.csv:4: buffer 'x' does not live here: it was freed, or belongs to other ranks"},
    {"op,stream,buffer,bytes,reads\nalloc,compute,x,8,\nfree,,x,,\nkernel,compute,,,x\n",
     SIM_ERROR_SCHEMA, "p.csv:4: column 'reads': buffer 'x' does not live here"},
    {"op,stream,buffer,bytes\nalloc,compute,x,8\nalloc,compute,x,8\n", SIM_ERROR_SCHEMA,
     "p.csv:3: buffer 'x' lives already"},
    {"op,stream,buffer,bytes,reads\nalloc,compute,x,8,\nview,,y,,x\nfree,,y,,\n", SIM_ERROR_SCHEMA,
     "p.csv:4: 'y' is a view: expected the buffer that holds it"},
    {"op,stream,buffer,bytes,reads\nalloc,compute,x,8,\nview,,y,,x\nfree,,x,,\n"
     "kernel,compute,,,y\n",
     SIM_ERROR_SCHEMA, "p.csv:5: column 'reads': buffer 'y' does not live here"},
    {"op,stream,buffer,bytes,reads\nalloc,compute,x,8,\nkernel,compute,,,x[4:5]\n", SIM_ERROR_RANGE,
     "p.csv:3: reads: part [4:5] is outside buffer 'x' of 8 bytes"},
    {"op,stream,buffer,bytes,reads\nalloc,compute,x,8,\nkernel,compute,,,x[4-5]\n", SIM_ERROR_PARSE,
     "p.csv:3: column 'reads': expected BUFFER"},
    {"op,stream,buffer,bytes,reads\nalloc,compute,x,8,\nkernel,compute,,,x[R*4:4]\n",
     SIM_ERROR_SCHEMA, "p.csv:3: reads: offset R* needs a group in the row, or a group 'shard'"},
    {"op,stream,buffer,bytes,reads,arguments,name\ngroup,,,,,0-2,shard\nalloc,compute,x,8,,,\n"
     "kernel,compute,,,x[R*4:4],,\n",
     SIM_ERROR_RANGE, "p.csv:4: reads: part [R*4:4] is outside buffer 'x' of 8 bytes"},
    {"op,stream,bytes,group,collective,name,arguments\ngroup,,,,,shard,0-1\n"
     "collective,s,8,shrad,all_gather,,\n",
     SIM_ERROR_SCHEMA, "p.csv:3: column 'group': unknown group 'shrad'; did you mean 'shard'?"},
    {"op,stream,bytes,group,collective,name,arguments\ngroup,,,,,shard,0-1\n"
     "collective,s,8,shard,allgather,,\n",
     SIM_ERROR_SCHEMA, "did you mean 'all_gather'?"},
    {"op,stream,bytes,group,collective,name,arguments\nmeta,,,,,ranks,4\ngroup,,,,,shard,0-1\n"
     "collective,s,8,shard,all_gather,,\n",
     SIM_ERROR_SCHEMA, "p.csv:4: not all ranks of the row are in group 'shard'"},
    {"op,name,arguments\nmeta,ranks,4\ngroup,shard,0-4\n", SIM_ERROR_RANGE,
     "p.csv:3: group 'shard': rank 4 is outside the plan's ranks 0-3"},
    {"op,name,arguments\ngroup,shard,0-3 3-4\n", SIM_ERROR_SCHEMA,
     "p.csv:2: group 'shard': a rank stands twice in the rank lists (6 named, 5 different)"},
    {"op,name,arguments\ngroup,shard,0-1\ngroup,shard,0-1\n", SIM_ERROR_SCHEMA,
     "p.csv:3: group 'shard' is defined twice"},
    {"op,name,arguments\nmeta,ranks,0\n", SIM_ERROR_RANGE, "p.csv:2: meta ranks: "},
    {"op,name,arguments\nmeta,schema,fsdpsim.plan/2\n", SIM_ERROR_SCHEMA,
     "p.csv:2: meta schema: expected fsdpsim.plan/1, found 'fsdpsim.plan/2'"},
    {"op,name,arguments,rank\nmeta,ranks,4,\nmark,x,,4\n", SIM_ERROR_RANGE,
     "p.csv:3: column 'rank': rank 4 is outside the plan's ranks 0-3"},
    {"op,name,arguments,rank\nmeta,ranks,4,\nmark,x,,3-2\n", SIM_ERROR_RANGE,
     "p.csv:3: column 'rank': range '3-2' ends before it begins"},
    {"op,name,rank\nmark,x,all\n", SIM_ERROR_PARSE,
     "p.csv:2: column 'rank': expected a rank or a range as in 0-3, found 'all'"},
    {"op,name,arguments,rank,stream,buffer,bytes\nmeta,ranks,4,,,,\nalloc,,,0-1,s,x,8\n"
     "free,,,1-2,,x,\n",
     SIM_ERROR_SCHEMA, "p.csv:4: buffer 'x' lives on some of the row's ranks only"},
    {"op,stream,arguments,bytes\ncopy,compute,up,8\n", SIM_ERROR_SCHEMA,
     "p.csv:2: copy: expected h2d or d2h first in column 'arguments', found 'up'"},
    {"op,stream,category\nkernel,compute,activation\n", SIM_ERROR_SCHEMA,
     "p.csv:2: kernel: column 'category' does not apply, found 'activation'"},
    {"op,stream,event\nrecord,compute,stream:x\n", SIM_ERROR_SCHEMA,
     "p.csv:2: record: expected an event, found 'stream:x'"},
};

START_TEST(what_is_wrong_is_named_with_its_line)
{
    g_autoptr(GError) error = NULL;
    g_autoptr(SimPlan) plan = load_text(bad_files[_i].text, &error);
    ck_assert_msg(plan == NULL, "loaded: %s", bad_files[_i].text);
    ck_assert_msg(strstr(error->message, bad_files[_i].expected) != NULL, "expected '%s', got '%s'",
                  bad_files[_i].expected, error->message);
    ck_assert_msg(g_error_matches(error, SIM_ERROR, (gint)bad_files[_i].code), "code %d: %s",
                  error->code, error->message);
    ck_assert_ptr_null(strchr(error->message, '\n'));
}
END_TEST

/* A file of a random plan with a few bytes changed, doubled or cut out. */
START_TEST(a_damaged_file_is_refused_in_one_line_or_sound)
{
    static const char bytes[] = ",\n\"#:[]*R-0918 aZ\r\t\x7f";
    g_autoptr(SimPlan) whole = random_plan_new((uint32_t)_i % 10);
    g_autofree char *text = save_text(whole);
    g_autoptr(GString) damaged = g_string_new(text);
    GRand *random = g_rand_new_with_seed((uint32_t)_i);
    for (int n = g_rand_int_range(random, 1, 4); n > 0; n--) {
        gssize place = g_rand_int_range(random, 0, (gint32)damaged->len - 20);
        char byte = bytes[g_rand_int_range(random, 0, (gint32)sizeof bytes - 1)];
        switch (g_rand_int_range(random, 0, 3)) {
        case 0:
            damaged->str[place] = byte;
            break;
        case 1:
            g_string_insert_c(damaged, place, byte);
            break;
        default:
            g_string_erase(damaged, place, g_rand_int_range(random, 1, 20));
        }
    }
    g_rand_free(random);
    g_autoptr(GError) error = NULL;
    g_autoptr(SimPlan) plan = load_text(damaged->str, &error);
    ck_assert_int_eq(plan == NULL, error != NULL);
    if (plan != NULL)
        assert_round_trip(plan);
    else
        ck_assert_msg(strchr(error->message, '\n') == NULL, "%s", error->message);
}
END_TEST

START_TEST(a_wait_that_nobody_records_is_sound)
{
    g_autoptr(SimPlan) plan = load_sound("op,stream,event\n"
                                         "wait,compute,never#1\n"
                                         "wait,compute,later\n"
                                         "record,s,later\n"
                                         "host_wait,,later\n");
    ck_assert_uint_eq(sim_plan_event_count(plan), 2);
    ck_assert_uint_eq(sim_plan_instruction(plan, 2)->event, 1);
    ck_assert_uint_eq(sim_plan_instruction(plan, 3)->event, 1);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("plan CSV");
    TCase *tests = tcase_create("csv");

    tcase_add_loop_test(tests, a_random_plan_comes_back_in_every_field, 0, 100);
    tcase_add_loop_test(tests, a_copy_is_equal_and_goes_its_own_way, 0, 10);
    tcase_add_test(tests, the_known_plans_come_back);
    tcase_add_test(tests, columns_may_come_in_any_order_and_be_left_out);
    tcase_add_test(tests, every_kind_of_cell_is_read);
    tcase_add_loop_test(tests, what_is_wrong_is_named_with_its_line, 0, G_N_ELEMENTS(bad_files));
    tcase_add_loop_test(tests, a_damaged_file_is_refused_in_one_line_or_sound, 0, 120);
    tcase_add_test(tests, a_wait_that_nobody_records_is_sound);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? 0 : 1;
}
