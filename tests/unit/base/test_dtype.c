/* SPDX-License-Identifier: Apache-2.0 */
#include <check.h>
#include <stdlib.h>

#include "base/dtype.h"
#include "base/error.h"

START_TEST(names_and_sizes_belong_together)
{
    static const struct {
        const char *name;
        SimDtype dtype;
        unsigned bytes;
    } rows[] = {
        {"", SIM_DTYPE_NONE, 0},   {"f32", SIM_DTYPE_F32, 4}, {"bf16", SIM_DTYPE_BF16, 2},
        {"f16", SIM_DTYPE_F16, 2}, {"f8", SIM_DTYPE_F8, 1},   {"i64", SIM_DTYPE_I64, 8},
        {"u8", SIM_DTYPE_U8, 1},   {"c64", SIM_DTYPE_C64, 8}, /* two halves of 4 bytes */
        {"i32", SIM_DTYPE_I32, 4},
    };
    ck_assert_uint_eq(G_N_ELEMENTS(rows), SIM_DTYPE_COUNT);
    for (size_t i = 0; i < G_N_ELEMENTS(rows); i++) {
        SimDtype dtype = SIM_DTYPE_COUNT;
        ck_assert(sim_dtype_parse(rows[i].name, "x", &dtype, NULL));
        ck_assert_int_eq(dtype, rows[i].dtype);
        ck_assert_str_eq(sim_dtype_name(dtype), rows[i].name);
        ck_assert_uint_eq(sim_dtype_bytes(dtype), rows[i].bytes);
    }
}
END_TEST

START_TEST(unknown_name_gets_the_nearest)
{
    SimDtype dtype = SIM_DTYPE_U8;
    g_autoptr(GError) error = NULL;
    ck_assert(!sim_dtype_parse("bf61", "p.csv:7", &dtype, &error));
    ck_assert_str_eq(error->message, "p.csv:7: unknown element type 'bf61'; did you mean 'bf16'? "
                                     "(one of f32, bf16, f16, f8, i64, u8, c64, i32)");
    ck_assert_int_eq(dtype, SIM_DTYPE_U8);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("dtype");
    TCase *tests = tcase_create("dtype");
    tcase_add_test(tests, names_and_sizes_belong_together);
    tcase_add_test(tests, unknown_name_gets_the_nearest);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
