/* SPDX-License-Identifier: Apache-2.0
 *
 * Gradients that share a buffer, as in DDP's buckets (torch/csrc/distributed/c10d/reducer.cpp: each
 * gradient's part is divided by itself, the bucket is reduced as one): each part is judged by what
 * was done to it, not to its neighbours.
 */
#include <check.h>

#include "check/part_map.h"
#include "check/verifier.h"
#include "support/plan_writer.h"

#define RANKS 4
#define PARTS 2
#define PART_BYTES 64
#define BACKWARDS 2

/* The division by RANKS that is left out. */
typedef struct Omission {
    int32_t backward;
    uint32_t part;
} Omission;

static SimTouch part_of(uint32_t buffer, uint32_t part)
{
    return (SimTouch){.buffer = buffer, .offset = (uint64_t)part * PART_BYTES, .bytes = PART_BYTES};
}

static void write_division(SimPlan *plan, uint32_t bucket, uint32_t part)
{
    SimInstruction *row = write_kernel(plan, "compute", "div", NOBODY, NOBODY);
    g_autofree char *factor = g_strdup_printf("factor=%d", RANKS);
    row->arguments = sim_strings_intern(sim_plan_strings(plan), factor);
    sim_plan_add_read(plan, part_of(bucket, part));
    sim_plan_add_write(plan, part_of(bucket, part));
}

/* A backward: each part of the bucket gets a gradient on top, is divided, and all is summed. */
static void write_backward(SimPlan *plan, int32_t microbatch, const uint32_t *parameters,
                           uint32_t bucket, const Omission *omission)
{
    for (uint32_t part = 0; part < PARTS; part++) {
        g_autofree char *unit = g_strdup_printf("layers.%u", part);
        set_phase(plan, 0, SIM_PHASE_BACKWARD, microbatch, unit);
        write_kernel(plan, "compute", "gradient", parameters[part], NOBODY);
        if (microbatch > 0)
            sim_plan_add_read(plan, part_of(bucket, part));
        sim_plan_add_write(plan, part_of(bucket, part));
        if (omission == NULL || omission->backward != microbatch || omission->part != part)
            write_division(plan, bucket, part);
    }
    SimInstruction *row = write_collective(plan, "compute", SIM_COLLECTIVE_ALL_REDUCE, "shard",
                                           PARTS * PART_BYTES, bucket, bucket);
    row->arguments = sim_strings_intern(sim_plan_strings(plan), "reduction=sum");
}

/* Two backwards into one bucket without zero_grad between them, then an update from its parts. */
static SimPlan *write_bucket(const Omission *omission)
{
    SimPlan *plan = write_plan(RANKS, "0-3");
    set_phase(plan, -1, SIM_PHASE_INIT, -1, "");
    uint32_t parameters[PARTS];
    for (uint32_t part = 0; part < PARTS; part++) {
        g_autofree char *name = g_strdup_printf("P:layers.%u#0", part);
        parameters[part] =
            write_alloc(plan, "compute", name, PART_BYTES, SIM_CATEGORY_PARAMETER_SHARD);
        write_kernel(plan, "compute", "fill", NOBODY, parameters[part]);
    }
    uint32_t bucket = write_alloc(plan, "compute", "G:bucket#0", PARTS * PART_BYTES,
                                  SIM_CATEGORY_UNSHARDED_GRADIENT);
    for (int32_t microbatch = 0; microbatch < BACKWARDS; microbatch++)
        write_backward(plan, microbatch, parameters, bucket, omission);
    for (uint32_t part = 0; part < PARTS; part++) {
        g_autofree char *unit = g_strdup_printf("layers.%u", part);
        set_phase(plan, 0, SIM_PHASE_OPTIMIZER, -1, unit);
        write_kernel(plan, "compute", "sgd", NOBODY, NOBODY);
        sim_plan_add_read(plan, part_of(bucket, part));
        sim_plan_add_write(plan, SIM_TOUCH_WHOLE(parameters[part]));
    }
    return plan;
}

static uint64_t count_scalings(const Omission *omission, SimVerdict **verdict)
{
    g_autoptr(SimPlan) plan = write_bucket(omission);
    *verdict = sim_verifier_check_plan(plan, "plan.csv", NULL);
    ck_assert_ptr_nonnull(*verdict);
    return sim_findings_of_rule((*verdict)->findings, SIM_RULE_SCALED_ONCE);
}

/* Divided by 4 and summed over 4 ranks, twice: the first microbatch's sum is the same on all ranks
 * the second time, so it stays what it was. */
START_TEST(each_part_of_a_bucket_is_divided_by_itself)
{
    g_autoptr(SimVerdict) verdict = NULL;
    ck_assert_uint_eq(count_scalings(NULL, &verdict), 0);
    g_autofree char *text = sim_verdict_print(verdict, 5);
    ck_assert_msg(sim_verdict_is_safe(verdict), "%s", text);
    ck_assert_uint_eq(verdict->proof.gradients, PARTS);
}
END_TEST

START_TEST(a_division_left_out_is_told_of_its_part_only)
{
    for (int32_t backward = 0; backward < BACKWARDS; backward++)
        for (uint32_t part = 0; part < PARTS; part++) {
            Omission omission = {backward, part};
            g_autoptr(SimVerdict) verdict = NULL;
            ck_assert_uint_ge(count_scalings(&omission, &verdict), 1);
            ck_assert(!sim_verdict_is_safe(verdict));
        }
}
END_TEST

START_TEST(a_map_of_parts_is_cut_and_joined)
{
    g_autoptr(SimPartMap) map = sim_part_map_new(2);
    ck_assert_uint_eq(sim_part_map_find(map, 0, 0), SIM_PART_MAP_NONE);
    sim_part_map_put(map, 0, 10, 20, 7);
    SimPart part = sim_part_map_get(map, sim_part_map_find(map, 0, 0));
    ck_assert_uint_eq(part.end, 10);
    ck_assert_uint_eq(part.value, 0);
    part = sim_part_map_get(map, part.next);
    ck_assert_uint_eq(part.begin, 10);
    ck_assert_uint_eq(part.end, 20);
    ck_assert_uint_eq(part.value, 7);
    /* Over the border: 5-10 was 0, 10-15 was 7; 15-20 keeps its 7. */
    sim_part_map_put(map, 0, 5, 15, 9);
    part = sim_part_map_get(map, sim_part_map_find(map, 0, 5));
    ck_assert_uint_eq(part.begin, 5);
    ck_assert_uint_eq(part.end, 15);
    ck_assert_uint_eq(part.value, 9);
    ck_assert_uint_eq(sim_part_map_get(map, part.next).value, 7);
    ck_assert_uint_eq(sim_part_map_find(map, 1, 0), SIM_PART_MAP_NONE);
    sim_part_map_clear(map, 0);
    ck_assert_uint_eq(sim_part_map_find(map, 0, 0), SIM_PART_MAP_NONE);
}
END_TEST

static Suite *make_suite(void)
{
    Suite *suite = suite_create("gradient_parts");
    TCase *tests = tcase_create("parts");
    tcase_add_test(tests, each_part_of_a_bucket_is_divided_by_itself);
    tcase_add_test(tests, a_division_left_out_is_told_of_its_part_only);
    tcase_add_test(tests, a_map_of_parts_is_cut_and_joined);
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
