/* SPDX-License-Identifier: Apache-2.0
 *
 * The ledger sees what an allocator or a schedule does wrong. Buffers a and b of 1024 bytes live on
 * stream compute; c is read on another stream too.
 */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "executor/ledger.h"

#define BYTES 1024

typedef struct World {
    SimPlan *plan;
    SimLedger *ledger;
    uint32_t a, b, c;
    unsigned char *memory;
    uint64_t address;
} World;

static uint32_t alloc(SimPlan *plan, const char *name)
{
    return sim_plan_alloc(plan, 0, sim_plan_parse_name(plan, name), BYTES, SIM_CATEGORY_ACTIVATION,
                          SIM_DTYPE_F32, 0);
}

static World make(void)
{
    World w = {.plan = sim_plan_new(1)};
    sim_plan_stream(w.plan, "compute");
    uint32_t side = sim_plan_stream(w.plan, "side");
    w.a = alloc(w.plan, "a");
    w.b = alloc(w.plan, "b");
    w.c = alloc(w.plan, "c");
    SimStringId word = sim_strings_intern(sim_plan_strings(w.plan), "clone");
    sim_plan_kernel(w.plan, side, word, word, SIM_DTYPE_F32);
    sim_plan_add_read(w.plan, SIM_TOUCH_WHOLE(w.c));
    w.memory = g_malloc0(8 * BYTES);
    w.address = (uint64_t)(uintptr_t)w.memory;
    w.ledger = sim_ledger_new(w.plan, w.memory, 8 * BYTES);
    sim_ledger_cover(w.ledger, w.address, 8 * BYTES);
    return w;
}

static void done(World *w)
{
    sim_ledger_free(w->ledger);
    sim_plan_free(w->plan);
    g_free(w->memory);
}

/* PROBLEM says WORDS, or there is none. */
static void expect(char *problem, const char *words)
{
    ck_assert_msg(words != NULL ? problem != NULL && strstr(problem, words) != NULL
                                : problem == NULL,
                  "expected '%s', found '%s'", words != NULL ? words : "nothing",
                  problem != NULL ? problem : "nothing");
    g_free(problem);
}

static void be_born(World *w, uint32_t buffer, uint64_t address)
{
    expect(sim_ledger_give(w->ledger, buffer, 0, address, BYTES), NULL);
    expect(sim_ledger_birth(w->ledger, buffer), NULL);
}

static void fill(World *w, uint32_t buffer, uint64_t address, uint32_t row)
{
    expect(sim_ledger_start(w->ledger, row, buffer, address, BYTES, true), NULL);
    memset((void *)(uintptr_t)address, 0, BYTES);
    sim_ledger_finish(w->ledger, row);
}

START_TEST(a_block_given_twice_is_reported)
{
    World w = make();
    be_born(&w, w.a, w.address);
    expect(sim_ledger_give(w.ledger, w.b, 1, w.address + 512, BYTES),
           "b is given memory in which a lives");
    done(&w);
}
END_TEST

START_TEST(a_read_before_a_write_is_reported)
{
    World w = make();
    be_born(&w, w.a, w.address);
    expect(sim_ledger_start(w.ledger, 3, w.a, w.address, BYTES, false),
           "reads a, of which byte 0 was never written");
    done(&w);
}
END_TEST

START_TEST(what_was_written_can_be_read)
{
    World w = make();
    be_born(&w, w.a, w.address);
    fill(&w, w.a, w.address, 3);
    expect(sim_ledger_start(w.ledger, 4, w.a, w.address, BYTES, false), NULL);
    sim_ledger_finish(w.ledger, 4);
    ck_assert_uint_eq(sim_ledger_life(w.ledger, w.a)->first_write, 3);
    ck_assert_uint_eq(sim_ledger_life(w.ledger, w.a)->last_use, 4);
    done(&w);
}
END_TEST

START_TEST(a_read_after_death_is_reported)
{
    World w = make();
    be_born(&w, w.a, w.address);
    fill(&w, w.a, w.address, 3);
    sim_ledger_take(w.ledger, w.a, 5);
    sim_ledger_death(w.ledger, w.a);
    expect(sim_ledger_start(w.ledger, 6, w.a, w.address, BYTES, false),
           "reads a, which has been freed");
    done(&w);
}
END_TEST

START_TEST(a_read_of_memory_that_another_has_taken_over_names_it)
{
    World w = make();
    be_born(&w, w.c, w.address);
    fill(&w, w.c, w.address, 3);
    sim_ledger_take(w.ledger, w.c, 5);
    sim_ledger_death(w.ledger, w.c);
    be_born(&w, w.b, w.address);
    expect(sim_ledger_start(w.ledger, 6, w.c, w.address, BYTES, false),
           "reads c, whose memory belongs by now to b");
    done(&w);
}
END_TEST

/* Freed by the host while another stream still reads: no harm until somebody takes the memory. */
START_TEST(a_shared_buffer_outlives_the_hosts_free)
{
    World w = make();
    be_born(&w, w.c, w.address);
    fill(&w, w.c, w.address, 3);
    sim_ledger_take(w.ledger, w.c, 5);
    sim_ledger_death(w.ledger, w.c);
    expect(sim_ledger_start(w.ledger, 6, w.c, w.address, BYTES, false), NULL);
    done(&w);
}
END_TEST

START_TEST(a_write_after_death_shows_at_the_next_birth)
{
    World w = make();
    be_born(&w, w.a, w.address);
    fill(&w, w.a, w.address, 3);
    sim_ledger_take(w.ledger, w.a, 5);
    sim_ledger_death(w.ledger, w.a);
    w.memory[100] = 1;
    expect(sim_ledger_give(w.ledger, w.b, 6, w.address, BYTES), NULL);
    expect(sim_ledger_birth(w.ledger, w.b), "memory of b was written after a free");
    done(&w);
}
END_TEST

START_TEST(two_touches_at_once_are_a_race_if_one_writes)
{
    World w = make();
    be_born(&w, w.a, w.address);
    fill(&w, w.a, w.address, 3);
    expect(sim_ledger_start(w.ledger, 4, w.a, w.address, BYTES, false), NULL);
    expect(sim_ledger_start(w.ledger, 5, w.a, w.address, 512, false), NULL);
    expect(sim_ledger_start(w.ledger, 6, w.a, w.address + 512, 512, true),
           "writes a while row 5 reads it");
    done(&w);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("ledger");
    TCase *tcase = tcase_create("all");
    tcase_add_test(tcase, a_block_given_twice_is_reported);
    tcase_add_test(tcase, a_read_before_a_write_is_reported);
    tcase_add_test(tcase, what_was_written_can_be_read);
    tcase_add_test(tcase, a_read_after_death_is_reported);
    tcase_add_test(tcase, a_read_of_memory_that_another_has_taken_over_names_it);
    tcase_add_test(tcase, a_shared_buffer_outlives_the_hosts_free);
    tcase_add_test(tcase, a_write_after_death_shows_at_the_next_birth);
    tcase_add_test(tcase, two_touches_at_once_are_a_race_if_one_writes);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
