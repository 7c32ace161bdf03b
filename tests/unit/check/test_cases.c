/* SPDX-License-Identifier: Apache-2.0
 *
 * Hangs, mismatches, leaks and races that users of FSDP reported, as small plans, and what the
 * checker says of them: the rule, and the words that name unit, sizes and place.
 */
#include <check.h>

#include "check/counterexample.h"
#include "check/verifier.h"
#include "support/plan_writer.h"

#define AG SIM_COLLECTIVE_ALL_GATHER
#define RS SIM_COLLECTIVE_REDUCE_SCATTER
#define AR SIM_COLLECTIVE_ALL_REDUCE

/* The verdict on plans of rank 0, 1, ..., which are freed. */
static SimVerdict *check_ranks(SimPlan **plans, uint32_t n)
{
    g_autoptr(SimVerifier) verifier = sim_verifier_new();
    for (uint32_t i = 0; i < n; i++) {
        g_autofree char *name = g_strdup_printf("rank%u.csv", i);
        ck_assert(sim_verifier_add(verifier, plans[i], name, i, i, NULL));
        sim_plan_free(plans[i]);
    }
    SimVerdict *verdict = sim_verifier_finish(verifier, NULL);
    ck_assert_ptr_nonnull(verdict);
    return verdict;
}

static SimVerdict *check_plan(const SimPlan *plan)
{
    SimVerdict *verdict = sim_verifier_check_plan(plan, "plan.csv", NULL);
    ck_assert_ptr_nonnull(verdict);
    return verdict;
}

/* The first finding of RULE; its message has to hold WORDS. */
static const SimFinding *expect(const SimVerdict *verdict, SimRuleId rule, const char *words)
{
    for (size_t i = 0; i < sim_findings_count(verdict->findings); i++) {
        const SimFinding *finding = sim_findings_get(verdict->findings, i);
        if (finding->rule != rule)
            continue;
        ck_assert_msg(strstr(finding->message, words) != NULL, "expected '%s' in '%s'", words,
                      finding->message);
        return finding;
    }
    g_autofree char *text = sim_verdict_print(verdict, 5);
    ck_abort_msg("expected a finding of %s: %s", sim_rules_get(rule)->id, text);
    return NULL;
}

static void expect_safe(const SimVerdict *verdict)
{
    g_autofree char *text = sim_verdict_print(verdict, 5);
    ck_assert_msg(sim_verdict_is_safe(verdict), "%s", text);
}

/* --- ranks that part ----------------------------------------------------------------------------
 */

/* PASSES forwards of UNITS units, then perhaps an all-reduce of a metric. */
static SimPlan *write_validation(uint32_t passes, uint32_t units, bool has_metric)
{
    SimPlan *plan = write_plan(2, "0-1");
    for (uint32_t i = 0; i < passes; i++)
        for (uint32_t u = 0; u < units; u++) {
            g_autofree char *unit = g_strdup_printf("layers.%u", u);
            set_phase(plan, 0, SIM_PHASE_EVALUATION, -1, unit);
            write_collective(plan, "all_gather", AG, "shard", 4096, NOBODY, NOBODY);
        }
    set_phase(plan, 0, SIM_PHASE_EVALUATION, -1, "metric");
    if (has_metric)
        write_collective(plan, "compute", AR, "shard", 4, NOBODY, NOBODY);
    return plan;
}

/* PrimeIntellect-ai/prime-rl#2515: 327 and 338 batches. The first to be through meets the other's
 * 328th forward: place 327 * 3 + 1 = 982. */
START_TEST(validation_loops_of_different_length_meet_all_reduce_with_all_gather)
{
    SimPlan *plans[] = {write_validation(327, 3, true), write_validation(338, 3, true)};
    g_autoptr(SimVerdict) verdict = check_ranks(plans, 2);
    const SimFinding *parting = expect(verdict, SIM_RULE_SAME_SEQUENCE,
                                       "collective 982 of communicator shard: rank 0 issues "
                                       "all_reduce of metric");
    ck_assert_ptr_nonnull(strstr(parting->message, "rank 1 issues all_gather of layers.0"));
    expect(verdict, SIM_RULE_DEADLOCK, "they wait for each other: rank 0");
}
END_TEST

/* Lightning-AI/litgpt#1202: 130 and 128 forwards; at the 129th the other is gone: 128 * 2 + 1. */
START_TEST(a_rank_that_generates_longer_waits_at_its_next_forward)
{
    SimPlan *plans[] = {write_validation(130, 2, false), write_validation(128, 2, false)};
    g_autoptr(SimVerdict) verdict = check_ranks(plans, 2);
    expect(verdict, SIM_RULE_SAME_SEQUENCE,
           "collective 257 of communicator shard: rank 0 issues "
           "all_gather of layers.0");
    expect(verdict, SIM_RULE_DEADLOCK,
           "a wait without end: rank 0, all_gather at row 257, waits in all_gather of layers.0");
}
END_TEST

/* One unit's gradient reduction of BYTES. */
static SimPlan *write_reduction(uint64_t bytes)
{
    SimPlan *plan = write_plan(2, "0-1");
    set_phase(plan, 0, SIM_PHASE_BACKWARD, 0, "layers.7");
    write_collective(plan, "reduce_scatter", RS, "shard", bytes, NOBODY, NOBODY);
    return plan;
}

/* pytorch#158719: rank 1 has no gradient for the second of two parameters of 512 and 256 floats. */
START_TEST(a_missing_gradient_is_a_size_mismatch_that_names_unit_and_sizes)
{
    SimPlan *plans[] = {write_reduction((512 + 256) * 4), write_reduction(512 * 4)};
    g_autoptr(SimVerdict) verdict = check_ranks(plans, 2);
    const SimFinding *finding =
        expect(verdict, SIM_RULE_SAME_SIZES, "rank 0 issues reduce_scatter of layers.7 (3072 B");
    ck_assert_ptr_nonnull(
        strstr(finding->message, "rank 1 issues reduce_scatter of layers.7 (2048 B"));
    ck_assert_str_eq(finding->unit, "layers.7");
}
END_TEST

/* pytorch#137005: only the rank whose shard is short pads, or forgets to: 3 rows of 8 floats over 2
 * ranks are 2 rows each, 128 bytes; without padding rank 1 has one row less. */
START_TEST(padding_on_some_ranks_only_is_a_size_mismatch)
{
    SimPlan *plans[] = {write_reduction(128), write_reduction(96)};
    g_autoptr(SimVerdict) verdict = check_ranks(plans, 2);
    expect(verdict, SIM_RULE_SAME_SIZES, "the sizes differ: a hang, or wrong data");
}
END_TEST

static SimPlan *write_experts(uint32_t first, uint32_t second, bool is_fused)
{
    SimPlan *plan = write_plan(2, "0-1");
    uint32_t experts[] = {first, second};
    for (uint32_t i = 0; i < (is_fused ? 1 : 2); i++) {
        g_autofree char *unit = is_fused ? g_strdup("layers.0.experts")
                                         : g_strdup_printf("layers.0.experts.%u", experts[i]);
        set_phase(plan, 0, SIM_PHASE_FORWARD, 0, unit);
        write_collective(plan, "all_gather", AG, "shard", 8192, NOBODY, NOBODY);
    }
    return plan;
}

/* pytorch#126616: experts as units of their own; rank 0 runs 0 and 1, rank 1 runs 1 and 2. All have
 * the same size, so nothing hangs here and the data are mixed. One fused unit has no such trouble.
 */
START_TEST(experts_as_units_gather_different_modules)
{
    SimPlan *plans[] = {write_experts(0, 1, false), write_experts(1, 2, false)};
    g_autoptr(SimVerdict) verdict = check_ranks(plans, 2);
    const SimFinding *finding = expect(verdict, SIM_RULE_SAME_SEQUENCE,
                                       "collective 1 of communicator shard: rank 0 issues "
                                       "all_gather of layers.0.experts.0");
    ck_assert_ptr_nonnull(strstr(finding->message, "all_gather of layers.0.experts.1"));
    ck_assert_ptr_nonnull(strstr(finding->message, "each gets the other unit's data"));
    SimPlan *fused[] = {write_experts(0, 1, true), write_experts(1, 2, true)};
    g_autoptr(SimVerdict) safe = check_ranks(fused, 2);
    expect_safe(safe);
    ck_assert_uint_eq(safe->proof.matched, 1);
}
END_TEST

/* nccl#296: networks time out too. Where the lists agree the program is not to blame. */
START_TEST(ranks_that_agree_are_safe)
{
    SimPlan *plans[] = {write_validation(20, 3, true), write_validation(20, 3, true)};
    g_autoptr(SimVerdict) verdict = check_ranks(plans, 2);
    expect_safe(verdict);
    ck_assert_uint_eq(verdict->proof.matched, 61);
}
END_TEST

/* --- circles ------------------------------------------------------------------------------------
 */

/* Two communicators on one stream, in this order. */
static SimPlan *write_two_groups(const char *first, const char *second)
{
    SimPlan *plan = write_plan(2, "0-1");
    ck_assert(sim_plan_add_group(plan, "other", "0-1", NULL));
    set_phase(plan, 0, SIM_PHASE_FORWARD, 0, first);
    write_collective(plan, "compute", AR, first, 64, NOBODY, NOBODY);
    set_phase(plan, 0, SIM_PHASE_FORWARD, 0, second);
    write_collective(plan, "compute", AR, second, 64, NOBODY, NOBODY);
    return plan;
}

/* Each communicator alone is in order, so only the play finds it. */
START_TEST(two_communicators_in_opposite_order_are_a_circle)
{
    SimPlan *plans[] = {write_two_groups("shard", "other"), write_two_groups("other", "shard")};
    g_autoptr(SimVerdict) verdict = check_ranks(plans, 2);
    const SimFinding *finding =
        expect(verdict, SIM_RULE_DEADLOCK,
               "they wait for each other: rank 0, compute at row 1, waits in all_reduce of shard");
    ck_assert_ptr_nonnull(strstr(finding->message, "rank 1, compute at row 1, waits in all_reduce "
                                                   "of other"));
    ck_assert_uint_eq(sim_findings_of_rule(verdict->findings, SIM_RULE_SAME_SEQUENCE), 0);
    ck_assert_uint_eq(finding->n_places, 2);
}
END_TEST

/* The all-gather is issued after the reduce-scatter on one communicator, but the reduce-scatter's
 * stream waits for something that needs the all-gather: one rank alone, and it hangs. */
START_TEST(one_communicator_runs_in_the_order_of_issue)
{
    for (int has_own = 0; has_own < 2; has_own++) {
        g_autoptr(SimPlan) plan = write_plan(2, "0-1");
        ck_assert(sim_plan_add_group(plan, "reduce_scatter", "0-1", NULL));
        set_phase(plan, 0, SIM_PHASE_BACKWARD, 0, "layers.0");
        uint32_t event = sim_plan_event(plan, sim_plan_parse_name(plan, "done"));
        sim_plan_wait(plan, sim_plan_stream(plan, "reduce_scatter"), event);
        write_collective(plan, "reduce_scatter", RS, has_own ? "reduce_scatter" : "shard", 64,
                         NOBODY, NOBODY);
        write_collective(plan, "all_gather", AG, "shard", 64, NOBODY, NOBODY);
        write_record(plan, "all_gather", "done");
        g_autoptr(SimVerdict) verdict = check_plan(plan);
        /* In CUDA the wait passes, which is reported either way. */
        expect(verdict, SIM_RULE_WAIT_BEFORE_RECORD, "recorded only at row 4");
        ck_assert_uint_eq(sim_findings_of_rule(verdict->findings, SIM_RULE_DEADLOCK), !has_own);
        if (!has_own)
            expect(verdict, SIM_RULE_DEADLOCK, "issued earlier on communicator shard");
    }
}
END_TEST

START_TEST(a_host_that_waits_for_what_it_has_not_issued_hangs)
{
    g_autoptr(SimPlan) plan = write_plan(1, NULL);
    uint32_t event = sim_plan_event(plan, sim_plan_parse_name(plan, "later"));
    sim_plan_host_wait(plan, event);
    write_record(plan, "compute", "later");
    g_autoptr(SimVerdict) verdict = check_plan(plan);
    expect(verdict, SIM_RULE_DEADLOCK, "host at row 1, waits for event later of row 2");
}
END_TEST

START_TEST(an_event_that_nobody_records_is_named)
{
    g_autoptr(SimPlan) plan = write_plan(1, NULL);
    write_wait(plan, "compute", "never");
    g_autoptr(SimVerdict) verdict = check_plan(plan);
    expect(verdict, SIM_RULE_DEADLOCK, "waits for event never, which is never recorded");
}
END_TEST

/* --- the seed -----------------------------------------------------------------------------------
 */

/* A unit that is gathered, used and gathered again in backward; the shard may be freed in between,
 * and sent straight from (FSDP1) or through a copy-in (FSDP2). */
static SimPlan *write_seed(bool is_freed, bool has_copy_in, uint32_t *free_row)
{
    SimPlan *plan = write_plan(2, "0-1");
    set_phase(plan, -1, SIM_PHASE_INIT, -1, "layer");
    uint32_t shard = write_alloc(plan, "compute", "P:layer#0", 64, SIM_CATEGORY_PARAMETER_SHARD);
    write_kernel(plan, "compute", "fill", NOBODY, shard);
    for (int pass = 0; pass < 2; pass++) {
        set_phase(plan, 0, pass == 0 ? SIM_PHASE_FORWARD : SIM_PHASE_BACKWARD, 0, "layer");
        g_autofree char *name = g_strdup_printf("A:layer#%d", pass);
        uint32_t output = write_alloc(plan, "compute", name, 128, SIM_CATEGORY_ALL_GATHER_OUTPUT);
        if (has_copy_in) {
            write_kernel(plan, "compute", "copy_in", shard, NOBODY);
            sim_plan_add_write(
                plan, (SimTouch){.buffer = output, .times_rank = true, .offset = 64, .bytes = 64});
            write_collective(plan, "compute", AG, "shard", 128, NOBODY, NOBODY);
            sim_plan_add_read(
                plan, (SimTouch){.buffer = output, .times_rank = true, .offset = 64, .bytes = 64});
            sim_plan_add_write(plan, SIM_TOUCH_WHOLE(output));
        } else {
            write_collective(plan, "compute", AG, "shard", 128, shard, output);
        }
        write_kernel(plan, "compute", pass == 0 ? "forward" : "backward", output, NOBODY);
        sim_plan_free_buffer(plan, output);
        if (pass == 0 && is_freed) {
            *free_row = (uint32_t)sim_plan_length(plan);
            sim_plan_free_buffer(plan, shard);
        }
    }
    return plan;
}

/* The question of the forum thread: must not the send buffer be valid? It must, and who frees the
 * shard after forward is told so, with the row of the free. */
START_TEST(a_shard_freed_before_the_backward_all_gather_is_a_dead_send_buffer)
{
    uint32_t free_row = 0;
    g_autoptr(SimPlan) kept = write_seed(false, true, &free_row);
    g_autoptr(SimVerdict) safe = check_plan(kept);
    expect_safe(safe);

    g_autoptr(SimPlan) copied = write_seed(true, true, &free_row);
    g_autoptr(SimVerdict) verdict = check_plan(copied);
    const SimFinding *finding =
        expect(verdict, SIM_RULE_USE_AFTER_FREE,
               "copy_in, which feeds the all-gather, reads the dead buffer P:layer#0");
    ck_assert_uint_eq(finding->places[1].row, free_row);
    ck_assert_str_eq(finding->places[1].role, "free");
    g_autofree char *words = g_strdup_printf("it was freed at row %u", free_row + 1);
    ck_assert_ptr_nonnull(strstr(finding->message, words));

    g_autoptr(SimPlan) direct = write_seed(true, false, &free_row);
    g_autoptr(SimVerdict) sent = check_plan(direct);
    finding =
        expect(sent, SIM_RULE_USE_AFTER_FREE, "the send buffer of rank 0, P:layer#0, is freed");
    ck_assert_uint_eq(finding->places[1].row, free_row);
}
END_TEST

/* --- gradients ----------------------------------------------------------------------------------
 */

typedef struct Reduction {
    bool scatters, reduces;    /* over shard, over replicate */
    bool adds_after;           /* the first microbatch is added after the all-reduce */
    bool loses;                /* the second microbatch overwrites the first */
    const char *second_factor; /* reduction of the second microbatch's reduce-scatter */
} Reduction;

/* Two microbatches on 2 replicas of 2 shards: gradients, reduce-scatter, sum, all-reduce, update.
 */
static SimPlan *write_hybrid(const Reduction *how, const char *shard, const char *replicate)
{
    SimPlan *plan = write_plan(4, shard);
    ck_assert(sim_plan_add_group(plan, "replicate", replicate, NULL));
    set_phase(plan, -1, SIM_PHASE_INIT, -1, "layer");
    uint32_t parameter =
        write_alloc(plan, "compute", "P:layer#0", 64, SIM_CATEGORY_PARAMETER_SHARD);
    write_kernel(plan, "compute", "fill", NOBODY, parameter);
    uint32_t sum = NOBODY;
    for (int32_t m = 0; m < 2; m++) {
        set_phase(plan, 0, SIM_PHASE_BACKWARD, m, "layer");
        g_autofree char *g = g_strdup_printf("G:layer#%d", m);
        g_autofree char *o = g_strdup_printf("O:layer#%d", m);
        uint32_t gradient = write_alloc(plan, "compute", g, 128, SIM_CATEGORY_UNSHARDED_GRADIENT);
        write_kernel(plan, "compute", "gradient", parameter, gradient);
        uint32_t part = write_alloc(plan, "compute", o, 64, SIM_CATEGORY_REDUCE_SCATTER_OUTPUT);
        if (how->scatters) {
            SimInstruction *row =
                write_collective(plan, "compute", RS, "shard", 128, gradient, part);
            if (m == 1 && how->second_factor != NULL)
                row->arguments = sim_strings_intern(sim_plan_strings(plan), how->second_factor);
        } else {
            write_kernel(plan, "compute", "copy", gradient, part);
        }
        if (how->reduces && how->adds_after && m == 1)
            write_collective(plan, "compute", AR, "replicate", 64, part, part);
        if (m == 1 && !how->loses) {
            write_kernel(plan, "compute", "add", sum, NOBODY);
            sim_plan_add_read(plan, SIM_TOUCH_WHOLE(part));
            sim_plan_add_write(plan, SIM_TOUCH_WHOLE(part));
        }
        if (how->reduces && !how->adds_after && m == 1)
            write_collective(plan, "compute", AR, "replicate", 64, part, part);
        sim_plan_free_buffer(plan, gradient);
        sum = part;
    }
    set_phase(plan, 0, SIM_PHASE_OPTIMIZER, -1, "layer");
    write_kernel(plan, "compute", "sgd", sum, parameter);
    return plan;
}

static SimVerdict *check_hybrid(const Reduction *how)
{
    g_autoptr(SimPlan) plan = write_hybrid(how, "0-1 2-3", "0,2 1,3");
    return check_plan(plan);
}

/* pytorch#125484: partial sums are added before the all-reduce; else the first microbatch reaches
 * the 2 ranks of its shard group only, not all 4. */
START_TEST(a_microbatch_added_after_the_all_reduce_has_not_reached_the_replicas)
{
    g_autoptr(SimVerdict) right = check_hybrid(&(Reduction){.scatters = true, .reduces = true});
    expect_safe(right);
    g_autoptr(SimVerdict) wrong =
        check_hybrid(&(Reduction){.scatters = true, .reduces = true, .adds_after = true});
    expect(wrong, SIM_RULE_REDUCED_EVERYWHERE_ONCE,
           "microbatch 0's gradient of layer has reached 2 of the 4 ranks that microbatch 1's has");
}
END_TEST

START_TEST(a_microbatch_that_is_overwritten_is_lost)
{
    g_autoptr(SimVerdict) verdict =
        check_hybrid(&(Reduction){.scatters = true, .reduces = true, .loses = true});
    expect(verdict, SIM_RULE_REDUCED_EVERYWHERE_ONCE, "microbatch 0's gradient of layer is lost");
}
END_TEST

/* verl-project/verl#7493: a shard group of one rank skipped the replicas' all-reduce as well. */
START_TEST(a_shard_group_of_one_still_needs_the_all_reduce)
{
    Reduction how = {.reduces = false};
    g_autoptr(SimPlan) silent = write_hybrid(&how, "0 1 2 3", "0-3");
    g_autoptr(SimVerdict) verdict = check_plan(silent);
    expect(verdict, SIM_RULE_REDUCED_EVERYWHERE_ONCE, "was not all-reduced over group replicate");
    how.reduces = true;
    g_autoptr(SimPlan) loud = write_hybrid(&how, "0 1 2 3", "0-3");
    g_autoptr(SimVerdict) safe = check_plan(loud);
    expect_safe(safe);
}
END_TEST

/* pytorch#155903: the mean over the shard group is taken of one microbatch, the sum of the other.
 */
START_TEST(a_factor_that_is_missing_on_one_path_is_reported)
{
    g_autoptr(SimVerdict) verdict = check_hybrid(
        &(Reduction){.scatters = true, .reduces = true, .second_factor = "reduction=premul:0.125"});
    expect(verdict, SIM_RULE_SCALED_ONCE, "the gradient of layer is scaled by");
}
END_TEST

/* pytorch#181218: of a group of modules only a part ran; compute uses the gradient at once, so it
 * waits for the reduction at once. */
START_TEST(a_partial_group_needs_its_wait_at_once)
{
    for (int waits = 0; waits < 2; waits++) {
        g_autoptr(SimPlan) plan = write_plan(2, "0-1");
        set_phase(plan, 0, SIM_PHASE_BACKWARD, 0, "norm+head");
        uint32_t input =
            write_alloc(plan, "compute", "I:norm+head#0", 128, SIM_CATEGORY_REDUCE_SCATTER_INPUT);
        write_kernel(plan, "compute", "chunk_cat", NOBODY, input);
        write_wait_stream(plan, "reduce_scatter", "compute");
        uint32_t output = write_alloc(plan, "reduce_scatter", "O:norm+head#0", 64,
                                      SIM_CATEGORY_REDUCE_SCATTER_OUTPUT);
        write_collective(plan, "reduce_scatter", RS, "shard", 128, input, output);
        write_record(plan, "reduce_scatter", "post:norm+head#0");
        if (waits)
            write_wait(plan, "compute", "post:norm+head#0");
        set_phase(plan, 0, SIM_PHASE_CLIP, -1, "norm+head");
        write_kernel(plan, "compute", "norm", output, NOBODY);
        sim_plan_free_buffer(plan, input);
        g_autoptr(SimVerdict) verdict = check_plan(plan);
        ck_assert_uint_eq(sim_findings_of_rule(verdict->findings, SIM_RULE_OPTIMIZER_AFTER_REDUCE),
                          !waits);
    }
}
END_TEST

/* pytorch#180665: the optimizer runs on the host; it may read the gradient only after the host
 * waited for the copy. */
START_TEST(a_host_optimizer_waits_for_the_copy)
{
    for (int waits = 0; waits < 2; waits++) {
        g_autoptr(SimPlan) plan = write_plan(1, NULL);
        set_phase(plan, 0, SIM_PHASE_BACKWARD, 0, "layer");
        uint32_t gradient =
            write_alloc(plan, "compute", "Q:layer#0", 64, SIM_CATEGORY_SHARDED_GRADIENT);
        write_kernel(plan, "compute", "cast", NOBODY, gradient);
        uint32_t host = sim_plan_alloc_host(plan, sim_plan_parse_name(plan, "Q_host:layer#0"), 64,
                                            SIM_CATEGORY_SHARDED_GRADIENT, SIM_DTYPE_F32, 0);
        SimInstruction *copy = sim_plan_append(plan, SIM_PLAN_COPY);
        copy->is_device_to_host = true;
        copy->bytes = 64;
        sim_plan_add_read(plan, SIM_TOUCH_WHOLE(gradient));
        sim_plan_add_write(plan, SIM_TOUCH_WHOLE(host));
        write_record(plan, "compute", "off:layer#0");
        if (waits)
            sim_plan_host_wait(plan,
                               sim_plan_event(plan, sim_plan_parse_name(plan, "off:layer#0")));
        set_phase(plan, 0, SIM_PHASE_OPTIMIZER, -1, "layer");
        sim_plan_host(plan, "cpu adamw", SIM_MILLISECOND);
        sim_plan_add_read(plan, SIM_TOUCH_WHOLE(host));
        g_autoptr(SimVerdict) verdict = check_plan(plan);
        ck_assert_uint_eq(sim_findings_of_rule(verdict->findings, SIM_RULE_HOST_GRADIENT), !waits);
    }
}
END_TEST

/* --- gathers ------------------------------------------------------------------------------------
 */

/* NVIDIA-NeMo/Automodel#3373: the recomputed forward prefetches again, and leaves a unit unsharded.
 * Robbyant/lingbot-vla#50: the recomputation gathers what it need not. */
START_TEST(a_unit_left_unsharded_by_recomputation_is_told)
{
    g_autoptr(SimPlan) plan = write_plan(2, "0-1");
    set_phase(plan, 0, SIM_PHASE_RECOMPUTE, 0, "layers.1");
    uint32_t output =
        write_alloc(plan, "compute", "A:layers.1#2", 128, SIM_CATEGORY_ALL_GATHER_OUTPUT);
    write_collective(plan, "compute", AG, "shard", 128, NOBODY, output);
    uint32_t parameter =
        write_alloc(plan, "compute", "U:layers.1#2", 128, SIM_CATEGORY_UNSHARDED_PARAMETER);
    write_kernel(plan, "compute", "copy_out", output, parameter);
    sim_plan_free_buffer(plan, output);
    set_phase(plan, 0, SIM_PHASE_BACKWARD, 0, "layers.0");
    write_kernel(plan, "compute", "backward", parameter, NOBODY);
    set_phase(plan, 0, SIM_PHASE_OPTIMIZER, -1, "");
    write_kernel(plan, "compute", "adamw", NOBODY, NOBODY);
    g_autoptr(SimVerdict) verdict = check_plan(plan);
    expect(verdict, SIM_RULE_ALL_FREED, "unsharded parameter U:layers.1#2");
    expect(verdict, SIM_RULE_RECOMPUTE_NEUTRAL, "gathers layers.1 in a recomputation");
}
END_TEST

/* ISEEKYAN/Megatron-LM#158: reduce-scatter inputs held to the end of backward, one a layer. */
START_TEST(reduce_inputs_that_pile_up_are_told)
{
    g_autoptr(SimPlan) plan = write_plan(2, "0-1");
    for (int32_t i = 0; i < 4; i++) {
        g_autofree char *name = g_strdup_printf("I:layers.%d#0", i);
        set_phase(plan, 0, SIM_PHASE_BACKWARD, 0, name + 2);
        write_alloc(plan, "compute", name, 128, SIM_CATEGORY_REDUCE_SCATTER_INPUT);
    }
    g_autoptr(SimVerdict) verdict = check_plan(plan);
    expect(verdict, SIM_RULE_REDUCE_INPUT_BOUND, "3 reduce-scatter inputs live at row 3");
}
END_TEST

/* pytorch#117973: parameters (3, 3) and (2, 2) over 2 ranks: 6 + 2 = 8 elements from each, padded.
 * Without padding rank 0 would send 9 - 3 = 6 + 2, rank 1 3 + 2: parts that do not tile. */
START_TEST(parts_tile_the_whole)
{
    for (int is_padded = 0; is_padded < 2; is_padded++) {
        uint64_t whole = is_padded ? 2 * 8 * 4 : (9 + 4) * 4;
        g_autoptr(SimPlan) plan = write_plan(2, "0-1");
        set_phase(plan, 0, SIM_PHASE_FORWARD, 0, "layer");
        uint32_t part =
            write_alloc(plan, "compute", "P:layer#0", 8 * 4, SIM_CATEGORY_PARAMETER_SHARD);
        write_kernel(plan, "compute", "fill", NOBODY, part);
        uint32_t output =
            write_alloc(plan, "compute", "A:layer#0", whole, SIM_CATEGORY_ALL_GATHER_OUTPUT);
        write_collective(plan, "compute", AG, "shard", whole, part, output);
        write_kernel(plan, "compute", "copy_out", output, NOBODY);
        sim_plan_free_buffer(plan, output);
        g_autoptr(SimVerdict) verdict = check_plan(plan);
        ck_assert_uint_eq(sim_findings_of_rule(verdict->findings, SIM_RULE_SHARD_PARTITION),
                          !is_padded);
    }
}
END_TEST

/* --- plans without FSDP -------------------------------------------------------------------------
 */

/* A hand-written ring on two streams: the buffer that arrives is added up while the next travels.
 */
static SimPlan *write_ring(bool waits)
{
    SimPlan *plan = write_plan(4, NULL);
    ck_assert(sim_plan_add_group(plan, "ring", "0-3", NULL));
    uint32_t total = write_alloc(plan, "compute", "total", 64, SIM_CATEGORY_NONE);
    uint32_t slots[2];
    write_kernel(plan, "compute", "fill", NOBODY, total);
    for (int i = 0; i < 2; i++) {
        g_autofree char *name = g_strdup_printf("slot%d", i);
        slots[i] = write_alloc(plan, "transfer", name, 64, SIM_CATEGORY_NONE);
        write_kernel(plan, "transfer", "fill", NOBODY, slots[i]);
    }
    for (int i = 0; i < 3; i++) {
        g_autofree char *arrived = g_strdup_printf("arrived#%d", i);
        g_autofree char *added = g_strdup_printf("added#%d", i);
        g_autofree char *freed = g_strdup_printf("added#%d", i - 2);
        if (i >= 2 && waits)
            write_wait(plan, "transfer", freed);
        write_collective(plan, "transfer", AR, "ring", 64, slots[i % 2], slots[i % 2]);
        write_record(plan, "transfer", arrived);
        write_wait(plan, "compute", arrived);
        write_kernel(plan, "compute", "add", slots[i % 2], NOBODY);
        sim_plan_add_read(plan, SIM_TOUCH_WHOLE(total));
        sim_plan_add_write(plan, SIM_TOUCH_WHOLE(total));
        write_record(plan, "compute", added);
    }
    return plan;
}

START_TEST(a_ring_without_fsdp_is_held_to_the_same_order)
{
    g_autoptr(SimPlan) good = write_ring(true);
    g_autoptr(SimVerdict) safe = check_plan(good);
    expect_safe(safe);
    g_autoptr(SimPlan) bad = write_ring(false);
    g_autoptr(SimVerdict) verdict = check_plan(bad);
    const SimFinding *race = expect(verdict, SIM_RULE_RACE, "writes slot0 while row");
    ck_assert_str_eq(race->first_stream, "compute");
    ck_assert_str_eq(race->second_stream, "transfer");
    ck_assert_uint_eq(sim_findings_violations(verdict->findings), 1);
}
END_TEST

/* The race of the ring, played: of the rows between the two only those that the later one waits
 * for, here none, and the later one runs while the earlier is still at it. */
START_TEST(a_counter_example_is_the_shortest_interleaving)
{
    g_autoptr(SimPlan) bad = write_ring(false);
    g_autoptr(SimVerdict) verdict = check_plan(bad);
    const SimFinding *race = expect(verdict, SIM_RULE_RACE, "writes slot0");
    g_autoptr(SimCounterexample) counterexample = sim_counterexample_new(bad, race);
    ck_assert_ptr_nonnull(counterexample);
    g_autofree char *text = sim_counterexample_print(counterexample);
    g_auto(GStrv) lines = g_strsplit(g_strchomp(text), "\n", -1);
    ck_assert_uint_le(g_strv_length(lines), 10);
    ck_assert_ptr_nonnull(strstr(lines[1], "add on compute takes its time"));
    ck_assert_ptr_nonnull(strstr(lines[g_strv_length(lines) - 2], "too early"));
    ck_assert(
        g_str_has_prefix(lines[g_strv_length(lines) - 1], "Repair: record an event on compute"));
    /* Nothing to play in a finding about sizes. */
    SimPlan *plans[] = {write_reduction(128), write_reduction(96)};
    g_autoptr(SimVerdict) sizes = check_ranks(plans, 2);
    const SimFinding *mismatch = expect(sizes, SIM_RULE_SAME_SIZES, "");
    ck_assert_ptr_null(sim_counterexample_new(bad, mismatch));
}
END_TEST

/* Two collectives on two streams: COUPLED ranks run both on one. */
static SimPlan *write_detour(bool is_coupled, bool has_data)
{
    SimPlan *plan = write_plan(2, NULL);
    ck_assert(sim_plan_add_group(plan, "first", "0-1", NULL));
    ck_assert(sim_plan_add_group(plan, "second", "0-1", NULL));
    uint32_t x = has_data ? write_alloc(plan, "a", "x", 64, SIM_CATEGORY_NONE) : NOBODY;
    if (has_data)
        write_kernel(plan, "a", "fill", NOBODY, x);
    write_collective(plan, "a", AR, "first", 64, NOBODY, NOBODY);
    write_collective(plan, is_coupled ? "a" : "b", AR, "second", 64, NOBODY, NOBODY);
    if (has_data)
        write_kernel(plan, "b", "read", x, NOBODY);
    return plan;
}

/* Rank 0 fills on one stream and reads on another, with a collective on each in between. Rank 1
 * takes part in the second only when it is through with the first, for which it needs rank 0's
 * fill: that orders the two. Where rank 1 runs them apart, nothing does. */
START_TEST(a_path_through_another_rank_orders_too)
{
    SimPlan *coupled[] = {write_detour(false, true), write_detour(true, false)};
    g_autoptr(SimVerdict) safe = check_ranks(coupled, 2);
    expect_safe(safe);
    SimPlan *apart[] = {write_detour(false, true), write_detour(false, false)};
    g_autoptr(SimVerdict) verdict = check_ranks(apart, 2);
    expect(verdict, SIM_RULE_RACE, "reads x while row");
}
END_TEST

/* --- lives --------------------------------------------------------------------------------------
 */

START_TEST(lives_are_followed_in_host_order)
{
    g_autoptr(SimPlan) plan = write_plan(1, NULL);
    uint32_t a = write_alloc(plan, "compute", "a", 64, SIM_CATEGORY_NONE);
    write_kernel(plan, "compute", "read", a, NOBODY);
    sim_plan_free_buffer(plan, a);
    sim_plan_free_buffer(plan, a);
    write_kernel(plan, "compute", "write", NOBODY, a);
    uint32_t b = write_alloc(plan, "compute", "b", 64, SIM_CATEGORY_NONE);
    SimInstruction *rows = (SimInstruction *)sim_plan_instruction(plan, 0);
    write_kernel(plan, "compute", "outside", NOBODY, NOBODY);
    sim_plan_add_write(plan, (SimTouch){.buffer = b, .offset = 32, .bytes = 64});
    /* The alloc of b comes to stand behind its use. */
    rows = (SimInstruction *)sim_plan_instruction(plan, 0);
    SimInstruction alloc = rows[5];
    rows[5] = rows[6];
    rows[6] = alloc;
    g_autoptr(SimVerdict) verdict = check_plan(plan);
    expect(verdict, SIM_RULE_NEVER_WRITTEN, "reads 64 bytes of a in [0, 64)");
    expect(verdict, SIM_RULE_DOUBLE_FREE, "row 4 frees a, which was freed at row 3");
    expect(verdict, SIM_RULE_USE_AFTER_FREE, "row 5 (write on compute) writes the dead buffer a");
    expect(verdict, SIM_RULE_USE_BEFORE_BIRTH,
           "row 6 (outside on compute) uses b before its alloc");
    rows[6] = rows[5];
    rows[5] = alloc;
    g_autoptr(SimVerdict) moved = check_plan(plan);
    expect(moved, SIM_RULE_OUTSIDE_BUFFER, "touches [32:64] of b, which has 64 bytes");
}
END_TEST

/* Steps 0 to 3; from step 2 on one more activation a step stays. */
START_TEST(a_step_that_ends_with_more_than_the_step_before_leaks)
{
    g_autoptr(SimPlan) plan = write_plan(1, NULL);
    for (int32_t step = 0; step < 4; step++) {
        set_phase(plan, step, SIM_PHASE_FORWARD, 0, "layer");
        g_autofree char *name = g_strdup_printf("h#%d", step);
        uint32_t h = write_alloc(plan, "compute", name, 1000, SIM_CATEGORY_ACTIVATION);
        if (step < 2)
            sim_plan_free_buffer(plan, h);
    }
    g_autoptr(SimVerdict) verdict = check_plan(plan);
    const SimFinding *leak =
        expect(verdict, SIM_RULE_STEADY_STATE, "step 2 ends with 1000 bytes more of activation");
    ck_assert_uint_eq(leak->times, 2);
}
END_TEST

/* --- several plans ------------------------------------------------------------------------------
 */

START_TEST(plans_that_do_not_belong_together_are_refused)
{
    g_autoptr(SimPlan) two = write_plan(2, "0-1");
    g_autoptr(SimPlan) three = write_plan(3, "0-2");
    g_autoptr(SimPlan) apart = write_plan(2, "0 1");
    g_autoptr(SimVerifier) verifier = sim_verifier_new();
    g_autoptr(GError) error = NULL;
    ck_assert(sim_verifier_add(verifier, two, "two.csv", 0, 0, NULL));
    ck_assert(!sim_verifier_add(verifier, three, "three.csv", 1, 1, &error));
    ck_assert_str_eq(error->message,
                     "three.csv: expected a plan of 2 ranks like the first, found one of 3");
    g_clear_error(&error);
    ck_assert(!sim_verifier_add(verifier, apart, "apart.csv", 1, 1, &error));
    ck_assert_str_eq(error->message,
                     "apart.csv: group 'shard' has other rank lists than in two.csv");
    g_clear_error(&error);
    ck_assert(!sim_verifier_add(verifier, two, "again.csv", 0, 0, &error));
    ck_assert_str_eq(error->message, "again.csv: rank 0 has a plan already");
    g_clear_error(&error);
    ck_assert_ptr_null(sim_verifier_finish(verifier, &error));
    ck_assert_str_eq(error->message, "rank 1 of 2 has no plan; expected one plan for all ranks, or "
                                     "one for each");
}
END_TEST

/* 16,384 ranks in 2,048 groups of 8, of which the last rank of each group has a row of its own: two
 * classes, whatever the number of ranks. */
START_TEST(ranks_that_play_the_same_are_folded)
{
    g_autoptr(GString) lists = g_string_new(NULL), last = g_string_new(NULL);
    for (uint32_t i = 0; i < 2048; i++) {
        g_string_append_printf(lists, "%s%u-%u", i > 0 ? " " : "", i * 8, i * 8 + 7);
        g_string_append_printf(last, "%s%u", i > 0 ? " " : "", i * 8 + 7);
    }
    g_autoptr(SimPlan) plan = write_plan(16384, lists->str);
    set_phase(plan, 0, SIM_PHASE_FORWARD, 0, "layer");
    write_collective(plan, "compute", AG, "shard", 1024, NOBODY, NOBODY);
    ck_assert(sim_plan_add_rank_set(plan, last->str, &sim_plan_context(plan)->rank_set, NULL));
    write_kernel(plan, "compute", "extra", NOBODY, NOBODY);
    g_autoptr(SimVerdict) verdict = check_plan(plan);
    expect_safe(verdict);
    ck_assert_uint_eq(verdict->proof.ranks, 16384);
    ck_assert_uint_eq(verdict->proof.classes, 2);
    ck_assert_uint_eq(verdict->proof.rows, 1 + 2);
    ck_assert_uint_eq(verdict->proof.matched, 1);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("cases");
    TCase *all = tcase_create("all");
    tcase_add_test(all, validation_loops_of_different_length_meet_all_reduce_with_all_gather);
    tcase_add_test(all, a_rank_that_generates_longer_waits_at_its_next_forward);
    tcase_add_test(all, a_missing_gradient_is_a_size_mismatch_that_names_unit_and_sizes);
    tcase_add_test(all, padding_on_some_ranks_only_is_a_size_mismatch);
    tcase_add_test(all, experts_as_units_gather_different_modules);
    tcase_add_test(all, ranks_that_agree_are_safe);
    tcase_add_test(all, two_communicators_in_opposite_order_are_a_circle);
    tcase_add_test(all, one_communicator_runs_in_the_order_of_issue);
    tcase_add_test(all, a_host_that_waits_for_what_it_has_not_issued_hangs);
    tcase_add_test(all, an_event_that_nobody_records_is_named);
    tcase_add_test(all, a_shard_freed_before_the_backward_all_gather_is_a_dead_send_buffer);
    tcase_add_test(all, a_microbatch_added_after_the_all_reduce_has_not_reached_the_replicas);
    tcase_add_test(all, a_microbatch_that_is_overwritten_is_lost);
    tcase_add_test(all, a_shard_group_of_one_still_needs_the_all_reduce);
    tcase_add_test(all, a_factor_that_is_missing_on_one_path_is_reported);
    tcase_add_test(all, a_partial_group_needs_its_wait_at_once);
    tcase_add_test(all, a_host_optimizer_waits_for_the_copy);
    tcase_add_test(all, a_unit_left_unsharded_by_recomputation_is_told);
    tcase_add_test(all, reduce_inputs_that_pile_up_are_told);
    tcase_add_test(all, parts_tile_the_whole);
    tcase_add_test(all, a_ring_without_fsdp_is_held_to_the_same_order);
    tcase_add_test(all, a_counter_example_is_the_shortest_interleaving);
    tcase_add_test(all, a_path_through_another_rank_orders_too);
    tcase_add_test(all, lives_are_followed_in_host_order);
    tcase_add_test(all, a_step_that_ends_with_more_than_the_step_before_leaks);
    tcase_add_test(all, plans_that_do_not_belong_together_are_refused);
    tcase_add_test(all, ranks_that_play_the_same_are_folded);
    suite_add_tcase(suite, all);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? 0 : 1;
}
