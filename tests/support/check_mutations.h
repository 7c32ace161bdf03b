/* SPDX-License-Identifier: Apache-2.0
 *
 * Every mutant of a recording, judged twice: by the checker and by brute force. Included by the
 * quick test and the slow one, which differ in how many recordings they take.
 */
#pragma once

#include <check.h>
#include <stdio.h>

#include "check/verifier.h"
#include "support/brute_force.h"
#include "support/plan_mutation.h"
#include "support/recording_plan.h"

/* What came of the mutants of one kind. */
typedef struct Confusion {
    uint32_t harmless, false_alarms, missed, reported;
} Confusion;

typedef struct MutationTest {
    const SimPlan *original;
    const char *recording;
    Confusion table[PLAN_MUTATION_COUNT];
} MutationTest;

static inline void count_mutant(MutationTest *test, PlanMutation mutation, size_t row, bool is_bad,
                                const SimVerdict *verdict)
{
    Confusion *c = &test->table[mutation];
    bool is_reported = !sim_verdict_is_safe(verdict);
    *(is_bad        ? is_reported ? &c->reported : &c->missed
      : is_reported ? &c->false_alarms
                    : &c->harmless) += 1;
    if (is_bad == is_reported)
        return;
    g_autofree char *text = sim_verdict_print(verdict, 2);
    printf("%s, %s at row %zu: %s\n%s", test->recording, plan_mutation_name(mutation), row + 1,
           is_bad ? "missed" : "false alarm", text);
}

static inline void judge_rank_mutant(SimPlan *mutant, PlanMutation mutation, size_t row,
                                     void *user_data)
{
    MutationTest *test = user_data;
    BruteForce truth;
    brute_force_run(mutant, 0, &truth);
    g_autoptr(SimVerdict) verdict = sim_verifier_check_plan(mutant, "mutant", NULL);
    ck_assert_ptr_nonnull(verdict);
    count_mutant(test, mutation, row, !brute_force_is_safe(&truth), verdict);
}

/* What a rank brings to GROUP, as text: sequences that differ anywhere are bad. */
static inline char *print_sequence(const SimPlan *plan, uint32_t group)
{
    g_autoptr(GString) text = g_string_new(NULL);
    for (size_t i = 0; i < sim_plan_length(plan); i++) {
        const SimInstruction *row = sim_plan_instruction(plan, i);
        if (row->op == SIM_PLAN_COLLECTIVE && row->group == group)
            g_string_append_printf(text, "%u %u %" G_GUINT64_FORMAT " %u;", row->collective,
                                   row->unit, row->bytes, row->dtype);
    }
    return g_strdup(text->str);
}

static inline bool has_mismatch(const SimPlan *one, const SimPlan *other)
{
    bool differs = false;
    for (uint32_t group = 0; group < sim_plan_group_count(one); group++) {
        g_autofree char *a = print_sequence(one, group);
        g_autofree char *b = print_sequence(other, group);
        differs |= g_strcmp0(a, b) != 0;
    }
    return differs;
}

/* The mutant is rank 0's plan; all others play the original. */
static inline void judge_one_of_many(SimPlan *mutant, PlanMutation mutation, size_t row,
                                     void *user_data)
{
    MutationTest *test = user_data;
    uint32_t list, place, members = 1;
    sim_plan_group_of_rank(test->original, sim_plan_instruction(test->original, row)->group, 0,
                           &list, &place, &members);
    if (members == 1)
        return; /* nobody to disagree with */
    g_autoptr(SimVerifier) verifier = sim_verifier_new();
    uint32_t ranks = sim_plan_ranks(mutant);
    ck_assert(sim_verifier_add(verifier, mutant, "mutant", 0, 0, NULL));
    ck_assert(sim_verifier_add(verifier, test->original, "original", 1, ranks - 1, NULL));
    g_autoptr(SimVerdict) verdict = sim_verifier_finish(verifier, NULL);
    ck_assert_ptr_nonnull(verdict);
    /* The rank's own rows may break too; then the report need not be about the others. */
    bool is_bad = has_mismatch(mutant, test->original);
    if (!is_bad) {
        BruteForce truth;
        brute_force_run(mutant, 0, &truth);
        is_bad = !brute_force_is_safe(&truth);
    }
    count_mutant(test, mutation, row, is_bad, verdict);
}

static inline void mutate_recording(MutationTest *test, const char *file)
{
    g_autoptr(SimPlan) plan = recording_plan_load(file, NULL);
    ck_assert_msg(plan != NULL, "%s", file);
    test->original = plan;
    test->recording = file;
    for (PlanMutation mutation = 0; mutation < PLAN_MUTATION_COUNT; mutation++)
        plan_mutation_each(plan, mutation, 1,
                           mutation < PLAN_MUTATION_OF_RANK ? judge_rank_mutant : judge_one_of_many,
                           test);
}

/* Prints the table; fails on a miss or a false alarm, or where a kind was never harmful. */
static inline void finish_mutation_test(const MutationTest *test)
{
    uint32_t wrong = 0;
    printf("%-24s %9s %9s %12s %9s\n", "mutation", "reported", "missed", "false alarm", "harmless");
    for (PlanMutation mutation = 0; mutation < PLAN_MUTATION_COUNT; mutation++) {
        const Confusion *c = &test->table[mutation];
        printf("%-24s %9u %9u %12u %9u\n", plan_mutation_name(mutation), c->reported, c->missed,
               c->false_alarms, c->harmless);
        wrong += c->missed + c->false_alarms;
    }
    ck_assert_uint_eq(wrong, 0);
}
