/* SPDX-License-Identifier: Apache-2.0
 *
 * The cross-stream edges that PyTorch's own stream-safety test of fully_shard names, each taken out
 * of a recording: the rule that it guards is reported, in as many places as the edge guards alone.
 *
 *   F1 compute -> all-gather streams, across steps (optimizer)     rule 1
 *   F2 copy-in -> all-gather                                       rule 5
 *   G1 compute -> reduce-scatter                                   rule 6
 *   H1 reduce-scatter -> compute, at the end of backward           rule 8
 *   H2 reduce-scatter -> all-reduce                                rule 7
 *   H3 all-reduce -> compute, at the end of backward               rule 8
 *   P1, P2 copy-out -> copy-in, in forward and in backward         rule 11
 *   R1 reduce-scatter -> compute, before its input is given back   rule 12
 *   R2 the same for the last input: the wait for its result follows the same reduce-scatter, so
 *      the edge alone is redundant; without both, rule 12
 *   A1 accumulation -> compute                                     rule 8
 *
 * Also FSDP1's: its streams wait for whole streams, and blocks are kept back by record_stream.
 * Q1 (a group of which a part ran) needs a reader on compute: tests/unit/check/test_cases.c.
 *
 * Numbers: three steps, 4 blocks and a root (kept after forward): 5 gathers forward, 4 backward, 5
 * reductions. A gather whose buffer's pool is not used again before compute was waited for anyway
 * does not need its copy-out waited for: the last of forward and the last of backward.
 */
#include <check.h>
#include <string.h>

#include "check/verifier.h"
#include "support/recording_plan.h"

#define FOLDER SIM_SOURCE_DIR "/tests/oracle/pytorch/"

typedef struct Edge {
    const char *name, *recording;
    SimPlanOp op;       /* wait or record_stream */
    const char *stream; /* that waits, or that uses the block too */
    const char *source; /* "stream:compute", or what the event's name begins with */
    SimPhase phase;
    int32_t microbatch;
    SimRuleId rule;
    uint32_t reported, redundant; /* of the rows that match */
} Edge;

#define WAIT SIM_PLAN_WAIT
#define LEND SIM_PLAN_RECORD_STREAM
#define FORWARD SIM_PHASE_FORWARD
#define BACKWARD SIM_PHASE_BACKWARD
#define BASE "fsdp2/base-w2"
#define HYBRID "fsdp2/hsdp-2x2"
#define FSDP1 "fsdp1/fsdp1-full-shard-w2"
#define COPY_IN "all_gather_copy_in"

static const Edge edges[] = {
    {"F1", BASE, WAIT, COPY_IN, "stream:compute", FORWARD, 0, SIM_RULE_SHARD_FRESH, 3, 0},
    {"F1 by event", "fsdp2/post-optim-event-w2", WAIT, COPY_IN, "user", FORWARD, 0,
     SIM_RULE_SHARD_FRESH, 2, 0},
    {"F2 forward", BASE, WAIT, "all_gather", "stream:" COPY_IN, FORWARD, 0,
     SIM_RULE_COPY_IN_BEFORE_GATHER, 15, 0},
    {"F2 backward", BASE, WAIT, "all_gather", "stream:" COPY_IN, BACKWARD, 0,
     SIM_RULE_COPY_IN_BEFORE_GATHER, 12, 0},
    {"E_ag forward", BASE, WAIT, "compute", "ag:", FORWARD, 0, SIM_RULE_GATHER_BEFORE_COPY_OUT, 15,
     0},
    {"E_ag backward", BASE, WAIT, "compute", "ag:", BACKWARD, 0, SIM_RULE_GATHER_BEFORE_COPY_OUT,
     12, 0},
    {"G1", BASE, WAIT, "reduce_scatter", "stream:compute", BACKWARD, 0,
     SIM_RULE_REDUCE_INPUT_COMPLETE, 15, 0},
    {"H1", "fsdp2/mp-bf16-bf16-w2", WAIT, "compute", "post:", BACKWARD, 0,
     SIM_RULE_OPTIMIZER_AFTER_REDUCE, 3, 0},
    {"H2", HYBRID, WAIT, "all_reduce", "stream:reduce_scatter", BACKWARD, 0,
     SIM_RULE_REDUCED_EVERYWHERE_ONCE, 15, 0},
    {"H3", HYBRID, WAIT, "compute", "post:", BACKWARD, 0, SIM_RULE_OPTIMIZER_AFTER_REDUCE, 3, 0},
    {"P1", BASE, WAIT, COPY_IN, "co:", FORWARD, 0, SIM_RULE_GATHER_REUSE, 12, 3},
    {"P2", BASE, WAIT, COPY_IN, "co:", BACKWARD, 0, SIM_RULE_GATHER_REUSE, 9, 3},
    {"R1", BASE, WAIT, "compute", "rs:", BACKWARD, 0, SIM_RULE_REDUCE_INPUT_REUSE, 12, 3},
    {"A1", "fsdp2/accum2-w2", WAIT, "compute", "post:", BACKWARD, 1,
     SIM_RULE_OPTIMIZER_AFTER_REDUCE, 3, 0},
    {"E_raf", "fsdp2/raf-int2-w4", WAIT, COPY_IN, "raf:", BACKWARD, 0,
     SIM_RULE_COPY_IN_BEFORE_GATHER, 3, 12},
    {"FSDP1 optimizer", FSDP1, WAIT, "pre_unshard", "stream:compute", FORWARD, 0,
     SIM_RULE_SHARD_FRESH, 3, 0},
    {"FSDP1 cast", FSDP1, WAIT, "unshard", "stream:pre_unshard", FORWARD, 0,
     SIM_RULE_COPY_IN_BEFORE_GATHER, 15, 0},
    {"FSDP1 gather", FSDP1, WAIT, "compute", "stream:unshard", FORWARD, 0,
     SIM_RULE_GATHER_BEFORE_COPY_OUT, 15, 0},
    {"FSDP1 reduce", FSDP1, WAIT, "post_backward", "stream:compute", BACKWARD, 0,
     SIM_RULE_REDUCE_INPUT_COMPLETE, 15, 0},
    {"FSDP1 result", FSDP1, WAIT, "compute", "stream:post_backward", BACKWARD, 0,
     SIM_RULE_OPTIMIZER_AFTER_REDUCE, 3, 0},
    {"FSDP1 cast lent", FSDP1, LEND, "unshard", "", FORWARD, 0, SIM_RULE_GATHER_REUSE, 15, 0},
    {"FSDP1 weights lent", FSDP1, LEND, "compute", "", FORWARD, 0, SIM_RULE_CROSS_STREAM_REUSE, 12,
     0},
};

static bool is_edge(const SimPlan *plan, const SimInstruction *row, const Edge *edge)
{
    if (row->op != edge->op || row->phase != edge->phase || row->microbatch != edge->microbatch ||
        strcmp(sim_plan_stream_name(plan, row->stream), edge->stream) != 0)
        return false;
    if (row->op == LEND)
        return true;
    if (row->is_event_of_stream)
        return g_str_has_prefix(edge->source, "stream:") &&
               strcmp(sim_plan_stream_name(plan, row->event), edge->source + 7) == 0;
    g_autofree char *event = sim_plan_print_name(plan, sim_plan_event_name(plan, row->event));
    return g_str_has_prefix(event, edge->source);
}

static SimPlan *load(const char *recording)
{
    g_autofree char *file = g_strdup_printf(FOLDER "%s.csv.gz", recording);
    g_autoptr(GError) error = NULL;
    SimPlan *plan = recording_plan_load(file, &error);
    ck_assert_msg(plan != NULL, "%s", error != NULL ? error->message : file);
    return plan;
}

/* A row without effect. */
static void erase(SimPlan *plan, size_t index)
{
    SimInstruction *row = (SimInstruction *)sim_plan_instruction(plan, index);
    row->op = SIM_PLAN_MARK;
    row->buffer = row->event = SIM_PLAN_NONE;
}

START_TEST(an_edge_taken_out_is_reported_under_its_rule)
{
    const Edge *edge = &edges[_i];
    g_autoptr(SimPlan) plan = load(edge->recording);
    uint32_t reported = 0, redundant = 0;
    for (size_t i = 0; i < sim_plan_length(plan); i++) {
        if (!is_edge(plan, sim_plan_instruction(plan, i), edge))
            continue;
        g_autoptr(SimPlan) mutant = sim_plan_copy(plan);
        erase(mutant, i);
        g_autoptr(SimVerdict) verdict = sim_verifier_check_plan(mutant, edge->name, NULL);
        ck_assert_ptr_nonnull(verdict);
        if (sim_verdict_is_safe(verdict)) {
            redundant++;
            continue;
        }
        g_autofree char *text = sim_verdict_print(verdict, 3);
        ck_assert_msg(sim_findings_of_rule(verdict->findings, edge->rule) > 0, "%s, row %zu: %s",
                      edge->name, i + 1, text);
        reported++;
    }
    ck_assert_msg(reported == edge->reported && redundant == edge->redundant,
                  "%s: %u reported, %u redundant", edge->name, reported, redundant);
}
END_TEST

START_TEST(the_last_reduce_input_needs_one_of_its_two_waits)
{
    g_autoptr(SimPlan) plan = load(BASE);
    uint32_t erased = 0;
    for (size_t i = 0; i < sim_plan_length(plan); i++) {
        const SimInstruction *row = sim_plan_instruction(plan, i);
        if (row->op != WAIT || row->is_event_of_stream || row->step != 0)
            continue;
        g_autofree char *event = sim_plan_print_name(plan, sim_plan_event_name(plan, row->event));
        if (strcmp(event, "rs:root#0") == 0 || strcmp(event, "post:root#0") == 0) {
            erase(plan, i);
            erased++;
        }
    }
    ck_assert_uint_eq(erased, 2);
    g_autoptr(SimVerdict) verdict = sim_verifier_check_plan(plan, "R2", NULL);
    ck_assert_uint_gt(sim_findings_of_rule(verdict->findings, SIM_RULE_REDUCE_INPUT_REUSE), 0);
    ck_assert_uint_gt(sim_findings_of_rule(verdict->findings, SIM_RULE_OPTIMIZER_AFTER_REDUCE), 0);
}
END_TEST

/* G1 out of the first unit that is reduced: the two rows, the buffer, the streams and the repair
 * are named, and so is what PyTorch's allocator does with the block. */
START_TEST(a_finding_names_rows_buffer_streams_and_repair)
{
    g_autoptr(SimPlan) plan = load(BASE);
    const Edge *g1 = NULL;
    for (size_t i = 0; i < G_N_ELEMENTS(edges); i++)
        if (strcmp(edges[i].name, "G1") == 0)
            g1 = &edges[i];
    for (size_t i = 0; i < sim_plan_length(plan); i++) {
        if (!is_edge(plan, sim_plan_instruction(plan, i), g1))
            continue;
        erase(plan, i);
        break;
    }
    g_autoptr(SimVerdict) verdict = sim_verifier_check_plan(plan, "G1", NULL);
    const SimFinding *found = NULL;
    for (size_t i = 0; i < sim_findings_count(verdict->findings); i++)
        if (sim_findings_get(verdict->findings, i)->rule == SIM_RULE_REDUCE_INPUT_COMPLETE)
            found = sim_findings_get(verdict->findings, i);
    ck_assert_ptr_nonnull(found);
    ck_assert_str_eq(found->buffer, "I:layers.3#0");
    ck_assert_str_eq(found->first_stream, "compute");
    ck_assert_str_eq(found->second_stream, "reduce_scatter");
    ck_assert_str_eq(found->unit, "layers.3");
    ck_assert_str_eq(found->phase, "backward");
    const SimInstruction *earlier = sim_plan_instruction(plan, found->places[0].row);
    const SimInstruction *later = sim_plan_instruction(plan, found->places[1].row);
    ck_assert_str_eq(sim_plan_string(plan, earlier->operator_name), "chunk_cat");
    ck_assert_int_eq(later->collective, SIM_COLLECTIVE_REDUCE_SCATTER);
    g_autofree char *repair = g_strdup_printf(
        "record an event on compute after row %u and let reduce_scatter wait for it before row %u",
        found->places[0].row + 1, found->places[1].row + 1);
    ck_assert_str_eq(found->remedy, repair);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("check_edges");
    TCase *all = tcase_create("edges");
    tcase_add_loop_test(all, an_edge_taken_out_is_reported_under_its_rule, 0,
                        (int)G_N_ELEMENTS(edges));
    tcase_add_test(all, the_last_reduce_input_needs_one_of_its_two_waits);
    tcase_add_test(all, a_finding_names_rows_buffer_streams_and_repair);
    suite_add_tcase(suite, all);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? 0 : 1;
}
