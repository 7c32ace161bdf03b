/* SPDX-License-Identifier: Apache-2.0 */
#include "fsdp/optimizer_method.h"

#include <glib.h>

#define V SIM_OPERAND_VALUE
#define G SIM_OPERAND_GRADIENT
#define T SIM_OPERAND_TEMPORARY
#define S SIM_OPERAND_STEP
#define S0 SIM_OPERAND_STATE_0
#define S1 (SIM_OPERAND_STATE_0 << 1)
#define S2 (SIM_OPERAND_STATE_0 << 2)
#define S3 (SIM_OPERAND_STATE_0 << 3)

static const SimOptimizerMethod methods[] = {
    /* torch._fused_adamw_ */
    [SIM_JOB_ADAMW] =
        {.has_device_step = true,
         .n_states = 2,
         .states = {{"exp_avg", SIM_STATE_LIKE_VALUE}, {"exp_avg_sq", SIM_STATE_LIKE_VALUE}},
         .n_passes = 2,
         .passes = {{.word = "adamw_step", .reads = S, .writes = S},
                    {.word = "adamw", .reads = V | G | S0 | S1 | S, .writes = V | S0 | S1}}},
    /* _multi_tensor_adam; the square roots of exp_avg_sq are what it holds. Steps are on the CPU.
     */
    [SIM_JOB_ADAMW_FOREACH] = {.n_temporaries = 1,
                               .n_states = 2,
                               .states = {{"exp_avg", SIM_STATE_LIKE_VALUE},
                                          {"exp_avg_sq", SIM_STATE_LIKE_VALUE}},
                               .n_passes = 8,
                               .passes = {{.word = "mul", .reads = V, .writes = V},
                                          {.word = "lerp", .reads = S0 | G, .writes = S0},
                                          {.word = "mul", .reads = S1, .writes = S1},
                                          {.word = "addcmul", .reads = S1 | G, .writes = S1},
                                          {.word = "sqrt", .reads = S1, .writes = T},
                                          {.word = "div", .reads = T, .writes = T},
                                          {.word = "add", .reads = T, .writes = T},
                                          {.word = "addcdiv", .reads = V | S0 | T, .writes = V}}},
    [SIM_JOB_ADAMW_8BIT] = {.has_maps = true,
                            .is_by_tensor = true,
                            .is_born_by_tensor = true,
                            .n_states = 4,
                            .states = {{"state1", SIM_STATE_QUANTISED},
                                       {"state2", SIM_STATE_QUANTISED},
                                       {"absmax1", SIM_STATE_MAXIMA},
                                       {"absmax2", SIM_STATE_MAXIMA}},
                            .n_passes = 1,
                            .passes = {{.word = "adamw_8bit",
                                        .reads = V | G | S0 | S1 | S2 | S3,
                                        .writes = V | S0 | S1 | S2 | S3}}},
    /* _multi_tensor_sgd */
    [SIM_JOB_SGD] = {.n_passes = 1, .passes = {{.word = "sgd", .reads = V | G, .writes = V}}},
    /* The first step clones the gradients into the momenta. */
    [SIM_JOB_SGD_MOMENTUM] =
        {.n_states = 1,
         .states = {{"momentum_buffer", SIM_STATE_LIKE_VALUE}},
         .n_passes = 4,
         .passes = {{.word = "clone", .reads = G, .writes = S0, .is_first_only = true},
                    {.word = "mul", .reads = S0, .writes = S0, .is_later_only = true},
                    {.word = "add", .reads = S0 | G, .writes = S0, .is_later_only = true},
                    {.word = "sgd", .reads = V | S0, .writes = V}}},
    /* _single_tensor_adafactor: of a vector the squared gradient and a copy of the variance, of a
     * matrix the variance as the product of its row's and its column's. */
    [SIM_JOB_ADAFACTOR] =
        {.is_by_tensor = true,
         .n_temporaries = 2,
         .n_states = 3,
         .states = {{"row_var", SIM_STATE_ROWS},
                    {"col_var", SIM_STATE_COLUMNS},
                    {"variance", SIM_STATE_VECTOR}},
         .n_passes = 3,
         .passes = {{.word = "adafactor_variance",
                     .reads = G | S0 | S1 | S2,
                     .writes = S0 | S1 | S2},
                    {.word = "adafactor_update", .reads = G | S0 | S1 | S2, .writes = T},
                    {.word = "add", .reads = V | T, .writes = V}}},
};

const SimOptimizerMethod *sim_optimizer_method_get(SimJobOptimizer kind)
{
    g_assert((size_t)kind < G_N_ELEMENTS(methods));
    return &methods[kind];
}
