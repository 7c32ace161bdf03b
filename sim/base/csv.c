/* SPDX-License-Identifier: Apache-2.0 */
#include "base/csv.h"

#include <csv.h>
#include <string.h>

#include "base/error.h"
#include "base/input_file.h"

#define LARGEST_FILE ((size_t)1 << 31)

struct SimCsv {
    char *file;
    char *arena;     /* the cells one after the other, each with its zero byte */
    GArray *offsets; /* size_t into the arena, row by row, the header first */
    GArray *lines;   /* unsigned, one a row, the header first */
    size_t columns;
};

/* Reading: libcsv's callbacks cannot fail, so the first error waits here. */
typedef struct Reader {
    SimCsv *csv;
    size_t used;       /* bytes of the arena */
    size_t row_cells;  /* cells of the row so far */
    unsigned row_line; /* where the row began */
    bool row_ended;    /* the next line begins a row */
    GError *failure;
} Reader;

static void add_cell(void *text, size_t length, void *user_data)
{
    Reader *reader = user_data;
    SimCsv *csv = reader->csv;
    g_array_append_val(csv->offsets, reader->used);
    if (length > 0)
        memcpy(csv->arena + reader->used, text, length);
    csv->arena[reader->used + length] = '\0';
    reader->used += length + 1;
    reader->row_cells++;
}

static void end_row(int terminator, void *user_data)
{
    (void)terminator;
    Reader *reader = user_data;
    SimCsv *csv = reader->csv;
    if (csv->lines->len == 0)
        csv->columns = reader->row_cells;
    if (reader->row_cells != csv->columns && reader->failure == NULL)
        g_set_error(&reader->failure, SIM_ERROR, SIM_ERROR_PARSE,
                    "%s:%u: expected %" G_GSIZE_FORMAT
                    " cells as in the header, found %" G_GSIZE_FORMAT,
                    csv->file, reader->row_line, csv->columns, reader->row_cells);
    g_array_append_val(csv->lines, reader->row_line);
    reader->row_cells = 0;
    reader->row_ended = true;
}

/* The length of the first line of TEXT with its end: \n, \r\n or \r. */
static size_t compute_line_length(const char *text, size_t length)
{
    size_t end = strcspn(text, "\r\n");
    if (end < length)
        end += text[end] == '\r' && text[end + 1] == '\n' ? 2 : 1;
    return end;
}

static bool is_blank(const char *line, size_t length)
{
    for (size_t i = 0; i < length; i++) {
        if (!g_ascii_isspace(line[i]))
            return false;
    }
    return true;
}

/* Feeds the parser line by line, which is how rows get their line numbers. */
static void parse_lines(Reader *reader, struct csv_parser *parser, const char *text, size_t length)
{
    unsigned line = 1;
    bool parsed = true;
    while (length > 0 && parsed && reader->failure == NULL) {
        size_t step = compute_line_length(text, length);
        if (reader->row_ended && !is_blank(text, step)) {
            reader->row_line = line;
            reader->row_ended = false;
        }
        parsed = csv_parse(parser, text, step, add_cell, end_row, reader) == step;
        text += step;
        length -= step;
        line += parsed;
    }
    if (parsed && reader->failure == NULL)
        parsed = csv_fini(parser, add_cell, end_row, reader) == 0;
    if (!parsed && reader->failure == NULL)
        g_set_error(&reader->failure, SIM_ERROR, SIM_ERROR_PARSE,
                    "%s:%u: expected CSV, found %s (%s)", reader->csv->file,
                    length > 0 ? line : reader->row_line, "a stray or unclosed quote",
                    csv_strerror(csv_error(parser)));
}

static bool parse_text(SimCsv *csv, const char *text, size_t length, GError **error)
{
    struct csv_parser parser;
    if (csv_init(&parser, CSV_STRICT | CSV_STRICT_FINI) != 0) {
        g_set_error(error, SIM_ERROR, SIM_ERROR_IO, "%s: libcsv cannot start", csv->file);
        return false;
    }
    Reader reader = {.csv = csv, .row_ended = true};
    parse_lines(&reader, &parser, text, length);
    csv_free(&parser);
    if (reader.failure != NULL) {
        g_propagate_error(error, reader.failure);
        return false;
    }
    if (csv->lines->len == 0) {
        g_set_error(error, SIM_ERROR, SIM_ERROR_PARSE,
                    "%s:1: expected a header row, found an empty file", csv->file);
        return false;
    }
    return true;
}

static bool check_columns(const SimCsv *csv, const char *const *known, GError **error)
{
    g_autoptr(GHashTable) seen = g_hash_table_new(g_str_hash, g_str_equal);
    g_autofree char *where =
        g_strdup_printf("%s:%u", csv->file, g_array_index(csv->lines, unsigned, 0));
    for (size_t i = 0; i < csv->columns; i++) {
        const char *name = csv->arena + g_array_index(csv->offsets, size_t, i);
        if (known != NULL && !g_strv_contains(known, name)) {
            sim_error_set_unknown(error, where, "column", name, known);
            return false;
        }
        if (!g_hash_table_add(seen, (void *)name)) {
            g_autofree char *quoted = sim_error_quote(name);
            g_set_error(error, SIM_ERROR, SIM_ERROR_SCHEMA,
                        "%s: expected each column once, found %s twice", where, quoted);
            return false;
        }
    }
    return true;
}

SimCsv *sim_csv_load(const char *file, const char *const *known, GError **error)
{
    size_t length;
    g_autofree char *text = sim_input_file_load_text(file, LARGEST_FILE, &length, error);
    if (text == NULL)
        return NULL;
    g_autoptr(SimCsv) csv = g_new0(SimCsv, 1);
    csv->file = g_strdup(file);
    /* A cell ends in the file with a comma, a line's end or the file's, in the arena with a zero.
     */
    csv->arena = g_malloc(length + 1);
    csv->offsets = g_array_new(FALSE, FALSE, sizeof(size_t));
    csv->lines = g_array_new(FALSE, FALSE, sizeof(unsigned));
    if (!parse_text(csv, text, length, error) || !check_columns(csv, known, error))
        return NULL;
    return g_steal_pointer(&csv);
}

void sim_csv_free(SimCsv *csv)
{
    if (csv == NULL)
        return;
    g_free(csv->file);
    g_free(csv->arena);
    g_array_unref(csv->offsets);
    g_array_unref(csv->lines);
    g_free(csv);
}

size_t sim_csv_rows(const SimCsv *csv)
{
    return csv->lines->len - 1;
}

int sim_csv_column(const SimCsv *csv, const char *name)
{
    for (size_t i = 0; i < csv->columns; i++) {
        if (strcmp(csv->arena + g_array_index(csv->offsets, size_t, i), name) == 0)
            return (int)i;
    }
    return -1;
}

const char *sim_csv_cell(const SimCsv *csv, size_t row, int column)
{
    g_assert(row < sim_csv_rows(csv) && column >= -1 && (int64_t)column < (int64_t)csv->columns);
    if (column < 0)
        return "";
    return csv->arena +
           g_array_index(csv->offsets, size_t, (row + 1) * csv->columns + (size_t)column);
}

unsigned sim_csv_line(const SimCsv *csv, size_t row)
{
    g_assert(row < sim_csv_rows(csv));
    return g_array_index(csv->lines, unsigned, row + 1);
}

const char *sim_csv_file(const SimCsv *csv)
{
    return csv->file;
}

void sim_csv_writer_init(SimCsvWriter *writer, SimOutputFile *file)
{
    *writer = (SimCsvWriter){.file = file};
}

static void write_cell(SimCsvWriter *writer, const char *bytes, size_t length)
{
    writer->blank = !writer->in_row && length == 0;
    if (writer->in_row)
        sim_output_file_write(writer->file, ",", 1);
    writer->in_row = true;
    sim_output_file_write(writer->file, bytes, length);
}

static bool needs_quotes(const char *text, size_t length)
{
    return length > 0 && (text[strcspn(text, ",\"\r\n")] != '\0' || text[0] == ' ' ||
                          text[0] == '\t' || text[length - 1] == ' ' || text[length - 1] == '\t');
}

void sim_csv_writer_text(SimCsvWriter *writer, const char *text)
{
    size_t length = text == NULL ? 0 : strlen(text);
    if (length == 0 || !needs_quotes(text, length)) {
        write_cell(writer, text == NULL ? "" : text, length);
        return;
    }
    write_cell(writer, "\"", 1);
    for (const char *quote = strchr(text, '"'); quote != NULL; quote = strchr(text, '"')) {
        sim_output_file_write(writer->file, text, (size_t)(quote - text));
        sim_output_file_write(writer->file, "\"\"", 2);
        text = quote + 1;
    }
    sim_output_file_puts(writer->file, text);
    sim_output_file_write(writer->file, "\"", 1);
}

/* The digits of VALUE before END; printf would take most of the time of a long file. */
static char *print_digits(uint64_t value, char *end)
{
    do {
        *--end = (char)('0' + value % 10);
        value /= 10;
    } while (value != 0);
    return end;
}

void sim_csv_writer_int(SimCsvWriter *writer, int64_t value)
{
    char digits[24];
    char *end = digits + sizeof digits;
    uint64_t magnitude = value < 0 ? UINT64_C(0) - (uint64_t)value : (uint64_t)value;
    char *start = print_digits(magnitude, end);
    if (value < 0)
        *--start = '-';
    write_cell(writer, start, (size_t)(end - start));
}

void sim_csv_writer_uint(SimCsvWriter *writer, uint64_t value)
{
    char digits[24];
    char *end = digits + sizeof digits;
    char *start = print_digits(value, end);
    write_cell(writer, start, (size_t)(end - start));
}

void sim_csv_writer_empty(SimCsvWriter *writer)
{
    write_cell(writer, "", 0);
}

void sim_csv_writer_end_row(SimCsvWriter *writer)
{
    if (writer->blank)
        sim_output_file_write(writer->file, "\"\"", 2);
    sim_output_file_write(writer->file, "\n", 1);
    writer->in_row = false;
    writer->blank = false;
}
