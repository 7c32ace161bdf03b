/* SPDX-License-Identifier: Apache-2.0
 *
 * Writes JSON with its members in the order given. Integers are exact to 64 bits; doubles are the
 * shortest text that reads back as the same number, in any locale. cJSON, which keeps all numbers
 * as doubles, is for reading.
 *
 * KEY is NULL in an array and at the top.
 */
#pragma once

#include "base/json.h"

#include <glib.h>
#include <stdbool.h>
#include <stdint.h>

typedef struct SimJsonWriter {
    GString *text;   /* owned by the caller */
    bool is_compact; /* one line, no spaces */
    bool has_member; /* the container that is open has one */
    unsigned depth;
} SimJsonWriter;

void sim_json_writer_init(SimJsonWriter *writer, GString *text, bool is_compact);

void sim_json_writer_begin_object(SimJsonWriter *writer, const char *key);
void sim_json_writer_end_object(SimJsonWriter *writer);
void sim_json_writer_begin_array(SimJsonWriter *writer, const char *key);
void sim_json_writer_end_array(SimJsonWriter *writer);

void sim_json_writer_text(SimJsonWriter *writer, const char *key, const char *value);
void sim_json_writer_int(SimJsonWriter *writer, const char *key, int64_t value);
void sim_json_writer_uint(SimJsonWriter *writer, const char *key, uint64_t value);
void sim_json_writer_double(SimJsonWriter *writer, const char *key, double value);
void sim_json_writer_bool(SimJsonWriter *writer, const char *key, bool value);
void sim_json_writer_null(SimJsonWriter *writer, const char *key);

/* A tree that was read; NULL writes null. */
void sim_json_writer_tree(SimJsonWriter *writer, const char *key, const cJSON *tree);
