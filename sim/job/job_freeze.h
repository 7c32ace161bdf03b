/* SPDX-License-Identifier: Apache-2.0
 *
 * --frozen: parameters that do not train (requires_grad = False before the model is wrapped).
 */
#pragma once

#include "model/model.h"

#include <glib.h>
#include <stdbool.h>

/* Freezes what PATTERNS (with "," between them; NULL = none) name: a parameter, or all parameters
 * at or below the modules of that path; "*" stands for one path component. Error SCHEMA: a pattern
 * that names nothing. O(patterns * parameters). */
bool sim_job_freeze(SimModel *model, const char *patterns, GError **error);

/* UNSUPPORTED, with WHERE it was said, if no parameter is left to train: PyTorch's backward raises
 * on a loss without gradient. */
bool sim_job_freeze_check(const SimModel *model, const char *where, GError **error);
