/* SPDX-License-Identifier: Apache-2.0 */
#include "fsdp/fsdp1_context.h"

#include <math.h>

#include "base/error.h"
#include "fsdp/mesh_groups.h"

static SimFsdp1Words intern_words(SimPlan *plan)
{
    SimStrings *strings = sim_plan_strings(plan);
    return (SimFsdp1Words){
        .cast = sim_strings_intern(strings, "cast"),
        .cat = sim_strings_intern(strings, "cat"),
        .zeros = sim_strings_intern(strings, "zeros"),
        .accumulate = sim_strings_intern(strings, "accumulate"),
        .divide = sim_strings_intern(strings, "divide"),
        .pad = sim_strings_intern(strings, "pad"),
        .all_gather = sim_strings_intern(strings, "all_gather"),
        .reduce_scatter = sim_strings_intern(strings, "reduce_scatter"),
        .all_reduce = sim_strings_intern(strings, "all_reduce"),
        .sum = sim_strings_intern(strings, "reduction=sum"),
    };
}

static SimDtype choose(SimDtype wanted, SimDtype otherwise)
{
    return wanted == SIM_DTYPE_NONE ? otherwise : wanted;
}

/* _get_gradient_predivide_factor (torch/distributed/algorithms/_comm_hooks/default_hooks.py):
 * about the root of the ranks, so that sums neither overflow before nor underflow after. */
static double find_pre_factor(double ranks)
{
    double factor = 1;
    while (fmod(ranks, factor) == 0 && ranks / factor > factor)
        factor *= 2;
    return factor;
}

static bool set_groups(SimFsdp1Context *context, GError **error)
{
    const SimJob *job = context->job;
    if (job->shard_size == 0 || job->ranks % job->shard_size != 0) {
        g_set_error(error, SIM_ERROR, SIM_ERROR_RANGE,
                    "shard size: expected a divisor of the %u ranks, found %u", job->ranks,
                    job->shard_size);
        return false;
    }
    if (!context->is_sharded) {
        context->shard_size = 1;
        context->replicate_group = sim_mesh_groups_add_replicas(context->plan, "replicate", 1);
        return true;
    }
    context->shard_size = context->is_hybrid ? job->shard_size : job->ranks;
    context->shard_group =
        sim_mesh_groups_add_neighbours(context->plan, "shard", context->shard_size);
    if (context->is_hybrid)
        context->replicate_group =
            sim_mesh_groups_add_replicas(context->plan, "replicate", context->shard_size);
    return true;
}

static bool is_trained_alike(const SimFsdp1Context *context, const SimUnit *unit, GError **error)
{
    for (uint32_t i = 1; i < unit->parameters->len; i++) {
        const SimUnitParameter *parameter = &g_array_index(unit->parameters, SimUnitParameter, i);
        if (parameter->is_frozen == g_array_index(unit->parameters, SimUnitParameter, 0).is_frozen)
            continue;
        g_set_error(error, SIM_ERROR, SIM_ERROR_SCHEMA,
                    "%s: with use_orig_params false a unit's parameters are one parameter, so all "
                    "of them are frozen or none; set use_orig_params, or wrap what is frozen",
                    sim_model_parameter(context->model, parameter->parameter)->path);
        return false;
    }
    return true;
}

static bool is_one_module(const SimUnit *unit, const SimModel *model, GError **error)
{
    const GArray *modules = unit->call->modules;
    if (modules->len == 1)
        return true;
    g_set_error(error, SIM_ERROR, SIM_ERROR_UNSUPPORTED,
                "%s: FullyShardedDataParallel wraps one module, not the %u of a list; wrap each, "
                "or use fully_shard",
                sim_model_module(model, g_array_index(modules, uint32_t, 0))->path, modules->len);
    return false;
}

/* torch/optim/adam.py needs parameter and gradient of one type. */
static bool takes_gradients(const SimFsdp1Context *context, GError **error)
{
    const SimJob *job = context->job;
    bool is_low =
        job->fsdp1.keeps_low_precision_grads && context->compute_dtype != job->store_dtype;
    for (uint32_t i = 0; is_low && i < job->actions->len; i++) {
        if (g_array_index(job->actions, SimJobAction, i).kind != SIM_ACTION_OPTIMIZER)
            continue;
        g_set_error(error, SIM_ERROR, SIM_ERROR_UNSUPPORTED,
                    "keep_low_precision_grads: the optimizer would get %s gradients of %s "
                    "parameters, which Adam refuses and no other is simulated with; leave it out",
                    sim_dtype_name(context->compute_dtype), sim_dtype_name(job->store_dtype));
        return false;
    }
    return true;
}

static bool init_states(SimFsdp1Context *context, GError **error)
{
    bool is_flat = context->job->fsdp1.uses_flat_parameters;
    for (uint32_t u = 0; u < sim_unit_list_count(context->units); u++) {
        const SimUnit *unit = sim_unit_list_get(context->units, u);
        if (!is_one_module(unit, context->model, error) ||
            (is_flat && !is_trained_alike(context, unit, error)))
            return false;
        sim_fsdp1_state_init(&context->states[u], context->units, u, context->plan);
        sim_flat_parameter_init(&context->states[u].flat, unit, context->model, context->shard_size,
                                context->compute_dtype, !is_flat);
    }
    return true;
}

SimFsdp1Context *sim_fsdp1_context_new(const SimJob *job, const SimModel *model,
                                       const SimUnitList *units, SimPlan *plan, GError **error)
{
    SimStrategy strategy = job->fsdp1.strategy;
    g_autoptr(SimFsdp1Context) context = g_new(SimFsdp1Context, 1);
    *context = (SimFsdp1Context){
        .plan = plan,
        .job = job,
        .model = model,
        .units = units,
        .states = g_new0(SimFsdp1State, sim_unit_list_count(units) + 1),
        .words = intern_words(plan),
        .compute = sim_plan_stream(plan, "compute"),
        .pre_unshard = sim_plan_stream(plan, "pre_unshard"),
        .unshard = sim_plan_stream(plan, "unshard"),
        .post_backward = sim_plan_stream(plan, "post_backward"),
        .shard_group = SIM_PLAN_NONE,
        .replicate_group = SIM_PLAN_NONE,
        .is_sharded = strategy != SIM_STRATEGY_NO_SHARD,
        .is_hybrid =
            strategy == SIM_STRATEGY_HYBRID_SHARD || strategy == SIM_STRATEGY_HYBRID_SHARD_ZERO2,
        .frees_after_forward =
            strategy == SIM_STRATEGY_FULL_SHARD || strategy == SIM_STRATEGY_HYBRID_SHARD,
        .compute_dtype = choose(job->precision.param_dtype, job->store_dtype),
        /* _init_param_reduce_dtypes: an unset reduce_dtype follows param_dtype */
        .reduce_dtype = choose(job->precision.reduce_dtype,
                               choose(job->precision.param_dtype, job->store_dtype)),
        .before = find_pre_factor(job->ranks),
        .after = job->ranks / find_pre_factor(job->ranks),
        .free_events = g_array_new(FALSE, FALSE, sizeof(uint32_t)),
        .pre_forward_order = g_array_new(FALSE, FALSE, sizeof(uint32_t)),
        .post_forward_order = g_array_new(FALSE, FALSE, sizeof(uint32_t)),
        .synchronizes = true,
        .frozen_unit = SIM_MODEL_NONE,
    };
    if (!set_groups(context, error) || !takes_gradients(context, error) ||
        !init_states(context, error))
        return NULL;
    context->all_reduce =
        context->is_hybrid ? sim_plan_stream(plan, "all_reduce") : context->compute;
    return g_steal_pointer(&context);
}

void sim_fsdp1_context_free(SimFsdp1Context *context)
{
    if (context == NULL)
        return;
    for (uint32_t u = 0; u < sim_unit_list_count(context->units); u++)
        sim_fsdp1_state_done(&context->states[u]);
    g_free(context->states);
    g_array_unref(context->free_events);
    g_array_unref(context->pre_forward_order);
    g_array_unref(context->post_forward_order);
    g_free(context);
}

void sim_fsdp1_context_enter(SimFsdp1Context *context, uint32_t unit)
{
    sim_plan_context(context->plan)->unit =
        unit == SIM_MODEL_NONE ? 0 : sim_unit_list_get(context->units, unit)->name;
}

bool sim_fsdp1_context_is_mixed(const SimFsdp1Context *context)
{
    return context->compute_dtype != context->job->store_dtype;
}

void sim_fsdp1_context_launch(SimFsdp1Context *context, uint32_t stream, SimStringId word,
                              uint32_t from, uint32_t to)
{
    uint64_t bytes =
        sim_plan_buffer(context->plan, from)->bytes + sim_plan_buffer(context->plan, to)->bytes;
    SimDtype dtype = (SimDtype)sim_plan_buffer(context->plan, to)->dtype;
    sim_plan_kernel(context->plan, stream, word, word, dtype)->hbm_bytes = bytes;
    sim_plan_add_read(context->plan, SIM_TOUCH_WHOLE(from));
    sim_plan_add_write(context->plan, SIM_TOUCH_WHOLE(to));
}
