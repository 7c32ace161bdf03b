/* SPDX-License-Identifier: Apache-2.0
 *
 * A module's forward as data: a straight line of operator calls and module calls over slots, with
 * the slots that die after each. A slot is one reference of the Python interpreter: a variable or
 * an unnamed value of an expression. Which slots die where follows from Python's scoping, which the
 * builder below knows:
 *
 *   an unnamed value dies when the call that takes it has returned, operands from left to right;
 *   a variable dies when it is bound anew (after the new value exists), at `del`, or when its
 * function returns, in the order in which the function's variables were first bound, arguments
 * first (CPython clears a frame's locals by index); what a function returns outlives it, as an
 * unnamed value of the caller.
 *
 * Children and parameters are known relative to the module that runs the program, so that equal
 * blocks share one program. Built once, then read-only.
 */
#pragma once

#include "model/operator.h"

#include <glib.h>
#include <stdbool.h>
#include <stdint.h>

typedef uint32_t SimSlot;
#define SIM_SLOT_NONE UINT32_MAX

/* Operands that are no slot: parameter K of the module (in its own order), buffer K of the model.
 */
#define SIM_SLOT_PARAMETER(k) (UINT32_C(0x40000000) | (uint32_t)(k))
#define SIM_SLOT_BUFFER(k) (UINT32_C(0x20000000) | (uint32_t)(k))
#define SIM_SLOT_IS_PARAMETER(slot) (((slot)&UINT32_C(0x40000000)) != 0)
#define SIM_SLOT_IS_BUFFER(slot) (((slot)&UINT32_C(0x20000000)) != 0)
#define SIM_SLOT_INDEX(slot) ((slot)&UINT32_C(0x1fffffff))

typedef enum SimProgramFlags {
    SIM_PROGRAM_LOGITS = 1 << 0, /* the result is the logits: category of their memory */
    SIM_PROGRAM_LOSS = 1 << 1,   /* computes the loss: unit and category */
} SimProgramFlags;

typedef struct SimProgramCall {
    bool is_module;
    uint8_t n_inputs, n_outputs;
    uint8_t flags;                 /* SimProgramFlags */
    SimOperator operator_;         /* of an operator call */
    uint32_t child;                /* of a module call: index from this module's own */
    uint32_t attributes;           /* index in SimProgram.attributes */
    uint32_t first_dying, n_dying; /* in SimProgram.dying */
    SimSlot inputs[SIM_OPERATOR_MAX_INPUTS];
    SimSlot outputs[SIM_OPERATOR_MAX_OUTPUTS]; /* SIM_SLOT_NONE: dropped at once */
} SimProgramCall;

/* SimProgram is declared in model.h. */
struct SimProgram {
    GArray *calls;      /* of SimProgramCall */
    GArray *attributes; /* of SimAttributes; entry 0 is empty */
    GArray *dying;      /* of SimSlot */
    uint32_t n_slots, n_arguments;
    SimSlot results[3];
    uint32_t n_results;
    /* while it is built */
    GArray *scopes;     /* of the builder */
    GArray *is_unnamed; /* of bool, by slot */
};

/* Slots 0..N_ARGUMENTS-1 are the arguments; the caller keeps them alive. */
SimProgram *sim_program_new(uint32_t n_arguments);
void sim_program_free(SimProgram *program);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(SimProgram, sim_program_free)

/* An operator call with one result that is used; takes unnamed operands. ATTRIBUTES may be NULL. */
SimSlot sim_program_call(SimProgram *program, SimOperator operator_,
                         const SimAttributes *attributes, uint32_t n_inputs, const SimSlot *inputs);

/* The same with N_OUTPUTS results in OUTPUTS, the ones that nobody will use given as
 * SIM_SLOT_NONE beforehand. */
void sim_program_call_many(SimProgram *program, SimOperator operator_,
                           const SimAttributes *attributes, uint32_t n_inputs,
                           const SimSlot *inputs, uint32_t n_outputs, SimSlot *outputs);

/* Calls the module CHILD places after this one in the tree. */
SimSlot sim_program_call_module(SimProgram *program, uint32_t child, uint32_t n_inputs,
                                const SimSlot *inputs);

void sim_program_call_module_many(SimProgram *program, uint32_t child, uint32_t n_inputs,
                                  const SimSlot *inputs, uint32_t n_outputs, SimSlot *outputs);

/* Flags for the call made last. */
void sim_program_set_flags(SimProgram *program, uint8_t flags);

/* A Python function called inline: variables bound until its end are its own. */
void sim_program_open_function(SimProgram *program);

/* The unnamed value VALUE gets a name in the running function. Returns VALUE. */
SimSlot sim_program_bind(SimProgram *program, SimSlot value);

/* The variable OLD is bound to the unnamed value VALUE: OLD's reference dies, VALUE takes its
 * place. Returns VALUE. */
SimSlot sim_program_rebind(SimProgram *program, SimSlot old, SimSlot value);

/* `other = old; old = VALUE`: OLD lives on under a name bound last, VALUE takes its place. Returns
 * VALUE. */
SimSlot sim_program_rebind_kept(SimProgram *program, SimSlot old, SimSlot value);

/* `del variable`. */
void sim_program_delete(SimProgram *program, SimSlot variable);

/* `return values`: the other variables of the running function die; VALUES become unnamed. */
void sim_program_close_function(SimProgram *program, uint32_t n_values, const SimSlot *values);

/* The module's own `return`: ends the program. */
void sim_program_finish(SimProgram *program, uint32_t n_results, const SimSlot *results);
