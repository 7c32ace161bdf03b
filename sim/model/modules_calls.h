/* SPDX-License-Identifier: Apache-2.0
 *
 * The forward of one module of a module tree (modules_json.h): its "calls" as a program.
 */
#pragma once

#include "base/json.h"
#include "model/model.h"

/* A dimension: a number of 1 or more, "batch", "sequence"; with ALLOWS_REST -1 too, once. The
 * numbers are at most 2^50 elements. WHERE is the path of the list. */
bool sim_modules_calls_read_dims(const cJSON *list, const char *where, bool allows_rest,
                                 int64_t *dims, uint32_t *n_dims, GError **error);

/* ENTRY (at WHERE in the file) is MODULE's, which is called: its program, which MODEL then owns.
 * MODEL's modules, parameters and buffers are all there. */
bool sim_modules_calls_read(SimModel *model, uint32_t module, const cJSON *entry, const char *where,
                            GError **error);
