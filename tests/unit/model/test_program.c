/* SPDX-License-Identifier: Apache-2.0
 *
 * Which references die after which call follows from Python's scoping.
 */
#include "model/forward.h"

#include <check.h>
#include <string.h>

/* "1,0;2;" = after call 0 slots 1 and 0 die, after call 1 slot 2. */
static char *dying_of(const SimProgram *program)
{
    GString *text = g_string_new(NULL);
    for (guint i = 0; i < program->calls->len; i++) {
        const SimProgramCall *call = &g_array_index(program->calls, SimProgramCall, i);
        for (uint32_t j = 0; j < call->n_dying; j++)
            g_string_append_printf(text, "%s%u", j > 0 ? "," : "",
                                   g_array_index(program->dying, SimSlot, call->first_dying + j));
        g_string_append_c(text, ';');
    }
    return g_string_free(text, FALSE);
}

START_TEST(unnamed_values_die_after_the_call_that_takes_them)
{
    /* return silu(x) + neg(x): operands die from left to right, the argument is the caller's */
    g_autoptr(SimProgram) p = sim_program_new(1);
    SimSlot a = sim_forward_unary(p, SIM_OPERATOR_SILU, 0);
    SimSlot b = sim_forward_unary(p, SIM_OPERATOR_NEG, 0);
    SimSlot sum = sim_forward_binary(p, SIM_OPERATOR_ADD, a, b);
    sim_program_finish(p, 1, &sum);
    g_autofree char *dying = dying_of(p);
    ck_assert_str_eq(dying, ";;1,2;");
    ck_assert_uint_eq(p->results[0], sum);
}
END_TEST

START_TEST(variables_die_when_bound_anew_or_at_return)
{
    /* a = silu(x); b = neg(a); a = neg(b); return a: old a dies after the call that made its
     * successor, b at return, which is the same place but later */
    g_autoptr(SimProgram) p = sim_program_new(1);
    SimSlot a = sim_program_bind(p, sim_forward_unary(p, SIM_OPERATOR_SILU, 0));
    SimSlot b = sim_program_bind(p, sim_forward_unary(p, SIM_OPERATOR_NEG, a));
    a = sim_program_rebind(p, a, sim_forward_unary(p, SIM_OPERATOR_NEG, b));
    sim_program_finish(p, 1, &a);
    g_autofree char *dying = dying_of(p);
    ck_assert_str_eq(dying, ";;1,2;");
}
END_TEST

START_TEST(variables_die_in_the_order_of_first_binding)
{
    /* b bound first, then a; a bound anew keeps b's rank before it */
    g_autoptr(SimProgram) p = sim_program_new(1);
    SimSlot b = sim_program_bind(p, sim_forward_unary(p, SIM_OPERATOR_SILU, 0));
    SimSlot a = sim_program_bind(p, sim_forward_unary(p, SIM_OPERATOR_SILU, 0));
    b = sim_program_rebind(p, b, sim_forward_unary(p, SIM_OPERATOR_NEG, b));
    SimSlot out = sim_forward_binary(p, SIM_OPERATOR_ADD, a, b);
    sim_program_finish(p, 1, &out);
    g_autofree char *dying = dying_of(p);
    ck_assert_str_eq(dying, ";;1;3,2;"); /* slot 3 is the new b */
}
END_TEST

START_TEST(kept_variables_die_after_their_successors)
{
    /* a = silu(x); b = a; a = neg(b); return neg(a): a's place is the older one */
    g_autoptr(SimProgram) p = sim_program_new(1);
    SimSlot a = sim_program_bind(p, sim_forward_unary(p, SIM_OPERATOR_SILU, 0));
    SimSlot b = a;
    a = sim_program_rebind_kept(p, b, sim_forward_unary(p, SIM_OPERATOR_NEG, b));
    SimSlot out = sim_forward_unary(p, SIM_OPERATOR_NEG, a);
    sim_program_finish(p, 1, &out);
    g_autofree char *dying = dying_of(p);
    ck_assert_str_eq(dying, ";;2,1;");
}
END_TEST

START_TEST(functions_drop_their_own_variables_only)
{
    /* outer = silu(x); def f(): t = neg(outer); return neg(t); y = f(); del outer; return neg(y) */
    g_autoptr(SimProgram) p = sim_program_new(1);
    SimSlot outer = sim_program_bind(p, sim_forward_unary(p, SIM_OPERATOR_SILU, 0));
    sim_program_open_function(p);
    SimSlot t = sim_program_bind(p, sim_forward_unary(p, SIM_OPERATOR_NEG, outer));
    SimSlot result = sim_forward_unary(p, SIM_OPERATOR_NEG, t);
    sim_program_close_function(p, 1, &result);
    sim_program_delete(p, outer);
    SimSlot out = sim_forward_unary(p, SIM_OPERATOR_NEG, result);
    sim_program_finish(p, 1, &out);
    g_autofree char *dying = dying_of(p);
    ck_assert_str_eq(dying, ";;2,1;3;");
}
END_TEST

START_TEST(returned_variables_outlive_their_function_unnamed)
{
    /* def f(): v = silu(x); return v; return neg(f()): v dies in neg as an unnamed value */
    g_autoptr(SimProgram) p = sim_program_new(1);
    sim_program_open_function(p);
    SimSlot v = sim_program_bind(p, sim_forward_unary(p, SIM_OPERATOR_SILU, 0));
    sim_program_close_function(p, 1, &v);
    SimSlot out = sim_forward_unary(p, SIM_OPERATOR_NEG, v);
    sim_program_finish(p, 1, &out);
    g_autofree char *dying = dying_of(p);
    ck_assert_str_eq(dying, ";1;");
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("program");
    TCase *tcase = tcase_create("program");
    tcase_add_test(tcase, unnamed_values_die_after_the_call_that_takes_them);
    tcase_add_test(tcase, variables_die_when_bound_anew_or_at_return);
    tcase_add_test(tcase, variables_die_in_the_order_of_first_binding);
    tcase_add_test(tcase, kept_variables_die_after_their_successors);
    tcase_add_test(tcase, functions_drop_their_own_variables_only);
    tcase_add_test(tcase, returned_variables_outlive_their_function_unnamed);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed > 0;
}
