/* SPDX-License-Identifier: Apache-2.0
 *
 * A module of a module tree (modules_json.h) of which the file gives no calls: what stands for its
 * forward. Parameters are read and get gradients, in the order of registration, members run as
 * modules of their own (so that they can be units), and the result has the shape that the file
 * says.
 */
#pragma once

#include "base/json.h"
#include "model/model.h"

#include <glib.h>
#include <stdbool.h>
#include <stdint.h>

/* ENTRY (at WHERE in the file; may be NULL) is MODULE's, which is called. Puts it into MODEL's
 * without_calls. */
bool sim_modules_opaque_make(SimModel *model, uint32_t module, const cJSON *entry,
                             const char *where, GError **error);
