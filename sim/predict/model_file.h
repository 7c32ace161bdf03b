/* SPDX-License-Identifier: Apache-2.0
 *
 * Which file a MODEL argument means: a file (a config.json or a module tree: its "schema" decides,
 * plan_source.h), a folder that holds a config.json, or the name of a model that ships
 * (MODELS/nets/NAME.json).
 */
#pragma once

#include <glib.h>

/* Error IO: no such file (for an argument with a slash or that ends in .json), or a folder without
 * config.json; SCHEMA: no such name, with the nearest ones. Owned by the caller. */
char *sim_model_file_find(const char *models, const char *argument, GError **error);
