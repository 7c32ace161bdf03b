/* SPDX-License-Identifier: Apache-2.0
 *
 * Segments and blocks after a few actions of an allocator.
 */
#include <check.h>

#include "hbm/allocator.h"
#include "trace/device_layout.h"

#define MIB UINT64_C(1048576)

static void apply(SimDeviceLayout *layout, SimAllocatorAction action, uint64_t address,
                  uint64_t bytes, uint64_t allocated)
{
    SimMemoryEvent event = {.action = (uint8_t)action,
                            .address = address,
                            .bytes = bytes,
                            .allocated_bytes = allocated};
    sim_device_layout_apply(layout, &event);
}

/* 1,000 bytes take a block of 1,024: what the allocator counts more after it. */
START_TEST(a_block_is_as_large_as_what_is_counted)
{
    SimDeviceLayout layout;
    sim_device_layout_init(&layout);
    apply(&layout, SIM_ALLOCATOR_SEGMENT_ALLOC, 16 * MIB, 2 * MIB, 0);
    apply(&layout, SIM_ALLOCATOR_ALLOC, 16 * MIB, 1000, 1024);
    const SimLayoutBlock *block = sim_device_layout_find(&layout, 0);
    ck_assert_uint_eq(block->bytes, 1024);
    ck_assert_uint_eq(block->requested_bytes, 1000);
    apply(&layout, SIM_ALLOCATOR_FREE_REQUESTED, 16 * MIB, 1000, 0);
    ck_assert(!sim_device_layout_find(&layout, 16 * MIB)->is_allocated);
    apply(&layout, SIM_ALLOCATOR_FREE_COMPLETED, 16 * MIB, 1000, 0);
    ck_assert_ptr_null(sim_device_layout_find(&layout, 0));
    ck_assert(g_array_index(layout.segments, SimLayoutSegment, 0).is_small);
    apply(&layout, SIM_ALLOCATOR_SEGMENT_FREE, 16 * MIB, 2 * MIB, 0);
    ck_assert_uint_eq(layout.segments->len, 0);
    sim_device_layout_done(&layout);
}
END_TEST

/* Pages of 20 MiB at 100, 140, then 120: one range; without 120..140 two again. */
START_TEST(mapped_pages_that_touch_are_one_segment)
{
    SimDeviceLayout layout;
    sim_device_layout_init(&layout);
    apply(&layout, SIM_ALLOCATOR_SEGMENT_MAP, 100 * MIB, 20 * MIB, 0);
    apply(&layout, SIM_ALLOCATOR_SEGMENT_MAP, 140 * MIB, 20 * MIB, 0);
    ck_assert_uint_eq(layout.segments->len, 2);
    apply(&layout, SIM_ALLOCATOR_SEGMENT_MAP, 120 * MIB, 20 * MIB, 0);
    ck_assert_uint_eq(layout.segments->len, 1);
    ck_assert_uint_eq(g_array_index(layout.segments, SimLayoutSegment, 0).bytes, 60 * MIB);
    ck_assert(!g_array_index(layout.segments, SimLayoutSegment, 0).is_small);
    apply(&layout, SIM_ALLOCATOR_SEGMENT_UNMAP, 120 * MIB, 20 * MIB, 0);
    ck_assert_uint_eq(layout.segments->len, 2);
    ck_assert_uint_eq(g_array_index(layout.segments, SimLayoutSegment, 1).address, 140 * MIB);
    sim_device_layout_done(&layout);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("device_layout");
    TCase *tcase = tcase_create("device_layout");
    tcase_add_test(tcase, a_block_is_as_large_as_what_is_counted);
    tcase_add_test(tcase, mapped_pages_that_touch_are_one_segment);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? 0 : 1;
}
