/* SPDX-License-Identifier: Apache-2.0
 *
 * Strict reading of JSON over cJSON, with messages that name the path of what is wrong
 * ("models/gpus/x.json: nodes[3].gpu: expected a positive integer, found -4").
 *
 * PATH arguments are that prefix, up to and including the object; getters append ".KEY". cJSON
 * keeps numbers as doubles, so integers are exact up to 2^53; more is a RANGE error. Every getter
 * leaves *OUT untouched on failure. O(members of the object).
 */
#pragma once

#include <cjson/cJSON.h>
#include <glib.h>
#include <stdbool.h>
#include <stdint.h>

G_DEFINE_AUTOPTR_CLEANUP_FUNC(cJSON, cJSON_Delete)

/* Parses the file (gzip if its name ends in .gz). Errors IO (unreadable, larger than 256 MiB),
 * PARSE (with line and column; also nesting deeper than cJSON's limit of 1000, a zero byte, text
 * that is not UTF-8). Owned by the caller. */
cJSON *sim_json_load(const char *file, GError **error);

/* The same for LENGTH bytes of TEXT, which a zero byte must follow; ORIGIN names it in messages. */
cJSON *sim_json_parse(const char *text, size_t length, const char *origin, GError **error);

/* True if each member of OBJECT is one of KEYS (NULL-terminated), else SCHEMA with the nearest.
 * Also refuses anything but an object, and a key that stands twice. */
bool sim_json_check_keys(const cJSON *object, const char *path, const char *const *keys,
                         GError **error);

/* Required members. Errors SCHEMA (missing or of another type), RANGE. */
bool sim_json_get_int64(const cJSON *object, const char *path, const char *key, int64_t min,
                        int64_t max, int64_t *out, GError **error);
bool sim_json_get_double(const cJSON *object, const char *path, const char *key, double min,
                         double max, double *out, GError **error);
bool sim_json_get_bool(const cJSON *object, const char *path, const char *key, bool *out,
                       GError **error);
/* Borrowed from OBJECT. */
bool sim_json_get_string(const cJSON *object, const char *path, const char *key, const char **out,
                         GError **error);
bool sim_json_get_array(const cJSON *object, const char *path, const char *key, const cJSON **out,
                        GError **error);
bool sim_json_get_object(const cJSON *object, const char *path, const char *key, const cJSON **out,
                         GError **error);

/* True if KEY is present and not null: guards an optional member before one of the getters. */
bool sim_json_has(const cJSON *object, const char *key);
