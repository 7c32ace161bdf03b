/* SPDX-License-Identifier: Apache-2.0
 *
 * torch.autocast(dtype=bf16) around forward and loss (aten/src/ATen/autocast_mode.h): operators of
 * the lower-precision list get their f32 inputs in bf16, those of the f32 list their halves in f32;
 * everything else runs in the types it is given. A cast is an operator like any other, with its own
 * node. Arguments are cast from right to left, as the compiler evaluates them.
 *
 * The cast of a trained parameter is kept until autocast is left: once a forward, once a replay of
 * a checkpoint. That of an activation is not.
 */
#pragma once

#include "autograd/autograd_private.h"

/* In which type OPERATOR_ wants its inputs; NONE = as they are. */
SimDtype sim_autocast_dtype(SimOperator operator_);

/* INPUTS as the operator of CALL wants them, in CAST, one reference each. False: the replay of a
 * checkpoint ended within. */
bool sim_autocast_inputs(SimAutograd *autograd, const SimProgramCall *call,
                         const SimDispatchPurpose *purpose, SimTensor *const *inputs,
                         SimTensor **cast);

/* Autocast is left. */
void sim_autocast_clear(SimAutograd *autograd);
