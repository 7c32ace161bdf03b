/* SPDX-License-Identifier: Apache-2.0
 *
 * What each optimizer keeps and holds, counted from the plan that it writes.
 */
#include <check.h>
#include <string.h>

#include "fsdp/optimizer.h"

#define RANKS 4

typedef struct Bench {
    SimPlan *plan;
    SimOptimizer *optimizer;
    GArray *tensors; /* of SimOptimizerTensor */
} Bench;

static uint32_t alloc(SimPlan *plan, const char *stem, int32_t serial, uint64_t bytes,
                      SimCategory category)
{
    SimName name = {.stem = sim_strings_intern(sim_plan_strings(plan), stem), .serial = serial};
    return sim_plan_alloc(plan, 0, name, bytes, category, SIM_DTYPE_F32, 0);
}

static void add_tensor(Bench *bench, uint64_t rows, uint64_t columns)
{
    SimShape shape = {.dims = {rows, columns}, .n_dims = columns > 1 ? 2 : 1};
    SimStrings *strings = sim_plan_strings(bench->plan);
    int32_t index = (int32_t)bench->tensors->len;
    SimOptimizerTensor tensor = {
        .parameter = bench->tensors->len,
        .shard = sim_shard_compute(&shape, 0, RANKS),
        .dtype = SIM_DTYPE_F32,
        .unit = sim_strings_intern(strings, "unit"),
        .tail = sim_strings_internf(strings, "weight%d", index),
    };
    uint64_t bytes = 4 * tensor.shard.shard_elements;
    tensor.value = alloc(bench->plan, "P:unit", index, bytes, SIM_CATEGORY_PARAMETER_SHARD);
    tensor.gradient = alloc(bench->plan, "O:unit", index, bytes, SIM_CATEGORY_SHARDED_GRADIENT);
    g_array_append_val(bench->tensors, tensor);
}

/* Over 4 ranks: a matrix of which each has 256 x 64 elements, and a vector of 6, cut 2, 2, 2, 0. */
static Bench new_bench(SimJobOptimizer kind)
{
    Bench bench = {.plan = sim_plan_new(RANKS),
                   .tensors = g_array_new(FALSE, FALSE, sizeof(SimOptimizerTensor))};
    sim_plan_stream(bench.plan, "compute");
    add_tensor(&bench, 1024, 64);
    add_tensor(&bench, 6, 1);
    bench.optimizer = sim_optimizer_new(bench.plan, kind, bench.tensors->len, RANKS);
    sim_plan_context(bench.plan)->phase = SIM_PHASE_OPTIMIZER;
    return bench;
}

static void free_bench(Bench *bench)
{
    sim_optimizer_free(bench->optimizer);
    sim_plan_free(bench->plan);
    g_array_unref(bench->tensors);
}

typedef struct Count {
    uint64_t states;     /* bytes alive at the end */
    uint64_t peak_extra; /* of temporaries */
    uint32_t kernels;
} Count;

/* Of the rows from FIRST on, those that rank 0 plays. */
static Count count(const SimPlan *plan, size_t first)
{
    Count count = {0};
    uint64_t extra = 0;
    for (size_t row = first; row < sim_plan_length(plan); row++) {
        const SimInstruction *instruction = sim_plan_instruction(plan, row);
        if (!sim_plan_rank_set_has(plan, instruction->rank_set, 0))
            continue;
        if (instruction->op == SIM_PLAN_KERNEL)
            count.kernels++;
        if (instruction->op != SIM_PLAN_ALLOC && instruction->op != SIM_PLAN_FREE)
            continue;
        const SimBuffer *buffer = sim_plan_buffer(plan, instruction->buffer);
        if (buffer->category == SIM_CATEGORY_OPTIMIZER_STATE)
            count.states += buffer->bytes;
        else if (instruction->op == SIM_PLAN_ALLOC)
            extra += buffer->bytes;
        else
            extra -= buffer->bytes;
        count.peak_extra = MAX(count.peak_extra, extra);
    }
    ck_assert_uint_eq(extra, 0);
    return count;
}

#define MATRIX UINT64_C(65536) /* 256 x 64 x 4 bytes */
#define VECTOR UINT64_C(8)     /* 2 x 4 bytes */

static const struct {
    SimJobOptimizer kind;
    uint64_t states, extra;
} cases[] = {
    /* two moments, and a 4-byte step for each tensor */
    {SIM_JOB_ADAMW, 2 * (MATRIX + VECTOR) + 2 * 4, 0},
    /* steps are on the CPU; the square roots are as large as the parameters */
    {SIM_JOB_ADAMW_FOREACH, 2 * (MATRIX + VECTOR), MATRIX + VECTOR},
    /* a byte an element and 4 for each 256, twice; the vector is too small: 4 bytes an element;
     * two tables of 256 values */
    {SIM_JOB_ADAMW_8BIT, 2 * (16384 + 64 * 4) + 2 * VECTOR + 2 * 1024, 0},
    {SIM_JOB_SGD, 0, 0},
    {SIM_JOB_SGD_MOMENTUM, MATRIX + VECTOR, 0},
    /* a row's and a column's variance of the matrix, all of the vector's; the product of both lives
     * on in a variable while the vector's two temporaries are made */
    {SIM_JOB_ADAFACTOR, (256 + 64) * 4 + VECTOR, MATRIX + 2 * VECTOR},
};

START_TEST(states_are_born_in_the_first_step_and_temporaries_die_in_it)
{
    Bench bench = new_bench(cases[_i].kind);
    size_t first = sim_plan_length(bench.plan);
    sim_optimizer_step(bench.optimizer, bench.tensors);
    Count born = count(bench.plan, first);
    ck_assert_uint_eq(born.states, cases[_i].states);
    ck_assert_uint_eq(born.peak_extra, cases[_i].extra);
    ck_assert_uint_gt(born.kernels, 0);
    size_t second = sim_plan_length(bench.plan);
    sim_optimizer_step(bench.optimizer, bench.tensors);
    Count later = count(bench.plan, second);
    ck_assert_uint_eq(later.states, 0);
    ck_assert_uint_eq(later.peak_extra, cases[_i].extra);
    free_bench(&bench);
}
END_TEST

/* Rank 3 has no row of the vector. */
START_TEST(a_rank_without_rows_has_no_state)
{
    Bench bench = new_bench(SIM_JOB_SGD_MOMENTUM);
    size_t first = sim_plan_length(bench.plan);
    uint64_t bytes = 0;
    sim_optimizer_step(bench.optimizer, bench.tensors);
    for (size_t row = first; row < sim_plan_length(bench.plan); row++) {
        const SimInstruction *instruction = sim_plan_instruction(bench.plan, row);
        if (instruction->op == SIM_PLAN_ALLOC &&
            sim_plan_rank_set_has(bench.plan, instruction->rank_set, 3))
            bytes += sim_plan_buffer(bench.plan, instruction->buffer)->bytes;
    }
    ck_assert_uint_eq(bytes, MATRIX);
    free_bench(&bench);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("optimizer");
    TCase *tcase = tcase_create("optimizer");
    tcase_add_loop_test(tcase, states_are_born_in_the_first_step_and_temporaries_die_in_it, 0,
                        G_N_ELEMENTS(cases));
    tcase_add_test(tcase, a_rank_without_rows_has_no_state);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed > 0;
}
