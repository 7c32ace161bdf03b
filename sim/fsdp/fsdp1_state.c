/* SPDX-License-Identifier: Apache-2.0 */
#include "fsdp/fsdp1_state.h"

static const char *const PREFIXES[SIM_FSDP1_KINDS] = {
    "P", "M", "U", "G", "C", "O", "Q", "L", "N", "Z", "empty", "lazy", "free", "grad",
};

static bool is_frozen(const SimUnit *unit)
{
    for (uint32_t i = 0; i < unit->parameters->len; i++)
        if (!g_array_index(unit->parameters, SimUnitParameter, i).is_frozen)
            return false;
    return true;
}

static uint32_t *new_buffers(uint32_t count)
{
    uint32_t *buffers = g_new(uint32_t, count + 1);
    for (uint32_t i = 0; i <= count; i++)
        buffers[i] = SIM_PLAN_NONE;
    return buffers;
}

void sim_fsdp1_state_init(SimFsdp1State *state, const SimUnitList *units, uint32_t index,
                          SimPlan *plan)
{
    const SimUnit *unit = sim_unit_list_get(units, index);
    *state = (SimFsdp1State){
        .unit = unit,
        .index = index,
        .is_frozen = is_frozen(unit),
        .shard = SIM_PLAN_NONE,
        .low_precision_shard = SIM_PLAN_NONE,
        .unsharded = SIM_PLAN_NONE,
        .views = new_buffers(unit->parameters->len),
        .gradients = new_buffers(unit->parameters->len),
        .gradient_event = SIM_PLAN_NONE,
        .whole_gradient = SIM_PLAN_NONE,
        .added_gradient = SIM_PLAN_NONE,
        .sharded_gradient = SIM_PLAN_NONE,
        .pre_forward_index = SIM_PLAN_NONE,
        .post_forward_index = SIM_PLAN_NONE,
    };
    SimStrings *strings = sim_plan_strings(plan);
    const char *name = sim_plan_string(plan, unit->name);
    for (int kind = 0; kind < SIM_FSDP1_KINDS; kind++) {
        state->stems[kind] = sim_strings_internf(strings, "%s:%s", PREFIXES[kind], name);
        state->serials[kind] = -1;
    }
}

void sim_fsdp1_state_done(SimFsdp1State *state)
{
    sim_flat_parameter_done(&state->flat);
    g_clear_pointer(&state->views, g_free);
    g_clear_pointer(&state->gradients, g_free);
}

SimName sim_fsdp1_state_name(SimFsdp1State *state, SimFsdp1Kind kind)
{
    state->serials[kind]++;
    return sim_fsdp1_state_part(state, kind, 0);
}

SimName sim_fsdp1_state_part(const SimFsdp1State *state, SimFsdp1Kind kind, SimStringId tail)
{
    return (SimName){.stem = state->stems[kind], .tail = tail, .serial = state->serials[kind]};
}
