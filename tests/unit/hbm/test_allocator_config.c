/* SPDX-License-Identifier: Apache-2.0
 *
 * Settings in PyTorch's syntax, with PyTorch's verdicts (c10/core/AllocatorConfig.cpp).
 */
#include "hbm/allocator_config.h"

#include <stdlib.h>
#include <string.h>

#include <check.h>

#include "base/error.h"
#include "base/units.h"

typedef struct BadText {
    const char *text;
    SimError code;
    const char *part; /* of the message */
} BadText;

static const BadText bad_texts[] = {
    {"expandable_segment:True", SIM_ERROR_SCHEMA, "expandable_segments"},
    {"max_split_size:128", SIM_ERROR_SCHEMA, "max_split_size_mb"},
    {"128", SIM_ERROR_SCHEMA, "'128'"},
    {":128", SIM_ERROR_SCHEMA, "':'"},
    {"expandable_segments:true", SIM_ERROR_PARSE, "expected True or False, found 'true'"},
    {"expandable_segments:1", SIM_ERROR_PARSE, "expected True or False"},
    {"expandable_segments", SIM_ERROR_PARSE, "expected ':', found 'end of text'"},
    {"expandable_segments:", SIM_ERROR_PARSE, "found 'end of text'"},
    {"expandable_segments:True max_split_size_mb:128", SIM_ERROR_PARSE, "Truemax_split_size_mb"},
    {"expandable_segments:True:False", SIM_ERROR_PARSE, "expected ','"},
    {"expandable_segments:True,,backend:native", SIM_ERROR_SCHEMA, "','"},
    {"max_split_size_mb:19", SIM_ERROR_RANGE, "expected at least 20, found 19"},
    {"max_split_size_mb:-1", SIM_ERROR_RANGE, "max_split_size_mb"},
    {"max_split_size_mb:128MB", SIM_ERROR_PARSE, "128MB"},
    {"max_split_size_mb:64,large_segment_size_mb:100", SIM_ERROR_RANGE, "at least 100, found 64"},
    {"max_non_split_rounding_mb:10", SIM_ERROR_RANGE, "expected at least 20, found 10"},
    {"large_segment_size_mb:10", SIM_ERROR_RANGE, "expected at least 11, found 10"},
    {"garbage_collection_threshold:0", SIM_ERROR_RANGE, "above 0 and below 1"},
    {"garbage_collection_threshold:1.0", SIM_ERROR_RANGE, "above 0 and below 1"},
    {"garbage_collection_threshold:nan", SIM_ERROR_PARSE, "expected a number"},
    {"garbage_collection_threshold:0,8", SIM_ERROR_RANGE, "found '0'"},
    {"per_process_memory_fraction:1.5", SIM_ERROR_RANGE, "up to 1"},
    {"roundup_power2_divisions:3", SIM_ERROR_RANGE, "expected a power of two, found 3"},
    {"roundup_power2_divisions:0", SIM_ERROR_RANGE, "expected a power of two, found 0"},
    {"roundup_power2_divisions:[256:3]", SIM_ERROR_RANGE, "expected a power of two or 0, found 3"},
    {"roundup_power2_divisions:[100:4]", SIM_ERROR_RANGE, "expected a power of two, found 100"},
    {"roundup_power2_divisions:[256:1,512:2", SIM_ERROR_PARSE, "expected ','"},
    {"roundup_power2_divisions:[256:1;512:2]", SIM_ERROR_PARSE, "1;512"},
    {"roundup_power2_divisions:[", SIM_ERROR_PARSE, "end of text"},
    {"backend:cudaMallocAsync", SIM_ERROR_UNSUPPORTED, "use 'native'"},
    {"backend:none", SIM_ERROR_PARSE, "expected 'native', found 'none'"},
    {"throw_on_cudamalloc_oom:True", SIM_ERROR_UNSUPPORTED, "not simulated"},
    {"pinned_use_background_threads:yes", SIM_ERROR_PARSE, "expected True or False"},
};

START_TEST(bad_text_is_refused_and_changes_nothing)
{
    const BadText *bad = &bad_texts[_i];
    g_autoptr(GError) error = NULL;
    SimAllocatorConfig config;
    SimAllocatorConfig before;

    sim_allocator_config_init(&config);
    config.expandable_segments = true;
    before = config;
    ck_assert(!sim_allocator_config_parse(&config, bad->text, &error));
    ck_assert_msg(g_error_matches(error, SIM_ERROR, (int)bad->code), "%s", error->message);
    ck_assert_msg(strstr(error->message, bad->part) != NULL, "%s", error->message);
    ck_assert_ptr_null(strchr(error->message, '\n'));
    ck_assert_mem_eq(&config, &before, sizeof config);
}
END_TEST

static SimAllocatorConfig parse(const char *text)
{
    g_autoptr(GError) error = NULL;
    SimAllocatorConfig config;

    sim_allocator_config_init(&config);
    ck_assert_msg(sim_allocator_config_parse(&config, text, &error), "%s",
                  error == NULL ? "" : error->message);
    return config;
}

START_TEST(empty_text_leaves_the_defaults)
{
    const SimAllocatorConfig config = parse("");

    ck_assert_uint_eq(config.max_split_size_bytes, UINT64_MAX);
    ck_assert_uint_eq(config.large_segment_size_bytes, 20 * SIM_MIB);
    ck_assert_uint_eq(config.max_non_split_rounding_bytes, 20 * SIM_MIB);
    ck_assert_uint_eq(config.roundup_power2_divisions[0], 0);
    ck_assert(!config.expandable_segments);
    ck_assert_double_eq(config.garbage_collection_threshold, 0);
    ck_assert_double_eq(config.per_process_memory_fraction, 0);
}
END_TEST

START_TEST(every_setting_arrives)
{
    const SimAllocatorConfig config =
        parse(" max_split_size_mb: 128, expandable_segments:True, backend:native,"
              "garbage_collection_threshold:0.8,per_process_memory_fraction:0.5,"
              "large_segment_size_mb:64,max_non_split_rounding_mb:72,"
              "pinned_num_register_threads:8,release_lock_on_cudamalloc:False,");

    ck_assert_uint_eq(config.max_split_size_bytes, 128 * SIM_MIB);
    ck_assert_uint_eq(config.large_segment_size_bytes, 64 * SIM_MIB);
    ck_assert_uint_eq(config.max_non_split_rounding_bytes, 72 * SIM_MIB);
    ck_assert(config.expandable_segments);
    ck_assert_double_eq(config.garbage_collection_threshold, 0.8);
    ck_assert_double_eq(config.per_process_memory_fraction, 0.5);
}
END_TEST

START_TEST(the_smallest_split_size_is_the_segment_size)
{
    ck_assert_uint_eq(parse("max_split_size_mb:20").max_split_size_bytes, 20 * SIM_MIB);
}
END_TEST

START_TEST(the_rounding_limit_follows_the_segment_size)
{
    ck_assert_uint_eq(parse("large_segment_size_mb:32").max_non_split_rounding_bytes, 32 * SIM_MIB);
}
END_TEST

/* As in PyTorch: what a text does not name of these three falls back, the rest stays. */
START_TEST(a_second_text_resets_split_size_divisions_and_threshold)
{
    SimAllocatorConfig config =
        parse("max_split_size_mb:128,roundup_power2_divisions:4,garbage_collection_threshold:0.5,"
              "expandable_segments:True,per_process_memory_fraction:0.5");

    ck_assert(sim_allocator_config_parse(&config, "backend:native", NULL));
    ck_assert_uint_eq(config.max_split_size_bytes, UINT64_MAX);
    ck_assert_uint_eq(config.roundup_power2_divisions[3], 0);
    ck_assert_double_eq(config.garbage_collection_threshold, 0);
    ck_assert(config.expandable_segments);
    ck_assert_double_eq(config.per_process_memory_fraction, 0.5);
}
END_TEST

/* 256 MiB is entry 8: what is smaller takes its value, ">" is all above the last boundary named. */
START_TEST(a_list_of_divisions_covers_all_sizes)
{
    const uint32_t expected[SIM_ALLOCATOR_DIVISIONS] = {1, 1, 1, 1, 1, 1, 1, 1,
                                                        1, 2, 4, 8, 8, 8, 8, 8};
    const SimAllocatorConfig config =
        parse("roundup_power2_divisions:[256:1,512:2,1024:4,>:8],expandable_segments:False");

    ck_assert_mem_eq(config.roundup_power2_divisions, expected, sizeof expected);
}
END_TEST

typedef struct Rounding {
    const char *settings;
    uint64_t bytes;
    uint64_t block_bytes;
    uint64_t segment_bytes;
} Rounding;

static const Rounding roundings[] = {
    {"", 1, 512, 2 * SIM_MIB},
    {"", 512, 512, 2 * SIM_MIB},
    {"", 513, 1024, 2 * SIM_MIB},
    {"", SIM_MIB, SIM_MIB, 2 * SIM_MIB},
    {"", SIM_MIB + 1, SIM_MIB + 512, 20 * SIM_MIB},
    {"large_segment_size_mb:32", 2 * SIM_MIB, 2 * SIM_MIB, 32 * SIM_MIB},
    {"", 10 * SIM_MIB - 512, 10 * SIM_MIB - 512, 20 * SIM_MIB},
    {"", 10 * SIM_MIB - 1, 10 * SIM_MIB, 10 * SIM_MIB},
    {"", 11 * SIM_MIB, 11 * SIM_MIB, 12 * SIM_MIB},
    /* 4 divisions: only above 512 * 4; steps of 1/4 of the power of two below */
    {"roundup_power2_divisions:4", 1200, 1536, 2 * SIM_MIB},
    {"roundup_power2_divisions:4", 2049, 2560, 2 * SIM_MIB},
    {"roundup_power2_divisions:4", 5000, 5120, 2 * SIM_MIB},
    {"roundup_power2_divisions:4", 4096, 4096, 2 * SIM_MIB},
    {"roundup_power2_divisions:4", 33 * SIM_MIB, 40 * SIM_MIB, 40 * SIM_MIB},
    {"roundup_power2_divisions:4", 65 * SIM_MIB, 80 * SIM_MIB, 80 * SIM_MIB},
    {"roundup_power2_divisions:1", 5000, 5120, 2 * SIM_MIB},
    /* 64 GiB and all above share the last entry: 100 GiB -> 64 + 3 * 16 */
    {"roundup_power2_divisions:4", 100 * SIM_GIB, 112 * SIM_GIB, 112 * SIM_GIB},
};

START_TEST(requests_are_rounded_as_in_pytorch)
{
    const Rounding *rounding = &roundings[_i];
    const SimAllocatorConfig config = parse(rounding->settings);
    const uint64_t block = sim_allocator_config_compute_block(&config, rounding->bytes);

    ck_assert_uint_eq(block, rounding->block_bytes);
    ck_assert_uint_eq(sim_allocator_config_compute_segment(&config, block),
                      rounding->segment_bytes);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("allocator_config");
    TCase *tcase = tcase_create("settings");

    tcase_add_loop_test(tcase, bad_text_is_refused_and_changes_nothing, 0,
                        (int)G_N_ELEMENTS(bad_texts));
    tcase_add_test(tcase, empty_text_leaves_the_defaults);
    tcase_add_test(tcase, every_setting_arrives);
    tcase_add_test(tcase, the_smallest_split_size_is_the_segment_size);
    tcase_add_test(tcase, the_rounding_limit_follows_the_segment_size);
    tcase_add_test(tcase, a_second_text_resets_split_size_divisions_and_threshold);
    tcase_add_test(tcase, a_list_of_divisions_covers_all_sizes);
    tcase_add_loop_test(tcase, requests_are_rounded_as_in_pytorch, 0, (int)G_N_ELEMENTS(roundings));
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    const int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
