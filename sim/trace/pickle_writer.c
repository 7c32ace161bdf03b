/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/pickle_writer.h"

#include <string.h>

/* Opcodes, by their names in pickletools. */
#define PROTO '\x80'
#define STOP '.'
#define MARK '('
#define EMPTY_DICT '}'
#define SETITEMS 'u'
#define EMPTY_LIST ']'
#define APPENDS 'e'
#define TUPLE2 '\x86'
#define BININT 'J'
#define BININT1 'K'
#define BININT2 'M'
#define LONG1 '\x8a'
#define SHORT_BINUNICODE '\x8c'
#define BINUNICODE 'X'
#define NEWTRUE '\x88'
#define NEWFALSE '\x89'
#define MEMOIZE '\x94'
#define BINGET 'h'
#define LONG_BINGET 'j'

static void put(SimPickleWriter *writer, char opcode)
{
    sim_output_file_write(writer->file, &opcode, 1);
}

/* OPCODE and the LENGTH lowest bytes of VALUE, the lowest first. */
static void put_number(SimPickleWriter *writer, char opcode, uint64_t value, size_t length)
{
    char bytes[9] = {opcode};
    g_assert(length <= 8);
    for (size_t i = 0; i < length; i++) {
        bytes[i + 1] = (char)(value >> (8 * i) & 0xff);
    }
    sim_output_file_write(writer->file, bytes, length + 1);
}

void sim_pickle_writer_init(SimPickleWriter *writer, SimOutputFile *file)
{
    writer->file = file;
    writer->strings = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL);
    writer->memo = 0;
    put_number(writer, PROTO, 4, 1);
}

void sim_pickle_writer_done(SimPickleWriter *writer)
{
    put(writer, STOP);
    g_hash_table_unref(writer->strings);
}

void sim_pickle_writer_begin_dict(SimPickleWriter *writer)
{
    put(writer, EMPTY_DICT);
    put(writer, MARK);
}

void sim_pickle_writer_end_dict(SimPickleWriter *writer)
{
    put(writer, SETITEMS);
}

void sim_pickle_writer_begin_list(SimPickleWriter *writer)
{
    put(writer, EMPTY_LIST);
    put(writer, MARK);
}

void sim_pickle_writer_end_list(SimPickleWriter *writer)
{
    put(writer, APPENDS);
}

uint32_t sim_pickle_writer_memoize(SimPickleWriter *writer)
{
    put(writer, MEMOIZE);
    return writer->memo++;
}

void sim_pickle_writer_get(SimPickleWriter *writer, uint32_t place)
{
    if (place < 256) {
        put_number(writer, BINGET, place, 1);
    } else {
        put_number(writer, LONG_BINGET, place, 4);
    }
}

void sim_pickle_writer_text(SimPickleWriter *writer, const char *value)
{
    guint place = GPOINTER_TO_UINT(g_hash_table_lookup(writer->strings, value));
    size_t length = strlen(value);
    if (place > 0) {
        sim_pickle_writer_get(writer, place - 1);
        return;
    }
    if (length < 256) {
        put_number(writer, SHORT_BINUNICODE, length, 1);
    } else {
        put_number(writer, BINUNICODE, length, 4);
    }
    sim_output_file_write(writer->file, value, length);
    place = sim_pickle_writer_memoize(writer);
    g_hash_table_insert(writer->strings, g_strdup(value), GUINT_TO_POINTER(place + 1));
}

void sim_pickle_writer_uint(SimPickleWriter *writer, uint64_t value)
{
    if (value < 0x100) {
        put_number(writer, BININT1, value, 1);
    } else if (value < 0x10000) {
        put_number(writer, BININT2, value, 2);
    } else if (value <= INT32_MAX) {
        put_number(writer, BININT, value, 4);
    } else {
        /* Two's complement: nine bytes where the highest bit of eight is set. */
        char sign = '\0';
        put_number(writer, LONG1, 9, 1);
        put_number(writer, (char)(value & 0xff), value >> 8, 7);
        sim_output_file_write(writer->file, &sign, 1);
    }
}

void sim_pickle_writer_bool(SimPickleWriter *writer, bool value)
{
    put(writer, value ? NEWTRUE : NEWFALSE);
}

void sim_pickle_writer_pair(SimPickleWriter *writer, uint64_t one, uint64_t other)
{
    sim_pickle_writer_uint(writer, one);
    sim_pickle_writer_uint(writer, other);
    put(writer, TUPLE2);
}
