/* SPDX-License-Identifier: Apache-2.0
 *
 * The rules of the allocator one by one. Sizes in MiB unless said.
 */
#include "hbm/allocator.h"

#include <stdlib.h>
#include <string.h>

#include <check.h>

#include "base/units.h"

#define M(mib) ((uint64_t)(mib) << 20)

/* A device whose events complete on order: all up to number `complete`. */
typedef struct Device {
    uint64_t recorded;
    uint64_t complete;
    unsigned n_synchronized;
} Device;

static uint64_t record_event(uint32_t stream, void *user_data)
{
    Device *device = user_data;

    (void)stream;
    return ++device->recorded;
}

static bool is_complete(uint64_t event, void *user_data)
{
    const Device *device = user_data;
    return event <= device->complete;
}

static void synchronize(uint64_t event, void *user_data)
{
    Device *device = user_data;

    device->complete = MAX(device->complete, event);
    device->n_synchronized++;
}

static SimAllocator *make_allocator(const char *settings, uint64_t mib, Device *device)
{
    const SimAllocatorDevice functions = {record_event, is_complete, synchronize, NULL, device};
    SimAllocatorConfig config;

    sim_allocator_config_init(&config);
    ck_assert(sim_allocator_config_parse(&config, settings, NULL));
    return sim_allocator_new(&config, mib == 0 ? UINT64_MAX : M(mib),
                             device == NULL ? NULL : &functions);
}

static const SimPoolStatistics *all_of(const SimAllocator *allocator)
{
    return &sim_allocator_statistics(allocator)->pools[SIM_POOL_ALL];
}

static uint64_t reserved(const SimAllocator *allocator)
{
    return all_of(allocator)->reserved_bytes.current;
}

static uint64_t active(const SimAllocator *allocator)
{
    return all_of(allocator)->active_bytes.current;
}

/* 4 + 4 + 4 of a 20: the middle one freed last merges with 4 before and 4 + 8 behind. */
START_TEST(a_free_merges_with_both_neighbours)
{
    g_autoptr(SimAllocator) allocator = make_allocator("", 0, NULL);
    SimBlock *blocks[3];

    for (unsigned i = 0; i < 3; i++) {
        blocks[i] = sim_allocator_malloc(allocator, M(4), 0);
    }
    const uint64_t address = sim_block_address(blocks[0]);
    ck_assert_uint_eq(sim_block_address(blocks[2]), address + M(8));
    sim_allocator_free(allocator, blocks[0]);
    sim_allocator_free(allocator, blocks[2]);
    sim_allocator_free(allocator, blocks[1]);
    sim_allocator_check(allocator);
    const SimBlock *first = sim_segment_first_block(sim_allocator_first_segment(allocator));
    ck_assert_uint_eq(sim_block_address(first), address);
    ck_assert_uint_eq(sim_block_size(first), M(20));
    ck_assert_ptr_null(sim_block_next(first));
}
END_TEST

START_TEST(equal_sizes_go_to_the_lowest_address)
{
    g_autoptr(SimAllocator) allocator = make_allocator("", 0, NULL);
    SimBlock *low = sim_allocator_malloc(allocator, M(30), 0);
    SimBlock *high = sim_allocator_malloc(allocator, M(30), 0);
    const uint64_t address = sim_block_address(low);

    ck_assert_uint_lt(address, sim_block_address(high));
    sim_allocator_free(allocator, high);
    sim_allocator_free(allocator, low);
    ck_assert_uint_eq(sim_block_address(sim_allocator_malloc(allocator, M(30), 0)), address);
}
END_TEST

START_TEST(zero_bytes_give_a_block_that_is_nothing)
{
    g_autoptr(SimAllocator) allocator = make_allocator("", 1, NULL);
    SimBlock *block = sim_allocator_malloc(allocator, 0, 3);

    ck_assert_ptr_nonnull(block);
    ck_assert_uint_eq(sim_block_address(block), 0);
    ck_assert_uint_eq(sim_block_size(block), 0);
    sim_allocator_record_stream(allocator, block, 1);
    sim_allocator_free(allocator, block);
    sim_allocator_free(allocator, sim_allocator_malloc(allocator, 0, 0));
    ck_assert_uint_eq(all_of(allocator)->allocation.allocated, 0);
    sim_allocator_check(allocator);
}
END_TEST

START_TEST(a_block_waits_for_every_stream_that_uses_it)
{
    Device device = {0};
    g_autoptr(SimAllocator) allocator = make_allocator("", 0, &device);
    SimBlock *block = sim_allocator_malloc(allocator, M(32), 0);

    sim_allocator_record_stream(allocator, block, 2);
    sim_allocator_record_stream(allocator, block, 1);
    sim_allocator_record_stream(allocator, block, 2);
    sim_allocator_record_stream(allocator, block, 0);
    sim_allocator_free(allocator, block);
    ck_assert_uint_eq(device.recorded, 2);
    sim_allocator_check(allocator);

    device.complete = 1;
    sim_allocator_malloc(allocator, M(1), 0);
    ck_assert_uint_eq(active(allocator), M(33));
    device.complete = 2;
    sim_allocator_malloc(allocator, M(1), 0);
    ck_assert_uint_eq(active(allocator), M(2));
    sim_allocator_check(allocator);
}
END_TEST

/* Events 1 and 3 are on stream 1, event 2 on stream 2: with 2 complete and 1 not, only 2 is seen.
 */
static bool is_second(uint64_t event, void *user_data)
{
    (void)user_data;
    return event != 1;
}

START_TEST(an_unfinished_event_blocks_its_own_stream_only)
{
    Device device = {0};
    const SimAllocatorDevice functions = {record_event, is_second, synchronize, NULL, &device};
    g_autoptr(SimAllocator) allocator = sim_allocator_new(NULL, UINT64_MAX, &functions);
    const uint32_t users[] = {1, 2, 1};
    SimBlock *blocks[3];

    for (unsigned i = 0; i < 3; i++) {
        blocks[i] = sim_allocator_malloc(allocator, M(32) << i, 0);
        sim_allocator_record_stream(allocator, blocks[i], users[i]);
    }
    for (unsigned i = 0; i < 3; i++) {
        sim_allocator_free(allocator, blocks[i]);
    }
    sim_allocator_malloc(allocator, M(1), 0);
    ck_assert_uint_eq(active(allocator), M(32) + M(128) + M(1));
    sim_allocator_check(allocator);
}
END_TEST

START_TEST(without_a_device_events_are_complete_at_the_next_malloc)
{
    g_autoptr(SimAllocator) allocator = make_allocator("", 0, NULL);
    SimBlock *block = sim_allocator_malloc(allocator, M(32), 0);

    sim_allocator_record_stream(allocator, block, 1);
    sim_allocator_free(allocator, block);
    ck_assert_uint_eq(active(allocator), M(32));
    sim_allocator_malloc(allocator, M(32), 0);
    ck_assert_uint_eq(active(allocator), M(32));
    ck_assert_uint_eq(reserved(allocator), M(32));
}
END_TEST

/* 60 hold 40; the 40 is freed but lent to stream 1: the retry waits for it and gives it back. */
START_TEST(a_retry_waits_for_pending_events)
{
    Device device = {0};
    g_autoptr(SimAllocator) allocator = make_allocator("", 60, &device);
    SimBlock *block = sim_allocator_malloc(allocator, M(40), 0);

    sim_allocator_record_stream(allocator, block, 1);
    sim_allocator_free(allocator, block);
    ck_assert_ptr_nonnull(sim_allocator_malloc(allocator, M(50), 0));
    ck_assert_uint_eq(device.n_synchronized, 1);
    ck_assert_uint_eq(reserved(allocator), M(50));
    ck_assert_uint_eq(sim_allocator_statistics(allocator)->num_alloc_retries, 1);
    ck_assert_uint_eq(sim_allocator_statistics(allocator)->num_sync_all_streams, 1);
    sim_allocator_check(allocator);
}
END_TEST

/* 5 lives in a segment of 20, 15 are cached; 45 need a segment of 46 of the 40 left. */
START_TEST(an_out_of_memory_says_what_there_was)
{
    g_autoptr(SimAllocator) allocator = make_allocator("", 60, NULL);

    ck_assert_ptr_null(sim_allocator_get_oom(allocator));
    sim_allocator_malloc(allocator, M(5), 0);
    ck_assert_ptr_null(sim_allocator_malloc(allocator, M(45), 2));
    const SimAllocatorOom *oom = sim_allocator_get_oom(allocator);
    ck_assert_uint_eq(oom->requested_bytes, M(45));
    ck_assert_uint_eq(oom->segment_bytes, M(46));
    ck_assert_uint_eq(oom->stream, 2);
    ck_assert_uint_eq(oom->allocated_bytes, M(5));
    ck_assert_uint_eq(oom->reserved_bytes, M(20));
    ck_assert_uint_eq(oom->device_free_bytes, M(40));
    ck_assert_uint_eq(oom->largest_free_block_bytes, M(15));
    ck_assert_ptr_nonnull(sim_allocator_malloc(allocator, M(40), 2));
    sim_allocator_check(allocator);
}
END_TEST

static const char *const absurd_settings[] = {"", "expandable_segments:True",
                                              "roundup_power2_divisions:16", "max_split_size_mb:20",
                                              "per_process_memory_fraction:0.5"};

START_TEST(absurd_requests_run_out_of_memory)
{
    const uint64_t requests[] = {UINT64_MAX, UINT64_MAX - 511, UINT64_C(1) << 63,
                                 (UINT64_C(1) << 60) + 1};
    g_autoptr(SimAllocator) allocator = make_allocator(absurd_settings[_i], 0, NULL);

    for (unsigned i = 0; i < G_N_ELEMENTS(requests); i++) {
        ck_assert_ptr_null(sim_allocator_malloc(allocator, requests[i], 0));
        sim_allocator_check(allocator);
    }
    ck_assert_uint_eq(sim_allocator_statistics(allocator)->num_ooms, G_N_ELEMENTS(requests));
}
END_TEST

/* Cached 30, 40, 50 of a device of 200 (with 60 in use: 180); 100 need 80 more. None is >= 100;
 * 50 + 40 = 90 < 100, so the 30 goes too: 120 freed, no retry. */
START_TEST(oversize_blocks_are_given_back_largest_first)
{
    g_autoptr(SimAllocator) allocator = make_allocator("max_split_size_mb:24", 200, NULL);
    SimBlock *blocks[3];

    sim_allocator_malloc(allocator, M(60), 0);
    for (unsigned i = 0; i < 3; i++) {
        blocks[i] = sim_allocator_malloc(allocator, M(30) + M(10) * i, 0);
    }
    for (unsigned i = 0; i < 3; i++) {
        sim_allocator_free(allocator, blocks[i]);
    }
    ck_assert_ptr_nonnull(sim_allocator_malloc(allocator, M(100), 0));
    ck_assert_uint_eq(reserved(allocator), M(160));
    ck_assert_uint_eq(sim_allocator_statistics(allocator)->num_alloc_retries, 0);
    ck_assert_uint_eq(sim_allocator_statistics(allocator)->oversize_segments.current, 2);
    sim_allocator_check(allocator);
}
END_TEST

/* Cached 80 and 110 of 200. Both exceed 60 by 20 or more, so 60 may take neither; the smaller that
 * would hold 60 is given back, and 110 + 60 fit. */
START_TEST(one_sufficient_oversize_block_is_given_back_alone)
{
    g_autoptr(SimAllocator) allocator = make_allocator("max_split_size_mb:24", 200, NULL);
    SimBlock *small = sim_allocator_malloc(allocator, M(80), 0);
    SimBlock *large = sim_allocator_malloc(allocator, M(110), 0);

    sim_allocator_free(allocator, small);
    sim_allocator_free(allocator, large);
    ck_assert_ptr_nonnull(sim_allocator_malloc(allocator, M(60), 0));
    ck_assert_uint_eq(reserved(allocator), M(170));
    ck_assert_uint_eq(sim_allocator_statistics(allocator)->num_alloc_retries, 0);
}
END_TEST

/* Allowed 0.5 * 200 = 100, although the device has 200. */
START_TEST(the_memory_fraction_limits_what_is_reserved)
{
    g_autoptr(SimAllocator) allocator =
        make_allocator("per_process_memory_fraction:0.5", 200, NULL);

    ck_assert_ptr_nonnull(sim_allocator_malloc(allocator, M(100), 0));
    ck_assert_ptr_null(sim_allocator_malloc(allocator, M(2), 0));
}
END_TEST

/* Without a fraction below 1 the threshold does nothing: 190 stay although 0.1 * 1000 are passed.
 */
START_TEST(garbage_collection_needs_a_fraction)
{
    const char *settings[] = {"garbage_collection_threshold:0.1",
                              "garbage_collection_threshold:0.1,per_process_memory_fraction:1.0",
                              "garbage_collection_threshold:0.1,per_process_memory_fraction:0.99"};
    const uint64_t expected[] = {M(390), M(390), M(200)};

    for (unsigned i = 0; i < 3; i++) {
        g_autoptr(SimAllocator) allocator = make_allocator(settings[i], 1000, NULL);
        SimBlock *block = sim_allocator_malloc(allocator, M(190), 0);
        sim_allocator_free(allocator, block);
        sim_allocator_malloc(allocator, M(200), 0);
        ck_assert_uint_eq(reserved(allocator), expected[i]);
    }
}
END_TEST

/* The 100 is split (4 live in it): it stays. The whole 90 goes. */
START_TEST(garbage_collection_leaves_split_blocks)
{
    g_autoptr(SimAllocator) allocator = make_allocator(
        "garbage_collection_threshold:0.1,per_process_memory_fraction:0.99", 1000, NULL);
    SimBlock *first = sim_allocator_malloc(allocator, M(100), 0);
    SimBlock *second = sim_allocator_malloc(allocator, M(110), 0);

    sim_allocator_free(allocator, first);
    sim_allocator_malloc(allocator, M(4), 0);
    sim_allocator_free(allocator, second);
    sim_allocator_malloc(allocator, M(200), 0);
    ck_assert_uint_eq(reserved(allocator), M(300));
    sim_allocator_check(allocator);
}
END_TEST

static unsigned count_segments(const SimAllocator *allocator)
{
    unsigned n = 0;

    for (const SimSegment *segment = sim_allocator_first_segment(allocator); segment != NULL;
         segment = sim_segment_next(segment)) {
        n++;
    }
    return n;
}

START_TEST(an_expandable_segment_serves_one_stream_and_pool)
{
    g_autoptr(SimAllocator) allocator = make_allocator("expandable_segments:True", 800, NULL);

    for (uint32_t stream = 0; stream < 2; stream++) {
        sim_allocator_malloc(allocator, M(30), stream);
        sim_allocator_malloc(allocator, 512, stream);
        sim_allocator_malloc(allocator, M(30), stream);
    }
    ck_assert_uint_eq(count_segments(allocator), 4);
    ck_assert_uint_eq(reserved(allocator), 2 * (M(60) + M(2)));
    /* 9/8 of 800, in pages of 20 */
    ck_assert_uint_eq(sim_segment_size(sim_allocator_first_segment(allocator)), M(900));
    ck_assert_uint_eq(sim_segment_mapped(sim_allocator_first_segment(allocator)), M(60));
    ck_assert_uint_eq(all_of(allocator)->segment.current, 0);
}
END_TEST

/* 30, 70, 30 on pages of 20: the hole is 30..100, its whole pages 40..100: 60 go, 10 stay cached.
 */
START_TEST(empty_cache_unmaps_whole_pages_inside_a_hole)
{
    g_autoptr(SimAllocator) allocator = make_allocator("expandable_segments:True", 800, NULL);
    SimBlock *blocks[3];

    blocks[0] = sim_allocator_malloc(allocator, M(30), 0);
    blocks[1] = sim_allocator_malloc(allocator, M(70), 0);
    blocks[2] = sim_allocator_malloc(allocator, M(30), 0);
    ck_assert_uint_eq(reserved(allocator), M(140));
    const uint64_t hole = sim_block_address(blocks[1]);
    sim_allocator_free(allocator, blocks[1]);
    sim_allocator_empty_cache(allocator);
    sim_allocator_check(allocator);
    /* of the 10 mapped behind the last block no whole page is free */
    ck_assert_uint_eq(reserved(allocator), M(80));

    /* 25 fit into 10 cached + 60 unmapped: one page is mapped in the hole, at its start. */
    SimBlock *block = sim_allocator_malloc(allocator, M(25), 0);
    ck_assert_uint_eq(sim_block_address(block), hole);
    ck_assert_uint_eq(reserved(allocator), M(100));
    sim_allocator_check(allocator);

    sim_allocator_free(allocator, block);
    sim_allocator_free(allocator, blocks[0]);
    sim_allocator_free(allocator, blocks[2]);
    sim_allocator_empty_cache(allocator);
    ck_assert_uint_eq(reserved(allocator), 0);
    ck_assert_uint_eq(count_segments(allocator), 0);
    sim_allocator_check(allocator);
}
END_TEST

/* The cached 60 >= max_split is refused to a request of 4. With unmapped pages right behind it is
 * found again as the place to grow, and nothing is mapped; with a live 20 between, a page is. */
START_TEST(max_split_size_refuses_large_expandable_blocks_too)
{
    const uint64_t expected[] = {M(60), M(100)};

    for (unsigned is_pinned = 0; is_pinned < 2; is_pinned++) {
        g_autoptr(SimAllocator) allocator =
            make_allocator("expandable_segments:True,max_split_size_mb:40", 800, NULL);
        SimBlock *block = sim_allocator_malloc(allocator, M(60), 0);
        sim_allocator_malloc(allocator, M(20) * is_pinned, 0);
        sim_allocator_free(allocator, block);
        sim_allocator_malloc(allocator, M(4), 0);
        ck_assert_uint_eq(reserved(allocator), expected[is_pinned]);
        sim_allocator_check(allocator);
    }
}
END_TEST

typedef struct Log {
    GString *text;
} Log;

static void log_event(const SimAllocatorEvent *event, void *user_data)
{
    const char *const names[] = {
        "alloc",        "free_requested", "free_completed", "segment_alloc",
        "segment_free", "segment_map",    "segment_unmap",  "oom"};
    Log *log = user_data;

    g_string_append_printf(log->text, "%s %" G_GUINT64_FORMAT "\n", names[event->action],
                           event->bytes >> 20);
    if (event->action == SIM_ALLOCATOR_ALLOC) {
        ck_assert_uint_eq(sim_block_requested(event->block), event->bytes);
        ck_assert_ptr_eq(sim_block_segment(event->block), event->segment);
    }
}

START_TEST(an_observer_sees_every_action_in_order)
{
    g_autoptr(SimAllocator) allocator = make_allocator("", 60, NULL);
    Log log = {g_string_new(NULL)};

    sim_allocator_set_observer(allocator, log_event, &log);
    SimBlock *block = sim_allocator_malloc(allocator, M(31), 0);
    sim_allocator_free(allocator, block);
    block = sim_allocator_malloc(allocator, M(40), 0);
    sim_allocator_record_stream(allocator, block, 1);
    sim_allocator_free(allocator, block);
    sim_allocator_malloc(allocator, M(70), 0);
    ck_assert_str_eq(log.text->str, "segment_alloc 32\nalloc 31\n"
                                    "free_requested 31\nfree_completed 31\n"
                                    "segment_free 32\nsegment_alloc 40\nalloc 40\n"
                                    "free_requested 40\nfree_completed 40\n"
                                    "segment_free 40\noom 70\n");
    g_string_free(log.text, true);
}
END_TEST

static void log_statistics(const SimAllocatorEvent *event, void *user_data)
{
    SimAllocator **allocator = user_data;
    const SimPoolStatistics *all = all_of(*allocator);
    /* allocated, active, reserved by action: before block actions, after segment actions */
    const uint64_t expected[][3] = {
        [SIM_ALLOCATOR_SEGMENT_ALLOC] = {0, 0, M(20)},
        [SIM_ALLOCATOR_ALLOC] = {0, 0, M(20)},
        [SIM_ALLOCATOR_FREE_REQUESTED] = {M(4), M(4), M(20)},
        [SIM_ALLOCATOR_FREE_COMPLETED] = {0, M(4), M(20)},
        [SIM_ALLOCATOR_SEGMENT_FREE] = {0, 0, 0},
    };

    ck_assert_uint_eq(all->allocated_bytes.current, expected[event->action][0]);
    ck_assert_uint_eq(all->active_bytes.current, expected[event->action][1]);
    ck_assert_uint_eq(all->reserved_bytes.current, expected[event->action][2]);
}

START_TEST(an_observer_reads_statistics_before_block_and_after_segment_actions)
{
    g_autoptr(SimAllocator) allocator = make_allocator("", 0, NULL);

    sim_allocator_set_observer(allocator, log_statistics, &allocator);
    sim_allocator_free(allocator, sim_allocator_malloc(allocator, M(4), 0));
    sim_allocator_empty_cache(allocator);
}
END_TEST

START_TEST(expandable_pages_are_observed)
{
    g_autoptr(SimAllocator) allocator = make_allocator("expandable_segments:True", 200, NULL);
    Log log = {g_string_new(NULL)};

    sim_allocator_set_observer(allocator, log_event, &log);
    sim_allocator_free(allocator, sim_allocator_malloc(allocator, M(30), 0));
    sim_allocator_empty_cache(allocator);
    ck_assert_str_eq(log.text->str, "segment_map 40\nalloc 30\n"
                                    "free_requested 30\nfree_completed 30\n"
                                    "segment_unmap 40\n");
    g_string_free(log.text, true);
}
END_TEST

START_TEST(a_tag_stays_with_the_block_until_it_is_free)
{
    g_autoptr(SimAllocator) allocator = make_allocator("", 0, NULL);
    SimBlock *block = sim_allocator_malloc(allocator, M(4), 0);

    ck_assert_uint_eq(sim_block_tag(block), 0);
    sim_block_set_tag(block, 17);
    sim_allocator_malloc(allocator, M(4), 0);
    ck_assert_uint_eq(sim_block_tag(block), 17);
    sim_allocator_free(allocator, block);
    ck_assert_uint_eq(sim_block_tag(sim_allocator_malloc(allocator, M(4), 0)), 0);
}
END_TEST

/* 1 MiB + 20 in a segment of 2 and one of 20; peaks fall back to what is current. */
START_TEST(statistics_are_kept_for_each_pool)
{
    g_autoptr(SimAllocator) allocator = make_allocator("", 0, NULL);
    const SimPoolStatistics *pools = sim_allocator_statistics(allocator)->pools;
    SimBlock *block = sim_allocator_malloc(allocator, M(20), 0);

    sim_allocator_malloc(allocator, M(1), 0);
    sim_allocator_free(allocator, block);
    ck_assert_uint_eq(pools[SIM_POOL_SMALL].allocated_bytes.current, M(1));
    ck_assert_uint_eq(pools[SIM_POOL_SMALL].reserved_bytes.current, M(2));
    ck_assert_uint_eq(pools[SIM_POOL_LARGE].allocated_bytes.current, 0);
    ck_assert_uint_eq(pools[SIM_POOL_LARGE].allocated_bytes.peak, M(20));
    ck_assert_uint_eq(pools[SIM_POOL_ALL].allocated_bytes.peak, M(21));
    ck_assert_uint_eq(pools[SIM_POOL_ALL].allocated_bytes.freed, M(20));
    sim_allocator_reset_peaks(allocator);
    ck_assert_uint_eq(pools[SIM_POOL_LARGE].allocated_bytes.peak, 0);
    ck_assert_uint_eq(pools[SIM_POOL_ALL].allocated_bytes.peak, M(1));
    ck_assert_uint_eq(pools[SIM_POOL_ALL].reserved_bytes.peak, M(22));
    sim_allocator_check(allocator);
}
END_TEST

/* 4 of 20 and 3 at 12 restored; the gap of 8 and the end of 5 are free, best fit takes the 5. */
START_TEST(a_restored_segment_goes_on_where_it_was)
{
    g_autoptr(SimAllocator) allocator = make_allocator("", 0, NULL);
    const SimAllocatorPiece pieces[] = {{0, M(4)}, {M(12), M(3)}};
    SimBlock *blocks[2];
    const SimSegment *segment =
        sim_allocator_restore_segment(allocator, M(20), 1, false, false, pieces, 2, blocks);

    sim_allocator_check(allocator);
    SimBlock *block = sim_allocator_malloc(allocator, M(5), 1);
    ck_assert_uint_eq(sim_block_address(block), sim_segment_address(segment) + M(15));
    sim_allocator_free(allocator, blocks[0]);
    sim_allocator_free(allocator, blocks[1]);
    sim_allocator_free(allocator, block);
    sim_allocator_check(allocator);
    sim_allocator_empty_cache(allocator);
    ck_assert_uint_eq(reserved(allocator), 0);
}
END_TEST

static TCase *make_blocks_case(void)
{
    TCase *tcase = tcase_create("blocks");

    tcase_add_test(tcase, a_free_merges_with_both_neighbours);
    tcase_add_test(tcase, equal_sizes_go_to_the_lowest_address);
    tcase_add_test(tcase, zero_bytes_give_a_block_that_is_nothing);
    tcase_add_test(tcase, a_tag_stays_with_the_block_until_it_is_free);
    tcase_add_test(tcase, statistics_are_kept_for_each_pool);
    tcase_add_test(tcase, a_restored_segment_goes_on_where_it_was);
    tcase_add_test(tcase, an_observer_sees_every_action_in_order);
    tcase_add_test(tcase, an_observer_reads_statistics_before_block_and_after_segment_actions);
    return tcase;
}

static TCase *make_streams_case(void)
{
    TCase *tcase = tcase_create("streams");

    tcase_add_test(tcase, a_block_waits_for_every_stream_that_uses_it);
    tcase_add_test(tcase, an_unfinished_event_blocks_its_own_stream_only);
    tcase_add_test(tcase, without_a_device_events_are_complete_at_the_next_malloc);
    tcase_add_test(tcase, a_retry_waits_for_pending_events);
    return tcase;
}

static TCase *make_limits_case(void)
{
    TCase *tcase = tcase_create("limits");

    tcase_add_test(tcase, an_out_of_memory_says_what_there_was);
    tcase_add_loop_test(tcase, absurd_requests_run_out_of_memory, 0,
                        (int)G_N_ELEMENTS(absurd_settings));
    tcase_add_test(tcase, oversize_blocks_are_given_back_largest_first);
    tcase_add_test(tcase, one_sufficient_oversize_block_is_given_back_alone);
    tcase_add_test(tcase, the_memory_fraction_limits_what_is_reserved);
    tcase_add_test(tcase, garbage_collection_needs_a_fraction);
    tcase_add_test(tcase, garbage_collection_leaves_split_blocks);
    return tcase;
}

static TCase *make_expandable_case(void)
{
    TCase *tcase = tcase_create("expandable");

    tcase_add_test(tcase, an_expandable_segment_serves_one_stream_and_pool);
    tcase_add_test(tcase, empty_cache_unmaps_whole_pages_inside_a_hole);
    tcase_add_test(tcase, max_split_size_refuses_large_expandable_blocks_too);
    tcase_add_test(tcase, expandable_pages_are_observed);
    return tcase;
}

int main(void)
{
    Suite *suite = suite_create("allocator");

    suite_add_tcase(suite, make_blocks_case());
    suite_add_tcase(suite, make_streams_case());
    suite_add_tcase(suite, make_limits_case());
    suite_add_tcase(suite, make_expandable_case());
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    const int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
