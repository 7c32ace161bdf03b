/* SPDX-License-Identifier: Apache-2.0 */
#include "fsdp/fsdp1_slices.h"

#include "fsdp/optimizer_tensor.h"

static void clear_class(gpointer data)
{
    SimFsdp1Class *class = data;
    g_array_unref(class->slices);
    sim_optimizer_free(class->optimizer);
}

/* --- classes -----------------------------------------------------------------------------------
 */

static void add_slice(GArray *slices, uint32_t unit, uint32_t parameter, SimFlatSlice part)
{
    SimFsdp1Slice slice = {.unit = unit, .parameter = parameter, .part = part};
    if (part.elements > 0)
        g_array_append_val(slices, slice);
}

/* All pieces of the rank at PLACE. */
static GArray *list_slices(const SimFsdp1Context *context, uint32_t place)
{
    const SimUnitList *units = context->units;
    GArray *slices = g_array_new(FALSE, FALSE, sizeof(SimFsdp1Slice));
    if (context->job->fsdp1.uses_flat_parameters) {
        for (uint32_t i = 0; i < sim_unit_list_count(units); i++) {
            const SimFsdp1State *state = &context->states[units->traversal[i]];
            add_slice(slices, state->index, SIM_MODEL_NONE,
                      (SimFlatSlice){0, state->flat.shard_elements});
        }
        return slices;
    }
    for (uint32_t p = 0; p < context->model->parameters->len; p++) {
        const SimParameter *parameter = sim_model_parameter(context->model, p);
        uint32_t unit = units->owner[p];
        if (unit != SIM_MODEL_NONE && parameter->tied_to == SIM_MODEL_NONE)
            add_slice(slices, unit, p,
                      sim_flat_parameter_slice(&context->states[unit].flat, units->place[p],
                                               parameter->elements, place));
    }
    return slices;
}

/* What makes two ranks alike: units, offsets and lengths, and what is trained. */
static GBytes *describe(const SimFsdp1Context *context, const GArray *slices)
{
    g_autoptr(GArray) numbers = g_array_new(FALSE, FALSE, sizeof(uint64_t));
    for (uint32_t i = 0; i < slices->len; i++) {
        const SimFsdp1Slice *slice = &g_array_index(slices, SimFsdp1Slice, i);
        bool is_frozen = slice->parameter != SIM_MODEL_NONE &&
                         sim_model_parameter(context->model, slice->parameter)->is_frozen;
        uint64_t numbers_of_slice[] = {slice->unit, slice->part.offset, slice->part.elements,
                                       is_frozen};
        g_array_append_vals(numbers, numbers_of_slice, G_N_ELEMENTS(numbers_of_slice));
    }
    return g_bytes_new(numbers->data, numbers->len * sizeof(uint64_t));
}

/* Appends ranks PLACES (ascending) of all shard groups to the plan's rank sets. */
static uint32_t add_rank_set(const SimFsdp1Context *context, const GArray *places)
{
    if (places->len == context->shard_size)
        return 0;
    g_autoptr(GString) text = g_string_new(NULL);
    for (uint32_t start = 0; start < context->job->ranks; start += context->shard_size)
        for (uint32_t i = 0, end; i < places->len; i = end) {
            uint32_t first = start + g_array_index(places, uint32_t, i);
            for (end = i + 1; end < places->len; end++)
                if (g_array_index(places, uint32_t, end) !=
                    g_array_index(places, uint32_t, i) + end - i)
                    break;
            g_string_append_printf(text, text->len == 0 ? "%u" : " %u", first);
            if (end - i > 1)
                g_string_append_printf(text, "-%u", first + end - i - 1);
        }
    uint32_t rank_set;
    bool is_added = sim_plan_add_rank_set(context->plan, text->str, &rank_set, NULL);
    g_assert(is_added);
    return rank_set;
}

/* Names by number: the ranks of a class may own pieces of different parameters. */
static void name_slices(SimFsdp1Context *context, GArray *slices)
{
    g_autofree uint32_t *counts = g_new0(uint32_t, sim_unit_list_count(context->units) + 1);
    for (uint32_t i = 0; i < slices->len; i++) {
        SimFsdp1Slice *slice = &g_array_index(slices, SimFsdp1Slice, i);
        slice->tail =
            sim_strings_internf(sim_plan_strings(context->plan), "%u", counts[slice->unit]++);
    }
}

static void add_class(SimFsdp1Slices *all, const GArray *places)
{
    SimFsdp1Class class = {
        .rank_set = add_rank_set(all->context, places),
        .slices = list_slices(all->context, g_array_index(places, uint32_t, 0)),
    };
    name_slices(all->context, class.slices);
    class.optimizer =
        sim_optimizer_new(all->context->plan, all->context->job->optimizer, class.slices->len, 1);
    g_array_append_val(all->classes, class);
}

SimFsdp1Slices *sim_fsdp1_slices_new(SimFsdp1Context *context)
{
    SimFsdp1Slices *all = g_new0(SimFsdp1Slices, 1);
    all->context = context;
    all->classes = g_array_new(FALSE, TRUE, sizeof(SimFsdp1Class));
    g_array_set_clear_func(all->classes, clear_class);
    g_autoptr(GPtrArray) lists = g_ptr_array_new_with_free_func((GDestroyNotify)g_array_unref);
    g_autoptr(GHashTable) known =
        g_hash_table_new_full(g_bytes_hash, g_bytes_equal, (GDestroyNotify)g_bytes_unref, NULL);
    for (uint32_t place = 0; place < context->shard_size; place++) {
        g_autoptr(GArray) slices = list_slices(context, place);
        g_autoptr(GBytes) description = describe(context, slices);
        GArray *places = g_hash_table_lookup(known, description);
        if (places == NULL) {
            places = g_array_new(FALSE, FALSE, sizeof(uint32_t));
            g_ptr_array_add(lists, places);
            g_hash_table_insert(known, g_steal_pointer(&description), places);
        }
        g_array_append_val(places, place);
    }
    for (uint32_t i = 0; i < lists->len; i++)
        add_class(all, g_ptr_array_index(lists, i));
    return all;
}

void sim_fsdp1_slices_free(SimFsdp1Slices *slices)
{
    if (slices == NULL)
        return;
    g_array_unref(slices->classes);
    g_free(slices);
}

/* --- the optimizer -----------------------------------------------------------------------------
 */

/* As sim_shard_compute of a vector that one rank has all of. */
static SimShard describe_vector(uint64_t elements)
{
    return (SimShard){
        .rows = elements,
        .row_elements = 1,
        .shard_rows = elements,
        .elements = elements,
        .shard_elements = elements,
        .padded_elements = elements,
    };
}

static uint32_t find_gradient(const SimFsdp1Context *context, const SimFsdp1Slice *slice)
{
    const SimFsdp1State *state = &context->states[slice->unit];
    if (state->is_zeroed || state->is_frozen ||
        (slice->parameter != SIM_MODEL_NONE &&
         sim_model_parameter(context->model, slice->parameter)->is_frozen))
        return SIM_PLAN_NONE;
    return context->is_sharded ? state->sharded_gradient : state->whole_gradient;
}

/* keep_low_precision_grads: not the stored type's. */
static uint64_t get_element_bytes(const SimFsdp1Context *context, uint32_t gradient)
{
    return sim_dtype_bytes((SimDtype)sim_plan_buffer(context->plan, gradient)->dtype);
}

GArray *sim_fsdp1_slices_collect(const SimFsdp1Slices *slices, const SimFsdp1Class *class)
{
    const SimFsdp1Context *context = slices->context;
    GArray *tensors = g_array_new(FALSE, FALSE, sizeof(SimOptimizerTensor));
    for (uint32_t i = 0; i < class->slices->len; i++) {
        const SimFsdp1Slice *slice = &g_array_index(class->slices, SimFsdp1Slice, i);
        uint32_t gradient = find_gradient(context, slice);
        if (gradient == SIM_PLAN_NONE)
            continue;
        const SimFsdp1State *state = &context->states[slice->unit];
        SimOptimizerTensor tensor = {
            .parameter = i,
            .shard = describe_vector(slice->part.elements),
            .dtype = context->job->store_dtype,
            .value = state->shard,
            .value_offset = slice->part.offset * sim_dtype_bytes(context->job->store_dtype),
            .gradient = gradient,
            .gradient_offset = slice->part.offset * get_element_bytes(context, gradient),
            .unit = state->unit->name,
            .tail = slice->tail,
        };
        g_array_append_val(tensors, tensor);
    }
    return tensors;
}

static void expose_slice(SimFsdp1Context *context, SimFsdp1State *state, const SimFsdp1Slice *slice)
{
    SimDtype stored = context->job->store_dtype;
    SimName name = sim_fsdp1_state_name(state, SIM_FSDP1_EMPTY);
    uint32_t empty = sim_plan_alloc(context->plan, context->unshard, name,
                                    slice->part.elements * sim_dtype_bytes(stored),
                                    SIM_CATEGORY_TEMPORARY, stored, 0);
    sim_plan_free_buffer(context->plan, empty);
}

void sim_fsdp1_slices_expose(SimFsdp1Slices *slices, SimFsdp1State *state)
{
    SimPlanContext *plan_context = sim_plan_context(slices->context->plan);
    for (uint32_t c = 0; c < slices->classes->len; c++) {
        const SimFsdp1Class *class = &g_array_index(slices->classes, SimFsdp1Class, c);
        plan_context->rank_set = class->rank_set;
        for (uint32_t i = 0; i < class->slices->len; i++) {
            const SimFsdp1Slice *slice = &g_array_index(class->slices, SimFsdp1Slice, i);
            if (slice->unit == state->index)
                expose_slice(slices->context, state, slice);
        }
    }
    plan_context->rank_set = 0;
}

void sim_fsdp1_slices_step(SimFsdp1Slices *slices)
{
    for (uint32_t c = 0; c < slices->classes->len; c++) {
        const SimFsdp1Class *class = &g_array_index(slices->classes, SimFsdp1Class, c);
        g_autoptr(GArray) tensors = sim_fsdp1_slices_collect(slices, class);
        sim_plan_context(slices->context->plan)->rank_set = class->rank_set;
        sim_optimizer_step(class->optimizer, tensors);
    }
    sim_plan_context(slices->context->plan)->rank_set = 0;
}
