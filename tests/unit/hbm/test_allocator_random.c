/* SPDX-License-Identifier: Apache-2.0
 *
 * Random mallocs, frees, record_streams and empty_caches under many settings, every invariant
 * checked after every step. The seed is fixed; the same seed must give the same history twice.
 */
#include "hbm/allocator.h"

#include <stdlib.h>

#include <check.h>

#include "base/units.h"

#define N_STEPS 4000
#define N_STREAMS 4
#define MAX_LIVE 200

typedef struct Setup {
    const char *settings;
    uint64_t device_bytes;
} Setup;

/* 400 MiB is short for what lives at times, so that retries and OOMs happen. */
static const Setup setups[] = {
    {"", UINT64_MAX},
    {"", 400 * SIM_MIB},
    {"max_split_size_mb:24", 400 * SIM_MIB},
    {"max_split_size_mb:24,max_non_split_rounding_mb:21", 800 * SIM_MIB},
    {"roundup_power2_divisions:[1:8,4:2,>:4]", 400 * SIM_MIB},
    {"per_process_memory_fraction:0.9,garbage_collection_threshold:0.3", 800 * SIM_MIB},
    {"expandable_segments:True", UINT64_MAX},
    {"expandable_segments:True", 400 * SIM_MIB},
    {"expandable_segments:True,max_split_size_mb:24", 400 * SIM_MIB},
    {"expandable_segments:True,large_segment_size_mb:32,per_process_memory_fraction:0.7",
     600 * SIM_MIB},
};

/* An event is complete once as many steps went by as its number says. */
typedef struct Clock {
    GRand *random;
    uint64_t now;
} Clock;

static uint64_t record_event(uint32_t stream, void *user_data)
{
    Clock *clock = user_data;
    return clock->now + g_rand_int(clock->random) % 50 + stream;
}

static bool is_complete(uint64_t event, void *user_data)
{
    const Clock *clock = user_data;
    return event <= clock->now;
}

static void synchronize(uint64_t event, void *user_data)
{
    Clock *clock = user_data;
    clock->now = MAX(clock->now, event);
}

typedef struct Run {
    SimAllocator *allocator;
    Clock clock;
    SimBlock *live[MAX_LIVE];
    unsigned n_live;
    uint64_t digest; /* of all events observed */
} Run;

static void digest_event(const SimAllocatorEvent *event, void *user_data)
{
    Run *run = user_data;
    const uint64_t parts[] = {event->action, event->stream, event->address, event->bytes};

    for (unsigned i = 0; i < G_N_ELEMENTS(parts); i++) {
        run->digest = (run->digest ^ parts[i]) * UINT64_C(1099511628211); /* FNV-1a, by words */
    }
}

/* Half of the requests are small; the sizes repeat, so that best fit has ties. */
static uint64_t choose_size(GRand *random)
{
    static const uint64_t large[] = {2 * SIM_MIB,  5 * SIM_MIB,  11 * SIM_MIB,
                                     23 * SIM_MIB, 24 * SIM_MIB, 47 * SIM_MIB};

    if (g_rand_int(random) % 2 == 0) {
        return 1 + g_rand_int(random) % SIM_MIB;
    }
    return large[g_rand_int(random) % G_N_ELEMENTS(large)] - g_rand_int(random) % 3 * 1000;
}

static void step(Run *run)
{
    GRand *random = run->clock.random;
    const unsigned choice = g_rand_int(random) % 100;
    const unsigned index = run->n_live == 0 ? 0 : g_rand_int(random) % run->n_live;

    run->clock.now++;
    if (choice < 50 && run->n_live < MAX_LIVE) {
        SimBlock *block = sim_allocator_malloc(run->allocator, choose_size(random),
                                               g_rand_int(random) % N_STREAMS);
        if (block != NULL) {
            run->live[run->n_live++] = block;
        }
    } else if (choice < 90 && run->n_live > 0) {
        sim_allocator_free(run->allocator, run->live[index]);
        run->live[index] = run->live[--run->n_live];
    } else if (choice < 98 && run->n_live > 0) {
        sim_allocator_record_stream(run->allocator, run->live[index],
                                    g_rand_int(random) % N_STREAMS);
    } else if (choice == 99) {
        sim_allocator_empty_cache(run->allocator);
    }
    sim_allocator_check(run->allocator);
}

static void finish(Run *run)
{
    while (run->n_live > 0) {
        sim_allocator_free(run->allocator, run->live[--run->n_live]);
    }
    sim_allocator_empty_cache(run->allocator);
    sim_allocator_check(run->allocator);
    const SimPoolStatistics *all = &sim_allocator_statistics(run->allocator)->pools[SIM_POOL_ALL];
    ck_assert_uint_eq(all->active_bytes.current, 0);
    ck_assert_uint_eq(all->reserved_bytes.current, 0);
    ck_assert_ptr_null(sim_allocator_first_segment(run->allocator));
}

static uint64_t play(const Setup *setup, unsigned seed, SimAllocatorStatistics *statistics)
{
    Run run = {.clock.random = g_rand_new_with_seed(seed)};
    const SimAllocatorDevice device = {record_event, is_complete, synchronize, NULL, &run.clock};
    SimAllocatorConfig config;

    sim_allocator_config_init(&config);
    ck_assert(sim_allocator_config_parse(&config, setup->settings, NULL));
    run.allocator = sim_allocator_new(&config, setup->device_bytes, &device);
    sim_allocator_set_observer(run.allocator, digest_event, &run);
    for (unsigned i = 0; i < N_STEPS; i++) {
        step(&run);
    }
    finish(&run);
    *statistics = *sim_allocator_statistics(run.allocator);
    sim_allocator_destroy(run.allocator);
    g_rand_free(run.clock.random);
    return run.digest;
}

START_TEST(every_step_keeps_the_invariants)
{
    const Setup *setup = &setups[_i];
    SimAllocatorStatistics first;
    SimAllocatorStatistics second;

    ck_assert_uint_eq(play(setup, 1, &first), play(setup, 1, &second));
    ck_assert_mem_eq(&first, &second, sizeof first);
    if (setup->device_bytes == UINT64_MAX) {
        ck_assert_uint_eq(first.num_alloc_retries, 0);
    } else {
        ck_assert_uint_gt(first.num_alloc_retries, 0);
        ck_assert_uint_gt(first.num_ooms, 0);
        ck_assert_uint_le(first.pools[SIM_POOL_ALL].reserved_bytes.peak, setup->device_bytes);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("allocator_random");
    TCase *tcase = tcase_create("random");

    tcase_add_loop_test(tcase, every_step_keeps_the_invariants, 0, (int)G_N_ELEMENTS(setups));
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    const int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
