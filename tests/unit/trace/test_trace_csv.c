/* SPDX-License-Identifier: Apache-2.0
 *
 * Timeline and memory CSV, character by character, of a plan of a few rows.
 */
#include <check.h>
#include <glib/gstdio.h>

#include "hbm/allocator.h"
#include "trace/memory_csv.h"
#include "trace/recorder.h"
#include "trace/timeline_csv.h"

typedef void (*SaveFunc)(const SimRecorder *recorder, SimOutputFile *file);

/* What SAVE writes. Owned by the caller. */
static char *save(SaveFunc write, const SimRecorder *recorder)
{
    g_autofree char *folder = g_dir_make_tmp("fsdpsim-XXXXXX", NULL);
    g_autofree char *path = g_build_filename(folder, "out.csv", NULL);
    char *text = NULL;
    g_autoptr(SimOutputFile) file = sim_output_file_new(path, NULL);
    write(recorder, file);
    ck_assert(sim_output_file_commit(file, NULL));
    ck_assert(g_file_get_contents(path, &text, NULL, NULL));
    g_unlink(path);
    g_rmdir(folder);
    return text;
}

/* Row 0: a kernel without a step; row 1: an all-gather of step 2; row 2: a copy; row 3: a host wait
 * for row 4's event; row 5: an alloc. */
static SimPlan *new_plan(void)
{
    SimPlan *plan = sim_plan_new(4);
    SimStrings *strings = sim_plan_strings(plan);
    ck_assert(sim_plan_add_group(plan, "shard", "0-3", NULL));
    sim_plan_stream(plan, "compute");
    uint32_t gather = sim_plan_stream(plan, "all_gather");
    sim_plan_context(plan)->phase = SIM_PHASE_INIT;
    SimInstruction *fill =
        sim_plan_kernel(plan, 0, sim_strings_intern(strings, "fill, twice"), 0, SIM_DTYPE_F32);
    fill->hbm_bytes = 512;
    fill->flops = 7;
    *sim_plan_context(plan) = (SimPlanContext){.step = 2,
                                               .microbatch = 0,
                                               .phase = SIM_PHASE_FORWARD,
                                               .unit = sim_strings_intern(strings, "layers.3")};
    sim_plan_collective(plan, gather, sim_strings_intern(strings, "gather"),
                        SIM_COLLECTIVE_ALL_GATHER, 0, 4096, SIM_DTYPE_BF16);
    SimInstruction *copy = sim_plan_append(plan, SIM_PLAN_COPY);
    copy->bytes = 100;
    SimInstruction *wait = sim_plan_append(plan, SIM_PLAN_HOST_WAIT);
    wait->event = 0;
    sim_plan_record(plan, gather, sim_plan_parse_name(plan, "ag:layers.3#7"));
    sim_plan_alloc(plan, gather, sim_plan_parse_name(plan, "A:layers.3#7"), 4096,
                   SIM_CATEGORY_ALL_GATHER_OUTPUT, SIM_DTYPE_BF16, 0);
    return plan;
}

/* Times in picoseconds: 1,999 ps are 1 ns, and a duration is the difference of what is printed. */
START_TEST(a_timeline_has_a_row_for_each_span)
{
    static const SimSpan spans[] = {
        {0, 0, SIM_DELAY_HOST, SIM_PLAN_NONE, 1999, 1999, 5001, 0},
        {1, 1, SIM_DELAY_RANK, 3, 1000, 4000, 9000, 3072},
        {2, 0, SIM_DELAY_EVENT, 0, 6000, 6000, 8000, 0},
        {3, SIM_PLAN_NONE, SIM_DELAY_EVENT, 0, 6000, 6000, 9000, 0},
        {2, 0, SIM_DELAY_STREAM, 1, 9000, 9000, 9000, 0},
        {2, 0, SIM_DELAY_NONE, SIM_PLAN_NONE, 9500, 9500, 10000, 0},
    };
    g_autoptr(SimPlan) plan = new_plan();
    g_autoptr(SimRecorder) recorder = sim_recorder_new(plan);
    SimTrack *track = sim_recorder_add(recorder, 2);
    g_array_append_vals(track->spans, spans, G_N_ELEMENTS(spans));
    sim_recorder_sort(track);
    g_autofree char *text = save(sim_timeline_csv_save, recorder);
    ck_assert_str_eq(text, "rank,stream,name,category,step,phase,unit,start_ns,end_ns,duration_ns,"
                           "bytes,flops,waited_for\n"
                           "2,all_gather,gather,all_gather,2,forward,layers.3,1,9,8,4096,0,rank 3\n"
                           "2,compute,\"fill, twice\",kernel,,init,,1,5,4,512,7,host\n"
                           "2,compute,,copy,2,forward,layers.3,6,8,2,100,0,ag:layers.3#7\n"
                           "2,host,,host_wait,2,forward,layers.3,6,9,3,0,0,ag:layers.3#7\n"
                           "2,compute,,copy,2,forward,layers.3,9,9,0,100,0,stream:all_gather\n"
                           "2,compute,,copy,2,forward,layers.3,9,10,1,100,0,\n");
}
END_TEST

START_TEST(a_memory_history_has_a_row_for_each_event)
{
    static const SimMemoryEvent events[] = {
        {5, SIM_PLAN_NONE, 1, SIM_ALLOCATOR_SEGMENT_ALLOC, 2097152, 4096, 0, 0, 2097152},
        {5, 0, 1, SIM_ALLOCATOR_ALLOC, 4000, 4096, 4096, 4096, 2097152},
        {5, 0, 1, SIM_ALLOCATOR_FREE_REQUESTED, 4000, 4096, 0, 4096, 2097152},
        {5, 0, 1, SIM_ALLOCATOR_FREE_COMPLETED, 4000, 4096, 0, 0, 2097152},
    };
    static const SimTime times[] = {1000, 1000, 2500, 3000};
    g_autoptr(SimPlan) plan = new_plan();
    g_autoptr(SimRecorder) recorder = sim_recorder_new(plan);
    g_autoptr(GArray) history = g_array_new(FALSE, FALSE, sizeof(SimMemoryEvent));
    SimTrack *track = sim_recorder_add(recorder, 0);
    g_array_append_vals(history, events, G_N_ELEMENTS(events));
    g_array_append_vals(track->memory_times, times, G_N_ELEMENTS(times));
    track->memory_events = history;
    g_autofree char *text = save(sim_memory_csv_save, recorder);
    ck_assert_str_eq(
        text, "rank,index,time_ns,action,buffer,category,stream,bytes,step,phase,unit,"
              "allocated_bytes,active_bytes,reserved_bytes\n"
              "0,0,1,segment_alloc,,,all_gather,2097152,2,forward,layers.3,0,0,2097152\n"
              "0,1,1,alloc,A:layers.3#7,all_gather_output,all_gather,4000,2,forward,layers.3,4096,"
              "4096,2097152\n"
              "0,2,2,free_requested,A:layers.3#7,all_gather_output,all_gather,4000,2,forward,"
              "layers.3,0,4096,2097152\n"
              "0,3,3,free_completed,A:layers.3#7,all_gather_output,all_gather,4000,2,forward,"
              "layers.3,0,0,2097152\n");
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("trace CSV");
    TCase *csv = tcase_create("csv");
    tcase_add_test(csv, a_timeline_has_a_row_for_each_span);
    tcase_add_test(csv, a_memory_history_has_a_row_for_each_event);
    suite_add_tcase(suite, csv);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed > 0;
}
