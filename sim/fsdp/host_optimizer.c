/* SPDX-License-Identifier: Apache-2.0 */
#include "fsdp/host_optimizer.h"

struct SimHostOptimizer {
    SimPlan *plan;
    GArray *has_states; /* of bool, by parameter of the model */
};

SimHostOptimizer *sim_host_optimizer_new(SimPlan *plan, uint32_t parameters)
{
    SimHostOptimizer *optimizer = g_new0(SimHostOptimizer, 1);
    optimizer->plan = plan;
    optimizer->has_states = g_array_new(FALSE, TRUE, sizeof(bool));
    g_array_set_size(optimizer->has_states, parameters);
    return optimizer;
}

void sim_host_optimizer_free(SimHostOptimizer *optimizer)
{
    if (optimizer == NULL)
        return;
    g_array_unref(optimizer->has_states);
    g_free(optimizer);
}

GArray *sim_host_optimizer_take(const SimHostOptimizer *optimizer, GArray *tensors)
{
    GArray *taken = g_array_new(FALSE, FALSE, sizeof(SimOptimizerTensor));
    uint32_t kept = 0;
    for (uint32_t i = 0; i < tensors->len; i++) {
        SimOptimizerTensor tensor = g_array_index(tensors, SimOptimizerTensor, i);
        if (sim_plan_buffer(optimizer->plan, tensor.value)->is_host)
            g_array_append_val(taken, tensor);
        else
            g_array_index(tensors, SimOptimizerTensor, kept++) = tensor;
    }
    g_array_set_size(tensors, kept);
    return taken;
}

/* exp_avg and exp_avg_sq of a rank with all rows; the few ranks with fewer are given as much. */
static void alloc_states(SimHostOptimizer *optimizer, const SimOptimizerTensor *tensor)
{
    static const char *const NAMES[] = {"exp_avg", "exp_avg_sq"};
    bool *has_states = &g_array_index(optimizer->has_states, bool, tensor->parameter);
    if (*has_states)
        return;
    *has_states = true;
    SimPlan *plan = optimizer->plan;
    SimStrings *strings = sim_plan_strings(plan);
    sim_plan_context(plan)->unit = tensor->unit;
    for (size_t i = 0; i < G_N_ELEMENTS(NAMES); i++) {
        SimName name = {
            .stem = sim_strings_internf(strings, "S:%s", sim_plan_string(plan, tensor->unit)),
            .tail = sim_strings_internf(strings, "%s.%s", sim_plan_string(plan, tensor->tail),
                                        NAMES[i]),
        };
        sim_plan_alloc_host(plan, name, sim_plan_buffer(plan, tensor->value)->bytes,
                            SIM_CATEGORY_OPTIMIZER_STATE, tensor->dtype, 0);
    }
    sim_plan_context(plan)->unit = 0;
}

void sim_host_optimizer_step(SimHostOptimizer *optimizer, const GArray *tensors)
{
    for (uint32_t i = 0; i < tensors->len; i++)
        alloc_states(optimizer, &g_array_index(tensors, SimOptimizerTensor, i));
    if (tensors->len > 0)
        sim_plan_host(optimizer->plan, "adamw", 0);
}

void sim_host_optimizer_clip(SimHostOptimizer *optimizer, const GArray *tensors)
{
    if (tensors->len > 0)
        sim_plan_host(optimizer->plan, "clip", 0);
}
