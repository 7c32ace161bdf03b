/* SPDX-License-Identifier: Apache-2.0 */
#include "fsdp/fsdp2_context.h"

#include "base/error.h"

/* "0-3 4-7": SIZE ranks that follow each other, all over the job. */
static char *print_neighbours(uint32_t ranks, uint32_t size)
{
    g_autoptr(GString) lists = g_string_new(NULL);
    for (uint32_t first = 0; first < ranks; first += size) {
        g_string_append_printf(lists, first == 0 ? "%u" : " %u", first);
        if (size > 1)
            g_string_append_printf(lists, "-%u", first + size - 1);
    }
    return g_string_free(g_steal_pointer(&lists), FALSE);
}

/* "0,4 1,5": the ranks with the same place in every shard group of SIZE ranks. */
static char *print_replicas(uint32_t ranks, uint32_t size)
{
    g_autoptr(GString) lists = g_string_new(NULL);
    for (uint32_t place = 0; place < size; place++) {
        g_string_append(lists, place == 0 ? "" : " ");
        for (uint32_t rank = place; rank < ranks; rank += size)
            g_string_append_printf(lists, rank == place ? "%u" : ",%u", rank);
    }
    return g_string_free(g_steal_pointer(&lists), FALSE);
}

static bool add_group(SimPlan *plan, const char *name, char *lists, uint32_t *group, GError **error)
{
    g_autofree char *owned = lists;
    if (!sim_plan_add_group(plan, name, owned, error))
        return false;
    *group = sim_plan_find_group(plan, name);
    return true;
}

/* The one size m of all units with an integer reshard_after_forward (PyTorch makes a mesh a size;
 * scripts use one). 0 = none. Checked as _get_post_forward_mesh_info does. */
static bool find_post_forward_size(SimFsdp2Context *context, GError **error)
{
    for (uint32_t u = 0; u < sim_unit_list_count(context->units); u++) {
        SimReshard *reshard = &context->states[u].reshard_after_forward;
        if (reshard->kind != SIM_RESHARD_TO)
            continue;
        uint32_t m = reshard->ranks;
        if (m == 0 || context->shard_size % m != 0) {
            g_set_error(error, SIM_ERROR, SIM_ERROR_RANGE,
                        "reshard_after_forward: expected a divisor of the %u ranks of a shard "
                        "group, found %u",
                        context->shard_size, m);
            return false;
        }
        if (m == 1 || m == context->shard_size) {
            reshard->kind = m == 1 ? SIM_RESHARD_FALSE : SIM_RESHARD_TRUE;
            continue;
        }
        if (context->post_forward_size != 0 && context->post_forward_size != m) {
            g_set_error(
                error, SIM_ERROR, SIM_ERROR_UNSUPPORTED,
                "reshard_after_forward: expected one integer for all units, found %u and %u",
                context->post_forward_size, m);
            return false;
        }
        context->post_forward_size = m;
    }
    return true;
}

static bool add_groups(SimFsdp2Context *context, GError **error)
{
    uint32_t ranks = context->job->ranks;
    if (context->shard_size == 0 || ranks % context->shard_size != 0) {
        g_set_error(error, SIM_ERROR, SIM_ERROR_RANGE,
                    "shard size: expected a divisor of the %u ranks, found %u", ranks,
                    context->shard_size);
        return false;
    }
    context->replicas = ranks / context->shard_size;
    if (!add_group(context->plan, "shard", print_neighbours(ranks, context->shard_size),
                   &context->shard_group, error))
        return false;
    context->reduce_group = context->shard_group;
    if (context->job->has_reduce_scatter_group &&
        !add_group(context->plan, "reduce_scatter", print_neighbours(ranks, context->shard_size),
                   &context->reduce_group, error))
        return false;
    context->is_replicated = context->replicas > 1 || context->job->has_replicate_mesh;
    if (context->is_replicated &&
        !add_group(context->plan, "replicate", print_replicas(ranks, context->shard_size),
                   &context->replicate_group, error))
        return false;
    return context->post_forward_size == 0 ||
           add_group(context->plan, "post_forward",
                     print_neighbours(ranks, context->post_forward_size),
                     &context->post_forward_group, error);
}

static SimFsdp2Words intern_words(SimPlan *plan)
{
    SimStrings *strings = sim_plan_strings(plan);
    return (SimFsdp2Words){
        .cast = sim_strings_intern(strings, "cast"),
        .copy_in = sim_strings_intern(strings, "copy_in"),
        .copy_out = sim_strings_intern(strings, "copy_out"),
        .chunk_cat = sim_strings_intern(strings, "chunk_cat"),
        .accumulate = sim_strings_intern(strings, "accumulate"),
        .clone = sim_strings_intern(strings, "clone"),
        .divide = sim_strings_intern(strings, "divide"),
        .zeros = sim_strings_intern(strings, "zeros"),
        .sgd = sim_strings_intern(strings, "sgd"),
        .offload = sim_strings_intern(strings, "offload"),
        .cat = sim_strings_intern(strings, "cat"),
        .chunk = sim_strings_intern(strings, "chunk"),
        .add_partial = sim_strings_intern(strings, "add partial"),
        .all_gather = sim_strings_intern(strings, "all_gather"),
        .reduce_scatter = sim_strings_intern(strings, "reduce_scatter"),
        .all_reduce = sim_strings_intern(strings, "all_reduce"),
        .launch_tables = sim_strings_intern(strings, "launch_tables"),
        .average = sim_strings_intern(strings, "reduction=avg"),
        .sum = sim_strings_intern(strings, "reduction=sum"),
    };
}

/* Where one rank has everything PyTorch copies from the host into the parameters themselves. */
static bool check_offload(const SimFsdp2Context *context, GError **error)
{
    for (uint32_t u = 0; u < sim_unit_list_count(context->units); u++) {
        if (context->shard_size > 1 || !context->states[u].unit->call->is_offloaded)
            continue;
        g_set_error(error, SIM_ERROR, SIM_ERROR_UNSUPPORTED,
                    "offload: expected shard groups of 2 ranks or more; offloading what is not "
                    "sharded is not simulated");
        return false;
    }
    return true;
}

SimFsdp2Context *sim_fsdp2_context_new(const SimJob *job, const SimModel *model,
                                       const SimUnitList *units, SimPlan *plan, GError **error)
{
    g_autoptr(SimFsdp2Context) context = g_new(SimFsdp2Context, 1);
    *context = (SimFsdp2Context){
        .plan = plan,
        .job = job,
        .version = sim_torch_version_get(job),
        .model = model,
        .units = units,
        .states = g_new0(SimFsdp2State, sim_unit_list_count(units) + 1),
        .words = intern_words(plan),
        .compute = sim_plan_stream(plan, "compute"),
        .copy_in = sim_plan_stream(plan, "all_gather_copy_in"),
        .all_gather = sim_plan_stream(plan, "all_gather"),
        .reduce_scatter = sim_plan_stream(plan, "reduce_scatter"),
        .shard_group = SIM_PLAN_NONE,
        .replicate_group = SIM_PLAN_NONE,
        .post_forward_group = SIM_PLAN_NONE,
        .shard_size = job->shard_size,
        .forward_root = SIM_MODEL_NONE,
        .parked_output = SIM_PLAN_NONE,
        .parked_event = SIM_PLAN_NONE,
        .reductions = g_array_new(FALSE, FALSE, sizeof(SimFsdp2Reduction)),
        .max_reductions = MAX(job->reduce_scatter_input_buffers, 1),
        .post_forward_order = g_array_new(FALSE, FALSE, sizeof(uint32_t)),
        .last_post_event = {SIM_PLAN_NONE, SIM_PLAN_NONE},
        .post_optim_event = SIM_PLAN_NONE,
        .is_last_backward = true,
    };
    for (uint32_t u = 0; u < sim_unit_list_count(units); u++)
        sim_fsdp2_state_init(&context->states[u], units, u, plan);
    if (!sim_torch_version_check(job, error) || !check_offload(context, error) ||
        !find_post_forward_size(context, error) || !add_groups(context, error))
        return NULL;
    context->all_reduce =
        context->is_replicated ? sim_plan_stream(plan, "all_reduce") : context->reduce_scatter;
    return g_steal_pointer(&context);
}

void sim_fsdp2_context_free(SimFsdp2Context *context)
{
    if (context == NULL)
        return;
    for (uint32_t u = 0; u < sim_unit_list_count(context->units); u++)
        sim_fsdp2_state_done(&context->states[u]);
    g_free(context->states);
    g_array_unref(context->reductions);
    g_array_unref(context->post_forward_order);
    g_free(context);
}

void sim_fsdp2_context_enter(SimFsdp2Context *context, uint32_t unit)
{
    sim_plan_context(context->plan)->unit =
        unit == SIM_MODEL_NONE ? 0 : sim_unit_list_get(context->units, unit)->name;
}

void sim_fsdp2_context_wait_all_gather_streams(SimFsdp2Context *context, uint32_t event)
{
    sim_plan_wait(context->plan, context->copy_in, event);
    sim_plan_wait(context->plan, context->all_gather, event);
}

void sim_fsdp2_context_drop_parked(SimFsdp2Context *context)
{
    if (context->parked_event == SIM_PLAN_NONE)
        return;
    sim_fsdp2_context_wait_all_gather_streams(context, context->parked_event);
    if (context->parked_output != SIM_PLAN_NONE)
        sim_plan_free_buffer(context->plan, context->parked_output);
    context->parked_output = SIM_PLAN_NONE;
    context->parked_event = SIM_PLAN_NONE;
}
