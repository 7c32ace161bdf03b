/* SPDX-License-Identifier: Apache-2.0
 *
 * Where host, streams, memory and ranks meet, in plans of a few rows whose times can be written
 * down. L is what the launch of a kernel costs the host; collectives cost it 71 us and records 2.4
 * us (rank/host_cost.h).
 */
#include <check.h>
#include <string.h>

#include "rank/simulation.h"
#include "trace/recorder.h"

#define MS SIM_MILLISECOND
#define MIB SIM_MIB
#define COLLECTIVE (71 * SIM_MICROSECOND)
#define RECORD (2400 * SIM_NANOSECOND)

static const char *const models = SIM_SOURCE_DIR "/models";

typedef struct Fixture {
    SimPlan *plan;
    SimCluster *cluster;
    SimSimulation *simulation;
    const SimResult *result;
    SimRecorder *recorder;
    SimTime launch;
    uint32_t side;
} Fixture;

static void start(Fixture *fixture, uint32_t ranks)
{
    g_autofree char *all = g_strdup_printf("0-%u", ranks - 1);
    *fixture = (Fixture){.plan = sim_plan_new(ranks)};
    fixture->cluster = sim_cluster_load(models, "flat", NULL);
    ck_assert(sim_cluster_choose_gpus(fixture->cluster, ranks, NULL));
    ck_assert(sim_plan_add_group(fixture->plan, "a", all, NULL));
    ck_assert(sim_plan_add_group(fixture->plan, "b", all, NULL));
    sim_plan_stream(fixture->plan, "compute");
    fixture->side = sim_plan_stream(fixture->plan, "side");
    fixture->launch = fixture->cluster->gpu->launch_time;
}

static void play(Fixture *fixture, uint64_t hbm_bytes)
{
    SimSimulationOptions options = {
        .hbm_bytes = hbm_bytes, .fold = true, .keep_memory_events = true};
    fixture->simulation = sim_simulation_new(fixture->plan, fixture->cluster, &options, NULL);
    fixture->result = sim_simulation_run(fixture->simulation);
    fixture->recorder = sim_recorder_new(fixture->plan);
    for (uint32_t rank = 0; rank < sim_plan_ranks(fixture->plan); rank++) {
        sim_simulation_record(fixture->simulation, rank, fixture->recorder);
    }
}

static void end(Fixture *fixture)
{
    sim_recorder_free(fixture->recorder);
    sim_simulation_free(fixture->simulation);
    sim_cluster_free(fixture->cluster);
    sim_plan_free(fixture->plan);
}

static void set_ranks(Fixture *fixture, const char *text)
{
    ck_assert(sim_plan_add_rank_set(fixture->plan, text, &sim_plan_context(fixture->plan)->rank_set,
                                    NULL));
}

static void kernel(Fixture *fixture, uint32_t stream, SimTime duration)
{
    sim_plan_kernel(fixture->plan, stream, 0, 0, SIM_DTYPE_BF16)->duration = duration;
}

static void collective(Fixture *fixture, uint32_t stream, uint32_t group, uint64_t bytes,
                       SimTime duration)
{
    sim_plan_collective(fixture->plan, stream, 0, SIM_COLLECTIVE_ALL_REDUCE, group, bytes,
                        SIM_DTYPE_F32)
        ->duration = duration;
}

static SimName name(Fixture *fixture, const char *text)
{
    return sim_plan_parse_name(fixture->plan, text);
}

static uint32_t alloc(Fixture *fixture, uint32_t stream, const char *text, uint64_t bytes)
{
    return sim_plan_alloc(fixture->plan, stream, name(fixture, text), bytes,
                          SIM_CATEGORY_ACTIVATION, SIM_DTYPE_U8, 0);
}

static const SimSpan *span_of(const Fixture *fixture, uint32_t rank, guint index)
{
    const GArray *spans = sim_recorder_track(fixture->recorder, rank)->spans;
    ck_assert_uint_lt(index, spans->len);
    return &g_array_index(spans, SimSpan, index);
}

static uint64_t address_of(const Fixture *fixture, uint32_t buffer)
{
    const GArray *events = sim_recorder_track(fixture->recorder, 0)->memory_events;
    for (guint i = 0; i < events->len; i++) {
        const SimMemoryEvent *event = &g_array_index(events, SimMemoryEvent, i);
        if (event->action == SIM_ALLOCATOR_ALLOC && event->buffer == buffer) {
            return event->address;
        }
    }
    ck_abort_msg("never allocated");
}

/* --- time --------------------------------------------------------------------------------------
 */

/* Issued at L, 2L, 3L; the second kernel follows the first, the third (on another stream) begins
 * when it is issued. */
START_TEST(kernels_begin_when_issued_and_after_the_one_before)
{
    Fixture f;
    start(&f, 1);
    kernel(&f, 0, 10 * MS);
    kernel(&f, 0, 5 * MS);
    kernel(&f, f.side, MS);
    play(&f, UINT64_MAX);
    ck_assert_int_eq(span_of(&f, 0, 0)->start, f.launch);
    ck_assert_int_eq(span_of(&f, 0, 1)->start, f.launch + 10 * MS);
    ck_assert_int_eq(span_of(&f, 0, 1)->delay, SIM_DELAY_NONE);
    ck_assert_int_eq(span_of(&f, 0, 2)->start, 3 * f.launch);
    ck_assert_int_eq(span_of(&f, 0, 2)->delay, SIM_DELAY_HOST);
    end(&f);
}
END_TEST

/* The kernel ends at L + 10 ms; the host waits for that, then needs L for the next launch. */
START_TEST(a_host_wait_delays_all_that_follows)
{
    Fixture f;
    start(&f, 1);
    kernel(&f, 0, 10 * MS);
    sim_plan_host_wait(f.plan, sim_plan_record(f.plan, 0, name(&f, "e")));
    kernel(&f, f.side, MS);
    play(&f, UINT64_MAX);
    ck_assert_uint_eq(span_of(&f, 0, 1)->stream, SIM_PLAN_NONE);
    ck_assert_int_eq(span_of(&f, 0, 1)->start, f.launch + RECORD);
    ck_assert_int_eq(span_of(&f, 0, 1)->end, f.launch + 10 * MS);
    ck_assert_int_eq(span_of(&f, 0, 2)->start, 2 * f.launch + 10 * MS);
    ck_assert_int_eq(span_of(&f, 0, 2)->delay, SIM_DELAY_HOST);
    end(&f);
}
END_TEST

/* `side` waits for what compute had been given then: the first kernel, not the second. */
START_TEST(a_stream_waits_for_what_another_has_been_given_so_far)
{
    Fixture f;
    start(&f, 1);
    kernel(&f, 0, 10 * MS);
    sim_plan_wait_stream(f.plan, f.side, 0);
    kernel(&f, 0, 10 * MS);
    kernel(&f, f.side, MS);
    play(&f, UINT64_MAX);
    ck_assert_int_eq(span_of(&f, 0, 2)->start, f.launch + 10 * MS);
    ck_assert_int_eq(span_of(&f, 0, 2)->delay, SIM_DELAY_STREAM);
    ck_assert_uint_eq(span_of(&f, 0, 2)->delayed_by, 0);
    end(&f);
}
END_TEST

/* Rank 1 comes 4 ms later to the collective: it starts then, on both, and rank 0 knows why. */
START_TEST(a_collective_starts_when_its_last_member_arrives)
{
    Fixture f;
    start(&f, 2);
    kernel(&f, 0, 10 * MS);
    set_ranks(&f, "1");
    kernel(&f, 0, 4 * MS);
    set_ranks(&f, "");
    collective(&f, 0, 0, MIB, 3 * MS);
    play(&f, UINT64_MAX);
    const SimSpan *early = span_of(&f, 0, 1);
    const SimSpan *late = span_of(&f, 1, 2);
    ck_assert_int_eq(early->arrival, f.launch + 10 * MS);
    ck_assert_int_eq(early->start, f.launch + 14 * MS);
    ck_assert_int_eq(early->end, f.launch + 17 * MS);
    ck_assert_int_eq(early->delay, SIM_DELAY_RANK);
    ck_assert_uint_eq(early->delayed_by, 1);
    ck_assert_int_eq(late->arrival, late->start);
    ck_assert_int_eq(late->start, early->start);
    ck_assert_int_eq(late->delay, SIM_DELAY_NONE);
    end(&f);
}
END_TEST

/* Two streams, one communicator: the second collective waits for the first. On two communicators
 * it does not. */
START_TEST(collectives_of_one_communicator_follow_each_other)
{
    for (uint32_t group = 0; group < 2; group++) {
        Fixture f;
        start(&f, 2);
        collective(&f, 0, 0, MIB, 10 * MS);
        collective(&f, f.side, group, MIB, 10 * MS);
        play(&f, UINT64_MAX);
        ck_assert_int_eq(span_of(&f, 0, 1)->start,
                         group == 0 ? COLLECTIVE + 10 * MS : 2 * COLLECTIVE);
        end(&f);
    }
}
END_TEST

/* --- memory ------------------------------------------------------------------------------------
 */

/* A belongs to stream `side`, compute uses it until L + 10 ms. Freed before, it is not B's; C comes
 * after the host has slept 20 ms and gets A's block. */
START_TEST(a_lent_block_comes_back_when_its_stream_is_done)
{
    Fixture f;
    start(&f, 1);
    uint32_t a = alloc(&f, f.side, "A", 20 * MIB);
    kernel(&f, 0, 10 * MS);
    sim_plan_record_stream(f.plan, a, 0);
    sim_plan_free_buffer(f.plan, a);
    uint32_t b = alloc(&f, f.side, "B", 20 * MIB);
    sim_plan_host(f.plan, "sleep", 20 * MS);
    uint32_t c = alloc(&f, f.side, "C", 20 * MIB);
    play(&f, UINT64_MAX);
    ck_assert_uint_ne(address_of(&f, b), address_of(&f, a));
    ck_assert_uint_eq(address_of(&f, c), address_of(&f, a));
    const SimClassResult *class_ = &g_array_index(f.result->classes, SimClassResult, 0);
    ck_assert_uint_eq(class_->memory->peaks.reserved_bytes, 40 * MIB);
    end(&f);
}
END_TEST

/* The same with a collective, which rank 1 holds up until 30 ms: when it ends cannot be known at 5
 * ms when B is allocated, only that it is later. */
START_TEST(a_block_lent_to_a_collective_waits_for_the_last_rank)
{
    Fixture f;
    start(&f, 2);
    set_ranks(&f, "1");
    kernel(&f, 0, 30 * MS);
    set_ranks(&f, "");
    uint32_t a = alloc(&f, f.side, "A", 20 * MIB);
    collective(&f, 0, 0, MIB, 10 * MS);
    sim_plan_record_stream(f.plan, a, 0);
    sim_plan_free_buffer(f.plan, a);
    sim_plan_host(f.plan, "sleep", 5 * MS);
    uint32_t b = alloc(&f, f.side, "B", 20 * MIB);
    kernel(&f, f.side, MS);
    sim_plan_host(f.plan, "sleep", 40 * MS);
    uint32_t c = alloc(&f, f.side, "C", 20 * MIB);
    play(&f, UINT64_MAX);
    ck_assert_uint_ne(address_of(&f, b), address_of(&f, a));
    ck_assert_uint_eq(address_of(&f, c), address_of(&f, a));
    /* The host did not wait for it: launches of collective and kernel, and 5 ms of sleep. */
    ck_assert_int_eq(span_of(&f, 0, 1)->start, COLLECTIVE + f.launch + 5 * MS);
    end(&f);
}
END_TEST

/* 64 MiB: of A's 40 and B's 40 only one fits. */
START_TEST(a_run_ends_where_memory_runs_out)
{
    Fixture f;
    start(&f, 1);
    alloc(&f, 0, "A", 40 * MIB);
    kernel(&f, 0, MS);
    alloc(&f, 0, "B", 40 * MIB);
    kernel(&f, 0, MS);
    play(&f, 64 * MIB);
    const SimMemoryHistory *memory = g_array_index(f.result->classes, SimClassResult, 0).memory;
    ck_assert(f.result->is_oom);
    ck_assert_uint_eq(f.result->blocked->len, 0);
    ck_assert_uint_eq(memory->oom_instruction, 2);
    ck_assert_uint_eq(memory->oom.requested_bytes, 40 * MIB);
    ck_assert_uint_eq(memory->oom.reserved_bytes, 40 * MIB);
    ck_assert_uint_eq(sim_recorder_track(f.recorder, 0)->spans->len, 1);
    end(&f);
}
END_TEST

/* B needs the room of the cached A: cudaFree waits for the device, and with it the host, until the
 * kernel has ended at L + 10 ms. */
START_TEST(giving_memory_back_waits_for_the_device)
{
    Fixture f;
    start(&f, 1);
    sim_plan_free_buffer(f.plan, alloc(&f, 0, "A", 40 * MIB));
    kernel(&f, 0, 10 * MS);
    alloc(&f, 0, "B", 60 * MIB);
    kernel(&f, f.side, MS);
    play(&f, 64 * MIB);
    ck_assert_uint_eq(g_array_index(f.result->classes, SimClassResult, 0).memory->alloc_retries, 1);
    ck_assert_int_eq(span_of(&f, 0, 1)->start, f.launch + 10 * MS + f.launch);
    end(&f);
}
END_TEST

/* --- deadlock ----------------------------------------------------------------------------------
 */

static void check_blocked(const Fixture *f, guint index, uint32_t rank, const char *text)
{
    ck_assert_uint_lt(index, f->result->blocked->len);
    const SimBlocked *blocked = g_ptr_array_index(f->result->blocked, index);
    ck_assert_uint_eq(blocked->rank, rank);
    ck_assert_msg(strstr(blocked->waits_for, text) != NULL, "%s", blocked->waits_for);
}

/* Rank 0: a, b. Rank 1: b, a. On one stream they wait for each other; on two streams nothing hangs.
 */
START_TEST(two_communicators_in_two_orders_hang_on_one_stream)
{
    for (int is_apart = 0; is_apart < 2; is_apart++) {
        Fixture f;
        start(&f, 2);
        uint32_t second = is_apart ? f.side : 0;
        set_ranks(&f, "0");
        collective(&f, 0, 0, MIB, MS);
        collective(&f, second, 1, MIB, MS);
        set_ranks(&f, "1");
        collective(&f, second, 1, MIB, MS);
        collective(&f, 0, 0, MIB, MS);
        play(&f, UINT64_MAX);
        ck_assert_uint_eq(f.result->blocked->len, is_apart ? 0 : 2);
        if (!is_apart) {
            check_blocked(&f, 0, 0, "rank 1 in collective 1 of group a");
            check_blocked(&f, 1, 1, "rank 0 in collective 1 of group b");
        }
        end(&f);
    }
}
END_TEST

START_TEST(a_collective_that_a_member_never_issues_hangs)
{
    Fixture f;
    start(&f, 2);
    set_ranks(&f, "0");
    collective(&f, 0, 0, MIB, MS);
    play(&f, UINT64_MAX);
    check_blocked(&f, 0, 0, "rank 1 in collective 1 of group a, which it never issues");
    end(&f);
}
END_TEST

START_TEST(members_that_bring_different_sizes_hang)
{
    Fixture f;
    start(&f, 2);
    set_ranks(&f, "0");
    collective(&f, 0, 0, MIB, MS);
    set_ranks(&f, "1");
    collective(&f, 0, 0, 2 * MIB, MS);
    play(&f, UINT64_MAX);
    check_blocked(&f, 0, 0, "different operations or sizes");
    end(&f);
}
END_TEST

/* The host waits for an event of `side`, which waits for a kernel that the host has not issued: an
 * event of a later row. */
START_TEST(a_host_that_waits_for_what_it_has_not_issued_hangs)
{
    Fixture f;
    start(&f, 1);
    SimInstruction *wait = sim_plan_append(f.plan, SIM_PLAN_WAIT);
    wait->stream = (uint16_t)f.side;
    uint32_t early = sim_plan_record(f.plan, f.side, name(&f, "early"));
    sim_plan_host_wait(f.plan, early);
    uint32_t late = sim_plan_record(f.plan, 0, name(&f, "late"));
    ((SimInstruction *)(uintptr_t)sim_plan_instruction(f.plan, 0))->event = late;
    play(&f, UINT64_MAX);
    ck_assert_uint_eq(f.result->blocked->len, 3);
    check_blocked(&f, 0, 0, "the host");
    check_blocked(&f, 1, 0, "event early, recorded on stream side");
    check_blocked(&f, 2, 0, "event late, recorded on stream compute");
    end(&f);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("simulation");
    TCase *time = tcase_create("time");
    tcase_add_test(time, kernels_begin_when_issued_and_after_the_one_before);
    tcase_add_test(time, a_host_wait_delays_all_that_follows);
    tcase_add_test(time, a_stream_waits_for_what_another_has_been_given_so_far);
    tcase_add_test(time, a_collective_starts_when_its_last_member_arrives);
    tcase_add_test(time, collectives_of_one_communicator_follow_each_other);
    suite_add_tcase(suite, time);
    TCase *memory = tcase_create("memory");
    tcase_add_test(memory, a_lent_block_comes_back_when_its_stream_is_done);
    tcase_add_test(memory, a_block_lent_to_a_collective_waits_for_the_last_rank);
    tcase_add_test(memory, a_run_ends_where_memory_runs_out);
    tcase_add_test(memory, giving_memory_back_waits_for_the_device);
    suite_add_tcase(suite, memory);
    TCase *deadlock = tcase_create("deadlock");
    tcase_add_test(deadlock, two_communicators_in_two_orders_hang_on_one_stream);
    tcase_add_test(deadlock, a_collective_that_a_member_never_issues_hangs);
    tcase_add_test(deadlock, members_that_bring_different_sizes_hang);
    tcase_add_test(deadlock, a_host_that_waits_for_what_it_has_not_issued_hangs);
    suite_add_tcase(suite, deadlock);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed > 0;
}
