/* SPDX-License-Identifier: Apache-2.0 */
#include "fsdp/flat_parameter.h"

#define ALIGNMENT UINT64_C(16) /* _get_aligned_numel, bytes */

static uint32_t get_index(const SimUnit *unit, uint32_t place)
{
    return g_array_index(unit->parameters, SimUnitParameter, place).parameter;
}

/* By parameter index: few parameters, almost in order. */
static void sort_places(const SimUnit *unit, uint32_t *order, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        uint32_t at = i;
        for (; at > 0 && get_index(unit, order[at - 1]) > get_index(unit, i); at--)
            order[at] = order[at - 1];
        order[at] = i;
    }
}

static uint64_t round_up(uint64_t elements, uint64_t multiple)
{
    return (elements + multiple - 1) / multiple * multiple;
}

void sim_flat_parameter_init(SimFlatParameter *flat, const SimUnit *unit, const SimModel *model,
                             uint32_t ranks, SimDtype compute_dtype, bool is_aligned)
{
    uint32_t count = unit->parameters->len;
    *flat = (SimFlatParameter){
        .order = g_new(uint32_t, count + 1),
        .offsets = g_new(uint64_t, count + 1),
        .count = count,
    };
    sort_places(unit, flat->order, count);
    for (uint32_t i = 0; i < count; i++) {
        uint32_t place = flat->order[i];
        if (is_aligned)
            flat->elements = round_up(flat->elements, ALIGNMENT / sim_dtype_bytes(compute_dtype));
        flat->offsets[place] = flat->elements;
        flat->elements += sim_model_parameter(model, get_index(unit, place))->elements;
    }
    flat->shard_elements = (flat->elements + ranks - 1) / ranks;
    flat->padded_elements = flat->shard_elements * ranks;
    if (is_aligned)
        flat->elements = flat->padded_elements;
}

void sim_flat_parameter_done(SimFlatParameter *flat)
{
    g_clear_pointer(&flat->order, g_free);
    g_clear_pointer(&flat->offsets, g_free);
}

SimFlatSlice sim_flat_parameter_slice(const SimFlatParameter *flat, uint32_t index,
                                      uint64_t elements, uint32_t place)
{
    uint64_t first = place * flat->shard_elements;
    uint64_t begin = MAX(first, flat->offsets[index]);
    uint64_t end = MIN(first + flat->shard_elements, flat->offsets[index] + elements);
    if (begin >= end)
        return (SimFlatSlice){0, 0};
    return (SimFlatSlice){.offset = begin - first, .elements = end - begin};
}
