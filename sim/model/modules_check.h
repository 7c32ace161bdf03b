/* SPDX-License-Identifier: Apache-2.0
 *
 * Runs the programs of a model on shapes alone, so that what does not fit is an error of the file
 * and not a failed assertion later.
 */
#pragma once

#include "model/model.h"

#include <glib.h>
#include <stdbool.h>
#include <stdint.h>

/* The shape of what the root returns, in *RESULT. Errors RANGE (shapes that do not fit, a result
 * that depends on no parameter): the message names FILE, the module, the call and the operator.
 * O(calls that a forward makes). */
bool sim_modules_check_shapes(const SimModel *model, const char *file, uint64_t batch,
                              uint64_t sequence, SimShape *result, GError **error);
