/* SPDX-License-Identifier: Apache-2.0 */
#include "fsdp/ignored_parameters.h"

#include "base/dtype.h"

struct SimIgnoredParameters {
    const SimJob *job;
    const SimModel *model;
    SimPlan *plan;
    uint32_t *values, *gradients; /* by parameter of the model */
};

SimIgnoredParameters *sim_ignored_parameters_new(const SimJob *job, const SimModel *model,
                                                 SimPlan *plan)
{
    SimIgnoredParameters *ignored = g_new0(SimIgnoredParameters, 1);
    ignored->job = job;
    ignored->model = model;
    ignored->plan = plan;
    ignored->values = g_new(uint32_t, model->parameters->len + 1);
    ignored->gradients = g_new(uint32_t, model->parameters->len + 1);
    for (uint32_t i = 0; i < model->parameters->len; i++)
        ignored->values[i] = ignored->gradients[i] = SIM_PLAN_NONE;
    return ignored;
}

void sim_ignored_parameters_free(SimIgnoredParameters *ignored)
{
    if (ignored == NULL)
        return;
    g_free(ignored->values);
    g_free(ignored->gradients);
    g_free(ignored);
}

void sim_ignored_parameters_start(SimIgnoredParameters *ignored)
{
    const GArray *list = ignored->job->ignored_parameters;
    SimStrings *strings = sim_plan_strings(ignored->plan);
    for (uint32_t i = 0; list != NULL && i < list->len; i++) {
        uint32_t index = g_array_index(list, uint32_t, i);
        const SimParameter *parameter = sim_model_parameter(ignored->model, index);
        g_autofree char *shape = sim_shape_print(&parameter->shape);
        SimName name = {.stem = sim_strings_internf(strings, "parameter:%s", parameter->path),
                        .serial = -1};
        ignored->values[index] = sim_plan_alloc(
            ignored->plan, sim_plan_stream(ignored->plan, "compute"), name,
            parameter->elements * sim_dtype_bytes(ignored->job->store_dtype), SIM_CATEGORY_BUFFER,
            ignored->job->store_dtype, sim_strings_intern(strings, shape));
    }
}

uint32_t sim_ignored_parameters_value(const SimIgnoredParameters *ignored, uint32_t parameter)
{
    return ignored->values[parameter];
}

uint32_t sim_ignored_parameters_gradient(const SimIgnoredParameters *ignored, uint32_t parameter)
{
    return ignored->gradients[parameter];
}

void sim_ignored_parameters_add_gradient(SimIgnoredParameters *ignored, uint32_t parameter,
                                         uint32_t buffer)
{
    uint32_t *gradient = &ignored->gradients[parameter];
    if (*gradient == SIM_PLAN_NONE) {
        *gradient = buffer;
        return;
    }
    SimPlan *plan = ignored->plan;
    const SimBuffer *added = sim_plan_buffer(plan, buffer);
    SimStringId word = sim_strings_intern(sim_plan_strings(plan), "accumulate");
    SimInstruction *kernel =
        sim_plan_kernel(plan, sim_plan_stream(plan, "compute"), word, word, (SimDtype)added->dtype);
    kernel->hbm_bytes = 3 * added->bytes;
    sim_plan_add_read(plan, SIM_TOUCH_WHOLE(*gradient));
    sim_plan_add_read(plan, SIM_TOUCH_WHOLE(buffer));
    sim_plan_add_write(plan, SIM_TOUCH_WHOLE(*gradient));
    sim_plan_free_buffer(plan, buffer);
}

void sim_ignored_parameters_clear(SimIgnoredParameters *ignored, uint32_t parameter)
{
    if (ignored->gradients[parameter] != SIM_PLAN_NONE)
        sim_plan_free_buffer(ignored->plan, ignored->gradients[parameter]);
    ignored->gradients[parameter] = SIM_PLAN_NONE;
}
