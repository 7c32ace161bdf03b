/* SPDX-License-Identifier: Apache-2.0
 *
 * A folded run, in which one rank stands for all that nothing distinguishes, and a run of every
 * rank leave the same spans and the same allocator events for each rank, to the picosecond.
 */
#include <check.h>

#include "hardware/slow_link.h"
#include "random_plan.h"
#include "rank/simulation.h"

static const char *const models = SIM_SOURCE_DIR "/models";

typedef struct Run {
    SimCluster *cluster;
    SimSimulation *simulation;
    const SimResult *result;
    SimRecorder *recorder; /* a track for each rank */
} Run;

/* What makes ranks unequal; all zero is nothing. */
typedef struct Unequal {
    SimSlowRank slow_rank; /* factor 0 = none */
    const char *slow_link;
    double jitter;
} Unequal;

static void slow_down(SimCluster *cluster, const Unequal *unequal, SimSimulationOptions *options)
{
    options->jitter = unequal->jitter;
    options->seed = 11;
    if (unequal->slow_rank.factor > 0) {
        g_array_append_val(options->slow_ranks, unequal->slow_rank);
    }
    if (unequal->slow_link != NULL) {
        SimSlowLink link;
        ck_assert(sim_slow_link_parse(unequal->slow_link, cluster, &link, NULL));
        cluster->slow_links = g_array_new(FALSE, FALSE, sizeof(SimSlowLink));
        g_array_append_val(cluster->slow_links, link);
    }
}

/* False if the plan cannot be played (a rank is in no list of a group it uses). */
static bool start_run(Run *run, const SimPlan *plan, const char *cluster, const Unequal *unequal,
                      bool fold)
{
    g_autoptr(GArray) slow_ranks = g_array_new(FALSE, FALSE, sizeof(SimSlowRank));
    SimSimulationOptions options = {.hbm_bytes = UINT64_MAX,
                                    .fold = fold,
                                    .slow_ranks = slow_ranks,
                                    .keep_memory_events = true};
    g_autoptr(GError) error = NULL;
    *run = (Run){.cluster = sim_cluster_load(models, cluster, NULL)};
    ck_assert(sim_cluster_choose_gpus(run->cluster, sim_plan_ranks(plan), NULL));
    slow_down(run->cluster, unequal, &options);
    run->simulation = sim_simulation_new(plan, run->cluster, &options, &error);
    if (run->simulation == NULL) {
        return false;
    }
    run->result = sim_simulation_run(run->simulation);
    run->recorder = sim_recorder_new(plan);
    for (uint32_t rank = 0; rank < sim_plan_ranks(plan); rank++) {
        sim_recorder_sort(sim_simulation_record(run->simulation, rank, run->recorder));
    }
    return true;
}

static void end_run(Run *run)
{
    sim_recorder_free(run->recorder);
    sim_simulation_free(run->simulation);
    sim_cluster_free(run->cluster);
}

static void compare_spans(const SimTrack *one, const SimTrack *other)
{
    ck_assert_uint_eq(one->spans->len, other->spans->len);
    for (guint i = 0; i < one->spans->len; i++) {
        const SimSpan *a = &g_array_index(one->spans, SimSpan, i);
        const SimSpan *b = &g_array_index(other->spans, SimSpan, i);
        ck_assert_uint_eq(a->instruction, b->instruction);
        ck_assert_int_eq(a->arrival, b->arrival);
        ck_assert_int_eq(a->start, b->start);
        ck_assert_int_eq(a->end, b->end);
        ck_assert_uint_eq(a->wire_bytes, b->wire_bytes);
        ck_assert_uint_eq(a->delay, b->delay);
        ck_assert_uint_eq(a->delayed_by, b->delayed_by);
    }
}

static void compare_memory(const SimTrack *one, const SimTrack *other)
{
    ck_assert_uint_eq(one->memory_times->len, one->memory_events->len);
    ck_assert_uint_eq(one->memory_events->len, other->memory_events->len);
    for (guint i = 0; i < one->memory_events->len; i++) {
        const SimMemoryEvent *a = &g_array_index(one->memory_events, SimMemoryEvent, i);
        const SimMemoryEvent *b = &g_array_index(other->memory_events, SimMemoryEvent, i);
        ck_assert_uint_eq(a->instruction, b->instruction);
        ck_assert_uint_eq(a->action, b->action);
        ck_assert_uint_eq(a->address, b->address);
        ck_assert_uint_eq(a->active_bytes, b->active_bytes);
        ck_assert_uint_eq(a->reserved_bytes, b->reserved_bytes);
        ck_assert_int_eq(g_array_index(one->memory_times, SimTime, i),
                         g_array_index(other->memory_times, SimTime, i));
    }
}

/* What ranks waited and what waiting they caused. */
static void compare_waiting(const Run *folded, const Run *unfolded)
{
    for (guint i = 0; i < folded->result->classes->len; i++) {
        const SimClassResult *class_ = &g_array_index(folded->result->classes, SimClassResult, i);
        SimTime caused = 0;
        for (guint rank = 0; rank < unfolded->result->classes->len; rank++) {
            const SimClassResult *one =
                &g_array_index(unfolded->result->classes, SimClassResult, rank);
            if (sim_simulation_class_of_rank(unfolded->simulation, one->rank) == i) {
                ck_assert_int_eq(one->waited, class_->waited);
                caused += one->caused;
            }
        }
        ck_assert_int_eq(caused, class_->caused);
    }
}

/* Returns how many ranks the folded run simulated; 0 if the plan cannot be played. */
static uint32_t compare_unequal_runs(const SimPlan *plan, const char *cluster,
                                     const Unequal *unequal, bool hangs)
{
    Run folded, unfolded;
    uint32_t simulated = 0;
    bool is_played = start_run(&folded, plan, cluster, unequal, true);
    ck_assert(start_run(&unfolded, plan, cluster, unequal, false) == is_played);
    if (is_played) {
        simulated = folded.result->simulated_ranks;
        ck_assert_uint_eq(unfolded.result->simulated_ranks, sim_plan_ranks(plan));
        ck_assert_uint_eq(simulated, sim_simulation_classes(unfolded.simulation));
        ck_assert((folded.result->blocked->len > 0) == hangs);
        ck_assert((unfolded.result->blocked->len > 0) == hangs);
        compare_waiting(&folded, &unfolded);
        for (uint32_t rank = 0; rank < sim_plan_ranks(plan); rank++) {
            compare_spans(sim_recorder_track(folded.recorder, rank),
                          sim_recorder_track(unfolded.recorder, rank));
            compare_memory(sim_recorder_track(folded.recorder, rank),
                           sim_recorder_track(unfolded.recorder, rank));
        }
    }
    end_run(&folded);
    end_run(&unfolded);
    return simulated;
}

static uint32_t compare_runs(const SimPlan *plan, const char *cluster, bool hangs)
{
    return compare_unequal_runs(plan, cluster, &(Unequal){0}, hangs);
}

/* --- hybrid sharding ---------------------------------------------------------------------------
 */

/* Shard groups are nodes of eight, replicate groups join the same place of each node. */
static SimPlan *new_hybrid_plan(uint32_t ranks)
{
    g_autoptr(GString) shard = g_string_new(NULL);
    g_autoptr(GString) replicate = g_string_new(NULL);
    for (uint32_t node = 0; node < ranks / 8; node++) {
        g_string_append_printf(shard, "%s%u-%u", node > 0 ? " " : "", 8 * node, 8 * node + 7);
    }
    SimPlan *plan = sim_plan_new(ranks);
    ck_assert(sim_plan_add_group(plan, "shard", shard->str, NULL));
    for (uint32_t place = 0; place < 8; place++) {
        g_string_truncate(replicate, 0);
        for (uint32_t node = 0; node < ranks / 8; node++) {
            g_string_append_printf(replicate, "%s%u", node > 0 ? "," : "", 8 * node + place);
        }
        g_autofree char *name = g_strdup_printf("replicate%u", place);
        ck_assert(sim_plan_add_group(plan, name, replicate->str, NULL));
    }
    sim_plan_context(plan)->step = 0;
    sim_plan_context(plan)->phase = SIM_PHASE_BACKWARD;
    return plan;
}

static void set_ranks(SimPlan *plan, const char *text)
{
    ck_assert(sim_plan_add_rank_set(plan, text, &sim_plan_context(plan)->rank_set, NULL));
}

/* Backward of LAYERS layers: gather the next, compute, reduce-scatter, and all-reduce the shard on
 * another communicator, which shares the NICs with nothing and the NVLink ports with the next
 * gather. SLOW (may be NULL): ranks with a kernel more. */
static void add_layers(SimPlan *plan, uint32_t layers, const char *slow)
{
    uint32_t gather = sim_plan_stream(plan, "all_gather");
    uint32_t reduce = sim_plan_stream(plan, "reduce_scatter");
    uint32_t all_reduce = sim_plan_stream(plan, "all_reduce");
    uint32_t shard = sim_plan_find_group(plan, "shard");
    for (uint32_t layer = 0; layer < layers; layer++) {
        sim_plan_collective(plan, gather, 0, SIM_COLLECTIVE_ALL_GATHER, shard, 400000000,
                            SIM_DTYPE_BF16);
        sim_plan_wait_stream(plan, 0, gather);
        sim_plan_kernel(plan, 0, 0, 0, SIM_DTYPE_BF16)->duration = 3 * SIM_MILLISECOND;
        if (slow != NULL) {
            set_ranks(plan, slow);
            sim_plan_kernel(plan, 0, 0, 0, SIM_DTYPE_BF16)->duration = SIM_MILLISECOND + layer;
            set_ranks(plan, "");
        }
        sim_plan_wait_stream(plan, reduce, 0);
        sim_plan_collective(plan, reduce, 0, SIM_COLLECTIVE_REDUCE_SCATTER, shard, 800000000,
                            SIM_DTYPE_F32);
        sim_plan_wait_stream(plan, all_reduce, reduce);
        for (uint32_t place = 0; place < 8; place++) {
            g_autofree char *name = g_strdup_printf("replicate%u", place);
            g_autoptr(GString) ranks = g_string_new(NULL);
            for (uint32_t node = 0; node < sim_plan_ranks(plan) / 8; node++) {
                g_string_append_printf(ranks, "%s%u", node > 0 ? " " : "", 8 * node + place);
            }
            set_ranks(plan, ranks->str);
            sim_plan_collective(plan, all_reduce, 0, SIM_COLLECTIVE_ALL_REDUCE,
                                sim_plan_find_group(plan, name), 100000000, SIM_DTYPE_F32);
            set_ranks(plan, "");
        }
    }
    sim_plan_wait_stream(plan, 0, all_reduce);
}

static const struct {
    const char *slow;
    uint32_t classes;
} hybrid_rows[] = {
    /* Each place of a node has rows of its own (its replicate group): 8 classes of 4 ranks. */
    {NULL, 8},
    /* Rank 5 is apart, its node of eight is apart, and so are the others in place 5: 8 ranks of
     * node 0, and of each other node (which are alike) 8. */
    {"5", 16},
    /* Node 2 is slow as a whole: the 8 of node 2, and 8 of the others. */
    {"16-23", 16},
    /* The last two nodes: again one kind of 8 and another. */
    {"16-31", 16},
};

START_TEST(hybrid_sharding_folds)
{
    g_autoptr(SimPlan) plan = new_hybrid_plan(32);
    add_layers(plan, 3, hybrid_rows[_i].slow);
    ck_assert_uint_eq(compare_runs(plan, "h100", false), hybrid_rows[_i].classes);
}
END_TEST

/* One communicator over 12 GPUs of two nodes, the last with 4 of 8: two kinds of nodes. */
START_TEST(ranks_of_an_uneven_last_node_are_a_class)
{
    g_autoptr(SimPlan) plan = sim_plan_new(12);
    ck_assert(sim_plan_add_group(plan, "shard", "0-11", NULL));
    sim_plan_kernel(plan, 0, 0, 0, SIM_DTYPE_BF16)->duration = SIM_MILLISECOND;
    sim_plan_collective(plan, 0, 0, SIM_COLLECTIVE_ALL_GATHER, 0, 120000000, SIM_DTYPE_BF16);
    ck_assert_uint_eq(compare_runs(plan, "h100", false), 2);
}
END_TEST

/* --- unequal ranks -----------------------------------------------------------------------------
 */

static const struct {
    Unequal unequal;
    uint32_t classes;
} unequal_rows[] = {
    /* Rank 5 is apart, the 7 others of its node, the 24 of the other nodes. */
    {{.slow_rank = {5, 1.25}}, 3},
    /* NIC 2 of node 1 is next to rank 10; the same three kinds. */
    {{.slow_link = "nic1.2:0.5"}, 3},
    {{.slow_link = "nvlink31:0.1"}, 3},
    /* Rank 5 in node 0 and rank 10 in node 1: both, 7 of each node, and 16. */
    {{.slow_rank = {5, 0.5}, .slow_link = "nic1.2:0.5"}, 5},
    /* No rank is like another. */
    {{.jitter = 10}, 32},
};

/* One group of four nodes: a gather, work that is slowed, a reduce-scatter, three times. */
START_TEST(unequal_ranks_fold)
{
    g_autoptr(SimPlan) plan = sim_plan_new(32);
    ck_assert(sim_plan_add_group(plan, "shard", "0-31", NULL));
    sim_plan_stream(plan, "compute");
    uint32_t side = sim_plan_stream(plan, "side");
    for (int layer = 0; layer < 3; layer++) {
        sim_plan_collective(plan, side, 0, SIM_COLLECTIVE_ALL_GATHER, 0, 400000000, SIM_DTYPE_BF16);
        sim_plan_kernel(plan, 0, 0, 0, SIM_DTYPE_BF16)->hbm_bytes = 5000000000;
        sim_plan_wait_stream(plan, 0, side);
        sim_plan_kernel(plan, 0, 0, 0, SIM_DTYPE_BF16)->hbm_bytes = 3000000000;
        sim_plan_wait_stream(plan, side, 0);
        sim_plan_collective(plan, side, 0, SIM_COLLECTIVE_REDUCE_SCATTER, 0, 800000000,
                            SIM_DTYPE_F32);
    }
    ck_assert_uint_eq(compare_unequal_runs(plan, "h100", &unequal_rows[_i].unequal, false),
                      unequal_rows[_i].classes);
}
END_TEST

/* A kernel of a millisecond before an all-gather; rank 3's takes 1.5. Alone the 7 others wait
 * half a millisecond each, all for rank 3. */
START_TEST(others_wait_for_a_slow_rank)
{
    g_autoptr(SimPlan) plan = sim_plan_new(8);
    ck_assert(sim_plan_add_group(plan, "shard", "0-7", NULL));
    sim_plan_kernel(plan, 0, 0, 0, SIM_DTYPE_BF16)->duration = SIM_MILLISECOND;
    sim_plan_collective(plan, 0, 0, SIM_COLLECTIVE_ALL_GATHER, 0, 120000000, SIM_DTYPE_BF16);
    Run run;
    ck_assert(start_run(&run, plan, "h100", &(Unequal){.slow_rank = {3, 1.5}}, true));
    const SimClassResult *others = &g_array_index(run.result->classes, SimClassResult, 0);
    const SimClassResult *slow = &g_array_index(run.result->classes, SimClassResult, 1);
    ck_assert_uint_eq(slow->rank, 3);
    ck_assert_int_eq(others->waited, SIM_MILLISECOND / 2);
    ck_assert_int_eq(slow->waited, 0);
    ck_assert_int_eq(slow->caused, 7 * SIM_MILLISECOND / 2);
    end_run(&run);
}
END_TEST

/* --- plans drawn at random ---------------------------------------------------------------------
 */

typedef struct Draw {
    GRand *random;
    SimPlan *plan;
    GArray *events;  /* of uint32_t: recorded by all ranks */
    GArray *buffers; /* of uint32_t: alive on all ranks */
} Draw;

static uint32_t below(Draw *draw, uint32_t end)
{
    return (uint32_t)g_rand_int_range(draw->random, 0, (gint32)end);
}

static uint32_t any_of(Draw *draw, const GArray *numbers)
{
    return g_array_index(numbers, uint32_t, below(draw, numbers->len));
}

static void draw_kernel(Draw *draw)
{
    static const char *const few[] = {"", "", "", "3", "8-15", "0-1 9"};
    set_ranks(draw->plan, few[below(draw, G_N_ELEMENTS(few))]);
    SimInstruction *row = sim_plan_kernel(draw->plan, below(draw, 4), 0, 0, SIM_DTYPE_BF16);
    switch (below(draw, 3)) {
    case 0: /* never slowed */
        row->duration = (SimTime)below(draw, 1000000000);
        break;
    case 1: /* slowed as collectives take bandwidth */
        row->hbm_bytes = below(draw, 2000000000);
        break;
    default: /* slowed as they hold SMs */
        row->operator_name = sim_strings_intern(sim_plan_strings(draw->plan), "linear");
        row->arguments = sim_strings_internf(sim_plan_strings(draw->plan), "m=%u n=4096 k=4096",
                                             1024 * (1 + below(draw, 8)));
    }
    set_ranks(draw->plan, "");
}

static void draw_buffer(Draw *draw)
{
    SimName name = {.stem = sim_strings_intern(sim_plan_strings(draw->plan), "A"),
                    .serial = (int32_t)sim_plan_buffer_count(draw->plan)};
    uint64_t bytes = (uint64_t)below(draw, 60000000) + 1;
    uint32_t buffer = sim_plan_alloc(draw->plan, below(draw, 4), name, bytes,
                                     SIM_CATEGORY_ACTIVATION, SIM_DTYPE_U8, 0);
    g_array_append_val(draw->buffers, buffer);
}

static void draw_end_of_buffer(Draw *draw)
{
    if (draw->buffers->len == 0) {
        return;
    }
    guint index = below(draw, draw->buffers->len);
    uint32_t buffer = g_array_index(draw->buffers, uint32_t, index);
    if (below(draw, 2) == 0) {
        sim_plan_record_stream(draw->plan, buffer, below(draw, 4));
    }
    sim_plan_free_buffer(draw->plan, buffer);
    g_array_remove_index(draw->buffers, index);
}

static void draw_event(Draw *draw)
{
    SimName name = {.stem = sim_strings_intern(sim_plan_strings(draw->plan), "e"),
                    .serial = (int32_t)draw->events->len};
    uint32_t event = sim_plan_record(draw->plan, below(draw, 4), name);
    g_array_append_val(draw->events, event);
}

static void draw_wait(Draw *draw)
{
    uint32_t kind = below(draw, 8);
    if (kind < 3 || draw->events->len == 0) {
        sim_plan_wait_stream(draw->plan, below(draw, 4), below(draw, 4));
    } else if (kind < 7) {
        sim_plan_wait(draw->plan, below(draw, 4), any_of(draw, draw->events));
    } else {
        sim_plan_host_wait(draw->plan, any_of(draw, draw->events));
    }
}

static void draw_row(Draw *draw)
{
    switch (below(draw, 7)) {
    case 0:
        sim_plan_collective(draw->plan, below(draw, 4), 0,
                            SIM_COLLECTIVE_ALL_GATHER + below(draw, 3), below(draw, 2),
                            below(draw, 400000000), SIM_DTYPE_BF16);
        return;
    case 1:
        draw_event(draw);
        return;
    case 2:
        draw_wait(draw);
        return;
    case 3:
    case 4:
        draw_buffer(draw);
        return;
    case 5:
        draw_end_of_buffer(draw);
        return;
    default:
        draw_kernel(draw);
    }
}

/* All rows but some kernels are everybody's, so nothing hangs; 20 GPUs leave half a node empty. */
static SimPlan *new_random_job(uint32_t seed)
{
    static const char *const streams[] = {"compute", "s1", "s2", "s3"};
    uint32_t ranks = seed % 3 == 0 ? 20 : 16;
    SimPlan *plan = sim_plan_new(ranks);
    ck_assert(sim_plan_add_group(plan, "shard", ranks == 20 ? "0-7 8-15 16-19" : "0-7 8-15", NULL));
    ck_assert(sim_plan_add_group(plan, "world", ranks == 20 ? "0-19" : "0-15", NULL));
    for (size_t i = 0; i < G_N_ELEMENTS(streams); i++) {
        sim_plan_stream(plan, streams[i]);
    }
    Draw draw = {g_rand_new_with_seed(seed), plan, g_array_new(FALSE, FALSE, sizeof(uint32_t)),
                 g_array_new(FALSE, FALSE, sizeof(uint32_t))};
    sim_plan_context(plan)->step = 0;
    for (int row = 0; row < 200; row++) {
        draw_row(&draw);
    }
    g_array_unref(draw.events);
    g_array_unref(draw.buffers);
    g_rand_free(draw.random);
    return plan;
}

START_TEST(random_jobs_fold)
{
    g_autoptr(SimPlan) plan = new_random_job((uint32_t)_i);
    const Unequal odd = {.slow_rank = {3, 1.3}, .slow_link = "nvlink9:0.5"};
    uint32_t simulated = _i % 2 == 0 ? compare_runs(plan, "h100", false)
                                     : compare_unequal_runs(plan, "h100", &odd, false);
    ck_assert_uint_ge(simulated, 1);
    ck_assert_uint_lt(simulated, sim_plan_ranks(plan));
}
END_TEST

/* Plans that hang soon, whose ranks have all sorts of rows. */
START_TEST(plans_that_hang_fold)
{
    g_autoptr(SimPlan) plan = random_plan_new((uint32_t)_i);
    compare_runs(plan, "h100", true);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("folding");
    TCase *fold = tcase_create("folded and unfolded");
    tcase_set_timeout(fold, 60);
    tcase_add_loop_test(fold, hybrid_sharding_folds, 0, G_N_ELEMENTS(hybrid_rows));
    tcase_add_test(fold, ranks_of_an_uneven_last_node_are_a_class);
    tcase_add_loop_test(fold, unequal_ranks_fold, 0, G_N_ELEMENTS(unequal_rows));
    tcase_add_test(fold, others_wait_for_a_slow_rank);
    tcase_add_loop_test(fold, random_jobs_fold, 0, 80);
    tcase_add_loop_test(fold, plans_that_hang_fold, 0, 20);
    suite_add_tcase(suite, fold);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed > 0;
}
