/* SPDX-License-Identifier: Apache-2.0
 *
 * Recorded histories of PyTorch's allocator, replayed: the mallocs and frees go in, and every event
 * that comes out must be the recorded one (action, bytes, stream, segment, offset), in order.
 */
#include "../support/allocator_history.h"

#include <stdlib.h>

#include <check.h>

typedef struct Recording {
    const char *name;
    const char *settings;
    uint64_t device_bytes;
    unsigned n_allocs;
    unsigned n_events;
    uint64_t retries;
    uint64_t reserved_bytes; /* at the end; from the README of the data, or 0: not stated there */
    uint64_t allocated_bytes;
} Recording;

static const Recording recordings[] = {
    {"magma", "", UINT64_MAX, 1721, 5163, 0, 14180941824, 1377753600},
    {"gpt_medium_inference", "", UINT64_MAX, 1280, 3840, 0, 1763704832, 1703276544},
    {"fsdp2_1b", "", UINT64_MAX, 6366, 18373, 0, 0, 0},
    {"fsdp2_1b_23gib", "", 23 * SIM_GIB, 6366, 18494, 4, 0, 0},
    {"fsdp2_1b_expandable", "expandable_segments:True", UINT64_MAX, 4391, 12447, 0, 0, 0},
};

typedef struct Replay {
    const History *history;
    unsigned n_segments; /* made so far: the next one's number */
    unsigned n_seen;     /* events that came out */
    unsigned n_allocs_in_place;
} Replay;

static uint64_t reserve_address(uint64_t bytes, uint32_t stream, void *user_data)
{
    Replay *replay = user_data;

    (void)bytes;
    (void)stream;
    return ++replay->n_segments * HISTORY_STRIDE;
}

/* Of what was allocated before the recording only the block's size is known: tag 1. */
static uint64_t expected_bytes(const SimAllocatorEvent *event, const HistoryEvent *expected)
{
    SimAllocatorConfig config;

    if (event->block == NULL || sim_block_tag(event->block) == 0) {
        return expected->bytes;
    }
    sim_allocator_config_init(&config);
    return sim_allocator_config_compute_block(&config, expected->bytes);
}

static void compare_event(const SimAllocatorEvent *event, void *user_data)
{
    Replay *replay = user_data;

    ck_assert_uint_lt(replay->n_seen, replay->history->events->len);
    const HistoryEvent *expected =
        &g_array_index(replay->history->events, HistoryEvent, replay->n_seen);
    ck_assert_msg(event->action == expected->action, "event %u is %s, recorded was %s",
                  replay->n_seen, history_actions[event->action],
                  history_actions[expected->action]);
    ck_assert_msg(event->address ==
                      (expected->segment + 1) * HISTORY_STRIDE + expected->offset_bytes,
                  "event %u (%s) is at segment %" G_GUINT64_FORMAT " offset %" G_GUINT64_FORMAT,
                  replay->n_seen, history_actions[event->action],
                  event->address / HISTORY_STRIDE - 1, event->address % HISTORY_STRIDE);
    ck_assert_uint_eq(event->bytes, expected_bytes(event, expected));
    ck_assert_uint_eq(event->stream, expected->stream);
    replay->n_allocs_in_place += event->action == SIM_ALLOCATOR_ALLOC;
    replay->n_seen++;
}

static void play(const History *history, SimAllocator *allocator, SimBlock **blocks)
{
    for (unsigned i = 0; i < history->events->len; i++) {
        const HistoryEvent *event = &g_array_index(history->events, HistoryEvent, i);
        if (event->action == SIM_ALLOCATOR_ALLOC) {
            blocks[event->slot] = sim_allocator_malloc(allocator, event->bytes, event->stream);
            ck_assert_ptr_nonnull(blocks[event->slot]);
        } else if (event->action == SIM_ALLOCATOR_FREE_REQUESTED) {
            sim_allocator_free(allocator, blocks[event->slot]);
        }
        if (i % 500 == 0) {
            sim_allocator_check(allocator);
        }
    }
}

START_TEST(every_event_is_the_recorded_one)
{
    const Recording *recording = &recordings[_i];
    History *history = history_load(recording->name);
    g_autofree SimBlock **blocks = g_new0(SimBlock *, history->n_slots);
    Replay replay = {.history = history};
    const SimAllocatorDevice device = {.reserve_address = reserve_address, .user_data = &replay};
    SimAllocatorConfig config;

    sim_allocator_config_init(&config);
    ck_assert(sim_allocator_config_parse(&config, recording->settings, NULL));
    SimAllocator *allocator = sim_allocator_new(&config, recording->device_bytes, &device);
    const unsigned n_restored = history_restore(history, allocator, blocks);
    for (unsigned i = 0; i < n_restored; i++) {
        sim_block_set_tag(blocks[i], 1);
    }
    sim_allocator_check(allocator);
    sim_allocator_set_observer(allocator, compare_event, &replay);
    play(history, allocator, blocks);

    const SimAllocatorStatistics *statistics = sim_allocator_statistics(allocator);
    const SimPoolStatistics *all = &statistics->pools[SIM_POOL_ALL];
    ck_assert_uint_eq(replay.n_allocs_in_place, recording->n_allocs);
    ck_assert_uint_eq(replay.n_seen, recording->n_events);
    ck_assert_uint_eq(history->events->len, recording->n_events);
    ck_assert_uint_eq(statistics->num_alloc_retries, recording->retries);
    if (recording->reserved_bytes > 0) {
        ck_assert_uint_eq(all->reserved_bytes.current, recording->reserved_bytes);
        ck_assert_uint_eq(all->allocated_bytes.current, recording->allocated_bytes);
    }
    sim_allocator_check(allocator);
    sim_allocator_destroy(allocator);
    history_free(history);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("allocator_replay");
    TCase *tcase = tcase_create("histories");

    tcase_add_loop_test(tcase, every_event_is_the_recorded_one, 0, (int)G_N_ELEMENTS(recordings));
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    const int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
