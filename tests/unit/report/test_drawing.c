/* SPDX-License-Identifier: Apache-2.0
 *
 * What pictures are drawn with: axes, escaping, units.
 */
#include <check.h>
#include <string.h>

#include "report/axis.h"
#include "report/svg.h"
#include "report/unit_table.h"

static const struct {
    double most;
    unsigned count;
    double step;
} axes[] = {{80, 6, 20}, {78.1, 6, 20}, {6, 6, 1}, {6.1, 6, 2}, {516, 8, 100}, {0.9, 6, 0.2}};

START_TEST(axes_have_round_steps)
{
    ck_assert_double_eq_tol(sim_axis_step(axes[_i].most, axes[_i].count), axes[_i].step, 1e-9);
}
END_TEST

START_TEST(axis_labels_have_the_decimals_they_need)
{
    g_autofree char *whole = sim_axis_print(40, 20);
    g_autofree char *tenths = sim_axis_print(0.4, 0.2);
    ck_assert_str_eq(whole, "40");
    ck_assert_str_eq(tenths, "0.4");
}
END_TEST

START_TEST(text_in_a_picture_is_escaped)
{
    SimSvg svg;
    sim_svg_init(&svg, "a", 10, 10, "<script>", "\"&'");
    sim_svg_text(&svg, 1, 1, "start", "", "</text><b>");
    g_autofree char *text = sim_svg_finish(&svg);
    ck_assert_ptr_null(strstr(text, "<script>"));
    ck_assert_ptr_null(strstr(text, "<b>"));
    ck_assert_ptr_nonnull(strstr(text, "&lt;/text&gt;&lt;b&gt;"));
}
END_TEST

static void add_buffer(SimPlan *plan, const char *name, SimCategory category, uint64_t bytes,
                       bool is_freed)
{
    uint32_t buffer =
        sim_plan_alloc(plan, 0, sim_plan_parse_name(plan, name), bytes, category, SIM_DTYPE_F32, 0);
    if (is_freed) {
        sim_plan_free_buffer(plan, buffer);
    }
}

/* A unit that gathers 800 bytes in forward and frees them at once, and a row of another step. */
START_TEST(a_unit_is_what_its_rows_say)
{
    g_autoptr(SimPlan) plan = sim_plan_new(8);
    ck_assert(sim_plan_add_group(plan, "shard", "0-7", NULL));
    sim_plan_stream(plan, "compute");
    SimStringId unit = sim_strings_intern(sim_plan_strings(plan), "layers.0");
    SimStringId name = sim_strings_intern(sim_plan_strings(plan), "all_gather");
    *sim_plan_context(plan) =
        (SimPlanContext){.step = -1, .microbatch = -1, .phase = SIM_PHASE_INIT, .unit = unit};
    add_buffer(plan, "P:layers.0#0:w", SIM_CATEGORY_PARAMETER_SHARD, 100, false);
    for (int32_t step = 0; step < 2; step++) {
        sim_plan_context(plan)->step = step;
        sim_plan_context(plan)->phase = SIM_PHASE_FORWARD;
        sim_plan_collective(plan, 0, name, SIM_COLLECTIVE_ALL_GATHER, 0, 800, SIM_DTYPE_F32);
        add_buffer(plan, "U:layers.0#0:w", SIM_CATEGORY_UNSHARDED_PARAMETER, 800, true);
        add_buffer(plan, "x", SIM_CATEGORY_ACTIVATION, 64, false);
        add_buffer(plan, "y", SIM_CATEGORY_ACTIVATION, 32, true);
    }
    g_autoptr(GArray) lines = sim_unit_table_compute(plan, 7, 1);
    ck_assert_uint_eq(lines->len, 1);
    const SimUnitLine *line = &g_array_index(lines, SimUnitLine, 0);
    ck_assert_uint_eq(line->shard_bytes, 100);
    ck_assert_uint_eq(line->forward_gather_bytes, 800);
    ck_assert_uint_eq(line->forward_free_bytes, 800);
    ck_assert_uint_eq(line->backward_gather_bytes, 0);
    ck_assert_uint_eq(line->activation_bytes, 64);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("drawing");
    TCase *tcase = tcase_create("drawing");
    tcase_add_loop_test(tcase, axes_have_round_steps, 0, (int)G_N_ELEMENTS(axes));
    tcase_add_test(tcase, axis_labels_have_the_decimals_they_need);
    tcase_add_test(tcase, text_in_a_picture_is_escaped);
    tcase_add_test(tcase, a_unit_is_what_its_rows_say);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? 0 : 1;
}
