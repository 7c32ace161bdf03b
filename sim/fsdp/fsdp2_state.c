/* SPDX-License-Identifier: Apache-2.0 */
#include "fsdp/fsdp2_state.h"

static const char *const PREFIXES[SIM_FSDP2_KINDS] = {
    "P", "T", "H", "A", "U", "F", "G", "I", "O", "Q", "ag", "co", "rs", "ar", "post", "raf", "off",
};

/* _fsdp_state.py, _lazy_init: an unset reshard_after_forward is true but for the root. An integer:
 * 1 means false, the whole group means true (_fsdp_init.py, _get_post_forward_mesh_info). */
static SimReshard settle_reshard(const SimUnitList *units, uint32_t index)
{
    SimReshard reshard = sim_unit_list_get(units, index)->call->reshard_after_forward;
    if (reshard.kind == SIM_RESHARD_UNSET)
        reshard.kind = index == units->root ? SIM_RESHARD_FALSE : SIM_RESHARD_TRUE;
    return reshard;
}

void sim_fsdp2_state_init(SimFsdp2State *state, const SimUnitList *units, uint32_t index,
                          SimPlan *plan)
{
    const SimUnit *unit = sim_unit_list_get(units, index);
    *state = (SimFsdp2State){
        .unit = unit,
        .index = index,
        .strings = sim_plan_strings(plan),
        .parameters = g_new(SimFsdp2Parameter, unit->parameters->len + 1),
        .reshard_after_forward = settle_reshard(units, index),
        .all_gather_output = SIM_PLAN_NONE,
        .all_gather_event = SIM_PLAN_NONE,
        .post_forward_event = SIM_PLAN_NONE,
        .post_event = SIM_PLAN_NONE,
        .all_reduce_event = SIM_PLAN_NONE,
        .all_reduce_input = SIM_PLAN_NONE,
        .partial_output = SIM_PLAN_NONE,
        .reduces_gradients = true,
        .all_reduces_gradients = true,
        .reshards_after_backward = true,
        .post_forward_indices = g_array_new(FALSE, FALSE, sizeof(uint32_t)),
    };
    for (uint32_t i = 0; i < unit->parameters->len; i++)
        state->parameters[i] = (SimFsdp2Parameter){SIM_PLAN_NONE, SIM_PLAN_NONE, SIM_PLAN_NONE,
                                                   SIM_PLAN_NONE, SIM_PLAN_NONE, 0,
                                                   SIM_PLAN_NONE};
    for (int kind = 0; kind < SIM_FSDP2_KINDS; kind++)
        state->serials[kind] = -1;
}

void sim_fsdp2_state_done(SimFsdp2State *state)
{
    g_free(state->parameters);
    g_array_unref(state->post_forward_indices);
}

SimName sim_fsdp2_state_name(SimFsdp2State *state, SimFsdp2Kind kind, SimStringId tail)
{
    if (++state->serials[kind] == 0)
        state->stems[kind] =
            sim_strings_internf(state->strings, "%s:%s", PREFIXES[kind],
                                sim_strings_get(state->strings, state->unit->name));
    return sim_fsdp2_state_same_name(state, kind, tail);
}

SimName sim_fsdp2_state_same_name(const SimFsdp2State *state, SimFsdp2Kind kind, SimStringId tail)
{
    return (SimName){.stem = state->stems[kind], .tail = tail, .serial = state->serials[kind]};
}
