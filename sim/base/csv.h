/* SPDX-License-Identifier: Apache-2.0
 *
 * RFC 4180 CSV with a header row: reading over libcsv, and a writer that quotes only where needed.
 * Gzip files (name ends in .gz) are read and written through GIO. Spaces around an unquoted cell do
 * not count; blank lines are skipped.
 */
#pragma once

#include "base/output_file.h"

#include <glib.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A file read whole: cells by row and column. */
typedef struct SimCsv SimCsv;

/* Reads FILE. KNOWN, if not NULL, is the NULL-terminated list of allowed columns: another one is a
 * SCHEMA error that names it and the nearest known; so is a column that stands twice. A row with
 * more or fewer cells than the header is a PARSE error with its line, and so are stray quotes and
 * text that is not UTF-8. Errors IO (also above 2 GiB), PARSE, SCHEMA. Memory: the file's size, 8
 * bytes a cell and 4 a row. O(size). */
SimCsv *sim_csv_load(const char *file, const char *const *known, GError **error);
void sim_csv_free(SimCsv *csv);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(SimCsv, sim_csv_free)

size_t sim_csv_rows(const SimCsv *csv); /* without the header */

/* The column's number, or -1 if the file has none of that name. */
int sim_csv_column(const SimCsv *csv, const char *name);

/* The cell, "" if empty or if COLUMN is -1. Borrowed from CSV. O(1). */
const char *sim_csv_cell(const SimCsv *csv, size_t row, int column);

/* The line of the file on which ROW begins (the header is line 1). */
unsigned sim_csv_line(const SimCsv *csv, size_t row);

/* The file's name, for messages. Borrowed. */
const char *sim_csv_file(const SimCsv *csv);

/* Writing: the cells of a row one after the other, then end_row. */
typedef struct SimCsvWriter {
    SimOutputFile *file; /* borrowed */
    bool in_row;
    bool blank; /* the row so far is one empty cell: quoted at its end, or a reader would skip the
                   row */
} SimCsvWriter;

void sim_csv_writer_init(SimCsvWriter *writer, SimOutputFile *file);
void sim_csv_writer_text(SimCsvWriter *writer, const char *text); /* NULL writes an empty cell */
void sim_csv_writer_int(SimCsvWriter *writer, int64_t value);
void sim_csv_writer_uint(SimCsvWriter *writer, uint64_t value);
void sim_csv_writer_empty(SimCsvWriter *writer);
void sim_csv_writer_end_row(SimCsvWriter *writer);
