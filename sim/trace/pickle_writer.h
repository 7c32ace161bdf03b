/* SPDX-License-Identifier: Apache-2.0
 *
 * Python's pickle format, protocol 4 (CPython, Lib/pickletools.py): plain dicts, lists, tuples,
 * strings and integers, so that it loads with every class forbidden. Strings are written once and
 * referred to after that, as Python's pickler does.
 *
 *     begin_dict; key; value; key; value; ... end_dict
 *     begin_list; value; value; ... end_list
 */
#pragma once

#include "base/output_file.h"

#include <glib.h>
#include <stdbool.h>
#include <stdint.h>

typedef struct SimPickleWriter {
    SimOutputFile *file; /* borrowed */
    GHashTable *strings; /* text -> its place in the memo + 1; owned */
    uint32_t memo;       /* entries so far */
} SimPickleWriter;

/* Writes the head. */
void sim_pickle_writer_init(SimPickleWriter *writer, SimOutputFile *file);
/* Writes the end and frees what WRITER holds. */
void sim_pickle_writer_done(SimPickleWriter *writer);

void sim_pickle_writer_begin_dict(SimPickleWriter *writer);
void sim_pickle_writer_end_dict(SimPickleWriter *writer);
void sim_pickle_writer_begin_list(SimPickleWriter *writer);
void sim_pickle_writer_end_list(SimPickleWriter *writer);
void sim_pickle_writer_text(SimPickleWriter *writer, const char *value); /* a key too */
void sim_pickle_writer_uint(SimPickleWriter *writer, uint64_t value);
void sim_pickle_writer_bool(SimPickleWriter *writer, bool value);
void sim_pickle_writer_pair(SimPickleWriter *writer, uint64_t one, uint64_t other); /* a tuple */

/* Gives the value just written a place in the memo; get writes a reference to it. */
uint32_t sim_pickle_writer_memoize(SimPickleWriter *writer);
void sim_pickle_writer_get(SimPickleWriter *writer, uint32_t place);
