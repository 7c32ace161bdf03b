/* SPDX-License-Identifier: Apache-2.0
 *
 * A step of two layers by our autograd beside PyTorch's recording of it (data/README.md).
 */
#pragma once

#include <check.h>
#include <string.h>

#include "autograd/autograd.h"
#include "base/csv.h"
#include "model/hf_model.h"

typedef struct Step {
    SimModel *model;
    SimPlan *plan;
    SimAutograd *autograd;
    SimAutogradHooks hooks; /* may be changed after start_step */
    uint32_t *parameters;   /* buffers */
    size_t first_row;       /* of the plan, after what lies in memory before the step */
    uint32_t first_buffer;
    SimAutogradCheckpoint *checkpoints; /* by module; NULL = none; to be set before start_step */
    const SimDtype *parameter_dtypes;   /* NULL = all bf16; likewise */
    uint64_t batch;                     /* 0 = 1; likewise */
    bool is_autocast;                   /* f32 parameters and residual stream; likewise */
} Step;

static inline uint32_t no_token(void *user_data, uint32_t module)
{
    (void)user_data, (void)module;
    return SIM_AUTOGRAD_NO_TOKEN;
}

static inline void no_pre_backward(void *user_data, uint32_t token, bool is_repeat)
{
    (void)user_data, (void)token, (void)is_repeat;
}

static inline void no_post_backward(void *user_data, uint32_t token)
{
    (void)user_data, (void)token;
}

static inline uint32_t parameter_buffer(void *user_data, uint32_t parameter)
{
    Step *step = user_data;
    return step->parameters[parameter];
}

static inline void keep_gradient(void *user_data, uint32_t parameter, uint32_t buffer)
{
    (void)user_data, (void)parameter, (void)buffer;
}

static inline SimModelConfig *load_net(const char *net)
{
    g_autofree char *file = g_strdup_printf("%s/models/nets/%s.json", SIM_SOURCE_DIR, net);
    GError *error = NULL;
    SimModelConfig *config = sim_hf_config_load(file, &error);
    ck_assert_msg(config != NULL, "%s", error != NULL ? error->message : "?");
    return config;
}

static inline SimModel *build_net(const SimModelConfig *config, const SimModelOptions *options)
{
    GError *error = NULL;
    SimModel *model = sim_hf_model_build(config, options, &error);
    ck_assert_msg(model != NULL, "%s", error != NULL ? error->message : "?");
    return model;
}

/* The net as it was recorded: cast to bf16 as a whole, f32 buffers too (FSDP leaves them as they
 * are). */
static inline void round_buffers(SimModel *model)
{
    for (guint i = 0; i < model->buffers->len; i++) {
        SimModelBuffer *buffer = &g_array_index(model->buffers, SimModelBuffer, i);
        if (buffer->dtype == SIM_DTYPE_F32)
            buffer->dtype = SIM_DTYPE_BF16;
    }
}

/* Of two layers. */
static inline SimModel *build_recorded_net(const char *net, const SimModelOptions *options,
                                           bool is_gelu_kernel)
{
    g_autoptr(SimModelConfig) config = load_net(net);
    config->layers = 2;
    config->is_gelu_kernel = config->is_gelu_kernel || is_gelu_kernel;
    SimModel *model = build_net(config, options);
    round_buffers(model);
    return model;
}

/* All that lies in memory before the step, parameters included. */
static inline void start_step(Step *step, SimModel *model, uint64_t sequence)
{
    step->hooks = (SimAutogradHooks){.user_data = step,
                                     .pre_forward = no_token,
                                     .post_forward = no_token,
                                     .pre_backward = no_pre_backward,
                                     .post_backward = no_post_backward,
                                     .parameter = parameter_buffer,
                                     .gradient = keep_gradient};
    SimDtype dtype = step->is_autocast ? SIM_DTYPE_F32 : SIM_DTYPE_BF16;
    SimAutogradOptions options = {.sequence = sequence,
                                  .batch = MAX(step->batch, 1),
                                  .compute_dtype = dtype,
                                  .residual_dtype = dtype,
                                  .is_autocast = step->is_autocast,
                                  .sm_count = 132,
                                  .compute_capability = 90,
                                  .parameter_dtypes = step->parameter_dtypes,
                                  .checkpoints = step->checkpoints};
    step->model = model;
    step->plan = sim_plan_new(1);
    step->parameters = g_new(uint32_t, model->parameters->len);
    for (uint32_t i = 0; i < model->parameters->len; i++) {
        const SimParameter *parameter = sim_model_parameter(model, i);
        SimName name = {.stem = sim_strings_intern(sim_plan_strings(step->plan), parameter->path),
                        .serial = -1};
        step->parameters[i] = sim_plan_alloc(step->plan, 0, name, parameter->elements * 2,
                                             SIM_CATEGORY_UNSHARDED_PARAMETER, SIM_DTYPE_BF16, 0);
    }
    step->autograd = sim_autograd_new(model, step->plan, &options, &step->hooks);
    sim_autograd_start(step->autograd);
    step->first_row = sim_plan_length(step->plan);
    step->first_buffer = (uint32_t)sim_plan_buffer_count(step->plan);
    sim_plan_context(step->plan)->phase = SIM_PHASE_FORWARD;
}

/* After the forward: backward and the end of the loss. */
static inline void finish_step(Step *step)
{
    sim_plan_context(step->plan)->phase = SIM_PHASE_BACKWARD;
    sim_autograd_backward(step->autograd, 0);
    sim_autograd_drop_loss(step->autograd, 0);
    sim_autograd_free(g_steal_pointer(&step->autograd));
}

static inline void run_step(Step *step, SimModel *model, uint64_t sequence)
{
    step->checkpoints = NULL;
    step->parameter_dtypes = NULL;
    step->batch = 1;
    start_step(step, model, sequence);
    sim_autograd_forward(step->autograd, 0, true);
    finish_step(step);
}

static inline void done_step(Step *step)
{
    sim_plan_free(step->plan);
    sim_model_free(step->model);
    g_free(step->parameters);
}

static inline SimCsv *load_data(const char *name)
{
    g_autofree char *file = g_strdup_printf("%s/tests/unit/autograd/data/%s", SIM_SOURCE_DIR, name);
    GError *error = NULL;
    SimCsv *csv = sim_csv_load(file, NULL, &error);
    ck_assert_msg(csv != NULL, "%s", error != NULL ? error->message : "?");
    return csv;
}

static inline const char *cell(const SimCsv *csv, size_t row, const char *column)
{
    int number = sim_csv_column(csv, column);
    ck_assert_int_ge(number, 0);
    return sim_csv_cell(csv, row, number);
}
