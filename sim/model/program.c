/* SPDX-License-Identifier: Apache-2.0 */
#include "model/program.h"

#include <string.h>

/* One running Python function: its variables in the order of first binding. */
typedef struct Scope {
    GArray *variables; /* of SimSlot; SIM_SLOT_NONE after `del` */
} Scope;

static bool is_value(SimSlot slot)
{
    return slot < SIM_SLOT_BUFFER(0);
}

static Scope *running(SimProgram *program)
{
    g_assert(program->scopes->len > 0);
    return &g_array_index(program->scopes, Scope, program->scopes->len - 1);
}

static SimProgramCall *last_call(SimProgram *program)
{
    g_assert(program->calls->len > 0);
    return &g_array_index(program->calls, SimProgramCall, program->calls->len - 1);
}

static bool *unnamed(SimProgram *program, SimSlot slot)
{
    return &g_array_index(program->is_unnamed, bool, slot);
}

static SimSlot new_slot(SimProgram *program, bool is_unnamed)
{
    g_array_append_val(program->is_unnamed, is_unnamed);
    return program->n_slots++;
}

/* SLOT's reference dies after the call made last. */
static void kill_slot(SimProgram *program, SimSlot slot)
{
    SimProgramCall *call = last_call(program);
    if (call->n_dying == 0)
        call->first_dying = program->dying->len;
    g_array_append_val(program->dying, slot);
    call->n_dying++;
}

SimProgram *sim_program_new(uint32_t n_arguments)
{
    SimProgram *program = g_new0(SimProgram, 1);
    program->calls = g_array_new(FALSE, TRUE, sizeof(SimProgramCall));
    program->attributes = g_array_new(FALSE, TRUE, sizeof(SimAttributes));
    program->dying = g_array_new(FALSE, TRUE, sizeof(SimSlot));
    program->scopes = g_array_new(FALSE, TRUE, sizeof(Scope));
    program->is_unnamed = g_array_new(FALSE, TRUE, sizeof(bool));
    g_array_set_size(program->attributes, 1);
    for (uint32_t i = 0; i < n_arguments; i++)
        new_slot(program, false);
    program->n_arguments = n_arguments;
    sim_program_open_function(program);
    return program;
}

void sim_program_free(SimProgram *program)
{
    if (program == NULL)
        return;
    for (guint i = 0; program->scopes != NULL && i < program->scopes->len; i++)
        g_array_unref(g_array_index(program->scopes, Scope, i).variables);
    g_clear_pointer(&program->scopes, g_array_unref);
    g_clear_pointer(&program->is_unnamed, g_array_unref);
    g_array_unref(program->calls);
    g_array_unref(program->attributes);
    g_array_unref(program->dying);
    g_free(program);
}

static void add_call(SimProgram *program, const SimProgramCall *call, uint32_t n_inputs,
                     const SimSlot *inputs)
{
    g_assert(n_inputs <= SIM_OPERATOR_MAX_INPUTS);
    SimProgramCall added = *call;
    added.n_inputs = (uint8_t)n_inputs;
    if (n_inputs > 0)
        memcpy(added.inputs, inputs, n_inputs * sizeof *inputs);
    g_array_append_val(program->calls, added);
    for (uint32_t i = 0; i < n_inputs; i++)
        if (is_value(inputs[i]) && *unnamed(program, inputs[i]))
            kill_slot(program, inputs[i]);
}

void sim_program_call_many(SimProgram *program, SimOperator operator_,
                           const SimAttributes *attributes, uint32_t n_inputs,
                           const SimSlot *inputs, uint32_t n_outputs, SimSlot *outputs)
{
    SimProgramCall call = {.operator_ = operator_, .n_outputs = (uint8_t)n_outputs};
    if (attributes != NULL) {
        call.attributes = program->attributes->len;
        g_array_append_vals(program->attributes, attributes, 1);
    }
    for (uint32_t i = 0; i < n_outputs; i++) {
        if (outputs[i] != SIM_SLOT_NONE)
            outputs[i] = new_slot(program, true);
        call.outputs[i] = outputs[i];
    }
    add_call(program, &call, n_inputs, inputs);
}

SimSlot sim_program_call(SimProgram *program, SimOperator operator_,
                         const SimAttributes *attributes, uint32_t n_inputs, const SimSlot *inputs)
{
    SimSlot output = 0;
    sim_program_call_many(program, operator_, attributes, n_inputs, inputs, 1, &output);
    return output;
}

void sim_program_call_module_many(SimProgram *program, uint32_t child, uint32_t n_inputs,
                                  const SimSlot *inputs, uint32_t n_outputs, SimSlot *outputs)
{
    SimProgramCall call = {.is_module = true, .child = child, .n_outputs = (uint8_t)n_outputs};
    for (uint32_t i = 0; i < n_outputs; i++)
        call.outputs[i] = outputs[i] = new_slot(program, true);
    add_call(program, &call, n_inputs, inputs);
}

SimSlot sim_program_call_module(SimProgram *program, uint32_t child, uint32_t n_inputs,
                                const SimSlot *inputs)
{
    SimSlot output = 0;
    sim_program_call_module_many(program, child, n_inputs, inputs, 1, &output);
    return output;
}

void sim_program_set_flags(SimProgram *program, uint8_t flags)
{
    last_call(program)->flags = flags;
}

void sim_program_open_function(SimProgram *program)
{
    Scope scope = {.variables = g_array_new(FALSE, FALSE, sizeof(SimSlot))};
    g_array_append_val(program->scopes, scope);
}

SimSlot sim_program_bind(SimProgram *program, SimSlot value)
{
    g_assert(*unnamed(program, value));
    *unnamed(program, value) = false;
    g_array_append_val(running(program)->variables, value);
    return value;
}

static SimSlot *find_variable(SimProgram *program, SimSlot variable)
{
    GArray *variables = running(program)->variables;
    for (guint i = 0; i < variables->len; i++)
        if (g_array_index(variables, SimSlot, i) == variable)
            return &g_array_index(variables, SimSlot, i);
    g_assert_not_reached();
}

SimSlot sim_program_rebind(SimProgram *program, SimSlot old, SimSlot value)
{
    g_assert(*unnamed(program, value));
    *unnamed(program, value) = false;
    *find_variable(program, old) = value;
    kill_slot(program, old);
    return value;
}

SimSlot sim_program_rebind_kept(SimProgram *program, SimSlot old, SimSlot value)
{
    g_assert(*unnamed(program, value));
    *unnamed(program, value) = false;
    *find_variable(program, old) = value;
    g_array_append_val(running(program)->variables, old);
    return value;
}

void sim_program_delete(SimProgram *program, SimSlot variable)
{
    *find_variable(program, variable) = SIM_SLOT_NONE;
    kill_slot(program, variable);
}

static bool is_among(SimSlot slot, uint32_t n, const SimSlot *slots)
{
    for (uint32_t i = 0; i < n; i++)
        if (slots[i] == slot)
            return true;
    return false;
}

void sim_program_close_function(SimProgram *program, uint32_t n_values, const SimSlot *values)
{
    GArray *variables = running(program)->variables;
    for (guint i = 0; i < variables->len; i++) {
        SimSlot variable = g_array_index(variables, SimSlot, i);
        if (variable == SIM_SLOT_NONE)
            continue;
        if (is_among(variable, n_values, values))
            *unnamed(program, variable) = true;
        else
            kill_slot(program, variable);
    }
    g_array_unref(variables);
    g_array_set_size(program->scopes, program->scopes->len - 1);
}

void sim_program_finish(SimProgram *program, uint32_t n_results, const SimSlot *results)
{
    g_assert(n_results <= G_N_ELEMENTS(program->results) && program->scopes->len == 1);
    sim_program_close_function(program, n_results, results);
    memcpy(program->results, results, n_results * sizeof *results);
    program->n_results = n_results;
    g_clear_pointer(&program->scopes, g_array_unref);
    g_clear_pointer(&program->is_unnamed, g_array_unref);
}
