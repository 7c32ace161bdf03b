/* SPDX-License-Identifier: Apache-2.0 */
#include "fsdp/adamw.h"

#define STEP_BYTES UINT64_C(4)

/* The states of one parameter; those with rows exist once for ranks with all rows (0) and once for
 * the rank with the rest (1). */
typedef struct States {
    uint32_t step; /* SIM_PLAN_NONE before the first step */
    uint32_t exp_avg[2];
    uint32_t exp_avg_sq[2];
} States;

struct SimAdamw {
    SimPlan *plan;
    GArray *states; /* of States, by parameter of the model */
    uint32_t shard_size;
    uint32_t compute;
    SimStringId adamw, adamw_step;
};

SimAdamw *sim_adamw_new(SimPlan *plan, uint32_t parameters, uint32_t shard_size)
{
    SimAdamw *adamw = g_new0(SimAdamw, 1);
    adamw->plan = plan;
    adamw->states = g_array_new(FALSE, FALSE, sizeof(States));
    const States none = {
        SIM_PLAN_NONE, {SIM_PLAN_NONE, SIM_PLAN_NONE}, {SIM_PLAN_NONE, SIM_PLAN_NONE}};
    for (uint32_t i = 0; i < parameters; i++)
        g_array_append_val(adamw->states, none);
    adamw->shard_size = shard_size;
    adamw->compute = sim_plan_stream(plan, "compute");
    adamw->adamw = sim_strings_intern(sim_plan_strings(plan), "adamw");
    adamw->adamw_step = sim_strings_intern(sim_plan_strings(plan), "adamw_step");
    return adamw;
}

void sim_adamw_free(SimAdamw *adamw)
{
    if (adamw == NULL)
        return;
    g_array_unref(adamw->states);
    g_free(adamw);
}

static const SimOptimizerTensor *get_tensor(const GArray *tensors, uint32_t index)
{
    return &g_array_index(tensors, SimOptimizerTensor, index);
}

static States *get_states(const SimAdamw *adamw, const SimOptimizerTensor *tensor)
{
    return &g_array_index(adamw->states, States, tensor->parameter);
}

static SimName name_state(SimAdamw *adamw, const SimOptimizerTensor *tensor, const char *what,
                          int serial)
{
    SimStrings *strings = sim_plan_strings(adamw->plan);
    return (SimName){
        .stem = sim_strings_internf(strings, "S:%s", sim_plan_string(adamw->plan, tensor->unit)),
        .tail =
            sim_strings_internf(strings, "%s.%s", sim_plan_string(adamw->plan, tensor->tail), what),
        .serial = serial,
    };
}

/* exp_avg or exp_avg_sq of TENSOR, for the ranks with all rows and for the one with the rest. */
static void alloc_moment(SimAdamw *adamw, const SimOptimizerTensor *tensor, const char *what,
                         uint32_t buffers[2])
{
    SimPlanContext *context = sim_plan_context(adamw->plan);
    uint32_t ranks = context->rank_set;
    uint32_t breaks[3] = {0, 0, 0};
    sim_shard_find_breaks(&tensor->shard, adamw->shard_size, &breaks[1], &breaks[2]);
    for (int i = 0; i < 2; i++) {
        if (breaks[i] == breaks[i + 1])
            continue;
        SimRankClass class =
            sim_rank_classes_make(adamw->plan, adamw->shard_size, breaks[i], breaks[i + 1]);
        context->rank_set = class.rank_set == 0 ? ranks : class.rank_set;
        buffers[i] = sim_plan_alloc(adamw->plan, adamw->compute, name_state(adamw, tensor, what, i),
                                    sim_optimizer_tensor_bytes(tensor, &class),
                                    SIM_CATEGORY_OPTIMIZER_STATE, tensor->dtype, 0);
    }
    context->rank_set = ranks;
}

static void alloc_states(SimAdamw *adamw, const SimOptimizerTensor *tensor)
{
    States *states = get_states(adamw, tensor);
    if (states->step != SIM_PLAN_NONE)
        return;
    sim_plan_context(adamw->plan)->unit = tensor->unit;
    states->step = sim_plan_alloc(adamw->plan, adamw->compute, name_state(adamw, tensor, "step", 0),
                                  STEP_BYTES, SIM_CATEGORY_OPTIMIZER_STATE, SIM_DTYPE_F32, 0);
    alloc_moment(adamw, tensor, "exp_avg", states->exp_avg);
    alloc_moment(adamw, tensor, "exp_avg_sq", states->exp_avg_sq);
    sim_plan_context(adamw->plan)->unit = 0;
}

/* Which of a tensor's two kinds of states a rank of CLASS has; asked only where it has rows. */
static int find_kind(const SimAdamw *adamw, const SimOptimizerTensor *tensor,
                     const SimRankClass *class)
{
    uint32_t first_partial, first_empty;
    sim_shard_find_breaks(&tensor->shard, adamw->shard_size, &first_partial, &first_empty);
    return class->first < first_partial ? 0 : 1;
}

/* A tensor's operands, in the order of torch._fused_adamw_: value, gradient, moments, step; written
 * are all but the gradient and the step. */
static void add_operands(SimAdamw *adamw, const SimOptimizerTensor *tensor,
                         const SimRankClass *class, bool is_write)
{
    SimPlan *plan = adamw->plan;
    uint64_t bytes = sim_optimizer_tensor_bytes(tensor, class);
    if (bytes == 0)
        return;
    const States *states = get_states(adamw, tensor);
    int kind = find_kind(adamw, tensor, class);
    SimTouch value = {.buffer = tensor->value, .offset = tensor->value_offset, .bytes = bytes};
    SimTouch exp_avg = SIM_TOUCH_WHOLE(states->exp_avg[kind]);
    SimTouch exp_avg_sq = SIM_TOUCH_WHOLE(states->exp_avg_sq[kind]);
    if (is_write) {
        sim_plan_add_write(plan, value);
        sim_plan_add_write(plan, exp_avg);
        sim_plan_add_write(plan, exp_avg_sq);
        return;
    }
    sim_plan_add_read(plan, value);
    sim_plan_add_read(plan, sim_optimizer_tensor_gradient(tensor, class));
    sim_plan_add_read(plan, exp_avg);
    sim_plan_add_read(plan, exp_avg_sq);
    sim_plan_add_read(plan, SIM_TOUCH_WHOLE(states->step));
}

static void update(SimAdamw *adamw, const GArray *tensors, const SimRankClass *class)
{
    SimPlan *plan = adamw->plan;
    uint32_t ranks = sim_plan_context(plan)->rank_set;
    sim_plan_context(plan)->rank_set = class->rank_set == 0 ? ranks : class->rank_set;
    sim_plan_kernel(plan, adamw->compute, adamw->adamw, adamw->adamw, SIM_DTYPE_F32)->hbm_bytes =
        7 * sim_optimizer_tensor_sum(tensors, class); /* four read, three written */
    for (uint32_t i = 0; i < tensors->len; i++)
        add_operands(adamw, get_tensor(tensors, i), class, false);
    for (uint32_t i = 0; i < tensors->len; i++)
        add_operands(adamw, get_tensor(tensors, i), class, true);
    sim_plan_context(plan)->rank_set = ranks;
}

static void count_up(SimAdamw *adamw, const GArray *tensors)
{
    SimPlan *plan = adamw->plan;
    sim_plan_kernel(plan, adamw->compute, adamw->adamw_step, adamw->adamw_step, SIM_DTYPE_F32)
        ->hbm_bytes = 2 * STEP_BYTES * tensors->len;
    for (uint32_t i = 0; i < tensors->len; i++)
        sim_plan_add_read(plan, SIM_TOUCH_WHOLE(get_states(adamw, get_tensor(tensors, i))->step));
    for (uint32_t i = 0; i < tensors->len; i++)
        sim_plan_add_write(plan, SIM_TOUCH_WHOLE(get_states(adamw, get_tensor(tensors, i))->step));
}

void sim_adamw_step(SimAdamw *adamw, const GArray *tensors)
{
    if (tensors->len == 0)
        return;
    for (uint32_t i = 0; i < tensors->len; i++)
        alloc_states(adamw, get_tensor(tensors, i));
    count_up(adamw, tensors);
    g_autoptr(GArray) classes =
        sim_optimizer_tensor_classes(adamw->plan, adamw->shard_size, tensors);
    for (uint32_t i = 0; i < classes->len; i++)
        update(adamw, tensors, &g_array_index(classes, SimRankClass, i));
}
