/* SPDX-License-Identifier: Apache-2.0
 *
 * FSDP's own buffers of Llama-3.1-8B on 8 ranks, bf16 parameters, f32 storage and reduction: no
 * activations, no optimizer. Grouping B is torchtitan's: embedding | 32 blocks | norm + head, kept
 * after forward | root without parameters; A is 32 blocks | root. The numbers come from an
 * independent replay of PyTorch's rules in the host's order, which agrees to the byte with
 * recordings of PyTorch 2.15 on a small net and, where it samples, with PyTorch's own
 * FSDPMemTracker at these sizes.
 *
 * Elements: block 218,112,000; embedding and head 525,336,576 each; norm 4,096; all divide by 8.
 */
#include "fsdp/plan_builder.h"
#include "support/decoder.h"
#include "support/fully_shard.h"

#include <check.h>

#define MIB (1024.0 * 1024.0)
#define BLOCK UINT64_C(218112000)
#define HEAD UINT64_C(525340672) /* norm and head */
#define EMBEDDING UINT64_C(525336576)

static const SimReshard UNSET = {SIM_RESHARD_UNSET, 0};
static const SimReshard KEPT = {SIM_RESHARD_FALSE, 0};

typedef enum Grouping { GROUPING_A, GROUPING_B } Grouping;

static const SimMixedPrecision BF16_F32 = {SIM_DTYPE_BF16, SIM_DTYPE_F32};
static const SimMixedPrecision BF16_BF16 = {SIM_DTYPE_BF16, SIM_DTYPE_BF16};

/* The plan of one step up to the end of backward: forward and backward of one microbatch. */
static SimPlan *build(Grouping grouping, SimMixedPrecision precision, uint32_t input_buffers)
{
    const Decoder net = {LLAMA_8B};
    g_autoptr(SimModel) model = decoder_new(&net);
    SimJob *job = fully_shard_new(8, 1);
    job->precision = precision;
    job->reduce_scatter_input_buffers = input_buffers;
    g_array_set_size(job->actions, 2);
    if (grouping == GROUPING_A)
        fully_shard_base(job, model, UNSET);
    else
        fully_shard_titan(job, model, UNSET, KEPT);
    SimAutogradOptions options = {
        .sequence = 128,
        .batch = 1,
        .compute_dtype = precision.param_dtype,
        .residual_dtype = precision.param_dtype,
        .sm_count = 132,
        .compute_capability = 90,
    };
    g_autoptr(GError) error = NULL;
    SimPlan *plan = sim_plan_builder_build(job, model, &options, &error);
    ck_assert_msg(plan != NULL, "%s", error == NULL ? "" : error->message);
    ck_assert_msg(sim_plan_check(plan, &error), "%s", error == NULL ? "" : error->message);
    sim_job_free(job);
    return plan;
}

static bool is_fsdp(const SimPlan *plan, const SimBuffer *buffer)
{
    const char *stem = sim_plan_string(plan, buffer->name.stem);
    switch ((SimCategory)buffer->category) {
    case SIM_CATEGORY_PARAMETER_SHARD:
    case SIM_CATEGORY_ALL_GATHER_OUTPUT:
    case SIM_CATEGORY_UNSHARDED_PARAMETER:
    case SIM_CATEGORY_UNSHARDED_GRADIENT:
    case SIM_CATEGORY_REDUCE_SCATTER_INPUT:
    case SIM_CATEGORY_REDUCE_SCATTER_OUTPUT:
    case SIM_CATEGORY_SHARDED_GRADIENT:
        return true;
    case SIM_CATEGORY_TEMPORARY:
        return g_str_has_prefix(stem, "T:");
    default:
        return false;
    }
}

/* Live bytes of FSDP's buffers after each row, of STREAM's pool or of all (SIM_PLAN_NONE). Owned by
 * the caller. */
static uint64_t *count_live(const SimPlan *plan, uint32_t stream)
{
    size_t length = sim_plan_length(plan);
    uint64_t *live = g_new(uint64_t, length);
    uint64_t bytes = 0;
    for (size_t i = 0; i < length; i++) {
        const SimInstruction *row = sim_plan_instruction(plan, i);
        if (row->op == SIM_PLAN_ALLOC || row->op == SIM_PLAN_FREE) {
            const SimBuffer *buffer = sim_plan_buffer(plan, row->buffer);
            if (is_fsdp(plan, buffer) && (stream == SIM_PLAN_NONE || buffer->stream == stream))
                bytes += row->op == SIM_PLAN_ALLOC ? buffer->bytes : -buffer->bytes;
        }
        live[i] = bytes;
    }
    return live;
}

static uint64_t find_peak(const SimPlan *plan, uint32_t stream)
{
    g_autofree uint64_t *live = count_live(plan, stream);
    uint64_t peak = 0;
    for (size_t i = 0; i < sim_plan_length(plan); i++)
        peak = MAX(peak, live[i]);
    return peak;
}

static uint64_t find_phase_peak(const SimPlan *plan, SimPhase phase)
{
    g_autofree uint64_t *live = count_live(plan, SIM_PLAN_NONE);
    uint64_t peak = 0;
    for (size_t i = 0; i < sim_plan_length(plan); i++)
        if (sim_plan_instruction(plan, i)->phase == phase)
            peak = MAX(peak, live[i]);
    return peak;
}

/* The row of the NTH use (0-based) of kernel or collective NAME of UNIT. */
static size_t find_row(const SimPlan *plan, const char *name, const char *unit, int nth)
{
    for (size_t i = 0; i < sim_plan_length(plan); i++) {
        const SimInstruction *row = sim_plan_instruction(plan, i);
        if (g_strcmp0(sim_plan_string(plan, row->name), name) == 0 &&
            g_strcmp0(sim_plan_string(plan, row->unit), unit) == 0 && nth-- == 0)
            return i;
    }
    ck_abort_msg("no %s of %s", name, unit);
    return 0;
}

/* The row that allocates the buffer STEM#SERIAL. */
static size_t find_alloc(const SimPlan *plan, const char *stem, int32_t serial)
{
    for (size_t i = 0; i < sim_plan_length(plan); i++) {
        const SimInstruction *row = sim_plan_instruction(plan, i);
        if (row->op != SIM_PLAN_ALLOC)
            continue;
        SimName name = sim_plan_buffer(plan, row->buffer)->name;
        if (name.serial == serial && g_strcmp0(sim_plan_string(plan, name.stem), stem) == 0)
            return i;
    }
    ck_abort_msg("no buffer %s#%d", stem, serial);
    return 0;
}

/* The row that allocates (or frees) the last buffer with names that begin with STEM. */
static size_t find_last(const SimPlan *plan, SimPlanOp op, const char *stem)
{
    for (size_t i = sim_plan_length(plan); i-- > 0;) {
        const SimInstruction *row = sim_plan_instruction(plan, i);
        if (row->op == op &&
            g_strcmp0(sim_plan_string(plan, sim_plan_buffer(plan, row->buffer)->name.stem), stem) ==
                0)
            return i;
    }
    ck_abort_msg("no buffer %s", stem);
    return 0;
}

/* The last row before the post-backward of UNIT: its parameters are freed first. */
static size_t find_backward_end(const SimPlan *plan, const char *unit)
{
    g_autofree char *stem = g_strdup_printf("U:%s", unit);
    size_t last = find_last(plan, SIM_PLAN_FREE, stem);
    while (sim_plan_instruction(plan, last)->op == SIM_PLAN_FREE)
        last--;
    return last;
}

/* The live bytes at every point of the forward and backward of grouping B, printed in MiB. */
START_TEST(live_bytes_of_grouping_b_are_as_replayed)
{
    g_autoptr(SimPlan) plan = build(GROUPING_B, BF16_F32, 1);
    g_autofree uint64_t *live = count_live(plan, SIM_PLAN_NONE);
    const struct {
        const char *what;
        size_t row;
        double mib;
    } points[] = {
        {"shards only", find_alloc(plan, "T:tok_embeddings", 0) - 1, 3829.1},
        {"embedding computing", find_row(plan, "copy_out", "tok_embeddings", 0), 5833.1},
        {"block 0 computing", find_row(plan, "copy_out", "layers.0", 0), 4661.2},
        {"block 16 computing", find_row(plan, "copy_out", "layers.16", 0), 4661.2},
        {"head computing", find_row(plan, "copy_out", "norm+output", 0), 5833.1},
        {"end of forward", find_alloc(plan, "T:layers.31", 1) - 1, 4831.1},
        {"backward of the head begins", find_row(plan, "all_gather", "layers.31", 1) + 2, 5247.2},
        {"backward of the head ends", find_backward_end(plan, "norm+output"), 6249.2},
        {"head reduced", find_last(plan, SIM_PLAN_ALLOC, "O:norm+output"), 6499.7},
        {"backward of block 31 ends", find_backward_end(plan, "layers.31"), 7331.7},
        {"backward of block 30 ends", find_backward_end(plan, "layers.30"), 6263.7},
        {"backward of block 16 ends", find_backward_end(plan, "layers.16"), 7719.8},
        {"backward of block 1 ends", find_backward_end(plan, "layers.1"), 9279.8},
        {"backward of block 0 ends", find_backward_end(plan, "layers.0"), 9969.8},
        {"backward of the embedding ends", find_backward_end(plan, "tok_embeddings"), 10243.8},
        {"embedding's reduce-scatter input", find_last(plan, SIM_PLAN_ALLOC, "I:tok_embeddings"),
         10413.7},
        {"end of backward", sim_plan_length(plan) - 1, 7658.3},
    };
    for (size_t i = 0; i < G_N_ELEMENTS(points); i++)
        ck_assert_msg(ABS((double)live[points[i].row] / MIB - points[i].mib) < 0.06,
                      "%s: expected %.1f MiB, found %.2f", points[i].what, points[i].mib,
                      (double)live[points[i].row] / MIB);
}
END_TEST

START_TEST(peaks_of_grouping_b_are_as_replayed)
{
    g_autoptr(SimPlan) plan = build(GROUPING_B, BF16_F32, 1);
    ck_assert_uint_eq(find_peak(plan, SIM_PLAN_NONE), 10919612416);
    const struct {
        const char *stream;
        uint64_t peak;
    } pools[] = {{"compute", 7167174656},
                 {"all_gather_copy_in", 1618240512},
                 {"reduce_scatter", 4015130624}};
    for (size_t i = 0; i < G_N_ELEMENTS(pools); i++)
        ck_assert_uint_eq(find_peak(plan, sim_plan_stream(plan, pools[i].stream)), pools[i].peak);
}
END_TEST

START_TEST(peaks_of_grouping_a_are_as_replayed)
{
    g_autoptr(SimPlan) plan = build(GROUPING_A, BF16_F32, 1);
    ck_assert_uint_eq(find_phase_peak(plan, SIM_PHASE_FORWARD), 8708591616);
    g_autofree uint64_t *live = count_live(plan, SIM_PLAN_NONE);
    uint64_t blocks_peak = 0;
    size_t callback = find_last(plan, SIM_PLAN_FREE, "U:root") - 3;
    for (size_t i = 0; i < callback; i++)
        blocks_peak = MAX(blocks_peak, live[i]);
    ck_assert_uint_eq(blocks_peak, 12619966464);
    ck_assert_uint_eq(find_peak(plan, SIM_PLAN_NONE), 13808986112);
    ck_assert_uint_eq(live[find_last(plan, SIM_PLAN_ALLOC, "I:root")], 13808986112);
    ck_assert_uint_eq(find_peak(plan, sim_plan_stream(plan, "all_gather_copy_in")), 2592106496);
    ck_assert_uint_eq(find_peak(plan, sim_plan_stream(plan, "compute")), 10319194112);
}
END_TEST

/* The peak moves to the embedding's copy-out: its gradients are as large, its input half as large.
 */
START_TEST(bf16_reduction_peaks_at_the_copy_out_of_the_embedding)
{
    g_autoptr(SimPlan) plan = build(GROUPING_B, BF16_BF16, 1);
    g_autofree uint64_t *live = count_live(plan, SIM_PLAN_NONE);
    ck_assert_uint_eq(find_peak(plan, SIM_PLAN_NONE), 10305163264);
    ck_assert_uint_eq(live[find_row(plan, "copy_out", "tok_embeddings", 1)], 10305163264);
}
END_TEST

/* One more input of a block lives at the peak: 872,448,000 bytes. */
START_TEST(two_input_buffers_cost_one_more_block)
{
    g_autoptr(SimPlan) plan = build(GROUPING_B, BF16_F32, 2);
    ck_assert_uint_eq(find_peak(plan, SIM_PLAN_NONE), 11792060416);
}
END_TEST

typedef struct Volume {
    int count;
    uint64_t bytes;
} Volume;

static Volume count_collectives(const SimPlan *plan, SimCollectiveKind kind, SimPhase phase)
{
    Volume volume = {0, 0};
    for (size_t i = 0; i < sim_plan_length(plan); i++) {
        const SimInstruction *row = sim_plan_instruction(plan, i);
        if (row->op == SIM_PLAN_COLLECTIVE && row->collective == kind && row->phase == phase) {
            volume.count++;
            volume.bytes += row->bytes;
        }
    }
    return volume;
}

/* Forward gathers all 34 units in 2 bytes an element; backward all but the kept head; all are
 * reduced in 4 bytes. */
START_TEST(counts_and_volumes_of_a_step_are_exact)
{
    g_autoptr(SimPlan) plan = build(GROUPING_B, BF16_F32, 1);
    Volume forward = count_collectives(plan, SIM_COLLECTIVE_ALL_GATHER, SIM_PHASE_FORWARD);
    ck_assert_int_eq(forward.count, 34);
    ck_assert_uint_eq(forward.bytes, 2 * (32 * BLOCK + HEAD + EMBEDDING));
    ck_assert_uint_eq(forward.bytes, 16060522496);
    Volume backward = count_collectives(plan, SIM_COLLECTIVE_ALL_GATHER, SIM_PHASE_BACKWARD);
    ck_assert_int_eq(backward.count, 33);
    ck_assert_uint_eq(backward.bytes, 15009841152);
    Volume reduced = count_collectives(plan, SIM_COLLECTIVE_REDUCE_SCATTER, SIM_PHASE_BACKWARD);
    ck_assert_int_eq(reduced.count, 34);
    ck_assert_uint_eq(reduced.bytes, 32121044992);
}
END_TEST

static Suite *make_suite(void)
{
    Suite *suite = suite_create("fsdp2_memory");
    TCase *tests = tcase_create("llama-3.1-8b");
    tcase_set_timeout(tests, 60);
    tcase_add_test(tests, live_bytes_of_grouping_b_are_as_replayed);
    tcase_add_test(tests, peaks_of_grouping_b_are_as_replayed);
    tcase_add_test(tests, peaks_of_grouping_a_are_as_replayed);
    tcase_add_test(tests, bf16_reduction_peaks_at_the_copy_out_of_the_embedding);
    tcase_add_test(tests, two_input_buffers_cost_one_more_block);
    tcase_add_test(tests, counts_and_volumes_of_a_step_are_exact);
    suite_add_tcase(suite, tests);
    return suite;
}

int main(void)
{
    SRunner *runner = srunner_create(make_suite());
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? 0 : 1;
}
