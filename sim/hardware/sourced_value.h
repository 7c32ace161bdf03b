/* SPDX-License-Identifier: Apache-2.0
 *
 * Values that stand beside their source, as every number in models/gpus, clusters and comm does:
 *
 *     "hbm": {"value": "3350GB/s", "source": "NVIDIA H100 data sheet"}
 *
 * The value is text with a unit for sizes, rates and durations and a number for counts and
 * fractions; a number without a unit where one is needed is an error. The source may not be empty.
 * Each getter reads the required member KEY of OBJECT, whose own path is PATH; errors SCHEMA, PARSE
 * and RANGE name "PATH.KEY.value". *OUT is untouched on failure.
 */
#pragma once

#include "base/json.h"
#include "base/units.h"

#include <cjson/cJSON.h>
#include <glib.h>
#include <stdbool.h>
#include <stdint.h>

bool sim_sourced_value_get_bytes(const cJSON *object, const char *path, const char *key,
                                 uint64_t *out, GError **error);
/* Bytes a second, above zero. */
bool sim_sourced_value_get_rate(const cJSON *object, const char *path, const char *key, double *out,
                                GError **error);
bool sim_sourced_value_get_duration(const cJSON *object, const char *path, const char *key,
                                    SimTime *out, GError **error);
bool sim_sourced_value_get_count(const cJSON *object, const char *path, const char *key,
                                 int64_t min, int64_t max, int64_t *out, GError **error);
bool sim_sourced_value_get_number(const cJSON *object, const char *path, const char *key,
                                  double min, double max, double *out, GError **error);
/* The value, an array; borrowed from OBJECT. */
bool sim_sourced_value_get_array(const cJSON *object, const char *path, const char *key,
                                 const cJSON **out, GError **error);

/* Checks the first member of a shipped file, "schema": EXPECTED. */
bool sim_sourced_value_check_schema(const cJSON *object, const char *path, const char *expected,
                                    GError **error);

/* The JSON of NAME: MODELS/FOLDER/NAME.json, or the file NAME itself if it ends in .json. An
 * unknown name is a SCHEMA error with the nearest. *ORIGIN names the file in messages; both are the
 * caller's. */
cJSON *sim_sourced_value_load(const char *models, const char *folder, const char *name,
                              char **origin, GError **error);

/* The names in MODELS/FOLDER without .json, sorted, NULL-terminated; empty if there is no such
 * folder. Owned by the caller (g_strfreev). */
char **sim_sourced_value_list(const char *models, const char *folder);
