/* SPDX-License-Identifier: Apache-2.0 */
#include "predict/json_writer.h"

#include <math.h>

#define EXACT_INTEGERS 9007199254740992.0 /* 2^53 */

void sim_json_writer_init(SimJsonWriter *writer, GString *text, bool is_compact)
{
    *writer = (SimJsonWriter){.text = text, .is_compact = is_compact};
}

static void start_line(SimJsonWriter *writer)
{
    if (!writer->is_compact) {
        g_string_append_c(writer->text, '\n');
        for (unsigned i = 0; i < writer->depth; i++) {
            g_string_append(writer->text, "  ");
        }
    }
}

static void append_quoted(GString *text, const char *value)
{
    g_string_append_c(text, '"');
    for (const char *at = value; *at != '\0'; at++) {
        unsigned char byte = (unsigned char)*at;
        if (byte == '"' || byte == '\\') {
            g_string_append_c(text, '\\');
        }
        if (byte < 0x20) {
            g_string_append_printf(text, "\\u%04x", byte);
        } else {
            g_string_append_c(text, *at);
        }
    }
    g_string_append_c(text, '"');
}

/* What comes before a value: comma, line, key. */
static void start_member(SimJsonWriter *writer, const char *key)
{
    if (writer->has_member) {
        g_string_append_c(writer->text, ',');
    }
    if (writer->depth > 0) {
        start_line(writer);
    }
    if (key != NULL) {
        append_quoted(writer->text, key);
        g_string_append(writer->text, writer->is_compact ? ":" : ": ");
    }
    writer->has_member = true;
}

static void begin(SimJsonWriter *writer, const char *key, char bracket)
{
    start_member(writer, key);
    g_string_append_c(writer->text, bracket);
    writer->depth++;
    writer->has_member = false;
}

static void end(SimJsonWriter *writer, char bracket)
{
    g_assert(writer->depth > 0);
    writer->depth--;
    if (writer->has_member) {
        start_line(writer);
    }
    g_string_append_c(writer->text, bracket);
    writer->has_member = true;
}

void sim_json_writer_begin_object(SimJsonWriter *writer, const char *key)
{
    begin(writer, key, '{');
}

void sim_json_writer_end_object(SimJsonWriter *writer)
{
    end(writer, '}');
}

void sim_json_writer_begin_array(SimJsonWriter *writer, const char *key)
{
    begin(writer, key, '[');
}

void sim_json_writer_end_array(SimJsonWriter *writer)
{
    end(writer, ']');
}

void sim_json_writer_text(SimJsonWriter *writer, const char *key, const char *value)
{
    start_member(writer, key);
    append_quoted(writer->text, value);
}

void sim_json_writer_int(SimJsonWriter *writer, const char *key, int64_t value)
{
    start_member(writer, key);
    g_string_append_printf(writer->text, "%" G_GINT64_FORMAT, value);
}

void sim_json_writer_uint(SimJsonWriter *writer, const char *key, uint64_t value)
{
    start_member(writer, key);
    g_string_append_printf(writer->text, "%" G_GUINT64_FORMAT, value);
}

void sim_json_writer_double(SimJsonWriter *writer, const char *key, double value)
{
    static const char *const formats[] = {"%.15g", "%.16g", "%.17g"};
    char buffer[G_ASCII_DTOSTR_BUF_SIZE];
    g_assert(isfinite(value));
    start_member(writer, key);
    for (size_t i = 0; i < G_N_ELEMENTS(formats); i++) {
        g_ascii_formatd(buffer, sizeof buffer, formats[i], value);
        double back = g_ascii_strtod(buffer, NULL);
        if (back >= value && back <= value) {
            break;
        }
    }
    g_string_append(writer->text, buffer);
}

void sim_json_writer_bool(SimJsonWriter *writer, const char *key, bool value)
{
    start_member(writer, key);
    g_string_append(writer->text, value ? "true" : "false");
}

void sim_json_writer_null(SimJsonWriter *writer, const char *key)
{
    start_member(writer, key);
    g_string_append(writer->text, "null");
}

static void write_number(SimJsonWriter *writer, const char *key, double value)
{
    if (fabs(value) <= EXACT_INTEGERS && floor(value) >= value) {
        sim_json_writer_int(writer, key, (int64_t)value);
    } else {
        sim_json_writer_double(writer, key, value);
    }
}

/* Depth is bounded: cJSON reads no deeper than 1000. */
void sim_json_writer_tree(SimJsonWriter *writer, const char *key, const cJSON *tree)
{
    if (tree == NULL || cJSON_IsNull(tree)) {
        sim_json_writer_null(writer, key);
    } else if (cJSON_IsBool(tree)) {
        sim_json_writer_bool(writer, key, cJSON_IsTrue(tree));
    } else if (cJSON_IsNumber(tree)) {
        write_number(writer, key, tree->valuedouble);
    } else if (cJSON_IsString(tree)) {
        sim_json_writer_text(writer, key, tree->valuestring);
    } else {
        begin(writer, key, cJSON_IsArray(tree) ? '[' : '{');
        for (const cJSON *child = tree->child; child != NULL; child = child->next) {
            sim_json_writer_tree(writer, child->string, child);
        }
        end(writer, cJSON_IsArray(tree) ? ']' : '}');
    }
}
