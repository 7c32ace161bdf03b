/* SPDX-License-Identifier: Apache-2.0
 *
 * 42 short sequences whose outcome PyTorch 2.15's own allocator gave, each with the reason.
 *
 * A script is a list of steps: mSIZE malloc (MiB; with k KiB, with b bytes; @S on stream S), fN
 * free the N-th malloc of the script, fa free all that live, rN@S record_stream, cS all events of
 * stream S complete, e empty_cache, =R reserved must be R MiB now. Nx before a step repeats it.
 */
#include "hbm/allocator.h"

#include <stdlib.h>
#include <string.h>

#include <check.h>

#define M(mib) ((uint64_t)(mib) << 20)
#define MAX_BLOCKS 32
#define MAX_STREAMS 4

typedef struct Sequence {
    const char *settings;
    uint64_t device_mib; /* 0: unlimited */
    const char *script;
    uint64_t allocated, active, reserved, requested, inactive_split;
    uint64_t segments, retries, ooms;
} Sequence;

static const Sequence sequences[] = {
    /* 1: rounded to 512, in a small segment of 2 MiB */
    {"", 0, "m1b", 512, 512, M(2), 1, 2096640, 1, 0, 0},
    /* 2: a null pointer */
    {"", 0, "m0", 0, 0, 0, 0, 0, 0, 0, 0},
    /* 3 */
    {"", 0, "m513b", 1024, 1024, M(2), 513, M(2) - 1024, 1, 0, 0},
    /* 4: exactly 1 MiB is still small, two fit in a segment */
    {"", 0, "3xm1", M(3), M(3), M(4), M(3), M(1), 2, 0, 0},
    /* 5: large pool, 20 MiB segment, split */
    {"", 0, "m1048577b", 1049088, 1049088, M(20), 1048577, 19922432, 1, 0, 0},
    /* 6: rounding to 512 comes before the test for < 10 MiB */
    {"", 0, "m10485759b", M(10), M(10), M(10), 10485759, 0, 1, 0, 0},
    /* 7: stays < 10 MiB */
    {"", 0, "m10485248b", 10485248, 10485248, M(20), 10485248, M(20) - 10485248, 1, 0, 0},
    /* 8: the remainder is exactly 1 MiB, not more: the tail counts as allocated */
    {"", 0, "m11", M(12), M(12), M(12), M(11), 0, 1, 0, 0},
    /* 9: remainder 1 MiB + 512 */
    {"", 0, "m11533824b", 11533824, 11533824, M(12), 11533824, 1049088, 1, 0, 0},
    /* 10: as 8 */
    {"", 0, "m21", M(22), M(22), M(22), M(21), 0, 1, 0, 0},
    /* 11: best fit is the 30, split */
    {"", 0, "m30 m40 f1 f2 m25", M(25), M(25), M(70), M(25), M(5), 2, 0, 0},
    /* 12: 5 is too small, 40 is split into 6 + 34 */
    {"", 0, "m30 m40 f1 f2 m25 m6", M(31), M(31), M(70), M(31), M(39), 2, 0, 0},
    /* 13: best fit is the 5, whose remainder of 1 is not split */
    {"", 0, "m30 m40 f1 f2 m25 m6 m4", M(36), M(36), M(70), M(35), M(34), 2, 0, 0},
    /* 14: streams share nothing */
    {"", 0, "m30 f1 m30@1", M(30), M(30), M(60), M(30), 0, 2, 0, 0},
    /* 15: allocated drops at the free, active does not while stream 1 is busy */
    {"", 0, "m32 r1@1 f1", 0, M(32), M(32), M(32), 0, 1, 0, 0},
    /* 16: the block cannot be reused yet */
    {"", 0, "m32 r1@1 f1 m32", M(32), M(64), M(64), M(64), 0, 2, 0, 0},
    /* 17: complete events are seen first in malloc */
    {"", 0, "m32 r1@1 f1 m32 c1 m32", M(64), M(64), M(64), M(64), 0, 2, 0, 0},
    /* 18: four fill a segment, the last takes the exact remainder */
    {"", 0, "4xm5", M(20), M(20), M(20), M(20), 0, 1, 0, 0},
    /* 19: 5 + 5 merged to 10, remainder 1 unsplit */
    {"", 0, "4xm5 f2 f3 m9", M(20), M(20), M(20), M(19), 0, 1, 0, 0},
    /* 20: all merged to 20, split */
    {"", 0, "4xm5 f2 f3 m9 fa m18", M(18), M(18), M(20), M(18), M(2), 1, 0, 0},
    /* 21: free are 6 and 6 + 2 in segment 1, 14 in segment 2: a new one of 16, tail unsplit */
    {"", 0, "4xm6 f1 f3 m15", M(28), M(28), M(56), M(27), M(28), 3, 0, 0},
    /* 22: cudaMalloc fails, both cached segments are freed, second try */
    {"", 60, "2xm20 fa m50", M(50), M(50), M(50), M(50), 0, 1, 1, 0},
    /* 23: the 20 MiB segment is pinned by the 5; 46 do not fit beside it */
    {"", 60, "m5 m30 f2 m45", M(5), M(5), M(20), M(5), M(15), 1, 1, 1},
    /* 24: an oversize block does not serve a small request */
    {"max_split_size_mb:100", 0, "m120 f1 m50", M(50), M(50), M(170), M(50), 0, 2, 0, 0},
    /* 25: 120 < 110 + 20: given whole, counts 120 */
    {"max_split_size_mb:100", 0, "m120 f1 m50 m110", M(170), M(170), M(170), M(160), 0, 2, 0, 0},
    /* 26: 120 >= 100 + 20: refused */
    {"max_split_size_mb:100", 0, "m120 f1 m50 m110 f3 m100", M(150), M(150), M(270), M(150), 0, 3,
     0, 0},
    /* 27: freeing the 120 does not yield 130; everything is freed, then the retry */
    {"max_split_size_mb:100", 300, "m120 m60 f1 m130", M(190), M(190), M(190), M(190), 0, 2, 1, 0},
    /* 28: 190 reserved <= 0.2 * 999: no collection */
    {"per_process_memory_fraction:0.999,garbage_collection_threshold:0.2", 1000,
     "m100 m90 f1 f2 m90 f3 m90 f4 m90 f5 m120", M(120), M(120), M(310), M(120), 0, 3, 0, 0},
    /* 29: 310 > 199.8; ages 5 and 2, mean 3.5: the first pass frees the 100, the second the 90 */
    {"per_process_memory_fraction:0.999,garbage_collection_threshold:0.2", 1000,
     "m100 m90 f1 f2 m90 f3 m90 f4 m90 f5 m120 m130", M(250), M(250), M(250), M(250), 0, 2, 0, 0},
    /* 30: 1536 + 2560 + 5120 = 9216 bytes, 40 and 80 MiB; 1200 <= 512 * 4 is rounded to 512 */
    {"roundup_power2_divisions:4", 0, "m1200b m2049b m5000b m33 m65", M(120) + 9216, M(120) + 9216,
     M(122), M(98) + 8249, M(2) - 9216, 3, 0, 0},
    /* 31: pages of 20 MiB; the fifth fits into 4 * 4 MiB of ends */
    {"expandable_segments:True", 0,
     "m16 =20 m16 =40 m16 =60 m16 =80 m16 =80 m16 =100 m16 =120 m16 =140", M(128), M(128), M(140),
     M(128), 0, 0, 0, 0},
    /* 32: no tail is lost, the small pool has pages of its own of 2 MiB */
    {"expandable_segments:True", 0, "m11 =20 m1k =22 m9 =22", M(20) + 1024, M(20) + 1024, M(22),
     M(20) + 1024, 0, 0, 0, 0},
    /* 33: 100 more fail; 60 MiB of whole pages in the hole go, then 100 are mapped at the end */
    {"expandable_segments:True", 200, "m50 m70 m30 =160 f2 m100", M(180), M(180), M(200), M(180), 0,
     0, 1, 0},
    /* 34: the optimizer's 8 + 8 split a cached 40: the next step needs one more */
    {"", 0, "3xm40 fa =120 m8 m8 =120 3xm40 f6 f7 f8", M(16), M(16), M(160), M(16), M(24), 4, 0, 0},
    /* 35: the other order takes less */
    {"", 0, "m8 m8 3xm40 f3 f4 f5", M(16), M(16), M(140), M(16), M(4), 4, 0, 0},
    /* 36: as 34; 120 - 16 - 80 leaves 24, one page more makes 40 */
    {"expandable_segments:True", 0, "3xm40 fa =120 m8 m8 =120 3xm40 f6 f7 f8", M(16), M(16), M(140),
     M(16), 0, 0, 0, 0},
    /* 37: one of two small segments is pinned */
    {"", 0, "5xm512k f1 f2 f3 f4 =4 e", M(1) / 2, M(1) / 2, M(2), M(1) / 2, M(3) / 2, 1, 0, 0},
    /* 38: the cuBLAS workspace of sm_80 */
    {"", 0, "m8519680b", 8519680, 8519680, M(20), 8519680, M(20) - 8519680, 1, 0, 0},
    /* 39: segments never merge */
    {"", 0, "8xm16 fa 4xm32", M(128), M(128), M(256), M(128), 0, 12, 0, 0},
    /* 40: large first is good */
    {"", 0, "4xm32 fa 8xm16", M(128), M(128), M(128), M(128), 0, 4, 0, 0},
    /* 41: a small request never uses the large pool */
    {"", 0, "m20 f1 m1", M(1), M(1), M(22), M(1), M(1), 2, 0, 0},
    /* 42: 2 MiB spoil a block of 100 */
    {"", 0, "m100 f1 m2 m100", M(102), M(102), M(200), M(102), M(98), 2, 0, 0},
};

G_STATIC_ASSERT(G_N_ELEMENTS(sequences) == 42);

/* Streams on which events complete when the script says so. */
typedef struct Streams {
    uint32_t recorded[MAX_STREAMS];
    uint32_t complete[MAX_STREAMS];
} Streams;

static uint64_t record_event(uint32_t stream, void *user_data)
{
    Streams *streams = user_data;
    return (uint64_t)stream << 32 | ++streams->recorded[stream];
}

static bool is_complete(uint64_t event, void *user_data)
{
    const Streams *streams = user_data;
    return (uint32_t)event <= streams->complete[event >> 32];
}

static void synchronize(uint64_t event, void *user_data)
{
    Streams *streams = user_data;
    streams->complete[event >> 32] = MAX(streams->complete[event >> 32], (uint32_t)event);
}

typedef struct Script {
    SimAllocator *allocator;
    Streams streams;
    SimBlock *blocks[MAX_BLOCKS]; /* by number of the malloc, from 1; NULL: not live */
    unsigned n_blocks;
} Script;

static void malloc_block(Script *script, const char *arguments)
{
    char *end;
    const uint64_t number = strtoull(arguments, &end, 10);
    const unsigned shift = *end == 'b' ? 0 : *end == 'k' ? 10 : 20;
    const char *at = strchr(arguments, '@');
    const uint32_t stream = at == NULL ? 0 : (uint32_t)atoi(at + 1);

    script->blocks[++script->n_blocks] =
        sim_allocator_malloc(script->allocator, number << shift, stream);
}

static void free_block(Script *script, unsigned number)
{
    if (script->blocks[number] != NULL) {
        sim_allocator_free(script->allocator, script->blocks[number]);
        script->blocks[number] = NULL;
    }
}

static void free_blocks(Script *script, const char *arguments)
{
    if (arguments[0] != 'a') {
        free_block(script, (unsigned)atoi(arguments));
        return;
    }
    for (unsigned i = 1; i <= script->n_blocks; i++) {
        free_block(script, i);
    }
}

static void play_step(Script *script, const char *step)
{
    const char *at = strchr(step, '@');
    const unsigned number = (unsigned)atoi(step + 1);

    switch (step[0]) {
    case 'm':
        malloc_block(script, step + 1);
        break;
    case 'f':
        free_blocks(script, step + 1);
        break;
    case 'r':
        sim_allocator_record_stream(script->allocator, script->blocks[number],
                                    (uint32_t)atoi(at + 1));
        break;
    case 'c':
        script->streams.complete[number] = script->streams.recorded[number];
        break;
    case 'e':
        sim_allocator_empty_cache(script->allocator);
        break;
    case '=':
        ck_assert_uint_eq(
            sim_allocator_statistics(script->allocator)->pools[SIM_POOL_ALL].reserved_bytes.current,
            M(number));
        break;
    default:
        ck_abort_msg("unknown step '%s'", step);
    }
    sim_allocator_check(script->allocator);
}

static void play(Script *script, const char *text)
{
    g_auto(GStrv) steps = g_strsplit(text, " ", -1);

    for (char **step = steps; *step != NULL; step++) {
        const char *times = strchr(*step, 'x');
        const int n = times == NULL ? 1 : atoi(*step);
        for (int i = 0; i < n; i++) {
            play_step(script, times == NULL ? *step : times + 1);
        }
    }
}

START_TEST(ends_as_in_pytorch)
{
    const Sequence *sequence = &sequences[_i];
    Script script = {0};
    const SimAllocatorDevice device = {record_event, is_complete, synchronize, NULL,
                                       &script.streams};
    SimAllocatorConfig config;

    sim_allocator_config_init(&config);
    ck_assert(sim_allocator_config_parse(&config, sequence->settings, NULL));
    script.allocator = sim_allocator_new(
        &config, sequence->device_mib == 0 ? UINT64_MAX : M(sequence->device_mib), &device);
    play(&script, sequence->script);

    const SimAllocatorStatistics *statistics = sim_allocator_statistics(script.allocator);
    const SimPoolStatistics *all = &statistics->pools[SIM_POOL_ALL];
    ck_assert_uint_eq(all->allocated_bytes.current, sequence->allocated);
    ck_assert_uint_eq(all->active_bytes.current, sequence->active);
    ck_assert_uint_eq(all->reserved_bytes.current, sequence->reserved);
    ck_assert_uint_eq(all->requested_bytes.current, sequence->requested);
    ck_assert_uint_eq(all->inactive_split_bytes.current, sequence->inactive_split);
    ck_assert_uint_eq(all->segment.current, sequence->segments);
    ck_assert_uint_eq(statistics->num_alloc_retries, sequence->retries);
    ck_assert_uint_eq(statistics->num_ooms, sequence->ooms);
    sim_allocator_destroy(script.allocator);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("allocator_sequences");
    TCase *tcase = tcase_create("sequences");

    tcase_add_loop_test(tcase, ends_as_in_pytorch, 0, (int)G_N_ELEMENTS(sequences));
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    const int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
